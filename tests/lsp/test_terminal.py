"""``@terminal``: what the editor's terminal ran last goes with a question (``aish/terminal``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import Client
from selection_parts import Model
from test_conversation import ask

DECLARED = {"aish": {"terminal": True}}
LAST = {
    "command": "make test",
    "cwd": "/work",
    "exitCode": 2,
    "output": "\x1b[31mred\x1b[0m\nfailed: ```\n",
}


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[Model]:
    async with Model().serve(clean_home, context_window=100_000) as served:
        yield served


async def answered(folder: Path, answer: Any, question: str, options: Any = DECLARED) -> Any:
    """Ask a question in a client that answers so; return the result and the notices."""
    async with Client() as client:
        client.answers["aish/terminal"] = lambda _params: answer
        await client.initialize(folder, options=options)
        result = await ask(client, question, "t")
        notices = [event["message"] for event in client.progress["t"] if event["kind"] == "notice"]
        return result, notices, client.asked("aish/terminal")


async def test_what_the_terminal_ran_goes_along(folder: Path, model: Model) -> None:
    result, notices, _ = await answered(folder, LAST, "why did that fail, @terminal?")
    [sent] = result["attached"]
    assert (sent["kind"], sent["path"]) == ("terminal", "make test")
    assert "Sent along: the terminal's last command (make test)." in notices
    # No output ends the fence that it stands in.
    assert model.asked[-1].startswith(
        "[terminal] make test\n````console\n$ make test\nred\nfailed: ```\n(exit 2, in /work)\n"
    )


async def test_only_a_question_that_names_it_asks_for_it(folder: Path, model: Model) -> None:
    for question in ("and `@terminal`?", "me@terminal", "@./terminal"):
        _, _, asked = await answered(folder, LAST, question)
        assert asked == [], question


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"command": 1, "output": "x"}, {"command": "ls"}, "ls", {"output": ["x"]}],
    ids=str,
)
async def test_an_answer_that_is_none_is_told(folder: Path, model: Model, answer: Any) -> None:
    result, notices, _ = await answered(folder, answer, "what is that? @terminal")
    assert result["attached"] == []
    assert any("@terminal was not sent" in notice for notice in notices)
    assert model.asked[-1] == "what is that? @terminal"


async def test_an_editor_that_does_not_declare_it_is_not_asked(folder: Path, model: Model) -> None:
    _, notices, asked = await answered(folder, LAST, "what is that? @terminal", options={})
    assert asked == []
    assert any("@terminal was not sent" in notice for notice in notices)


async def test_without_a_command_its_last_lines_go_along(folder: Path, model: Model) -> None:
    last = {"command": "", "cwd": None, "exitCode": True, "output": "x" * 500_000 + "\nthe end\n"}
    result, _, _ = await answered(folder, last, "@terminal?")
    assert result["attached"][0]["path"] == "its last lines"
    assert result["attached"][0]["cut"] is True
    assert model.asked[-1].rstrip().endswith("the end\n```\n\n@terminal?")
