"""Serving a client on stdin and stdout, and what all transports share."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from aish_lsp.lsp import logs
from aish_lsp.lsp.framing import BadFrame, FrameReader, frame
from aish_lsp.lsp.outbox import Outbox

if TYPE_CHECKING:
    from aish_lsp.server import AishServer

#: Bytes read at once.
CHUNK = 64 << 10
#: Seconds for the last messages to get out.
FLUSH = 1.0

Open: TypeAlias = Callable[["AishServer"], Awaitable[None]]


def run(server: AishServer, connect: Open) -> int:
    """Serve until the end; return the exit code. Threads may still hang: use ``os._exit``.

    ``connect`` starts to listen or to read, and returns.

    Raises:
        OSError: ``connect`` could not listen.
    """
    # Not asyncio.run: it waits for threads that may never end.
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(logs.log_loop_error)
    return loop.run_until_complete(_serve(server, connect))


async def _serve(server: AishServer, connect: Open) -> int:
    server.lifecycle.start(asyncio.get_running_loop())
    await connect(server)
    code = await server.lifecycle.ended()
    await server.stop_work()
    await server.protocol.answer_shutdown()
    if server.outbox is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH):
                await server.outbox.drained(0)
    return code


def attach(server: AishServer, wake: Callable[[], None], *, framed: bool) -> Outbox:
    """Let ``server`` send to the client that has come; return what its sender takes from."""
    outbox = Outbox(
        asyncio.get_running_loop(),
        wake=wake,
        overflow=lambda: server.lifecycle.end("the client stopped reading", 1),
    )
    server.outbox = outbox
    if framed:
        server.protocol.send_body = lambda body: outbox.put(frame(body))
    else:
        server.protocol.send_body = outbox.put
    return outbox


def client_gone(server: AishServer) -> None:
    """End the server; what is queued may still reach who closed but one direction."""
    server.lifecycle.end("the client closed the connection", server.protocol.exit_code)


async def connect_stdio(server: AishServer) -> None:
    """Read from stdin and write to stdout, each in a thread of its own."""
    loop = asyncio.get_running_loop()
    source, sink = _take_stdio()
    ready = threading.Event()
    outbox = attach(server, ready.set, framed=True)
    server.lifecycle.watches_parent = True
    # Two batches may be under way; the reader waits for the loop with the next.
    slots = threading.Semaphore(2)

    def deliver(frames: list[bytes | BadFrame]) -> None:
        for body in frames:
            server.protocol.receive(body)
        slots.release()

    def read() -> None:
        frames = FrameReader()
        while data := _read(source):
            if complete := frames.feed(data):
                slots.acquire()
                loop.call_soon_threadsafe(deliver, complete)
        # In the loop, behind the messages: they decide about the exit code.
        loop.call_soon_threadsafe(client_gone, server)

    def write() -> None:
        while not outbox.closed:
            ready.wait()
            ready.clear()
            while parts := outbox.take():
                data = b"".join(parts)
                if not _write(sink, data):
                    outbox.close()
                    loop.call_soon_threadsafe(client_gone, server)
                    return
                outbox.sent(len(data))

    threading.Thread(target=read, name="aish reader", daemon=True).start()
    threading.Thread(target=write, name="aish writer", daemon=True).start()


def _take_stdio() -> tuple[int, int]:
    """Keep stdin and stdout to ourselves: neither a print nor a child process may touch them."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    # An editor may hand over a stream that does not block; a thread of ours may wait.
    os.set_blocking(source, True)
    os.set_blocking(sink, True)
    return source, sink


def _read(source: int) -> bytes:
    """Return the next bytes; none at the end."""
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def _write(sink: int, data: bytes) -> bool:
    """Write all of ``data``; return whether there was somebody to read it."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(sink, view) :]
    except OSError:
        return False
    return True
