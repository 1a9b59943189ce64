"""A reply that runs in circles, through the real server: stopped, kept, told; or let be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from client import Client
from fault_server import FaultServer, Peer, Request, chunk_of
from test_conversation import ask, events, until

BEFORE = "Sure:\n\nCMD: make test\n\n"
PHRASE = "To run the tests, you can run the tests in the tests folder, and then "

#: What would be a reply without end to somebody who waits.
TIMES = 60


class Circles:
    """A model server that says the same again and again, and sees who stops listening."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.ends = False

    async def answer(self, request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        with contextlib.suppress(ConnectionError):
            await self._say(peer)
            if not self.ends:
                await peer.wait_closed()
        self.left.set()

    async def _say(self, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of(BEFORE))
        for _ in range(TIMES):
            await peer.event(chunk_of(PHRASE))
        if self.ends:
            await peer.event(chunk_of("", finish_reason="stop"))
            await peer.event("[DONE]")
            await peer.chunk(b"")


@pytest.fixture
async def circles(clean_home: Path) -> AsyncIterator[Circles]:
    model = Circles()
    async with FaultServer(model.answer) as server:
        (clean_home / "config.toml").write_text(
            f'default_model = "m"\n[models.m]\nendpoint = "{server.url}"\nmodel = "m"\n'
            "context_window = 100000\n"
        )
        yield model


async def test_it_is_stopped_at_once_and_what_came_before_is_kept(
    folder: Path, circles: Circles
) -> None:
    async with Client() as client:
        await client.initialize(folder)
        result = await ask(client, "how?", "t")
        # The server is not listened to any more.
        await client.within(circles.left.wait(), "the stream to be closed")
        assert result["finishReason"] == "repetition"
        assert client.progress["t"][-1] == {
            "kind": "end",
            "finishReason": "repetition",
            "error": None,
        }
        said = result["text"].removeprefix(BEFORE)
        assert (PHRASE * TIMES).startswith(said)
        assert 9 * len(PHRASE) < len(said) <= 10 * len(PHRASE)
        assert "".join(event["delta"] for event in events(client, "t", "text")) == result["text"]
        assert [command["text"] for command in result["commands"]] == ["make test"]
        assert result["usage"]["outputTokens"] > 0
        [notice] = [n for n in events(client, "t", "notice") if n["level"] == "warning"]
        assert "its text kept repeating itself" in notice["message"]
        assert "repetition_guard" in notice["message"]

        history = await client.command_result("aish.session.history")
        question, reply = history["turns"]
        assert (question["content"], reply["content"]) == ("how?", result["text"])
        assert (reply["finish"], reply["inForce"]) == ("repetition", True)


async def test_the_chat_tells_it_and_goes_on(folder: Path, circles: Circles) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await client.command_result("aish.ask", {"prompt": "how?"})
        chat = folder / ".aish" / "chat.md"
        text = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
        assert "> The reply from m was stopped: its text kept repeating itself." in text
        assert text.endswith("\n\n## You\n\n")


async def test_it_is_let_be_where_the_user_says_so(
    folder: Path, circles: Circles, clean_home: Path
) -> None:
    circles.ends = True
    config = clean_home / "config.toml"
    config.write_text(f'{config.read_text()}[suggestions]\nrepetition_guard = "off"\n')
    async with Client() as client:
        await client.initialize(folder)
        result = await ask(client, "how?", "t")
        assert result["finishReason"] == "stop"
        assert result["text"] == BEFORE + PHRASE * TIMES


async def test_so_is_one_about_the_session(folder: Path, circles: Circles) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await ask(client, "how?", "t")
        circles.left.clear()
        await client.command_result("aish.memory.summarize", {"partialResultToken": "m"})
        await client.within(circles.left.wait(), "the stream to be closed")
        assert client.progress["m"][-1]["finishReason"] == "repetition"
        told = [event["message"] for event in events(client, "m", "notice")]
        assert "The reply was stopped: it kept repeating itself." in told
