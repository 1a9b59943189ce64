"""Serving over WebSocket: one client per process, on loopback by default.

The first client that knows the token is served. If it disconnects without having begun a session,
another may come.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import sys
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from aish_lsp.lsp.server import AishServer, Open, attach, client_gone
from aish_lsp.lsp.stream import LARGEST_MESSAGE

if TYPE_CHECKING:
    from websockets import http11

_OCCUPIED = "this aish-lsp already has a client; start another one"


def websocket(host: str, port: int) -> Open:
    """Return a function that serves the first client that knows the token."""

    async def connect(server: AishServer) -> None:
        token = secrets.token_urlsafe(24)

        def admit(connection: ServerConnection, request: http11.Request) -> http11.Response | None:
            refusal = _refusal(request, token, occupied=server.outbox is not None)
            return None if refusal is None else connection.respond(*refusal)

        listener = await serve(
            partial(_serve, server),
            host,
            port,
            process_request=admit,
            max_size=LARGEST_MESSAGE,
            ping_interval=None,
        )
        _announce(host, next(iter(listener.sockets)).getsockname()[1], token)

    return connect


async def _serve(server: AishServer, connection: ServerConnection) -> None:
    """Serve a client to the end of its connection, unless another has come first."""
    if server.outbox is not None:
        await connection.close(1013, _OCCUPIED)
        return

    async def send(bodies: list[bytes]) -> bool:
        with suppress(ConnectionClosed):
            for body in bodies:
                await connection.send(body.decode())
            return True
        return False

    outbox = attach(server, send)
    with suppress(ConnectionClosed):
        while True:
            server.protocol.receive(await connection.recv(decode=False))
    if server.protocol.initialized:
        client_gone(server)
    else:
        # It began no session: another may come.
        server.protocol.writer = None
        outbox.close()


def _refusal(
    request: http11.Request, token: str, *, occupied: bool
) -> tuple[HTTPStatus, str] | None:
    """Return the answer that refuses a connection; None if it is accepted."""
    # Browsers send an origin, and any page in one may try to connect. Other clients do not.
    if request.headers.get_all("Origin"):
        return HTTPStatus.FORBIDDEN, "connections from a browser are refused\n"
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
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
