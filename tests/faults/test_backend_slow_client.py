"""A client that stops reading for a while, and one that asks again and again."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from conversing import SHOWS_NOTHING, Place, begin, events, fine, streamed
from fault_server import FaultServer, Peer, Request, chunk_of

# A fork shares memory, which is measured here.
pytestmark = pytest.mark.real_start

logger = logging.getLogger(__name__)

#: Characters of a piece of the reply, and how many pieces there are: some 60 MB.
PIECE = 2000
PIECES = 30_000


def resident(client: Any) -> int:
    """Return the bytes of memory that the server has."""
    status = Path(f"/proc/{client.process.pid}/status")
    if not status.exists():
        pytest.skip("this system has no /proc")
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


async def test_a_client_that_stops_reading(place: Place) -> None:
    sent = 0

    async def script(_: Request, peer: Peer) -> None:
        nonlocal sent
        await peer.head()
        for number in range(PIECES):
            text = f"{number:06}" + "ü" * (PIECE - 7) + "\n"
            await peer.chunk(event(text))
            sent += 1
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.chunk(b"")

    def event(text: str) -> bytes:
        return (
            b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n'
            % text.replace("\n", "\\n").encode()
        )

    async with FaultServer(script) as model, place.client() as client:
        place.configure(model.url, context_window=8192)
        with place.config.open("a") as config:
            config.write('[suggestions]\nrepetition_guard = "off"\n')
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        _, answer = await begin(client, "aish.ask", {"prompt": "Go.", "partialResultToken": "t"})
        await client.wait_for(lambda: events(client, "t", "text"), "some text")
        before = resident(client)
        client.pause_reading()
        # Until nothing moves any more: every buffer between the model and the client is full.
        seen = -1
        while seen != sent:
            seen = sent
            await asyncio.sleep(0.5)
        grown = resident(client) - before
        logger.info("%d of %d pieces sent, %d KiB more memory", sent, PIECES, grown >> 10)
        assert sent < PIECES / 2
        assert grown < 40 << 20
        _, status = await begin(client, "aish.status", {})
        await asyncio.sleep(0.2)
        assert not status.done()

        client.resume_reading()
        # Another request is answered while the reply still comes.
        assert (await client.within(status, "the status"))["busy"]
        assert not answer.done()
        cancelled = await client.command_result("aish.cancel")
        assert cancelled == {"cancelled": 1}
        result = await client.within(answer, "the answer")
    assert result["text"] == streamed(client, "t")
    assert result["finishReason"] == "cancelled"
    for number, line in enumerate(result["text"].split("\n")[:-1]):
        assert line.startswith(f"{number:06}ü")


async def test_what_piled_up_comes_merged(place: Place) -> None:
    pieces = [f"{number} ü你\r\n" for number in range(20_000)]

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        for start in range(0, len(pieces), 100):
            for text in pieces[start : start + 100]:
                await peer.event(chunk_of(text))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.chunk(b"")

    async with FaultServer(script) as model, place.client() as client:
        place.configure(model.url, context_window=8192)
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        _, answer = await begin(client, "aish.ask", {"prompt": "Go.", "partialResultToken": "t"})
        await client.wait_for(lambda: events(client, "t", "text"), "some text")
        client.pause_reading()
        await asyncio.sleep(1)
        client.resume_reading()
        result = await client.within(answer, "the answer")
    text = "".join(pieces)
    assert result["text"] == text
    assert streamed(client, "t") == text
    assert len(events(client, "t", "text")) < len(pieces) / 2


async def test_nothing_is_left_of_many_questions(place: Place) -> None:
    client = place.client()
    client.command = [sys.executable, str(Path(__file__).with_name("counting_server.py"))]
    async with FaultServer(fine) as model, client:
        place.configure(model.url, context_window=8192)
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)

        async def counts_after(questions: int) -> dict[str, int]:
            for number in range(questions):
                argument = {
                    "prompt": "Well?",
                    "partialResultToken": f"t{number}",
                    "ephemeral": number % 2 > 0,
                }
                _, answer = await begin(client, "aish.ask", argument, workDoneToken=f"w{number}")
                assert (await client.within(answer, "an answer"))["text"] == "All is well."
            # Hints and lenses are renewed a little later.
            await asyncio.sleep(0.5)
            counts = await client.request("test/counts", {})
            return dict(counts)

        # The conversation has reached its most turns by then.
        before = await counts_after(44)
        memory = resident(client)
        after = await counts_after(200)
        objects = after.pop("objects") - before.pop("objects")
        logger.info("%d objects more, %s", objects, after)
        assert after == before
        assert objects < 400
        assert resident(client) - memory < 8 << 20
