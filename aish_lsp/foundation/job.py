"""Jobs: work that emits events and returns a result, independently of its listener.

Turns, running commands and the autonomous loop are jobs. Each runs in a separate task, so that a
front end can be canceled, stall or disconnect without leaving the work half recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, Generic, TypeAlias, TypeVar, cast

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import End, Event, FinishReason

R = TypeVar("R")

logger = logging.getLogger(__name__)

Emit: TypeAlias = Callable[[Event], Awaitable[None]]

#: Characters of text and output that may be pending for a slow listener before the work waits.
PENDING_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """The result of work, how it ended, and the error that ended it, if any."""

    result: R
    finish: FinishReason = "stop"
    error: AishError | None = None


def ending(work: Callable[[Emit], Awaitable[Outcome[R]]]) -> Callable[[Emit], Awaitable[R]]:
    """Return the body of a job that does ``work`` and then emits the ``End`` event.

    Nothing else emits ``End``.
    """

    async def body(emit: Emit) -> R:
        try:
            outcome = await work(emit)
        except AishError as error:
            await emit(End("error", error.to_wire()))
            raise
        except Exception as error:
            logger.exception("a job failed")
            await emit(End("error", internal_error(error).to_wire()))
            raise
        wire_error = outcome.error.to_wire() if outcome.error else None
        await emit(End(outcome.finish, wire_error))
        return outcome.result

    return body


class Job(Generic[R]):
    """Work in a separate task, with a stream of events and a result.

    ``body`` is called with ``emit``. On ``cancel`` it gets a CancelledError where it waits; it
    should then record what it has and return its (partial) result.

    Attributes:
        id: the job's id.
        label: what it does, for a person.
        again: the id of the job that it repeats; empty if there is none.
        prompt: the question that it answers; empty if there is none.
    """

    def __init__(self, job_id: str, body: Callable[[Emit], Awaitable[R]], label: str = "") -> None:
        self.id = job_id
        self.label = label
        self.again = ""
        self.prompt = ""
        self._body = body
        self._pending: deque[Event] = deque()
        self._pending_characters = 0
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._listening = True
        self._has_reader = False
        self._has_waiter = False
        self._cancelled = False
        self._task: asyncio.Task[R] | None = None

    def start(self, ended: Callable[[], None] | None = None) -> Job[R]:
        """Start the work; return the job itself. ``ended`` is called when the work has ended."""
        assert self._task is None, "the job was started before"
        self._task = asyncio.create_task(self._run(), name=f"job {self.id}")
        self._task.add_done_callback(self._done)
        if ended is not None:
            self.on_end(ended)
        return self

    def on_end(self, ended: Callable[[], None]) -> None:
        """Call ``ended`` when the work, which has started, has ended."""
        assert self._task is not None, "the job was not started"
        self._task.add_done_callback(lambda _task: ended())

    def _done(self, task: asyncio.Task[R]) -> None:
        self._changed.set()
        if not task.cancelled():
            # Mark an error as retrieved: the last event has reported it.
            task.exception()

    async def _run(self) -> R:
        return await self._body(self._emit)

    async def _emit(self, event: Event) -> None:
        """Pass ``event`` to the listener; wait while more than PENDING_LIMIT is pending."""
        if not self._listening:
            return
        self._pending.append(event)
        self._pending_characters += len(_delta(event) or "")
        self._changed.set()
        while self._pending_characters > PENDING_LIMIT and self._waits_for_listener():
            self._drained.clear()
            await self._drained.wait()

    def _waits_for_listener(self) -> bool:
        """Return whether the work should wait for a listener that is behind.

        Not once it is canceled, since it should end now. Nor if somebody waits for the result and
        nobody reads the events, since nobody ever may.
        """
        return not self._cancelled and (self._has_reader or not self._has_waiter)

    def cancel(self) -> bool:
        """Stop the work, once; return whether it was still running."""
        if self._task is None or self._task.done():
            return False
        if self._cancelled:
            return True
        self._cancelled = True
        self._drained.set()
        # Not at once: a body that has not taken its first step yet must get a chance to record.
        self._task.get_loop().call_soon(self._task.cancel)
        return True

    @property
    def done(self) -> bool:
        """Whether the work has ended; events may still be pending."""
        return self._task is not None and self._task.done()

    async def result(self) -> R:
        """Wait for the work and return its result.

        Canceling the waiter does not cancel the work.

        Raises:
            Exception: whatever the work raised.
        """
        assert self._task is not None, "the job was not started"
        self._has_waiter = True
        self._drained.set()
        return await asyncio.shield(self._task)

    def stop_listening(self) -> None:
        """Drop pending and later events; the work continues."""
        self._listening = False
        self._pending.clear()
        self._pending_characters = 0
        self._drained.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield each event until the work ends; pending pieces of one text are joined.

        A job has only one listener. If it stops early, later events are dropped.
        """
        assert self._task is not None, "the job was not started"
        assert not self._has_reader, "a job has one listener"
        self._has_reader = True
        try:
            while True:
                while self._pending:
                    batch = self._pending
                    self._pending = deque()
                    self._pending_characters = 0
                    self._drained.set()
                    for event in _joined(batch):
                        yield event
                if self._task.done():
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            self.stop_listening()


async def run_uncancellable(work: Coroutine[Any, Any, R]) -> R:
    """Finish ``work`` even if the caller is canceled; a cancellation meanwhile is ignored."""
    task = asyncio.create_task(work, name="the end of a job")
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return await task


def internal_error(error: Exception) -> AishError:
    """Return the error that tells the user about an unexpected one."""
    name = type(error).__name__
    return AishError(f"aish itself failed ({name}), and its log says more. Ask again.")


def _joined(events: Iterable[Event]) -> Iterator[Event]:
    """Yield ``events`` with neighboring pieces of one text joined."""
    for piece, group in groupby(events, key=_without_delta):
        if piece is None:
            yield from group
        else:
            yield replace(piece, delta="".join(_delta(event) or "" for event in group))


def _delta(event: Event) -> str | None:
    """Return the text of ``event`` if it is a piece of a text, otherwise None."""
    return getattr(event, "delta", None)


def _without_delta(event: Event) -> Any:
    """Return what all pieces of a text have in common; None for an event that is not a piece."""
    return None if _delta(event) is None else replace(cast("Any", event), delta="")


class JobTable:
    """Starts jobs and tracks them until they end; ``changed`` is called at each start and end."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._jobs: dict[str, Job[Any]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return any(job.id == job_id and not job.done for job in self._jobs.values())

    @property
    def labels(self) -> list[str]:
        """The label of each job; empty for a turn."""
        return [job.label for job in self._jobs.values()]

    def start(
        self, job_id: str, work: Callable[[Emit], Awaitable[Outcome[R]]], label: str = ""
    ) -> Job[R]:
        """Start a job that does ``work`` and then emits ``End``."""
        job = Job(job_id, ending(work), label)
        self._jobs[job_id] = job

        def ended() -> None:
            # A command that is approved while the job that asked about it ends has the same id.
            if self._jobs.get(job_id) is job:
                del self._jobs[job_id]
            self._changed()

        job.start(ended)
        self._changed()
        return job

    def cancel(self, job_id: str | None = None) -> int:
        """Stop one job, or all; return how many were running."""
        if job_id is not None:
            job = self._jobs.get(job_id)
            return int(job is not None and job.cancel())
        return sum(job.cancel() for job in list(self._jobs.values()))

    async def stop(self) -> None:
        """Stop all jobs, and wait until each has recorded its results and ended."""
        jobs = list(self._jobs.values())
        self.cancel()
        await asyncio.gather(*(job.result() for job in jobs), return_exceptions=True)
