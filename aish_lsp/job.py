"""A job: work that yields events and ends in a result, whoever listens and however slowly.

A turn, a command that runs and the autonomous loop are jobs. The work goes on in a task of its own,
so that a front end can be cancelled, stall or go away without the work being left half recorded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar

from aish_lsp.events import Event, Output, Reasoning, Text

R = TypeVar("R")

Emit: TypeAlias = Callable[[Event], Awaitable[None]]

#: Characters of text and output that may wait for a slow listener before the work waits for it too.
PENDING_LIMIT = 1 << 20


class Job(Generic[R]):
    """Work in a task of its own, with a stream of events and a result.

    ``body`` is called with ``emit``. On ``cancel`` it gets CancelledError where it waits; it is to
    record what it has and return its (partial) result.
    """

    def __init__(self, job_id: str, body: Callable[[Emit], Awaitable[R]]) -> None:
        self.id = job_id
        self._body = body
        self._pending: deque[Event] = deque()
        self._pending_characters = 0
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._listening = True
        self._cancelled = False
        self._task: asyncio.Task[R] | None = None

    def start(self) -> Job[R]:
        """Begin the work; return the job itself."""
        self._task = asyncio.create_task(self._run(), name=f"job {self.id}")
        return self

    async def _run(self) -> R:
        try:
            return await self._body(self._emit)
        finally:
            self._changed.set()

    async def _emit(self, event: Event) -> None:
        """Hand ``event`` to the listener; wait while more than PENDING_LIMIT is pending."""
        if not self._listening:
            return
        self._append(event)
        self._changed.set()
        if self._pending_characters > PENDING_LIMIT:
            self._drained.clear()
            await self._drained.wait()

    def _append(self, event: Event) -> None:
        """Queue ``event``, joined with the one before where both are pieces of one text."""
        if isinstance(event, Text | Reasoning | Output):
            self._pending_characters += len(event.delta)
        self._pending.append(event)

    def cancel(self) -> bool:
        """Stop the work, once; return whether there was any left to stop."""
        if self._task is None or self._task.done():
            return False
        if self._cancelled:
            return True
        self._cancelled = True
        # Not at once: a body that has not had its first step yet must get the chance to record.
        self._task.get_loop().call_soon(self._task.cancel)
        return True

    @property
    def done(self) -> bool:
        """Whether the work has ended; events may still be pending."""
        return self._task is not None and self._task.done()

    async def result(self) -> R:
        """Wait for the work and return its result.

        Cancelling the waiter does not cancel the work.

        Raises:
            Exception: whatever the work raised.
        """
        assert self._task is not None, "the job was not started"
        return await asyncio.shield(self._task)

    def stop_listening(self) -> None:
        """Drop pending events and all that follow; the work goes on."""
        self._listening = False
        self._pending.clear()
        self._pending_characters = 0
        self._drained.set()

    async def events(self) -> AsyncIterator[Event]:
        """Yield each event until the work ends. What piled up meanwhile comes joined."""
        assert self._task is not None, "the job was not started"
        while True:
            while self._pending:
                batch = _joined(self._pending)
                self._pending = deque()
                self._pending_characters = 0
                self._drained.set()
                for event in batch:
                    yield event
            if self._task.done():
                return
            self._changed.clear()
            if not self._pending and not self._task.done():
                await self._changed.wait()


def _joined(events: deque[Event]) -> list[Event]:
    """Return ``events`` with neighboring pieces of one text joined."""
    joined: list[Event] = []
    pieces: list[str] = []

    def flush() -> None:
        if pieces:
            last = joined[-1]
            assert isinstance(last, Text | Reasoning | Output)
            joined[-1] = replace(last, delta="".join(pieces))
            pieces.clear()

    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, Text | Reasoning | Output):
            if (
                pieces
                and type(event) is type(last)
                and (
                    not isinstance(event, Output)
                    or (isinstance(last, Output) and event.stream == last.stream)
                )
            ):
                pieces.append(event.delta)
                continue
            flush()
            pieces.append(event.delta)
        else:
            flush()
        joined.append(event)
    flush()
    return joined
