"""Serving over WebSocket: one client per process, on loopback by default.

The first client that knows the token and sends ``initialize`` in time is served. Half a message or
a silent client must not keep an editor out, and such a client does not end the server when it
disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
import sys
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from lsprotocol.types import EXIT, INITIALIZE
from pygls.exceptions import JsonRpcException, JsonRpcServerNotInitialized
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from aish_lsp.lsp.messages import Malformed, Outbox, parse
from aish_lsp.lsp.server import AishServer, Open, attach, client_gone, flush
from aish_lsp.lsp.stream import LARGEST_MESSAGE

if TYPE_CHECKING:
    from websockets import http11

#: Seconds that a client has, from connecting, to send ``initialize``.
HANDSHAKE: Final = 30.0
#: Connections that may wait at the same time; each may have sent megabytes.
MOST_WAITING: Final = 16

_OCCUPIED = "this aish-lsp already has a client; start another one"


def websocket(host: str, port: int) -> Open:
    """Return a function that serves the first client with the token to send ``initialize``."""

    async def connect(server: AishServer) -> None:
        waiting = asyncio.Semaphore(MOST_WAITING)
        token = secrets.token_urlsafe(24)

        def admit(connection: ServerConnection, request: http11.Request) -> http11.Response | None:
            refusal = _refusal(request, host, token, occupied=server.outbox is not None)
            return None if refusal is None else connection.respond(*refusal)

        listener = await serve(
            partial(_serve, server, waiting),
            host,
            port,
            process_request=admit,
            max_size=LARGEST_MESSAGE,
            ping_interval=None,
        )
        _announce(host, next(iter(listener.sockets)).getsockname()[1], token)

    return connect


async def _serve(
    server: AishServer, waiting: asyncio.Semaphore, connection: ServerConnection
) -> None:
    """Serve a client to the end of its connection, unless another is served."""
    body = None if server.outbox is not None else await _initialize(waiting, connection)
    if server.outbox is not None:
        await connection.close(1013, _OCCUPIED)
        return
    if body is None:
        await connection.close(1008, "the first request must be initialize, and soon")
        return
    ready = asyncio.Event()
    outbox = attach(server, partial(asyncio.get_running_loop().call_soon_threadsafe, ready.set))
    sender = asyncio.create_task(_send_all(outbox, ready, connection))
    while body is not None:
        server.protocol.receive(body)
        body = await _received(connection) if server.protocol.initialized else None
    if server.protocol.initialized:
        client_gone(server)
    else:
        # Its ``initialize`` was refused: others may come.
        server.protocol.writer = None
        await flush(outbox)
        outbox.close()
    await sender
    await connection.close()


async def _received(connection: ServerConnection) -> bytes | None:
    """Return the next message; None at the end."""
    try:
        return await connection.recv(decode=False)
    except ConnectionClosed:
        return None


async def _initialize(waiting: asyncio.Semaphore, connection: ServerConnection) -> bytes | None:
    """Return the ``initialize`` that a client sends; None if the client must not be served.

    Whatever comes before that is answered here. ``waiting`` limits how many connections may wait
    at the same time.
    """
    if waiting.locked():
        return None
    async with waiting:
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(HANDSHAKE):
                return await _until_initialize(connection)
    return None


async def _until_initialize(connection: ServerConnection) -> bytes | None:
    while True:
        body = await connection.recv(decode=False)
        try:
            message = parse(body)
        except Malformed as error:
            await _refuse(connection, error.id, error)
            continue
        method, is_request = message.get("method"), "id" in message
        if method == INITIALIZE and is_request:
            return body
        if method == EXIT:
            return None
        if method is not None and is_request:
            refusal = JsonRpcServerNotInitialized("the first request must be initialize")
            await _refuse(connection, message["id"], refusal)


async def _refuse(connection: ServerConnection, msg_id: Any, error: JsonRpcException) -> None:
    refusal = {"code": error.code, "message": error.message}
    await connection.send(json.dumps({"jsonrpc": "2.0", "id": msg_id, "error": refusal}))


async def _send_all(outbox: Outbox, ready: asyncio.Event, connection: ServerConnection) -> None:
    """Send what is queued, until the client is gone."""
    while not outbox.closed:
        await ready.wait()
        ready.clear()
        while bodies := outbox.take():
            try:
                for body in bodies:
                    await connection.send(body.decode())
            except ConnectionClosed:
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


def _announce(host: str, port: int, token: str) -> None:
    """Write to stderr where the server listens, in one line that a program can parse."""
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"aish-lsp: listening on ws://{shown}:{port}/?token={token}\n")
    if not is_loopback(host):
        sys.stderr.write(
            f"aish-lsp: warning: {host} can be reached from other machines; "
            "anyone who connects can run commands as you\n"
        )
    sys.stderr.flush()


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
