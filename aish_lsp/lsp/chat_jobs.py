"""What jobs write into a chat document: a reply, a command's output, or candidates to remember."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.events import Command, End, Notice, Output, Step, Tool
from aish_lsp.agent.turn import WAITS
from aish_lsp.chat.markdown import OutputBlock, quote
from aish_lsp.chat.transcript import ReplyTranscript, calls, run_status, runs, waits
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import escaped
from aish_lsp.operations.markdown import checklist

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.calls import Progress
    from aish_lsp.lsp.chat_sections import ChatSections
    from aish_lsp.lsp.chat_writer import ChatWriter
    from aish_lsp.operations.operation import Operation

#: The most characters of a command that are shown while it runs.
TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class ChatJobs:
    """Writes the events of jobs as they arrive; ``ready`` prepares the document for that."""

    server: BaseServer
    writer: ChatWriter
    sections: ChatSections
    ready: Callable[[], Awaitable[None]]
    _begun: set[str] = field(default_factory=set, init=False)
    _shown: dict[str, Progress] = field(default_factory=dict, init=False)

    def follow_turn(self, job: Job[AskResult], prompt: str | None) -> str:
        """Write a turn that has just started, after its ``prompt``; return the turn's id.

        The message counts as unanswered already.
        """
        title = "aish answers"
        self.server.spawn(self.until_written(job, self._turn(job, prompt), title), title)
        return job.id

    async def _turn(self, job: Job[AskResult], prompt: str | None) -> None:
        await self.ready_to_answer()
        waiting = "" if prompt is None else waits(job.id, escaped(prompt.strip())[:TITLE])
        async with self.sections.answer(prompt, waiting):
            await self.reply(job)

    async def ready_to_answer(self) -> None:
        """Prepare the document for an answer; the message counts as answered if that fails.

        Raises:
            StoreUnavailable: as ``ready``.
        """
        try:
            await self.ready()
        except BaseException:
            self.sections.unanswered -= 1
            raise

    def follow(self, operation: Operation, job: Job[Any]) -> None:
        """Write the output of a command, or what was found, above the open heading."""
        title = title_of(operation, job)
        self.server.spawn(self.until_written(job, self._above(operation, job), title), title)

    async def _above(self, operation: Operation, job: Job[Any]) -> None:
        found = await self.found(job) if operation.comes == "candidates" else None
        await self.ready()
        async with self.sections.lock:
            if found is None:
                await self.output(job, self.writer.insert)
            else:
                self.writer.insert(found)
            await self.sections.keep_heading()

    async def until_written(
        self, job: Job[Any], writing: Coroutine[Any, Any, None], title: str
    ) -> None:
        """Show progress, where the user can stop the job, until all of the job is written."""
        progress = self.server.begin_progress(title, on_cancel=job.cancel)
        self._shown[job.id] = progress
        try:
            async with progress.timed(lambda: job.id in self._begun):
                await writing
        except AishError as error:
            # The document cannot be written: say so in a message.
            self.server.tell(error.message, error=True)
        finally:
            job.stop_listening()
            progress.end()
            self._begun.discard(job.id)
            self._shown.pop(job.id, None)

    async def result(
        self, operation: Operation, job: Job[Any], begin: Callable[[str], None]
    ) -> None:
        """Write the result of a job of ``operation``, to its end; ``begin``: as for ``output``."""
        match operation.comes:
            case "output":
                await self.output(job, begin)
            case "candidates":
                begin(await self.found(job))
            case "reply":
                await self.reply(job)

    async def reply(self, job: Job[AskResult]) -> None:
        """Write a reply as it arrives, to its end."""
        self._begun.add(job.id)
        reply = ReplyTranscript(self.writer.append)
        calling = ""
        try:
            async for event in job.events():
                # The chat already shows this while the turn waits.
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
            # The server is shutting down; the next one continues the chat.
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
        """Wait for a search; return its notices and a checklist of what it found."""
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
        """Write a command's output as it arrives; ``begin`` writes its first piece."""
        block = OutputBlock(job.label)
        has_begun, notices = await self._shown_output(job, block, begin)
        try:
            report = await job.result()
        except AishError as error:
            if has_begun:
                self.writer.append(block.close(error.message))
            else:
                begin(quote(error.message))
            return
        if report.finish_reason == "denied":
            begin(quote("\n\n".join(notices) or f"Not run: {escaped(report.text)}"))
            return
        if not has_begun:
            begin(block.open())
        self.writer.append(block.finish())
        self.writer.append(block.close(run_status(report, block.left_out)))
        for message in notices:
            self.writer.append(quote(message), apart=True)

    async def _shown_output(
        self, job: Job[RunReport], block: OutputBlock, begin: Callable[[str], None]
    ) -> tuple[bool, list[str]]:
        """Write the output as it arrives, and a remark while the command runs.

        Return whether any output arrived, and the notices.
        """
        running = runs(job.id)
        has_begun = False
        notices: list[str] = []
        try:
            async for event in job.events():
                if isinstance(event, Notice):
                    notices.append(event.message)
                if not isinstance(event, Output):
                    continue
                if not has_begun:
                    # Until now the user was being asked: the command's time starts here.
                    self._begun.add(job.id)
                    has_begun = True
                    begin(block.open())
                    self.writer.remark(running)
                self.writer.append(block.feed(event.delta))
        except asyncio.CancelledError:
            # The server is shutting down, and the command with it.
            if has_begun:
                self.writer.append(block.close("stopped: the server has ended."))
            raise
        finally:
            if has_begun:
                self.writer.withdraw(running)
        return has_begun, notices


def title_of(operation: Operation, job: Job[Any]) -> str:
    """Return the title that is shown while a job of ``operation`` runs."""
    if operation.comes == "output":
        return f"aish runs {escaped(job.label)[:TITLE]}"
    return operation.title
