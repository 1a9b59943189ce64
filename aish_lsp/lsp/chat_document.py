"""The chat document: a whole conversation in a file, for any client that can show one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lsprotocol import types

from aish_lsp.chat.colon import (
    ColonCommand,
    carry_out,
    parse,
)
from aish_lsp.chat.file import LARGEST, Claim
from aish_lsp.chat.markdown import (
    YOU,
    escape_reply,
    first_text,
    heading_after,
    heading_of,
    last_heading,
    prompt_after,
    quote,
    without_blank_lines,
)
from aish_lsp.chat.transcript import first_line
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.lsp.base_server import EditorFace
from aish_lsp.lsp.chat_jobs import ChatJobs, title_of
from aish_lsp.lsp.chat_sections import ChatSections, TypedMessage
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.lsp.selections import change_of, named_lines
from aish_lsp.operations.ask import AskParams
from aish_lsp.operations.dispatch import begin
from aish_lsp.operations.operation import Caller

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.chat.colon import Carried
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.selections import Selections
    from aish_lsp.operations.operation import Operation

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: Seconds between two checks whether an earlier message has been answered.
_RETRY: Final = 0.05


class ChatDocument:
    """The chat document of one workspace, and what is written into it."""

    def __init__(
        self,
        server: BaseServer,
        documents: OpenDocuments,
        selections: Selections,
        workspace: Workspace,
    ) -> None:
        self._server = server
        self._documents = documents
        self._selections = selections
        self._workspace = workspace
        # Of a folder that two editors have open, each has a chat: none writes into the other's.
        self._claim = Claim(workspace.folder, documents.has_open)
        self._writer = ChatWriter(workspace.folder, documents, self._claim.name)
        self._sections = ChatSections(self._writer)
        self._jobs = ChatJobs(server, self._writer, self._sections, self._ready)
        self._making = asyncio.Lock()
        self._has_begun = False
        self._typed = TypedMessage()

    @property
    def uri(self) -> str:
        """The document's URI, as we spell it."""
        return self._writer.path.as_uri()

    def is_at(self, uri: str) -> bool:
        """Return whether ``uri`` is this document's."""
        document = self._writer.document
        return document is not None and document.uri == uri

    def heading(self) -> int | None:
        """Return the line of the heading that the user writes under, if there is one."""
        text = self._shown_text()
        return None if text is None else heading_of(text, self._sections.heading)

    def _shown_text(self) -> str | None:
        """Return the document's text in the editor; None if it is not open or is too large."""
        document = self._writer.document
        return None if document is None or len(document.text) > LARGEST else document.text

    async def open(self, prompt: str | None = None) -> str:
        """Create the document, show it, and put ``prompt`` under its last heading; return its URI.

        The prompt replaces one that was put there before, but nothing that the user wrote: then a
        message says so. While a reply is being written, the prompt waits for its end.

        If the document is open already, this does not wait for any edit.

        Raises:
            StoreUnavailable: it cannot be created, or what is there must not be used.
        """
        await self._make()
        self._server.spawn(self._show(prompt), "show the chat document")
        return self.uri

    async def _make(self) -> None:
        """Create the document, with a heading to write under unless that takes an edit.

        An editor that waits for the answer to a command makes no edits until then. So if it has the
        document open, ``_ready`` is left to what is written after that answer.

        Raises:
            StoreUnavailable: it cannot be created, or what is there must not be used.
        """
        if self._writer.document is None:
            await self._ready()
        else:
            await self._writer.make()

    async def _show(self, prompt: str | None) -> None:
        try:
            await self._ready()
            if prompt and prompt.strip():
                await self._propose(without_blank_lines(prompt))
            await self._writer.show()
        except AishError as error:
            self._server.tell(error.message, error=True)

    async def _propose(self, prompt: str) -> None:
        """Put ``prompt`` under the open heading, once nothing else is being written.

        Raises:
            Busy: the user has an unsent message there.
            StoreUnavailable: the document cannot be read or written.
        """
        if self._sections.lock.locked():
            self._server.tell(
                "aish is still writing. The command will go below that, under a new `## You`."
            )
        while True:
            async with self._sections.lock:
                if not self._sections.unanswered:
                    await self._sections.put(prompt)
                    return
            # A message that was sent before is answered first. It waits for the same lock.
            await asyncio.sleep(_RETRY)

    async def text(self) -> str:
        """Return the text of the document.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        return await self._writer.text()

    async def prepare(self, *, show: bool) -> None:
        """If ``show``, create and show the document: something is about to be written there.

        Raises:
            StoreUnavailable: it cannot be created.
        """
        if show:
            await self._make()
            await self._writer.show()

    def follow(self, operation: Operation, job: Job[Any]) -> None:
        """Write the result of an operation that has just started, after its question.

        The reply to a question goes under a heading, anything else above the open heading.
        """
        if operation.comes == "reply":
            self._sections.unanswered += 1
            self._jobs.follow_turn(job, job.prompt)
        else:
            self._jobs.follow(operation, job)

    async def send(self, prompt: str | None) -> str | None:
        """Send ``prompt``, or what is under the last heading; return the turn's id.

        A ``:`` command is carried out without starting a turn.

        Raises:
            InvalidArgument: nothing is written there.
            Busy: it is being sent already, or something is being written.
            StoreUnavailable, NotFound: there is no document to read, or it has no heading.
        """
        await self._make()
        # A message sent while another session is about to be shown is meant for that session.
        await self._workspace.sessions.named(None)
        message = prompt
        if message is None:
            # No await from here on: a second request must not read the same message.
            message = self._message(await self._writer.text())
        is_open = self._writer.document is not None
        if not message.strip():
            raise InvalidArgument(
                f"Nothing is written under the last `{YOU}`. Write a question there and send it.",
                path="prompt",
            )
        written = message if prompt is not None else None
        draft = None if prompt is not None or message == self._sections.proposed else message
        self._sections.unanswered += 1
        command = parse(message)
        if command is not None:
            carrying = self._carry_out(command, written, draft, is_open=is_open)
            self._server.spawn(carrying, f":{command.name}")
            return None
        return await self._ask_message(message, written)

    def _message(self, text: str) -> str:
        """Return what the user wrote; if there is no heading for it, write one and return "".

        Raises:
            Busy, NotFound: as ``ChatSections.message``.
        """
        try:
            return self._sections.message(text)
        except NotFound:
            if self._sections.heading is not None and last_heading(text) is not None:
                raise
            self._server.spawn(self._show(None), "show the chat document")
            return ""

    async def _ask_message(self, message: str, written: str | None) -> str:
        """Start a message's turn, with ``written`` above it in the chat; return the turn's id.

        The message counts as unanswered already, since nothing else may read it meanwhile.
        """
        about = named_lines(self._documents, self._workspace, message)
        try:
            job = await begin("ask", AskParams(prompt=message), self._caller())
        except BaseException:
            self._sections.unanswered -= 1
            raise
        self._selections.follow(job, about)
        return self._jobs.follow_turn(job, written)

    def _caller(
        self, tell: Callable[[str], object] | None = None, *, is_typed: bool = True
    ) -> Caller:
        """Return who asks for what is written here; ``tell`` takes messages to the user."""
        face = EditorFace(self._server, tell or self._server.tell, self._writer.text)
        return Caller(self._workspace, self._workspace.shown, face, is_typed=is_typed)

    def follow_changes(self, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Follow the client's edits, to know where everything is.

        No changes mean that the client opened the document. It may contain anything then, even
        another heading on the line of ours.
        """
        made = [change_of(change) for change in changes]
        self._writer.changed(made)
        if not made or any(change.start is None for change in made):
            self._sections.heading = None
        for change in made:
            if self._sections.heading is not None:
                self._sections.heading = heading_after(self._sections.heading, change)
        if not made:
            self._typed.found(self._draft() or "")
        elif self._typed.follows and (draft := self._draft()) is not None:
            self._typed.changed(draft)

    def saved(self) -> None:
        """If the message that is now on disk was typed here, remember that."""
        self._typed.saved(self._draft() or "")

    def _draft(self) -> str | None:
        """Return what is under the open heading in the editor; None if there is no heading."""
        text = self._shown_text()
        with suppress(AishError):
            return None if text is None else prompt_after(text, self._sections.heading)
        return None

    def follow_closing(self) -> None:
        """Note that the client has closed the document, if it has."""
        if self._writer.document is None:
            self._writer.changed(())
            self._sections.heading = None

    async def aclose(self) -> None:
        """Finish what is being written, then write nothing more."""
        self._claim.release()
        async with self._sections.lock:
            with suppress(AishError):
                await self._writer.flush()
        await self._writer.close()

    async def _ready(self) -> None:
        """Create the document, with a heading to write under.

        The last heading may be answered already, if a server was killed while writing.
        """
        async with self._making:
            await self._writer.make()
            text = await self._writer.text()
            has_heading = self._sections.heading is not None and last_heading(text) is not None
            if has_heading or self._sections.lock.locked():
                return
            fresh, jobs = first_text(self._documents.capabilities.keys), self._workspace.shown.jobs
            is_cut_off = await self._sections.open(fresh, jobs, has_begun=self._has_begun)
            if not self._has_begun:
                self._has_begun = True
                # Do not wait for it: an editor that waits for us makes no edits. After a crash one
                # sentence is enough.
                if not is_cut_off and (line := await first_line(self._workspace)):
                    self._writer.remark(line)

    async def _carry_out(
        self, command: ColonCommand, prompt: str | None, draft: str | None, *, is_open: bool
    ) -> None:
        """Carry out a ``:`` command and write its answer, or the output of what it runs.

        ``draft`` is what was under the heading, which the user may not have put there; ``is_open``
        says whether an editor had the chat open.
        """
        try:
            await self._jobs.ready_to_answer()
        except AishError as error:
            self._server.tell(error.message, error=True)
            return
        is_typed = draft is None or self._typed.was_seen(draft, is_open=is_open)
        carried: Carried | None = None
        notices: list[str] = []
        async with self._sections.answer(prompt):
            try:
                carried = await carry_out(self._caller(notices.append, is_typed=is_typed), command)
                text = "\n\n".join(filter(None, [*notices, carried.text]))
            except AishError as error:
                text = "\n".join([*notices, quote(error.message)])
            except Exception as error:
                # The chat must not be left without a heading to write under.
                logger.exception(":%s failed", command.name)
                text = quote(f"aish itself failed ({type(error).__name__}); its log says more.")
            if text:
                self._writer.append(escape_reply(text.rstrip() + "\n"))
            if carried is not None and carried.job is not None:
                self._selections.follow(carried.job)
                job, operation = carried.job, carried.operation
                writing = self._jobs.result(operation, job, self._writer.append)
                await self._jobs.until_written(job, writing, title_of(operation, job))
