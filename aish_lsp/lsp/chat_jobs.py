"""What comes of a job, written into the chat: a reply, a command's output, candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aish_lsp.agent.events import Command, End, Notice, Output, Step, Tool
from aish_lsp.agent.turn import WAITS
from aish_lsp.chat.markdown import OutputBlock, quote
from aish_lsp.chat.transcript import ReplyTranscript, calls, run_status, runs
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import escaped
from aish_lsp.operations.markdown import checklist

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.chat_writer import ChatWriter
    from aish_lsp.lsp.client import Client, Progress

R = TypeVar("R")

#: Characters of a command in what is shown while it runs.
TITLE: Final = 80


class ChatFace:
    """The chat, to an operation that was typed there."""

    def __init__(self, client: Client, text: Callable[[], Awaitable[str]]) -> None:
        self._client = client
        self._text = text
        self.told: list[str] = []

    def tell(self, message: str) -> None:
        """Keep ``message`` for the answer."""
        self.told.append(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job, which can be stopped where the client shows progress."""
        progress = self._client.begin_progress(title, on_cancel=job.cancel)
        try:
            async with progress.timed():
                return await job.result()
        finally:
            progress.end()

    async def chat_text(self) -> str:
        """Return what stands in the document."""
        return await self._text()


@dataclass(frozen=True, slots=True)
class JobWriter:
    """Writes the events of jobs as they come; where in the document is said by who calls it."""

    client: Client
    writer: ChatWriter
    _begun: set[str] = field(default_factory=set, init=False)
    _shown: dict[str, Progress] = field(default_factory=dict, init=False)

    async def until_written(
        self, job: Job[Any], writing: Coroutine[Any, Any, None], title: str
    ) -> None:
        """Show, until all of it is written, that a job runs or waits; it can be stopped there."""
        progress = self.client.begin_progress(title, on_cancel=job.cancel)
        self._shown[job.id] = progress
        try:
            async with progress.timed(lambda: job.id in self._begun):
                await writing
        except AishError as error:
            # The document cannot be written: the user must hear of it some other way.
            self.client.tell(error.message, error=True)
        finally:
            job.stop_listening()
            progress.end()
            self._begun.discard(job.id)
            self._shown.pop(job.id, None)

    async def reply(self, job: Job[AskResult]) -> None:
        """Write a reply as it comes, to its end."""
        self._begun.add(job.id)
        reply = ReplyTranscript(self.writer.append)
        calling = ""
        try:
            async for event in job.events():
                # That it waits is told while it does.
                if event == Notice("info", WAITS):
                    continue
                if calling and not isinstance(event, Command | Output):
                    self.writer.withdraw(calling)
                    calling = ""
                reply.take(event)
                if isinstance(event, Step) and job.id in self._shown:
                    self._shown[job.id].reach(f"step {event.number}")
                if isinstance(event, Tool | Step) and event.status == "running":
                    calling = calls(job.id, event) if isinstance(event, Tool) else runs(job.id)
                    self.writer.remark(calling)
        except asyncio.CancelledError:
            # The server ends, and the chat goes on with the next one.
            if calling:
                self.writer.withdraw(calling)
            reply.take(End("cancelled"))
            reply.finish()
            raise
        reply.finish()
        try:
            await job.result()
        except AishError as error:
            self.writer.append(quote(error.message), apart=True)

    async def found(self, job: Job[Extracted]) -> str:
        """Return what comes of a search, once it has ended: what was told, and a checklist."""
        self._begun.add(job.id)
        parts = [quote(event.message) async for event in job.events() if isinstance(event, Notice)]
        try:
            candidates = (await job.result()).candidates
        except AishError as error:
            parts.append(quote(error.message))
        else:
            parts += [f"{checklist(candidates)}\n"] if candidates else []
        return "\n".join(parts)

    async def output(self, job: Job[RunReport], begin: Callable[[str], None]) -> None:
        """Write a command's output as it comes; ``begin`` writes its first piece."""
        block = OutputBlock(job.label)
        has_begun, told = await self._shown_output(job, block, begin)
        try:
            report = await job.result()
        except AishError as error:
            begin(quote(error.message))
            return
        if report.finish_reason == "denied":
            begin(quote("\n\n".join(told) or f"Not run: {escaped(report.text)}"))
            return
        if not has_begun:
            begin(block.open())
        self.writer.append(block.finish())
        self.writer.append(block.close(run_status(report, block.left_out)))
        for message in told:
            self.writer.append(quote(message), apart=True)

    async def _shown_output(
        self, job: Job[RunReport], block: OutputBlock, begin: Callable[[str], None]
    ) -> tuple[bool, list[str]]:
        """Write the output as it comes, and while it does that the command runs.

        Return whether it began, and what was told.
        """
        running = runs(job.id)
        has_begun = False
        told: list[str] = []
        try:
            async for event in job.events():
                if isinstance(event, Notice):
                    told.append(event.message)
                if not isinstance(event, Output):
                    continue
                if not has_begun:
                    # What came before is the user's time: they were asked.
                    self._begun.add(job.id)
                    has_begun = True
                    begin(block.open())
                    self.writer.remark(running)
                self.writer.append(block.feed(event.delta))
        finally:
            if has_begun:
                self.writer.withdraw(running)
        return has_begun, told


def running_title(job: Job[RunReport]) -> str:
    """Return what is shown while a command runs."""
    return f"aish runs {escaped(job.label)[:TITLE]}"
