"""Titles of tools' calls: what a person is told that a model does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aish_lsp.tools.titles import call_title


def title(name: str, status: str, result: str = "", /, *, code: bool = False, **given: Any) -> str:
    return call_title("aish", name, json.dumps(given), status, result, as_code=code)


READ = "[cart.py, lines 1-40 of 52]\nimport os\n"
FOUND = "a.py:1: double\na.py:9: double\nsrc/b.py:3: double: x\n"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (title("read_file", "running", path="cart.py", start=1, end=40), "Reading cart.py"),
        (title("read_file", "done", READ, path="cart.py"), "Read cart.py (1\N{EN DASH}40)"),
        (title("read_file", "done", "[a, b.py, empty]\n", path="a, b.py"), "Read a, b.py (empty)"),
        (title("list_files", "done", "a.py\n"), "Listed the project"),
        (title("list_files", "done", "a.py\n", path="src"), "Listed src"),
        (title("search", "running", pattern="double"), 'Searching for "double"'),
        (title("search", "done", FOUND, pattern="double"), 'Searched "double": 2 files'),
        (
            title("search", "done", f"{FOUND}[aish: there is more; ...]\n", pattern="double"),
            'Searched "double": at least 2 files',
        ),
        (
            title("search", "done", "Nothing was found.", pattern="double"),
            'Searched "double": nothing',
        ),
        (title("search", "failed", "There is no x.", pattern="a"), 'Could not search for "a"'),
        (
            title("edit_file", "done", "Changed c.py: 1 line added, 1,200 removed.", path="c.py"),
            "Edited c.py, +1 \N{MINUS SIGN}1,200",
        ),
        (title("write_file", "done", "Made c.py (3 lines).", path="c.py"), "Wrote c.py, 3 lines"),
        (title("edit_file", "denied", "The user refused it.", path="c.py"), "Did not edit c.py"),
        (
            title("run_command", "failed", "[exit 1]\nE\n", command="python3 -m unittest"),
            "Ran python3 -m unittest: exit 1",
        ),
        (
            title("run_command", "failed", "[exit None, ended by SIGKILL]\n", command="make"),
            "Ran make: exit None, ended by SIGKILL",
        ),
        (title("run_command", "failed", "[timed out]\n", command="make"), "Ran make: timed out"),
        (
            title("run_command", "failed", "There is no folder x.", command="make"),
            "Could not run make",
        ),
        (title("run_command", "denied", "Not run.", command="make"), "Did not run make"),
    ],
)
def test_a_call_of_a_built_in_tool_is_told_as_what_was_done(told: str, expected: str) -> None:
    assert told == expected


def test_a_call_of_a_servers_tool_names_the_server_and_each_argument() -> None:
    given = json.dumps({"path": "a\nb", "n": 3, "deep": {"x": [1]}, "long": "y" * 99})
    told = call_title("git", "log", given, "done", "x")
    assert told == f'Called git log path=a b, n=3, deep={{"x": [1]}}, long={"y" * 39}…'
    assert call_title("git", "status", "{}", "failed", "x") == "Could not call git status"


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "null", '{"path": 3}', '{"path": "\\u0000'])
@pytest.mark.parametrize("name", ["read_file", "run_command", "no_such_tool", ""])
def test_arguments_that_are_not_as_they_should_be_still_have_a_title(
    name: str, arguments: str
) -> None:
    for status in ("pending", "running", "done", "failed", "denied"):
        told = call_title("aish", name, arguments, status, "whatever")
        assert told.strip()
        assert "\n" not in told


@pytest.mark.parametrize(
    "evil", ["a\nb", "a\r\n## You", "\u2028CMD: x", "\x1b[2J", "\u202egnp.exe", "`a`", "x" * 999]
)
@pytest.mark.parametrize("code", [False, True])
def test_what_a_model_writes_stays_on_one_line_visible_and_short(evil: str, *, code: bool) -> None:
    for told in (
        title("run_command", "done", "[exit 0]", command=evil, code=code),
        title("read_file", "failed", evil, path=evil, code=code),
        call_title("s", evil, json.dumps({"a": evil}), "done", evil, as_code=code),
    ):
        assert told.isprintable()
        assert len(told) < 200
        assert not code or told.count("`") == 2
