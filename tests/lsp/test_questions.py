"""When the user is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, execute
from conversing import no, yes


async def test_a_command_is_answered_before_the_user_is_asked_about_it(folder: Path) -> None:
    """For editors that wait for the answer, and have no time for the user meanwhile."""
    async with Client() as client:
        await client.initialize(folder)
        was_answered: list[bool] = []

        def refuse(params: Any) -> Any:
            was_answered.append(answer.done())
            return no(params)

        client.answers["window/showMessageRequest"] = refuse
        _, answer = await client.begin(
            "workspace/executeCommand", execute("aish.run", {"text": "rm -r x"})
        )
        await client.wait_for(lambda: was_answered, "a question")
        assert was_answered == [True]
        assert (await answer)["commandId"]


def is_asked(client: Client) -> bool:
    return any(method == "window/showMessageRequest" for method, _ in client.requests)


async def never(_params: Any) -> Any:
    await asyncio.Event().wait()


async def test_who_goes_on_without_an_answer_is_not_held_up(folder: Path) -> None:
    """As eglot does after C-g: it never answers, and its user gives the next command."""
    async with Client() as client:
        await client.initialize(folder, capabilities=CAPABILITIES | {"window": {}})
        client.answers["window/showMessageRequest"] = never
        _, answer = await client.begin(
            "workspace/executeCommand",
            execute("aish.run", {"text": "rm -rf x", "partialResultToken": "t"}),
        )
        await client.wait_for(lambda: is_asked(client), "a question")
        await client.command_result("aish.status")
        assert (await answer)["finishReason"] == "denied"
        told = [event["message"] for event in client.progress["t"] if event["kind"] == "notice"]
        assert ":approve" in told[-1]


async def test_a_question_with_buttons_stands_while_the_user_does_something_else(
    folder: Path,
) -> None:
    async with Client() as client:
        await client.initialize(folder)
        comes_back = asyncio.Event()

        async def later(params: Any) -> Any:
            await comes_back.wait()
            return yes(params)

        client.answers["window/showMessageRequest"] = later
        _, answer = await client.begin(
            "workspace/executeCommand",
            execute("aish.run", {"text": "rm -rf x; echo ran", "partialResultToken": "t"}),
        )
        await client.wait_for(lambda: is_asked(client), "a question")
        await client.command_result("aish.status")
        comes_back.set()
        assert (await answer)["output"] == "ran\n"


@pytest.mark.parametrize(
    ("name", "titles"), [("Some editor", ["Cancel", "Run"]), ("vim-lsp", ["Run", "Cancel"])]
)
async def test_what_does_nothing_is_the_first_choice_but_for_a_client_that_sends_no_other(
    folder: Path, name: str, titles: list[str]
) -> None:
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.extend(action["title"] for action in params["actions"])

    async with Client() as client:
        await client.initialize(folder, clientInfo={"name": name})
        client.answers["window/showMessageRequest"] = answer
        await client.command_result("aish.run", {"text": "rm -r x"})
        await client.wait_for(lambda: asked, "a question")
    assert asked == titles
