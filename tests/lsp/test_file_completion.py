"""Names of files completed behind ``@`` in the chat document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import TIMEOUT, Client
from selection_parts import Document, place, span


@pytest.fixture
async def chat(folder: Path) -> AsyncIterator[Document]:
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("x\n")
    (folder / "a b.md").write_text("x\n")
    (folder / ".gitignore").write_text("*.secret\n")
    (folder / "app.secret").write_text("x\n")
    async with Client() as client:
        await client.initialize(folder)
        uri = (await client.command_result("aish.chat.open"))["uri"]
        document = await Document(client, uri, "markdown").open("# aish\n\n## You\n\n\n")
        yield document


async def completed(document: Document, line: str, **fields: Any) -> Any:
    await document.change(f"# aish\n\n## You\n\n{line}\n")
    width = len(line.encode())
    return await document.client.request(
        "textDocument/completion",
        {"textDocument": {"uri": document.uri}, "position": place(4, width), **fields},
    )


async def test_they_are_proposed_and_take_the_place_of_what_was_typed(chat: Document) -> None:
    found = await completed(chat, "é😀 what is @ap")
    assert found["isIncomplete"] is True
    [item] = found["items"]
    assert (item["label"], item["filterText"], item["kind"]) == ("src/app.py", "@ap", 17)
    assert item["textEdit"] == {"range": span(4, 15, 4, 18), "newText": "@src/app.py"}
    every = (await completed(chat, "@"))["items"]
    assert [item["label"] for item in sorted(every, key=lambda item: item["sortText"])] == [
        ".gitignore",
        "a b.md",
        "src/",
        "src/app.py",
    ]
    [quoted] = (await completed(chat, '@"a '))["items"]
    assert quoted["textEdit"] == {"range": span(4, 0, 4, 4), "newText": '@"a b.md"'}
    [blank] = (await completed(chat, "see @A b"))["items"]
    assert blank["textEdit"] == {"range": span(4, 4, 4, 8), "newText": '@"a b.md"'}
    assert await completed(chat, "see @b.md and ") == []
    [folder] = [item for item in (await completed(chat, "in (@s"))["items"] if item["kind"] == 19]
    assert folder["textEdit"]["newText"] == "@src/"


@pytest.mark.parametrize("line", ["me@ap", "no name", ":run echo @ap", "@src/app.py and"])
async def test_where_no_name_is_typed_none_is_proposed(chat: Document, line: str) -> None:
    assert await completed(chat, line) == []


async def test_a_new_file_is_proposed_soon(chat: Document, folder: Path) -> None:
    await completed(chat, "@")
    (folder / "src" / "newer.py").write_text("x\n")
    created = {"uri": (folder / "src" / "newer.py").as_uri(), "type": 1}
    await chat.client.notify("workspace/didChangeWatchedFiles", {"changes": [created]})
    async with asyncio.timeout(TIMEOUT):
        while not (await completed(chat, "@newer"))["items"]:
            await asyncio.sleep(0.1)


async def test_elsewhere_nothing_is_completed(chat: Document, folder: Path) -> None:
    other = await Document(chat.client, (folder / "x.md").as_uri()).open("@ap")
    assert (
        await chat.client.request(
            "textDocument/completion",
            {"textDocument": {"uri": other.uri}, "position": place(0, 3)},
        )
        == []
    )


async def test_without_a_folder_there_are_none(clean_home: Path) -> None:
    async with Client() as client:
        await client.initialize()
        uri = (await client.command_result("aish.chat.open"))["uri"]
        chat = await Document(client, uri, "markdown").open("# aish\n\n## You\n\n\n")
        found = await completed(chat, "@ap")
        assert found["items"] == []
