"""The jobs that run in one workspace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from aish_lsp.foundation.job import Job, ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aish_lsp.foundation.job import Emit, Outcome

R = TypeVar("R")


class JobTable:
    """Starts jobs and knows them until they end; ``changed`` is called at both."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._jobs: dict[str, Job[Any]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    @property
    def labels(self) -> list[str]:
        """What each of them is, to a person; empty for a turn."""
        return [job.label for job in self._jobs.values()]

    def start(
        self, job_id: str, work: Callable[[Emit], Awaitable[Outcome[R]]], label: str = ""
    ) -> Job[R]:
        """Begin a job that does ``work``, and tells at last how that ended."""
        job = Job(job_id, ending(work), label)
        self._jobs[job_id] = job

        def ended() -> None:
            self._jobs.pop(job_id, None)
            self._changed()

        job.start(ended)
        self._changed()
        return job

    def cancel(self, job_id: str | None = None) -> int:
        """Stop one job, or all; return how many there were to stop."""
        if job_id is not None:
            job = self._jobs.get(job_id)
            return int(job is not None and job.cancel())
        return sum(job.cancel() for job in list(self._jobs.values()))

    async def stop(self) -> None:
        """Stop all jobs, and wait until each has recorded what it has and ended."""
        jobs = list(self._jobs.values())
        self.cancel()
        await asyncio.gather(*(job.result() for job in jobs), return_exceptions=True)
