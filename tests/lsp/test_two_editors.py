"""Two editors on one folder: each has a chat of its own."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from client import Client, RpcError
from conversing import SHOWS_NOTHING, Place
from test_conversation import open_document


async def written(client: Client, *texts: tuple[Path, str]) -> None:
    """Wait until each file holds its text."""

    async def look() -> None:
        while not all(text in path.read_text() for path, text in texts):
            await asyncio.sleep(0.02)

    await client.within(look(), "the files")


async def chat_of(client: Client, place: Place) -> str:
    """Start a client and return the name of its chat."""
    await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
    uri = (await client.command_result("aish.chat.open"))["uri"]
    return str(uri).rpartition("/.aish/")[2]


@pytest.fixture(name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"))


async def test_second_editor_on_a_folder_gets_a_chat_of_its_own(place: Place) -> None:
    async with place.client() as one, place.client() as other:
        assert await chat_of(one, place) == "chat.md"
        assert await chat_of(other, place) == "chat-2.md"
        for client, question in ((one, ":run echo one"), (other, ":run echo two")):
            await client.command_result("aish.chat.send", {"prompt": question})
        chats = [place.chat, place.chat.with_name("chat-2.md")]
        await written(one, *((chat, "exit 0") for chat in chats))
        assert ["$ echo two" in chat.read_text() for chat in chats] == [False, True]


async def test_chat_of_an_editor_that_has_ended_is_free(place: Place) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        async with place.client() as client:
            assert await chat_of(client, place) == "chat.md"
            client.process.send_signal(number)
            await client.process.wait()


async def test_folder_that_is_closed_and_opened_again_keeps_its_chat(place: Place) -> None:
    async with place.client() as client:
        assert await chat_of(client, place) == "chat.md"
        folder = {"uri": place.folder.as_uri(), "name": "one"}
        for added, removed in (([], [folder]), ([folder], [])):
            await client.notify(
                "workspace/didChangeWorkspaceFolders",
                {"event": {"added": added, "removed": removed}},
            )
        await asyncio.sleep(0)
        place_of = await client.command_result("aish.chat.open", {"workspace": folder["uri"]})
        assert place_of["uri"].endswith("/.aish/chat.md")


async def test_server_started_again_goes_on_with_the_chat_that_is_open(place: Place) -> None:
    async with place.client() as one:
        assert await chat_of(one, place) == "chat.md"
        async with place.client() as other:
            assert await chat_of(other, place) == "chat-2.md"
    second = place.chat.with_name("chat-2.md")
    async with place.client() as other:
        await other.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await open_document(other, second)
        await other.command_result("aish.chat.send", {"uri": second.as_uri(), "prompt": ":help"})
        await written(other, (second, ":retry"))


async def test_message_in_the_chat_of_another_editor_is_refused(place: Place) -> None:
    async with place.client() as one, place.client() as other:
        assert await chat_of(one, place) == "chat.md"
        await other.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await open_document(other, place.chat)
        before = place.chat.read_text()
        with pytest.raises(RpcError) as refused:
            await other.command_result("aish.chat.send", {"uri": place.chat.as_uri()})
        assert refused.value.message == "This is another editor's chat; yours is .aish/chat-2.md."
        assert place.chat.read_text() == before
