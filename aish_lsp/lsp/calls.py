"""A command's request while it is being answered, and the progress that an editor shows of it.

``Progress`` is what an editor shows during long work: its beginning, reports and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Send: TypeAlias = Callable[[dict[str, Any]], None]


class Call:
    """What a command's handler knows about the request that it answers.

    ``send`` sends a value under the client's token for progress, if it sent one; ``stop`` cancels
    the request's task.

    Attributes:
        cancelled: whether the client has asked to stop.
    """

    def __init__(self, send: Send | None, stop: Callable[[], object]) -> None:
        self.cancelled = False
        self._send = send
        self._stop = stop
        self._callbacks: list[Callable[[], object]] = []

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the client cancels, or at once if it already has.

        The handler then ends by itself, and its answer is sent. Without a callback the handler is
        cancelled, and the request is answered with RequestCancelled (-32800).
        """
        if self.cancelled:
            callback()
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """Stop the work, as the client asked; a second call does nothing."""
        if self.cancelled:
            return
        self.cancelled = True
        for stop in self._callbacks or [self._stop]:
            stop()

    def progress(self, title: str) -> Progress:
        """Begin progress under the client's ``workDoneToken``; silent if it sent none."""
        progress = Progress(title, self._send)
        progress.open()
        return progress

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress as ``progress`` does; call ``on_cancel`` when the client cancels."""
        self.on_cancel(on_cancel)
        return self.progress(title)


class Progress:
    """The progress of some work. What is reported before it is open is shown once it is.

    ``send`` takes the values of ``$/progress``, and is None if they are not shown; ``closed`` is
    called at the end.
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
        self._part = ""
        self._open = False
        self._ended = False

    def open(self) -> None:
        """Show the progress: the client knows its token now."""
        if self._send is None or self._open:
            return
        self._open = True
        begin = {"kind": "begin", "title": self._title, "cancellable": True}
        self._send(begin | self._with_message())
        if self._ended:
            self._send({"kind": "end"})

    def report(self, message: str) -> None:
        """Show ``message``, unless the progress has ended."""
        if self._ended:
            return
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "report", "message": message})

    def reach(self, part: str) -> None:
        """Show that the work has reached ``part``, which is shown before the time from now on."""
        self._part = f"{part}, "
        self.report(part)

    @asynccontextmanager
    async def timed(self, has_begun: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Report each second, until the block ends, the time so far, or that the work waits."""

        async def report_time() -> None:
            seconds = 0
            while True:
                await asyncio.sleep(1)
                seconds += has_begun()
                self.report(f"{self._part}{seconds} s" if seconds else "waits")

        reporting = asyncio.create_task(report_time(), name="report the time")
        try:
            yield
        finally:
            reporting.cancel()

    def end(self, message: str | None = None) -> None:
        """End the progress with a last ``message``; a second call does nothing."""
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
