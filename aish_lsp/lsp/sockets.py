"""Serving a client over TCP or WebSocket: one client a process, loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from aish_lsp.foundation.errors import Busy
from aish_lsp.lsp.admission import Admission, Frame, is_loopback, is_our_name
from aish_lsp.lsp.early_initialize import CHUNK
from aish_lsp.lsp.framing import LARGEST_MESSAGE, ForeignHeaderError, FrameReader, frame
from aish_lsp.lsp.messages import encode
from aish_lsp.lsp.outbox import Outbox
from aish_lsp.lsp.transport import FLUSH, Open, attach, client_gone, detach

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from aish_lsp.lsp.server import AishServer

logger = logging.getLogger(__name__)

_OCCUPIED = "this aish-lsp already has a client; start another one"


def tcp(host: str, port: int) -> Open:
    """Return what serves the first client that says ``initialize`` to ``host``:``port``."""

    async def connect(server: AishServer) -> None:
        admission = Admission()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            receive = partial(_receive, reader, FrameReader(strict=True))
            received: Sequence[Frame] = []
            if server.outbox is None:
                received = await admission.first_messages(receive, partial(_answer, writer))
            if server.outbox is not None:
                _refuse(writer)
                return
            if not received:
                writer.close()
                return
            ready = asyncio.Event()
            outbox = attach(server, _waker(ready), framed=True)
            sender = asyncio.create_task(_send_stream(outbox, ready, writer))
            _deliver(server, received)
            while server.protocol.initialized and (received := await receive()):
                _deliver(server, received)
            await _leave(server, outbox)
            await sender
            writer.close()

        listener = await asyncio.start_server(serve, host, port)
        _announce("tcp", host, listener.sockets[0].getsockname()[1], "")

    return connect


def websocket(host: str, port: int) -> Open:
    """Return what serves the first with the token that says ``initialize`` to ``host``:``port``."""

    async def connect(server: AishServer) -> None:
        from websockets.asyncio.server import serve  # noqa: PLC0415 - for this transport only
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - as above

        admission = Admission()
        token = secrets.token_urlsafe(24)

        def admit(connection: ServerConnection, request: Request) -> Response | None:
            refusal = _refusal(request, host, token, occupied=server.outbox is not None)
            return None if refusal is None else connection.respond(*refusal)

        async def talk(connection: ServerConnection) -> None:
            async def receive() -> list[Frame]:
                try:
                    return [await connection.recv(decode=False)]
                except ConnectionClosed:
                    return []

            async def answer(body: bytes) -> None:
                with suppress(ConnectionClosed):
                    await connection.send(body.decode())

            received = await admission.first_messages(receive, answer)
            if server.outbox is not None:
                await connection.close(1013, _OCCUPIED)
                return
            if not received:
                await connection.close(1008, "the first request must be initialize, and soon")
                return
            ready = asyncio.Event()
            outbox = attach(server, _waker(ready), framed=False)
            sender = asyncio.create_task(_send_messages(outbox, ready, connection))
            _deliver(server, received)
            while server.protocol.initialized and (received := await receive()):
                _deliver(server, received)
            await _leave(server, outbox)
            await sender

        listener = await serve(
            talk, host, port, process_request=admit, max_size=LARGEST_MESSAGE, ping_interval=None
        )
        _announce("ws", host, next(iter(listener.sockets)).getsockname()[1], f"/?token={token}")

    return connect


def _deliver(server: AishServer, received: Sequence[Frame]) -> None:
    for body in received:
        server.protocol.receive(body)


async def _leave(server: AishServer, outbox: Outbox) -> None:
    """End the server with its client; one whose ``initialize`` was refused leaves it to others."""
    if server.protocol.initialized:
        client_gone(server)
    else:
        detach(server)
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH):
                await outbox.drained(0)
        outbox.close()


def _refusal(
    request: Request, bound: str, token: str, *, occupied: bool
) -> tuple[HTTPStatus, str] | None:
    """Return the answer to a connection that is not taken; None for one that is."""
    # Browsers send it, and any page in one may try to connect. Other clients do not.
    if request.headers.get_all("Origin"):
        return HTTPStatus.FORBIDDEN, "connections from a browser are refused\n"
    named = request.headers.get_all("Host")
    if len(named) != 1 or not is_our_name(named[0], bound):
        return HTTPStatus.FORBIDDEN, "the Host header does not name this server: use its address\n"
    shown = parse_qs(urlsplit(request.path).query).get("token", [])
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


async def _receive(reader: asyncio.StreamReader, frames: FrameReader) -> list[Frame]:
    """Return the next messages; none at the end, which is also where a stranger speaks."""
    try:
        while data := await reader.read(CHUNK):
            if received := frames.feed(data):
                return received
    except OSError:
        pass  # gone
    except ForeignHeaderError as error:
        logger.warning("closed a TCP connection that does not come from an editor: %s", error)
    return []


async def _answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send one message to a client that is not admitted yet."""
    writer.write(frame(body))
    with suppress(OSError):
        await writer.drain()


def _refuse(writer: asyncio.StreamWriter) -> None:
    """Tell a second client over TCP why it is not served."""
    error = {"code": Busy.code, "message": _OCCUPIED, "data": {"kind": Busy.kind}}
    message = {"jsonrpc": "2.0", "id": None, "error": error}
    writer.write(frame(encode(message, str)))
    writer.close()


def _waker(ready: asyncio.Event) -> Callable[[], None]:
    """Return what sets ``ready`` from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        try:
            inside = asyncio.get_running_loop() is loop
        except RuntimeError:
            inside = False
        if inside:
            ready.set()
        else:
            loop.call_soon_threadsafe(ready.set)

    return wake


async def _send_stream(outbox: Outbox, ready: asyncio.Event, writer: asyncio.StreamWriter) -> None:
    # The outbox counts what waits; with a buffer of its own the stream would hide a slow client.
    writer.transport.set_write_buffer_limits(0)
    while not outbox.closed:
        await ready.wait()
        ready.clear()
        while parts := outbox.take():
            data = b"".join(parts)
            writer.write(data)
            try:
                await writer.drain()
            except OSError:
                outbox.close()
                return
            outbox.sent(len(data))


async def _send_messages(
    outbox: Outbox, ready: asyncio.Event, connection: ServerConnection
) -> None:
    from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - as above

    while not outbox.closed:
        await ready.wait()
        ready.clear()
        while parts := outbox.take():
            for body in parts:
                try:
                    await connection.send(body.decode())
                except ConnectionClosed:
                    outbox.close()
                    return
                outbox.sent(len(body))


def _announce(scheme: str, host: str, port: int, rest: str) -> None:
    """Say on stderr where the server listens, in one line that a program can read."""
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"aish-lsp: listening on {scheme}://{shown}:{port}{rest}\n")
    if not is_loopback(host):
        sys.stderr.write(
            f"aish-lsp: warning: {host} can be reached from other machines; "
            "anyone who connects can run commands as you\n"
        )
    sys.stderr.flush()


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; without a host it is the loopback one.

    Raises:
        ValueError: it is no such address.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    # One address, so that port 0 is one port.
    return ("127.0.0.1" if host in {"", "localhost"} else host), int(port)
