"""The sections of a chat document: the user's headings and ours, and what is written under them.

The result of a job is a reply, a command's output, or candidates to remember.

This module also knows whether we saw a message being typed. A chat may have come with its folder,
out of an archive or from another machine, with a command under its last heading that somebody else
wrote. Sending that looks the same. So what was there before the editor showed it does not count as
the user's, unless we saw it being typed in an earlier session: the hash of such a message is kept
in our data, not in the workspace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.events import Command, End, Notice, Output, Step, Tool
from aish_lsp.agent.turn import WAITS
from aish_lsp.chat.markdown import (
    AISH,
    YOU,
    OutputBlock,
    escape_reply,
    open_heading,
    prompt_after,
    quote,
)
from aish_lsp.chat.transcript import ReplyTranscript, calls, run_status, runs
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.foundation.files import read_file, write_atomic
from aish_lsp.foundation.text import escaped
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.operations.markdown import checklist

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.calls import Progress
    from aish_lsp.operations.operation import Operation


class ChatSections:
    """Where the open heading is that the user writes under, and whether a section is being written.

    Attributes:
        heading: the line of that heading; None if it is not known.
        lock: held while a section is being written.
        unanswered: how many messages were sent whose answer has no heading in the document yet.
        proposed: what ``put`` last put under the heading, as it is there.
    """

    def __init__(self, writer: ChatWriter) -> None:
        self._writer = writer
        self.heading: int | None = None
        self.lock = asyncio.Lock()
        self.unanswered = 0
        self.proposed = ""

    async def put(self, prompt: str) -> None:
        """Put ``prompt`` under the open heading, in place of one that was put there before.

        Raises:
            Busy: the user has an unsent message there.
            StoreUnavailable: the document cannot be read or written.
        """
        text = await self._writer.text()
        self.heading = open_heading(text)
        present = prompt_after(text, self.heading)
        if present in ("", self.proposed):
            self._writer.replace(present, prompt if present else f"{prompt}\n")
            await self._writer.flush()
            present = prompt_after(await self._writer.text(), self.heading)
        if present != prompt:
            raise Busy(
                f"You have an unsent message under the last `{YOU}`. Send it or delete it,"
                " then try again."
            )
        self.proposed = prompt

    def message(self, text: str) -> str:
        """Return what the user wrote.

        Raises:
            Busy: it is being sent already, or something is being written.
            NotFound: there is no heading to write under.
        """
        if self.unanswered:
            raise Busy("A message is being sent already. Wait for its reply.")
        if self.lock.locked() and self.heading is None and open_heading(text) is None:
            raise Busy(f"aish is still writing here. A new `{YOU}` follows: write below that.")
        return prompt_after(text, self.heading)

    async def _write_prompt(self, prompt: str) -> bool:
        """Write a message that is not in the document yet, under its own heading.

        If there is a draft under the open heading, the message goes above it: the draft is still
        the next one. Return whether there is.
        """
        message = escape_reply(prompt.rstrip() + "\n")
        try:
            draft = prompt_after(await self._writer.text(), self.heading)
        except AishError:
            message = f"{YOU}\n\n{message}"
            draft = ""
        if draft:
            self._writer.insert(f"{YOU}\n\n{message}")
        else:
            self._writer.begin(message)
        return bool(draft)

    @asynccontextmanager
    async def answer(self, prompt: str | None, waiting: str = "") -> AsyncIterator[None]:
        """Hold the document while an answer is written under our heading.

        Everything above that heading is answered, and is not read again. Below the answer comes a
        new heading for the user, above what they may have typed there in the meantime, unless a
        draft of theirs below already has one. ``prompt`` is a message that is not in the document
        yet. Until the document is free, it shows the remark ``waiting``.
        """
        waiting = waiting if self.lock.locked() else ""
        if waiting:
            self._writer.remark(waiting)
        try:
            await self.lock.acquire()
        finally:
            if waiting:
                self._writer.withdraw(waiting)
                await self._writer.settle()
        try:
            is_above = await self._begin(prompt)
            try:
                yield
            finally:
                if not is_above:
                    self._writer.append(f"{YOU}\n\n", apart=True)
            await self.keep_heading()
        finally:
            self.lock.release()

    async def _begin(self, prompt: str | None) -> bool:
        """Write our heading; return whether it is above a draft, which keeps the open one."""
        try:
            is_above = prompt is not None and await self._write_prompt(prompt)
            self.heading = None
            if is_above:
                self._writer.append(f"{AISH}\n\n", apart=True)
            else:
                self._writer.begin(f"{AISH}\n\n")
            await self._writer.settle()
        finally:
            self.unanswered -= 1
        return is_above

    async def keep_heading(self) -> None:
        """Wait until everything is written, and note the line of the open heading.

        There may be none, if a section was written again at the end, below the heading of a draft.
        """
        await self._writer.flush()
        self.heading = open_heading(await self._writer.text_as_written())
        if self.heading is None:
            self._writer.begin(f"{YOU}\n\n")
            await self._writer.flush()
            self.heading = open_heading(await self._writer.text_as_written())


logger = logging.getLogger(__name__)

_VERSION: Final = 1


class TypedMessage:
    """Follows the message under the open heading of one chat.

    ``path`` is the file in which it is remembered across restarts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # What was under the heading when the editor showed it; empty once all of it was deleted.
        self._found = ""

    def found(self, message: str) -> None:
        """Note what is there when an editor opens the chat."""
        self._found = message

    @property
    def follows(self) -> bool:
        """Whether ``changed`` is to be called: something was found that may not be the user's."""
        return bool(self._found)

    def changed(self, message: str) -> None:
        """Note what is there after an edit; once nothing is, all that follows is typed."""
        if not message:
            self._found = ""

    async def was_seen(self, message: str, *, is_open: bool) -> bool:
        """Return whether ``message`` was typed in an editor that we serve, now or before.

        Args:
            message: what is under the heading.
            is_open: whether an editor has the chat open, and so reports each edit.
        """
        if is_open and not self._found:
            return True
        known = await asyncio.to_thread(self._kept)
        if known != _digest(self._found if is_open else message):
            return False
        self._found = ""
        return True

    async def keep(self, message: str) -> None:
        """Remember ``message`` across restarts, if it was seen."""
        if message and await self.was_seen(message, is_open=True):
            try:
                await asyncio.to_thread(self._keep, message)
            except AishError as error:
                # The user is asked one more question, that is all.
                logger.info("the draft of the chat is not remembered: %s", error.message)

    def _keep(self, message: str) -> None:
        if (digest := _digest(message)) != self._kept():
            write_atomic(self._path, json.dumps({"version": _VERSION, "draft": digest}) + "\n")

    def _kept(self) -> str | None:
        """Return the hash of the message that was seen last; None if it is not known."""
        try:
            document: Any = json.loads(read_file(self._path))
        except (AishError, ValueError, RecursionError):
            return None
        known = isinstance(document, Mapping) and document.get("version") == _VERSION
        return document.get("draft") if known else None


def _digest(message: str) -> str:
    return hashlib.sha256(message.encode(errors="surrogatepass")).hexdigest()


#: The most characters of a command that are shown while it runs.
TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class JobWriter:
    """Writes the events of jobs as they arrive; the caller says where in the document."""

    server: BaseServer
    writer: ChatWriter
    _begun: set[str] = field(default_factory=set, init=False)
    _shown: dict[str, Progress] = field(default_factory=dict, init=False)

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
