"""Who gets the one place of a server that listens: the first that says ``initialize``, soon enough.

Anybody on the machine may connect. Half a message, a header alone or a client that says nothing
must not keep an editor out, and such a one may go without ending the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from lsprotocol.types import EXIT, INITIALIZE

from aish_lsp.lsp.framing import BadFrame
from aish_lsp.lsp.messages import (
    NOT_INITIALIZED,
    PARSE_ERROR,
    Malformed,
    MessageId,
    Notification,
    Request,
    parse,
)

Frame: TypeAlias = bytes | BadFrame

#: Seconds from connecting to the end of ``initialize``.
HANDSHAKE: Final = 30.0
#: Connections that may wait at once; each may have sent megabytes by then.
MOST_WAITING: Final = 16


class Admission:
    """The connections that have not said ``initialize`` yet."""

    def __init__(self) -> None:
        self._waiting = 0

    async def first_messages(
        self,
        receive: Callable[[], Awaitable[Sequence[Frame]]],
        answer: Callable[[bytes], Awaitable[object]],
    ) -> Sequence[Frame]:
        """Return what a client sends from ``initialize`` on; nothing where it is not to be served.

        Args:
            receive: returns the next messages; none at the end.
            answer: sends a message's body; it is called for what comes before ``initialize``.
        """
        if self._waiting >= MOST_WAITING:
            return []
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(HANDSHAKE):
                    return await _until_initialize(receive, answer)
            return []
        finally:
            self._waiting -= 1


async def _until_initialize(
    receive: Callable[[], Awaitable[Sequence[Frame]]],
    answer: Callable[[bytes], Awaitable[object]],
) -> Sequence[Frame]:
    while received := await receive():
        for number, frame in enumerate(received):
            message = _parsed(frame)
            match message:
                case Request(_, method) if method == INITIALIZE:
                    return received[number:]
                case Notification(method) if method == EXIT:
                    return []
                case Request(msg_id):
                    error = NOT_INITIALIZED, "the first request must be initialize"
                    await answer(_error(msg_id, *error))
                case Malformed():
                    await answer(_error(message.id, message.code, message.message))
    return []


def _parsed(frame: Frame) -> object:
    """Return the message in ``frame``, or what is wrong with it."""
    if isinstance(frame, BadFrame):
        return Malformed(PARSE_ERROR, frame.message)
    try:
        return parse(frame)
    except Malformed as error:
        return error


def _error(msg_id: MessageId | None, code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": msg_id, "error": error}).encode()


def is_loopback(host: str) -> bool:
    """Return whether ``host`` can only be this machine."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_our_name(header: str, bound: str) -> bool:
    """Return whether the ``Host`` that a client names is one of a server that listens on ``bound``.

    A web page can have a name of its own lead to this machine once the browser has loaded it, and
    is then no stranger to its own address. So only names that nobody else can give away are ours:
    those of loopback and the one that was bound; where all interfaces were, any address in
    numbers, and the machine's name.
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
