"""The ways in which a model server, or what stands before it, fails: each a fault of the proxy."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

from fault_proxy import Answer, Exchange, Fault, Protocol, handed_on
from fault_server import EVENT_STREAM

#: What the model says: characters of one to four bytes, and a command.
REPLY: Final = "I'll list: grüße 👩‍💻 你好.\nCMD: ls -la\n"

#: The key that every request brings, and nothing may show.
KEY: Final = "sk-fault-4f0Zb81kLmN42xVt"

#: Events after which a reply is broken off: some text has come, and some has not.
SOME: Final = 20


# The bytes of the answer are changed


def changed(change: Callable[[bytes], bytes]) -> Fault:
    """Change each event."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            await exchange.peer.head()
            async for event in answer.events():
                await exchange.peer.chunk(change(event))
            await exchange.peer.chunk(b"")

    return fault


def cut(split: str) -> Fault:
    """Send the body in chunks that begin where ``split`` matches."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            await exchange.peer.head()
            async for piece in answer.body:
                for part in re.split(split.encode(), piece):
                    if part:
                        await exchange.peer.chunk(part)
            await exchange.peer.chunk(b"")

    return fault


async def byte_by_byte(exchange: Exchange) -> None:
    """Send head and body in writes of one byte, each as soon as the last one is gone."""
    async with exchange.answer() as answer:
        body = b"".join([piece async for piece in answer.body])
    for byte in head("Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body):
        await exchange.peer.send(bytes([byte]))
        await asyncio.sleep(0)


async def not_zipped(exchange: Exchange) -> None:
    """Say that the body is compressed, which it is not."""
    async with exchange.answer() as answer:
        await exchange.peer.head("200 OK", EVENT_STREAM, "Content-Encoding: gzip")
        await _rest(exchange, answer)


def begun_with(data: bytes) -> Fault:
    """Send ``data`` before the first event."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            await exchange.peer.head()
            await exchange.peer.chunk(data)
            await _rest(exchange, answer)

    return fault


async def without_last_blank_line(exchange: Exchange) -> None:
    """End with the last character of the last event."""
    async with exchange.answer() as answer:
        body = b"".join([piece async for piece in answer.body])
    await exchange.peer.head()
    await exchange.peer.chunk(body.rstrip(b"\n"))
    await exchange.peer.chunk(b"")


def zipped(events: int | None = None) -> Fault:
    """Compress the body though nobody asked for it, and end it behind some ``events``."""

    async def fault(exchange: Exchange) -> None:
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        async with exchange.answer() as answer, aclosing(answer.events()) as all_events:
            await exchange.peer.head("200 OK", EVENT_STREAM, "Content-Encoding: gzip")
            number = 0
            async for event in all_events:
                packed = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
                await exchange.peer.chunk(packed)
                number += 1
                if number == events:
                    break
            else:
                await exchange.peer.chunk(packer.flush())
            await exchange.peer.chunk(b"")

    return fault


def labelled(kind: str | None) -> Fault:
    """Send the events as another type of content, or as none."""

    async def fault(exchange: Exchange) -> None:
        line = [] if kind is None else [f"Content-Type: {kind}"]
        async with exchange.answer() as answer:
            await exchange.peer.send(head("Transfer-Encoding: chunked", *line, kind=None))
            await _rest(exchange, answer)

    return fault


def counted(share: float) -> Fault:
    """Tell as the body's length a wrong ``share`` of it, then close."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            body = b"".join([piece async for piece in answer.body])
        await exchange.peer.send(head(f"Content-Length: {int(len(body) * share)}") + body)
        exchange.peer.half_close()

    return fault


# The reply is broken off, or something else comes in its middle


async def _begin(exchange: Exchange, answer: Answer) -> None:
    """Hand on the head and the first events of an answer."""
    await exchange.peer.head()
    async with aclosing(answer.events()) as events:
        for _ in range(SOME):
            await exchange.peer.chunk(await anext(events))


def then(data: bytes = b"", end: str = "half-close") -> Fault:
    """Break a reply off in its middle: send ``data`` as it is, then end in some way."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            await _begin(exchange, answer)
            await exchange.peer.send(data)
            await _end(exchange, end)

    return fault


def then_event(payload: Any) -> Fault:
    """Break a reply off in its middle with an event; a function makes it for the protocol."""

    async def fault(exchange: Exchange) -> None:
        event = payload(exchange.protocol) if callable(payload) else payload
        async with exchange.answer() as answer:
            await _begin(exchange, answer)
            await exchange.peer.event(event)
            await exchange.peer.chunk(b"")

    return fault


def ends_behind(share: float, end: str) -> Fault:
    """End in some way behind a ``share`` of the body's bytes."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            body = b"".join([piece async for piece in answer.body])
        await exchange.peer.head()
        await exchange.peer.chunk(body[: int(len(body) * share) or 1])
        await _end(exchange, end)

    return fault


async def without_its_end(exchange: Exchange) -> None:
    """Hand on everything but what says that the reply is over."""
    marks = {
        "openai": b'"finish_reason":"stop"',
        "openai-responses": b"response.completed",
        "anthropic": b"message_delta",
        "gemini": b"finishReason",
    }
    async with exchange.answer() as answer:
        await exchange.peer.head()
        async for event in answer.events():
            if marks[exchange.protocol] in event:
                break
            await exchange.peer.chunk(event)
        await exchange.peer.chunk(b"")


async def reset_at_the_end(exchange: Exchange) -> None:
    """Reset the connection behind the last event."""
    async with exchange.answer() as answer:
        await exchange.peer.head()
        async for event in answer.events():
            await exchange.peer.chunk(event)
    await _end(exchange, "reset")


async def silent_at_the_end(exchange: Exchange) -> None:
    """Never end the response behind the last event."""
    async with exchange.answer() as answer:
        await exchange.peer.head()
        async for event in answer.events():
            await exchange.peer.chunk(event)
    await _end(exchange, "wait")


def endless(piece: bytes) -> Fault:
    """Send ``piece`` again and again in the middle of a reply, until the client leaves."""

    async def fault(exchange: Exchange) -> None:
        async with exchange.answer() as answer:
            await _begin(exchange, answer)
            while True:
                await exchange.peer.chunk(piece)

    return fault


# There is no reply


def instead(status: str, body: Any, kind: str = "application/json", *headers: str) -> Fault:
    """Answer something else; a function makes the body for the protocol."""

    async def fault(exchange: Exchange) -> None:
        content = body(exchange.protocol) if callable(body) else body
        await exchange.peer.reply(content, status, kind, *headers)

    return fault


def raw(data: bytes, end: str = "half-close") -> Fault:
    """Answer bytes that are no answer."""

    async def fault(exchange: Exchange) -> None:
        await exchange.peer.send(data)
        await _end(exchange, end)

    return fault


def redirects(status: str, elsewhere: str) -> Fault:
    """Send the client on to another host."""

    async def fault(exchange: Exchange) -> None:
        location = f"Location: {elsewhere}{exchange.request.path}"
        await exchange.peer.reply(b"", status, "text/plain", location)

    return fault


def preceded(by: bytes) -> Fault:
    """Send something before the answer."""

    async def fault(exchange: Exchange) -> None:
        await exchange.peer.send(by)
        await handed_on(exchange)

    return fault


def endless_answer(status: str, kind: str, piece: bytes) -> Fault:
    """Answer something that never ends."""

    async def fault(exchange: Exchange) -> None:
        await exchange.peer.head(status, kind)
        while True:
            await exchange.peer.chunk(piece)

    return fault


def refusal(message: str, kind: str = "", code: int = 0) -> Callable[[Protocol], Any]:
    """Return what makes an error in each provider's shape."""

    def shaped(protocol: Protocol) -> Any:
        match protocol:
            case "anthropic":
                return {"type": "error", "error": {"type": kind, "message": message}}
            case "gemini":
                return {"error": {"code": code, "message": message, "status": kind.upper()}}
            case _:
                return {"error": {"message": message, "type": kind, "code": None}}

    return shaped


def overloaded(protocol: Protocol) -> Any:
    """Return the event by which each provider says in mid-stream that it cannot go on."""
    message = "The server is overloaded"
    match protocol:
        case "anthropic":
            return {"type": "error", "error": {"type": "overloaded_error", "message": message}}
        case "gemini":
            return {"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}}
        case "openai-responses":
            return {"type": "error", "code": "server_error", "message": message}
        case "openai":
            return {"error": {"message": message, "type": "server_error", "code": 503}}


async def _end(exchange: Exchange, how: str) -> None:
    match how:
        case "wait":
            await exchange.peer.wait_closed()
        case "half-close":
            exchange.peer.half_close()
            await exchange.peer.wait_closed()
        case "end":
            await exchange.peer.chunk(b"")
        case "reset":
            # A reset takes with it what the client has not read yet.
            await asyncio.sleep(0.2)
            exchange.peer.reset()


async def _rest(exchange: Exchange, answer: Answer) -> None:
    async for piece in answer.body:
        await exchange.peer.chunk(piece)
    await exchange.peer.chunk(b"")


def head(*headers: str, kind: str | None = EVENT_STREAM) -> bytes:
    lines = ["HTTP/1.1 200 OK", *([f"Content-Type: {kind}"] if kind else []), *headers, "", ""]
    return "\r\n".join(lines).encode()
