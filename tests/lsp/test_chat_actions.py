"""What stands first among the actions on a line of the chat that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client import Client
from selection_parts import Document, span

ASKS = {"Explain", "Fix", "Ask about this"}
TEXT = "# aish\n\n## You\n\nhow?\n\n## aish\n\nCMD: {}\n\nSo.\n\n## You\n\n"


#: The cursor, the word under it (so eglot asks), the whole line.
RANGES = [span(8, 0, 8, 0), span(8, 0, 8, 3), span(8, 5, 8, 7), span(8, 0, 8, 12)]


async def opened(client: Client, folder: Path, command: str) -> Document:
    await client.initialize(folder)
    uri = (await client.command_result("aish.chat.open"))["uri"]
    document = Document(client, uri, "markdown")
    await document.open(TEXT.format(command))
    return document


@pytest.mark.parametrize("at", RANGES)
async def test_run_comes_first_whatever_the_range(folder: Path, at: dict[str, Any]) -> None:
    async with Client() as client:
        titles = list(await (await opened(client, folder, "make test")).actions(at))
        assert titles[:2] == ["Run: make test", "Edit and run: make test"]
        assert not ASKS & set(titles)


@pytest.mark.parametrize("at", RANGES)
async def test_what_can_do_harm_is_edited_first_and_run_last(
    folder: Path, at: dict[str, Any]
) -> None:
    async with Client() as client:
        titles = list(await (await opened(client, folder, "rm -rf build")).actions(at))
        assert titles[0] == "Edit and run: rm -rf build (destructive)"
        assert titles[-1] == "Run: rm -rf build (destructive)"
        assert not ASKS & set(titles)


async def test_of_several_lines_of_the_chat_there_is_more_to_ask(folder: Path) -> None:
    async with Client() as client:
        document = await opened(client, folder, "make test")
        titles = list(await document.actions(span(6, 0, 10, 3)))
        assert titles[0] == "Run: make test"
        assert set(titles) >= ASKS


async def test_lines_of_the_chat_that_are_asked_about_go_along(folder: Path) -> None:
    async with Client() as client:
        document = await opened(client, folder, "make test")
        asked = (await document.actions(span(6, 0, 10, 3)))["Ask about this"]
        [argument] = asked["command"]["arguments"]
        result = await client.command_result(
            "aish.ask", {"prompt": f"{argument['prompt']} why?", "partialResultToken": "t"}
        )
        assert [part["path"] for part in result["attached"]] == [".aish/chat.md"]
