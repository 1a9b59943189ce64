"""Serving over TCP or WebSocket: one client per process, on loopback by default.

The first client to send ``initialize`` in time is served. Any program on the machine may connect,
so half a message, a lone header or a silent client must not keep an editor out, and such a client
does not end the server when it disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import parse_qs

from lsprotocol.types import EXIT, INITIALIZE
from pygls.exceptions import JsonRpcServerNotInitialized

from aish_lsp.foundation.errors import Busy
from aish_lsp.lsp.messages import (
    Malformed,
    MessageId,
    Outbox,
    parse,
)
from aish_lsp.lsp.server import AishServer, Open, attach, client_gone, flush
from aish_lsp.lsp.stream import (
    CHUNK,
    LARGEST_MESSAGE,
    BadFrame,
    ForeignHeaderError,
    FrameReader,
    frame,
)

if TYPE_CHECKING:
    from websockets import http11
    from websockets.asyncio.server import ServerConnection

logger = logging.getLogger(__name__)

Frame: TypeAlias = bytes | BadFrame

#: Seconds that a client has, from connecting, to send ``initialize``.
HANDSHAKE: Final = 30.0
#: Connections that may wait at the same time; each may have sent megabytes.
MOST_WAITING: Final = 16

_OCCUPIED = "this aish-lsp already has a client; start another one"


def tcp(host: str, port: int) -> Open:
    """Return a function that serves the first client to send ``initialize`` to an address."""

    async def connect(server: AishServer) -> None:
        waiting = asyncio.Semaphore(MOST_WAITING)

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _serve(server, waiting, _Tcp(reader, writer))

        listener = await asyncio.start_server(talk, host, port)
        _announce("tcp", host, listener.sockets[0].getsockname()[1], "")

    return connect


def websocket(host: str, port: int) -> Open:
    """Return a function that serves the first client with the token to send ``initialize``."""

    async def connect(server: AishServer) -> None:
        from websockets.asyncio.server import serve  # noqa: PLC0415 - for this transport only

        waiting = asyncio.Semaphore(MOST_WAITING)
        token = secrets.token_urlsafe(24)

        def admit(connection: ServerConnection, request: http11.Request) -> http11.Response | None:
            refusal = _refusal(request, host, token, occupied=server.outbox is not None)
            return None if refusal is None else connection.respond(*refusal)

        async def talk(connection: ServerConnection) -> None:
            await _serve(server, waiting, _WebSocket(connection))

        listener = await serve(
            talk, host, port, process_request=admit, max_size=LARGEST_MESSAGE, ping_interval=None
        )
        _announce("ws", host, next(iter(listener.sockets)).getsockname()[1], f"/?token={token}")

    return connect


class _Tcp:
    """A connection over TCP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(strict=True)
        # The outbox counts what is queued: a buffer in the stream would hide a slow client.
        writer.transport.set_write_buffer_limits(0)

    async def receive(self) -> list[Frame]:
        """Return the next messages; none at the end, or if the client does not speak LSP."""
        try:
            while data := await self._reader.read(CHUNK):
                if received := self._frames.feed(data):
                    return received
        except OSError:
            pass  # the client is gone
        except ForeignHeaderError as error:
            logger.warning("closed a TCP connection that does not come from an editor: %s", error)
        return []

    async def send(self, bodies: Sequence[bytes]) -> bool:
        """Send messages; return False if the client is gone."""
        self._writer.write(b"".join(map(frame, bodies)))
        try:
            await self._writer.drain()
        except OSError:
            return False
        return True

    async def turn_away(self, *, occupied: bool) -> None:
        """End the connection; say why if another client is served (``occupied``)."""
        if occupied:
            self._writer.write(frame(_error(None, Busy.code, _OCCUPIED, {"kind": Busy.kind})))
        await self.close()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()


class _WebSocket:
    """A connection over WebSocket, which frames messages by itself."""

    def __init__(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - for this transport only

        self._connection = connection
        self._closed = ConnectionClosed

    async def receive(self) -> list[Frame]:
        """Return the next message; none at the end."""
        try:
            return [await self._connection.recv(decode=False)]
        except self._closed:
            return []

    async def send(self, bodies: Sequence[bytes]) -> bool:
        """Send messages; return False if the client is gone."""
        try:
            for body in bodies:
                await self._connection.send(body.decode())
        except self._closed:
            return False
        return True

    async def turn_away(self, *, occupied: bool) -> None:
        """End the connection, and say why."""
        if occupied:
            await self._connection.close(1013, _OCCUPIED)
        else:
            await self._connection.close(1008, "the first request must be initialize, and soon")

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()


async def _serve(
    server: AishServer, waiting: asyncio.Semaphore, connection: _Tcp | _WebSocket
) -> None:
    """Serve a client to the end of its connection, unless another is served."""
    received: Sequence[Frame] = []
    if server.outbox is None:
        received = await _first_messages(waiting, connection)
    if server.outbox is not None or not received:
        await connection.turn_away(occupied=server.outbox is not None)
        return
    ready = asyncio.Event()
    outbox = attach(server, partial(asyncio.get_running_loop().call_soon_threadsafe, ready.set))
    sender = asyncio.create_task(_send_all(outbox, ready, connection))
    while received:
        for body in received:
            server.protocol.receive(body)
        received = await connection.receive() if server.protocol.initialized else []
    if server.protocol.initialized:
        client_gone(server)
    else:
        # Its ``initialize`` was refused: others may come.
        server.protocol.writer = None
        await flush(outbox)
        outbox.close()
    await sender
    await connection.close()


async def _first_messages(
    waiting: asyncio.Semaphore, connection: _Tcp | _WebSocket
) -> Sequence[Frame]:
    """Return what a client sends from ``initialize`` on; nothing if it must not be served.

    Whatever comes before that is answered here. ``waiting`` limits how many connections may wait
    at the same time.
    """
    if waiting.locked():
        return []
    async with waiting:
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                return await _until_initialize(connection)
    return []


async def _until_initialize(connection: _Tcp | _WebSocket) -> Sequence[Frame]:
    while received := await connection.receive():
        for number, one in enumerate(received):
            try:
                message = parse(one)
            except Malformed as error:
                await connection.send([_error(error.id, error.code, error.message)])
                continue
            if message.get("method") == INITIALIZE and "id" in message:
                return received[number:]
            if message.get("method") == EXIT:
                return []
            if "method" in message and "id" in message:
                refusal = "the first request must be initialize"
                code = JsonRpcServerNotInitialized.CODE
                await connection.send([_error(message["id"], code, refusal)])
    return []


async def _send_all(outbox: Outbox, ready: asyncio.Event, connection: _Tcp | _WebSocket) -> None:
    while not outbox.closed:
        await ready.wait()
        ready.clear()
        while bodies := outbox.take():
            if not await connection.send(bodies):
                outbox.close()
                return
            outbox.sent(sum(map(len, bodies)))


def _refusal(
    request: http11.Request, bound: str, token: str, *, occupied: bool
) -> tuple[HTTPStatus, str] | None:
    """Return the answer that refuses a connection; None if it is accepted."""
    # Browsers send an origin, and any page in one may try to connect. Other clients do not.
    if request.headers.get_all("Origin"):
        return HTTPStatus.FORBIDDEN, "connections from a browser are refused\n"
    named = request.headers.get_all("Host")
    if len(named) != 1 or not is_our_name(named[0], bound):
        return HTTPStatus.FORBIDDEN, "the Host header does not name this server: use its address\n"
    shown = parse_qs(request.path.partition("?")[2]).get("token", [])
    for header in request.headers.get_all("Authorization"):
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "bearer":
            shown.append(credentials.strip())
    if not any(hmac.compare_digest(one.encode(), token.encode()) for one in shown):
        return (
            HTTPStatus.UNAUTHORIZED,
            "the token that was printed at startup is missing or wrong\n",
        )
    if occupied:
        return HTTPStatus.SERVICE_UNAVAILABLE, _OCCUPIED + "\n"
    return None


def _announce(scheme: str, host: str, port: int, rest: str) -> None:
    """Write to stderr where the server listens, in one line that a program can parse."""
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"aish-lsp: listening on {scheme}://{shown}:{port}{rest}\n")
    if not is_loopback(host):
        sys.stderr.write(
            f"aish-lsp: warning: {host} can be reached from other machines; "
            "anyone who connects can run commands as you\n"
        )
    sys.stderr.flush()


def _error(
    msg_id: MessageId | None, code: int, message: str, data: dict[str, str] | None = None
) -> bytes:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return json.dumps({"jsonrpc": "2.0", "id": msg_id, "error": error}).encode()


def is_loopback(host: str) -> bool:
    """Return whether ``host`` can only be this machine."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_our_name(header: str, bound: str) -> bool:
    """Return whether a client's ``Host`` is a name of a server that listens on ``bound``.

    Once a browser has loaded a web page, the page's host name can be changed to resolve to this
    machine, and the browser then takes us for the page's server. So only names that nobody else can
    assign are ours: those of loopback and the one that was bound; if that was all interfaces, also
    any numeric address and the machine's name.
    """
    host = _host_of(header)
    if is_loopback(host) or host == bound.lower():
        return True
    everywhere = _address(bound)
    if everywhere is None or not everywhere.is_unspecified:
        return False
    return _address(host) is not None or host == socket.gethostname().lower()


def _host_of(header: str) -> str:
    """Return a ``Host`` without its port, an address without its brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].strip().removesuffix(".").lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
