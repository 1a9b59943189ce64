"""Chats that are too large, and documents that offer more than anybody can look through."""

from __future__ import annotations

from typing import Any

import pytest
from client import Client, RpcError
from conversing import Place, chat_holds


async def open_document(client: Client, place: Place, text: str) -> None:
    item = {"uri": place.chat.as_uri(), "languageId": "markdown", "version": 1, "text": text}
    await client.notify("textDocument/didOpen", {"textDocument": item})


async def look(client: Client, place: Place) -> list[Any]:
    """Do what an editor does with a document that it shows; return the lenses."""
    at = {"textDocument": {"uri": place.chat.as_uri()}}
    start = {"line": 0, "character": 0}
    actions = {"range": {"start": start, "end": start}, "context": {"diagnostics": []}}
    await client.request("textDocument/codeAction", at | actions)
    await client.request("textDocument/completion", at | {"position": start})
    lenses: list[Any] = await client.request("textDocument/codeLens", at)
    return lenses


async def test_a_chat_of_200_megabytes_is_put_aside(place: Place) -> None:
    place.chat.parent.mkdir()
    with place.chat.open("wb") as file:
        file.write(b"## You\n\nhello\n" * 1000)
        file.truncate(200 << 20)
    async with place.client() as client:
        client.answers["window/showDocument"] = lambda _: {"success": False}
        await client.initialize(place.folder)
        await client.command_result("aish.chat.open")
        await client.command_result("aish.chat.send", {"prompt": "hello"})
        text = await chat_holds(client, place, "## You\n", times=2)
        [aside] = place.chat.parent.glob("chat-*.md")
        assert f"> What was said before is in `{aside.name}`." in text
        assert aside.stat().st_size == 200 << 20
        assert await client.shutdown() == 0


async def test_a_chat_that_is_too_large_in_the_editor_is_told_and_waits_for_nobody(
    place: Place,
) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        await client.command_result("aish.chat.open")
        await open_document(client, place, "## You\n\nhello\n" * 1_000_000)
        assert await look(client, place) == []
        for command, argument in (
            ("aish.chat.send", None),
            ("aish.chat.send", {"prompt": "hello"}),
            ("aish.ask", {"prompt": "hello"}),
        ):
            with pytest.raises(RpcError) as refused:
                await client.command_result(command, argument)
            assert refused.value.data["kind"] == "storeUnavailable"
            assert "Close it in the editor and open the chat again" in refused.value.message
        assert await client.shutdown() == 0


async def test_of_a_million_command_lines_the_first_are_offered(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        await client.command_result("aish.status")
        await open_document(client, place, "CMD: rm -rf build && git push --force\n" * 1_000_000)
        assert len(await look(client, place)) == 1_000
        last = {"line": 999_999, "character": 0}
        params = {"textDocument": {"uri": place.chat.as_uri()}, "context": {"diagnostics": []}}
        span = {"range": {"start": last, "end": last}}
        # They are found in all of the text, which may take a busy machine a minute.
        actions = await client.request("textDocument/codeAction", params | span, timeout=100)
        assert any(action["title"].startswith("Run") for action in actions)
        assert await client.shutdown() == 0
