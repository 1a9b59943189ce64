"""A proxy between an adapter and a real model server that breaks what comes back, on purpose.

A fault is a function of one exchange: it may hand on the server's answer with its bytes changed,
cut the connection at any place, or answer itself and leave the server unasked.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import httpx
from fault_server import Peer, Request

Protocol: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini"]

_PROTOCOL_OF_PATH: dict[str, Protocol] = {
    "/chat/completions": "openai",
    "/responses": "openai-responses",
    "/messages": "anthropic",
    ":streamGenerateContent": "gemini",
}

# What belongs to one connection and not to the request.
_OF_THE_CONNECTION = frozenset({"host", "connection", "content-length", "accept-encoding"})


@dataclass(frozen=True)
class Answer:
    """What the server answered: ``status`` like ``200 OK``, and the body as its pieces come."""

    status: str
    kind: str
    body: AsyncGenerator[bytes, None]

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the body's server-sent events, one at a time, each with its blank line."""
        rest = b""
        async for piece in self.body:
            *whole, rest = re.split(rb"(?<=\n\n)", rest + piece)
            for event in whole:
                yield event
        if rest:
            yield rest


@dataclass(frozen=True)
class Exchange:
    """A request, the connection that it came on, and the way to the server behind the proxy."""

    request: Request
    peer: Peer
    _http: httpx.AsyncClient
    _url: str

    @property
    def protocol(self) -> Protocol:
        """The wire protocol, by what is asked for."""
        path, _, _ = self.request.path.partition("?")
        return next(name for end, name in _PROTOCOL_OF_PATH.items() if path.endswith(end))

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[Answer]:
        """Ask the server, and give its answer while it comes."""
        headers = {
            name: value
            for name, value in self.request.headers.items()
            if name not in _OF_THE_CONNECTION
        }
        asking = self._http.stream(
            self.request.method,
            f"{self._url}{self.request.path}",
            content=self.request.body,
            headers=headers,
        )
        async with asking as response, aclosing(_pieces(response)) as body:
            status = f"{response.status_code} {response.reason_phrase}"
            yield Answer(status, response.headers.get("content-type", ""), body)


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for piece in response.aiter_raw():
        yield piece


Fault: TypeAlias = Callable[[Exchange], Awaitable[None]]


async def handed_on(exchange: Exchange) -> None:
    """Hand the answer on as it is: no fault."""
    async with exchange.answer() as answer:
        await exchange.peer.head(answer.status, answer.kind)
        async for piece in answer.body:
            await exchange.peer.chunk(piece)
        await exchange.peer.chunk(b"")


class FaultProxy:
    """The script of a ``FaultServer`` that shows ``fault`` to every request.

    Attributes:
        fault: what happens to the next exchanges.
        running: how many exchanges are not over.

    Args:
        url: the address of the server behind.
        http: speaks to it.
    """

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = url
        self._http = http
        self.fault: Fault = handed_on
        self.running = 0

    async def script(self, request: Request, peer: Peer) -> None:
        """Answer a request of the adapter."""
        self.running += 1
        try:
            await self.fault(Exchange(request, peer, self._http, self._url))
        finally:
            self.running -= 1
