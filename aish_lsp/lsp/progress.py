"""The progress that an editor shows for work that takes long: begin, reports, end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Send: TypeAlias = Callable[[dict[str, Any]], None]


class Progress:
    """One progress. What is reported before it is open is shown once it is.

    ``send`` gets the values of ``$/progress``; ``closed`` is called at the end.
    """

    def __init__(
        self,
        title: str,
        send: Send | None,
        *,
        closed: Callable[[], object] | None = None,
    ) -> None:
        self._title = title
        self._send = send
        self._closed = closed
        self._message: str | None = None
        self._open = False
        self._ended = False

    @classmethod
    def silent(cls) -> Progress:
        """Return a progress that nobody sees."""
        return cls("", None)

    def open(self) -> None:
        """Show it: the client knows the token now."""
        if self._send is None or self._open:
            return
        self._open = True
        begin = {"kind": "begin", "title": self._title, "cancellable": True}
        self._send(begin | self._with_message())
        if self._ended:
            self._send({"kind": "end"})

    def report(self, message: str) -> None:
        """Show ``message``; after the end it is dropped."""
        if self._ended:
            return
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "report", "message": message})

    @asynccontextmanager
    async def timed(self, has_begun: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Report each second how long it takes, or that it waits, until the block is left."""

        async def tell() -> None:
            seconds = 0
            while True:
                await asyncio.sleep(1)
                seconds += has_begun()
                self.report(f"{seconds} s" if seconds else "waits")

        telling = asyncio.create_task(tell(), name="tell the time")
        try:
            yield
        finally:
            telling.cancel()

    def end(self, message: str | None = None) -> None:
        """Take it away, with a last ``message``; a second time does nothing."""
        if self._ended:
            return
        self._ended = True
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "end"} | self._with_message())
        if self._closed is not None:
            self._closed()

    def _with_message(self) -> dict[str, Any]:
        return {} if self._message is None else {"message": self._message}
