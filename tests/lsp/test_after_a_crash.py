"""The chat after the server was killed while it wrote."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from client import execute
from conversing import SHOWS_NOTHING, Place, chat_holds
from fault_server import FaultServer, Peer, Request, chunk_of

from aish_lsp.operations.markdown import open_fence


async def test_the_chat_says_what_became_of_a_message_that_was_not_sent(
    tmp_path: Path,
) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")

    async def hangs(request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        await peer.head()
        await peer.event(chunk_of("Half of a reply\n"))
        await asyncio.Event().wait()

    async with FaultServer(hangs) as model:
        place.configure(model.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            await client.command_result("aish.chat.send", {"prompt": "First?"})
            await chat_holds(client, place, "Half of a reply")
            client.process.send_signal(signal.SIGKILL)
            await client.process.wait()
    with place.chat.open("a") as chat:
        chat.write("\nMy next question\n")
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.request("workspace/executeCommand", execute("aish.chat.open", {}))
        text = await chat_holds(client, place, "typed without sending it is kept above")
        assert text.count("My next question") == 1
        assert text.rstrip().endswith("## You")
        assert text.index("My next question") < text.index("aish-lsp ended while writing")
        # Asked once more, nothing is said twice.
        await client.request("workspace/executeCommand", execute("aish.chat.open", {}))
        await client.command_result("aish.chat.send", {"prompt": ":help"})
        text = await chat_holds(client, place, ":retry")
        assert text.count("typed without sending it is kept above") == 1


async def test_what_ran_and_what_waited_is_not_said_to_do_so_for_ever(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.command_result("aish.chat.send", {"prompt": ":run sleep 600; echo never"})
        await chat_holds(client, place, "> Running (")
        await client.command_result("aish.ask", {"prompt": "and then?"})
        await chat_holds(client, place, "> Waiting for ")
        client.process.send_signal(signal.SIGKILL)
        await client.process.wait()
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.request("workspace/executeCommand", execute("aish.chat.open", {}))
        await client.command_result("aish.chat.send", {"prompt": ":help"})
        text = await chat_holds(client, place, ":retry")
        assert "Running (" not in text
        assert "Waiting for" not in text
        assert "$ sleep 600; echo never\n\n````\n" in text
        assert open_fence(text) == ""


async def test_a_draft_that_quotes_what_ran_is_kept(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    draft = (
        "> Running (deadbeef). The code action *Stop* ends it.\n> Now (deadbeef): why?\nWhat now?\n"
    )
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.command_result("aish.chat.open")
        text = await chat_holds(client, place, "## You")
    place.chat.write_text(f"{text.rstrip()}\n\n{draft}")
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.command_result("aish.chat.send", {"prompt": ":help"})
        assert draft in await chat_holds(client, place, ":retry")


async def test_the_block_of_an_output_above_a_heading_is_closed(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.command_result("aish.run", {"text": "echo hi; sleep 600"})
        await chat_holds(client, place, "\nhi\n")
        client.process.send_signal(signal.SIGKILL)
        await client.process.wait()
    for _ in range(2):
        async with place.client() as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            await client.command_result("aish.chat.open")
            await chat_holds(client, place, "\nhi\n\n````\n\n## You\n")
