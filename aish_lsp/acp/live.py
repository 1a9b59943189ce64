"""What a command prints, for a client: its head while it runs, its tail at the end, each once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aish_lsp.foundation.text import well_formed
from aish_lsp.shell.output import KeptOutput

#: Bytes of messages for the head of an output, with what surrounds each update, and for its tail.
_HEAD: Final = 40 << 10
_AROUND: Final = 300
_TAIL: Final = 20 << 10
#: Bytes of the tail itself, which may have more in a message.
_KEPT: Final = 16 << 10

#: Seconds between two updates, at least; and as a part of how long the command has run.
_PAUSE: Final = 0.1
_PART: Final = 0.05


class LiveOutput:
    """The output of one command.

    Args:
        send: is called with each piece of the head; None for a client that takes no pieces.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]] | None) -> None:
        self._send = send
        self._left = _HEAD
        self._head = ""
        self._rest = KeptOutput(0, _KEPT)
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()
        self._ended = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def add(self, text: str) -> None:
        """Take a piece of the output."""
        if self._left > 0 and text:
            head = fitting(text, self._left)
            text = text[len(head) :]
            self._head += head
            self._left = 0 if text else self._left - wire_size(head)
            if self._send is not None and (self._sending is None or self._sending.done()):
                self._sending = asyncio.create_task(self._stream(self._send))
        self._rest.add(text)

    async def _stream(self, send: Callable[[str], Awaitable[None]]) -> None:
        while self._head:
            piece, self._head = self._head, ""
            self._left -= _AROUND
            await send(piece)
            with suppress(TimeoutError):
                pause = max(_PAUSE, (self._clock() - self._begun) * _PART)
                await asyncio.wait_for(self._ended.wait(), pause)

    async def end(self) -> str:
        """Return what was not sent."""
        self._ended.set()
        if self._sending is not None:
            await self._sending
        return self._head + fitting(self._rest.text()[0], _TAIL, of_end=True)


def wire_size(text: str) -> int:
    """Return the bytes of a text in a message."""
    return len(json.dumps(well_formed(text), ensure_ascii=False).encode())


def fitting(text: str, most: int, *, of_end: bool = False) -> str:
    """Return the beginning, or the end, of a text that has ``most`` bytes in a message."""
    while (size := wire_size(text)) > most:
        length = max(len(text) * most // size, 1)
        text = text[-length:] if of_end else text[:length]
        if length == 1:
            break
    return text
