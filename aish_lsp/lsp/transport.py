"""Serving a client on stdin and stdout, and what all transports share."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from aish_lsp.lsp import logs
from aish_lsp.lsp.messages import Outbox
from aish_lsp.lsp.stream import BadFrame, EarlyInitialize, frame, read, write

if TYPE_CHECKING:
    from aish_lsp.lsp.server import AishServer

#: Seconds for the last messages to get out.
FLUSH = 1.0

#: Seconds after which a thread that computes (a scan, a parse) gives way to the loop. Python's own
#: are five times as many: a reply that streams would wait that long for each piece.
GIVE_WAY = 0.001

Open: TypeAlias = Callable[["AishServer"], Awaitable[None]]


def run(server: AishServer, connect: Open) -> int:
    """Serve until the end; return the exit code. Threads may still hang: use ``os._exit``.

    ``connect`` starts to listen or to read, and returns.

    Raises:
        OSError: ``connect`` could not listen.
    """
    sys.setswitchinterval(GIVE_WAY)
    # Not asyncio.run: it waits for threads that may never end.
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(logs.log_loop_error)
    return loop.run_until_complete(_serve(server, connect))


async def _serve(server: AishServer, connect: Open) -> int:
    server.lifecycle.start(asyncio.get_running_loop())
    await connect(server)
    code = await server.lifecycle.ended()
    await server.stop_work()
    await server.answer_shutdown()
    if server.outbox is not None:
        await flush(server.outbox)
    return code


async def flush(outbox: Outbox) -> None:
    """Wait, but not for long, until the last messages are sent."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH):
            await outbox.drained(0)


def attach(server: AishServer, wake: Callable[[], object]) -> Outbox:
    """Let ``server`` send to the client that has connected; return the queue to send from."""
    server.outbox = Outbox(
        asyncio.get_running_loop(),
        wake=wake,
        overflow=lambda: server.lifecycle.end("the client stopped reading", 1),
    )
    return server.outbox


def client_gone(server: AishServer) -> None:
    """End the server; a client that closed only one direction may still get what is queued."""
    server.lifecycle.end("the client closed the connection", server.exit_code)


def connect_stdio(source: int, sink: int, early: EarlyInitialize) -> Open:
    """Return a function that reads ``source`` and writes ``sink``, each in its own thread."""

    async def connect(server: AishServer) -> None:
        ready = threading.Event()
        outbox = attach(server, ready.set)
        server.lifecycle.watches_parent = True
        server.answered = early.answered
        loop = asyncio.get_running_loop()
        gone = partial(loop.call_soon_threadsafe, client_gone, server)
        for name, work in (
            ("aish reader", partial(_read_all, server, loop, source, early, gone)),
            ("aish writer", partial(_write_all, sink, outbox, ready, gone)),
        ):
            threading.Thread(target=work, name=name, daemon=True).start()

    return connect


def _read_all(
    server: AishServer,
    loop: asyncio.AbstractEventLoop,
    source: int,
    early: EarlyInitialize,
    gone: Callable[[], object],
) -> None:
    """Read to the end, handing messages to the loop, which then calls ``gone``."""
    # Two batches may be under way; the next waits here until the loop has taken one.
    slots = threading.Semaphore(2)

    def deliver(bodies: list[bytes | BadFrame]) -> None:
        for body in bodies:
            server.receive(body)
        slots.release()

    received = early.received
    while True:
        if received:
            slots.acquire()
            loop.call_soon_threadsafe(deliver, received)
        if not (data := read(source)):
            break
        received = early.frames.feed(data)
    gone()


def _write_all(
    sink: int, outbox: Outbox, ready: threading.Event, gone: Callable[[], object]
) -> None:
    """Write what waits to be sent, until nobody reads it."""
    while not outbox.closed:
        ready.wait()
        ready.clear()
        while bodies := outbox.take():
            if not write(sink, b"".join(map(frame, bodies))):
                outbox.close()
                gone()
                return
            outbox.sent(sum(map(len, bodies)))
