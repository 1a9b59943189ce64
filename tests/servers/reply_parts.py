"""What tests of every adapter do with a reply: script one, read one, leave one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from fault_server import Peer, Request, Script
from llama_server import LlamaServer

from aish_lsp.foundation.errors import AishError
from aish_lsp.models.request import Model, ModelEvent, ModelRequest, Text, WithoutPart


def saying(*payloads: Any, end: Callable[[Peer], None] | None = None) -> Script:
    """Return a script that streams ``payloads``, then ends the body or does ``end``."""

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for payload in payloads:
            await peer.event(payload)
        if end is None:
            await peer.chunk(b"")
        else:
            await asyncio.sleep(0.05)
            end(peer)

    return script


async def collect(model: Model, request: ModelRequest) -> tuple[list[ModelEvent], AishError | None]:
    """Return the events of a reply, and the error that ended it.

    As a call does, ask again without a part that the server refuses.
    """
    events: list[ModelEvent] = []
    try:
        async for event in model.stream(request):
            events.append(event)  # noqa: PERF401 - what came before an error counts
    except WithoutPart:
        return await collect(model, request)
    except AishError as error:
        return events, error
    return events, None


async def leave_in_mid_stream(
    stream: AsyncGenerator[ModelEvent, None], server: LlamaServer, how: str
) -> None:
    """Leave a reply without end by ``close`` or ``cancel``; see that its slot is free at once."""
    assert isinstance(await anext(stream), Text)
    assert await asyncio.to_thread(server.busy_slots) == 1
    if how == "close":
        begin = time.perf_counter()
        await stream.aclose()
    else:

        async def read() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        begin = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    left = time.perf_counter() - begin
    idle = await asyncio.to_thread(server.seconds_until_idle)
    assert left < 0.5
    assert left + idle < 1.0
