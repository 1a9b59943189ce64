"""Which value of a question goes where: from one place to the other, and a name that is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.choosing import chosen
from aish_lsp.offline.model import reply
from aish_lsp.offline.table import Way
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import WorkspaceFacts

_FILES = ("main.py", "data.csv", "users.json", "server.log", "src/app.py", "tests/test_app.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a workspace with a few files."""
    (tmp_path / ".git").mkdir()
    for name in _FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hello\n")
    return tmp_path


def commands(question: str, root: Path) -> list[str]:
    """Return the commands that are suggested."""
    lines = reply(TypedQuestion(question), root).splitlines()
    return [line.removeprefix("CMD: ") for line in lines if line.startswith("CMD: ")]


_PLACES = ("main.py", "src", "tests", "users.json")
_VERBS = (("copy", "cp"), ("move", "mv"))
_SAID = (
    "{verb} {one} to {other}",
    "{verb} {one} into the {other} folder",
    "{verb} {one} to {other} please",
)


@pytest.mark.parametrize("said", _SAID)
@pytest.mark.parametrize(("verb", "program"), _VERBS)
@pytest.mark.parametrize("one", _PLACES)
@pytest.mark.parametrize("other", ["src", "tests"])
def test_what_goes_somewhere_is_never_where_it_goes(
    said: str, verb: str, program: str, one: str, other: str, root: Path
) -> None:
    if one == other:
        return
    for command in commands(said.format(verb=verb, one=one, other=other), root):
        words = command.split()
        if words[0] == program and {one, other} <= set(words):
            assert words.index(one) < words.index(other)


@pytest.mark.parametrize("question", ["rename main.py to app.py", "copy main.py to app.py"])
def test_a_new_name_is_taken_as_it_stands(question: str, root: Path) -> None:
    (told,) = commands(question, root)
    assert told.split()[-2:] == ["main.py", "app.py"]  # and not the src/app.py that there is


def test_a_word_is_no_file_where_another_is_named(root: Path) -> None:
    (told,) = commands("sort users by column 2 of data.csv", root) or ["data.csv"]
    assert "users.json" not in told


_LOSING = (
    "start over with {file}",
    "i messed up {file}, start over with it",
    "throw away {file} and reset",
)


@pytest.mark.parametrize("said", _LOSING)
def test_what_loses_more_than_the_file_that_is_named_is_not_told(said: str, root: Path) -> None:
    for command in commands(said.format(file="main.py"), root):
        assert "reset --hard" not in command


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("commit with message fix typo in main", "git commit -m 'fix typo in main'"),
        ("run a script every day at 5am", "0 5 * * *"),
        ("run a script every day at 11pm", "0 23 * * *"),
        ("run a script every day at 12am", "0 0 * * *"),
        ("delete tag v2 everywhere", "git tag -d v2"),
        ("send a get request to localhost:8000/health", "localhost:8000/health"),
        ("convert users.json to csv", "users.json"),
        ("watch the output of df every 5 seconds", "df"),
        ("zip all py", "-name '*.py' -exec zip files.zip {} +"),
        ("zip the foobar folder", "zip -r foobar.zip foobar"),
        ("what is in the my-data folder", "ls -la my-data"),
        ("zip the project without tests_old", "zip -r all.zip . -x 'tests_old/*'"),
        ("kill -9 pid 4312", "kill -9 4312"),
        ("lsof port 80", "TCP:80"),
        ("i don't want git to track .env any more", ".env >> .gitignore"),
        ("conda", "conda install"),
        ("test @tests", "pytest tests"),
    ],
)
def test_a_value_is_found(question: str, told: str, root: Path) -> None:
    assert any(told in command for command in commands(question, root))


@pytest.mark.parametrize("verb", ["see", "show", "check", "find"])
@pytest.mark.parametrize("thing", ["container logs", "service logs"])
def test_a_verb_is_no_name(verb: str, thing: str, root: Path) -> None:
    for command in commands(f"{verb} {thing}", root):
        assert verb not in command.split()


def test_what_is_usual_for_a_language_is_told_where_nothing_is_set_up(root: Path) -> None:
    told = reply(TypedQuestion("format the code"), root)
    assert "The usual command" in told
    assert "CMD: ruff format ." in told or "CMD: python3 -m pip install ruff" in told


def test_a_long_s_is_an_s(root: Path) -> None:
    assert "-1440" in commands("files changed ye\u017fterday", root)[0]


def test_a_folder_of_the_home_is_a_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    assert chosen((Way(("folder",), ("isdir:path",)),), {"path": "~/src"}, {}, WorkspaceFacts(root))
    assert chosen((Way(("there",), ("exists:path",)),), {"path": "~/src"}, {}, WorkspaceFacts(root))
