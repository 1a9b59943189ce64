"""An HTTP server whose every byte a test decides: for the faults that no real server can be made
to show.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

EVENT_STREAM = "text/event-stream"

#: Seconds in which a server in a thread has to start, and to end.
_TIMEOUT = 60.0


@dataclass(frozen=True)
class Request:
    """A request as it came; the names of its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


class Peer:
    """The connection that a script answers on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send ``data`` now."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: str = "200 OK", kind: str = EVENT_STREAM, *more: str) -> None:
        """Send the head of a chunked response."""
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {kind}",
            "Transfer-Encoding: chunked",
            *more,
        ]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        """Send a chunk of a chunked body; an empty one ends it."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, payload: Any) -> None:
        """Send a server-sent event in a chunk of its own."""
        data = payload if isinstance(payload, str) else json.dumps(payload)
        await self.chunk(f"data: {data}\n\n".encode())

    async def reply(
        self, body: bytes | Any, status: str = "200 OK", kind: str = "application/json", *more: str
    ) -> None:
        """Send a whole response; what is not bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(content)}",
            *more,
        ]
        await self.send("\r\n".join([*lines, "", ""]).encode() + content)

    def reset(self) -> None:
        """Cut the connection with a TCP reset."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        """Say that nothing more comes, and go on reading."""
        self._writer.write_eof()

    async def wait_closed(self) -> None:
        """Wait until the client closed the connection."""
        while await self._reader.read(1 << 16):
            pass


Script: TypeAlias = Callable[[Request, Peer], Awaitable[None]]


class FaultServer:
    """A server on a free loopback port that answers each request by ``script``.

    Attributes:
        requests: what came, in order.
        connections: how many connections were opened.
        url: the server's address.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                await self._script(request, Peer(reader, writer))
                if writer.transport.is_closing():
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def chunk_of(text: str, **more: Any) -> dict[str, Any]:
    """Return a chunk of a chat completion that holds ``text``."""
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


#: Sockets that keep a port from everybody else for as long as this process lives.
_kept: list[socket.socket] = []


def unused_port() -> int:
    """Return a loopback port on which nothing listens, nor ever will.

    It stays bound: else the next server that any test starts may get it, and with it what was meant
    to find nobody there.
    """
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    _kept.append(kept)
    port: int = kept.getsockname()[1]
    return port


def free_port() -> int:
    """Return a loopback port for a server that is started right away."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@atexit.register
def _let_go() -> None:
    for kept in _kept:
        kept.close()


@contextlib.contextmanager
def served(script: Script) -> Iterator[str]:
    """Run a model server in a thread of its own; yield its address."""
    address: Future[str] = Future()

    async def serve(end: asyncio.Event) -> None:
        async with FaultServer(script) as server:
            address.set_result(server.url)
            await end.wait()

    loop = asyncio.new_event_loop()
    end = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[serve(end)])
    thread.start()
    try:
        yield address.result(_TIMEOUT)
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(_TIMEOUT)
        loop.close()


def two_models(key: str = "") -> Script:
    """Return a script that lists the models ``a`` and ``b``, and says hello as either of them."""

    async def script(request: Request, peer: Peer) -> None:
        if key and request.headers.get("authorization") != f"Bearer {key}":
            await peer.reply({"error": {"message": "no such key"}}, status="401 Unauthorized")
        elif not request.path.endswith("/chat/completions"):
            await peer.reply({"data": [{"id": name} for name in ("a", "b")]})
        else:
            await peer.head()
            await peer.event(chunk_of(f"Hello from {request.json['model']}."))
            await peer.event(chunk_of("", finish_reason="stop"))
            await peer.event("[DONE]")

    return script
