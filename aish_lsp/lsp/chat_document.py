"""The chat document: a whole conversation in a file, for any client that can show one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types

from aish_lsp.chat.colon import ColonCommand, complete, parse
from aish_lsp.chat.commands import COLON_COMMANDS, Chat
from aish_lsp.chat.markdown import (
    AISH,
    YOU,
    OutputBlock,
    escape_reply,
    quote,
)
from aish_lsp.chat.place import Change, Place, Position, last_place, open_place, prompt_after
from aish_lsp.chat.transcript import SHOWN_OUTPUT, ReplyTranscript, run_status
from aish_lsp.errors import AishError, InvalidArgument
from aish_lsp.events import End, Output
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.lsp.editor import LspEditor
from aish_lsp.lsp.protocol import Target
from aish_lsp.turn import Ask

if TYPE_CHECKING:
    from aish_lsp.execution import RunReport
    from aish_lsp.job import Job
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.progress import Progress
    from aish_lsp.lsp.protocol import ChatParams
    from aish_lsp.server import AishServer
    from aish_lsp.turn import AskResult
    from aish_lsp.workspace import Workspace

R = TypeVar("R")

logger = logging.getLogger(__name__)


class ChatDocument:
    """The chat document of one workspace, and what is written into it."""

    def __init__(self, server: AishServer, workspace: Workspace) -> None:
        self._server = server
        self._workspace = workspace
        self._editor = LspEditor(server)
        self._writer = ChatWriter(workspace.folder, self._editor)
        self._place: Place | None = None
        self._section = asyncio.Lock()

    @property
    def uri(self) -> str:
        """The document's URI, as we spell it."""
        return self._writer.path.as_uri()

    def is_at(self, uri: str) -> bool:
        """Return whether ``uri`` is this document's."""
        document = self._editor.document(self._writer.path)
        return document is not None and document.uri == uri

    def heading(self) -> int | None:
        """Return the line of the heading that the user writes under, where there is one."""
        place = self._place
        if place is None and (document := self._editor.document(self._writer.path)) is not None:
            place = open_place(document.text)
        return None if place is None else place.line

    async def open(self, prompt: str | None = None) -> str:
        """Make the document, show it, and put ``prompt`` under its last heading; return its URI.

        Where it is open already, nothing is waited for: an editor that waits for the answer to a
        command makes no edit meanwhile.

        Raises:
            StoreUnavailable: it cannot be made, or what is there must not be used.
        """
        if self._editor.document(self._writer.path) is None:
            await self._ready()
        self._server.spawn(self._show(prompt), "show the chat document")
        return self.uri

    async def _show(self, prompt: str | None) -> None:
        try:
            await self._ready()
            if prompt:
                self._writer.begin(f"{prompt}\n")
                await self._writer.flush()
            self._place = last_place(await self._writer.text())
            await self._writer.show()
        except AishError as error:
            self._server.tell(error.message, error=True)

    async def ask(self, question: Ask) -> str:
        """Write a question down, begin its turn and follow it; return the turn's id.

        Raises:
            StoreUnavailable: the document cannot be made.
        """
        await self._ready()
        await self._writer.show()
        job = self._workspace.ask(question)
        self._follow(job, self._turn(job, question.prompt), "aish answers")
        return job.id

    async def send(self, prompt: str | None) -> str | None:
        """Send ``prompt``, or what stands under the last heading; return the turn's id.

        A ``:`` command is carried out, and begins no turn.

        Raises:
            InvalidArgument: nothing is written there.
            StoreUnavailable, NotFound: there is no document to read, or no heading in it.
        """
        await self._ready()
        message = prompt
        if message is None:
            message = prompt_after(await self._writer.text(), self._place)
        if not message.strip():
            raise InvalidArgument(
                f"Nothing is written under the last `{YOU}`. Write a question there and send it.",
                path="prompt",
            )
        written = message if prompt is not None else None
        command = parse(message)
        if command is not None:
            self._server.spawn(self._carry_out(command, written), f":{command.name}")
            return None
        job = self._workspace.ask(Ask(message))
        self._follow(job, self._turn(job, written), "aish answers")
        return job.id

    def follow_run(self, job: Job[RunReport]) -> None:
        """Show a command's output while it runs, above the heading that the user writes under."""
        self._follow(job, self._run(job), f"aish runs {job.label}")

    def follow_changes(self, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Keep the heading's place through the edits of the client."""
        for change in changes:
            if self._place is not None:
                self._place = self._place.shift(_change(change))

    async def aclose(self) -> None:
        """Wait until what is being written stands there, and write nothing more."""
        async with self._section:
            with suppress(AishError):
                await self._writer.flush()
        await self._writer.close()

    async def _ready(self) -> None:
        """Make the document, with a heading to write under.

        The last one may be answered: a server that was killed while it wrote left no other.
        """
        await self._writer.ensure()
        if self._place is not None or self._section.locked():
            return
        if open_place(await self._writer.text()) is None:
            self._writer.begin(f"{YOU}\n\n")
            await self._writer.flush()

    # What is written

    def _follow(self, job: Job[R], writing: Coroutine[Any, Any, None], title: str) -> None:
        progress = self._server.begin_progress(title, on_cancel=job.cancel)
        self._server.spawn(self._until_written(writing, job, progress), title)

    async def _until_written(
        self, writing: Coroutine[Any, Any, None], job: Job[R], progress: Progress
    ) -> None:
        try:
            await writing
        except AishError as error:
            # The document cannot be written: the user must hear of it some other way.
            self._server.tell(error.message, error=True)
        finally:
            job.stop_listening()
            progress.end()

    async def _turn(self, job: Job[AskResult], prompt: str | None) -> None:
        async with self._section:
            await self._write_prompt(prompt)
            self._begin_section()
            reply = ReplyTranscript(self._writer.append)
            try:
                async for event in job.events():
                    reply.take(event)
            except asyncio.CancelledError:
                # The server ends, and the chat goes on with the next one.
                reply.take(End("cancelled"))
                reply.finish()
                self._write_heading()
                raise
            reply.finish()
            try:
                await job.result()
            except AishError as error:
                self._writer.append(quote(error.message), apart=True)
            await self._close_section()

    async def _carry_out(self, command: ColonCommand, prompt: str | None) -> None:
        """Carry a ``:`` command out and write its answer, or the output of what it runs."""
        runs: list[Job[RunReport]] = []
        async with self._section:
            await self._write_prompt(prompt)
            self._begin_section()
            try:
                text = await COLON_COMMANDS.run(Chat(self._workspace, runs.append), command)
            except AishError as error:
                text = quote(error.message)
            except Exception as error:
                # The chat must not be left without a heading to write under.
                logger.exception(":%s failed", command.name)
                text = quote(f"aish itself failed ({type(error).__name__}); its log tells more.")
            if text:
                self._writer.append(escape_reply(text.rstrip() + "\n"))
            for job in runs:
                progress = self._server.begin_progress(
                    f"aish runs {job.label}", on_cancel=job.cancel
                )
                await self._until_written(self._output(job, self._writer.append), job, progress)
            await self._close_section()

    async def _write_prompt(self, prompt: str | None) -> None:
        """Write a message that does not stand in the document yet under a heading of its own."""
        if prompt is None:
            return
        try:
            draft = prompt_after(await self._writer.text(), self._place)
        except AishError:
            draft = ""
        if draft:
            self._writer.begin(f"{YOU}\n\n")
        self._writer.begin(escape_reply(prompt.rstrip() + "\n"))

    async def _run(self, job: Job[RunReport]) -> None:
        """Write a command's output above the heading that the user writes under."""
        await self._writer.ensure()
        async with self._section:
            await self._output(job, self._writer.insert)
            await self._writer.flush()
            self._place = last_place(await self._writer.text())

    async def _output(self, job: Job[RunReport], begin: Callable[[str], None]) -> None:
        """Write a command's output as it comes; ``begin`` writes its first piece."""
        block = OutputBlock(job.label)
        shown = 0
        async for event in job.events():
            if not isinstance(event, Output):
                continue
            if not shown:
                begin(block.open())
            if shown < SHOWN_OUTPUT:
                self._writer.append(block.feed(event.delta))
            shown += len(event.delta)
        try:
            report = await job.result()
        except AishError as error:
            begin(quote(error.message))
            return
        if report.finish_reason == "denied":
            begin(quote(self._denied(report)))
            return
        if not shown:
            begin(block.open())
        self._writer.append(block.close(run_status(report, shown)))

    def _denied(self, report: RunReport) -> str:
        if report.command_id in self._workspace.awaiting_approval:
            return (
                f"Not run: it needs your approval, and this editor could not ask.\n"
                f"`:approve {report.command_id}` runs it, once: {report.text}"
            )
        return f"Not run: {report.text}"

    def _begin_section(self) -> None:
        """Write our heading: what stands above it is answered, and is not read again."""
        self._place = None
        self._writer.begin(f"{AISH}\n\n")

    def _write_heading(self) -> None:
        """Write a new heading for the user, above what they may have typed below meanwhile."""
        self._writer.append(f"{YOU}\n\n", apart=True)

    async def _close_section(self) -> None:
        """Write a new heading, and keep its place."""
        self._write_heading()
        await self._writer.flush()
        self._place = last_place(await self._writer.text())


class ChatDocuments:
    """The chat documents of a client's workspaces."""

    def __init__(self, server: AishServer) -> None:
        self._server = server
        self._chats: dict[Workspace, ChatDocument] = {}

    def of(self, workspace: Workspace) -> ChatDocument:
        """Return the chat document of ``workspace``."""
        if workspace not in self._chats:
            self._chats[workspace] = ChatDocument(self._server, workspace)
        return self._chats[workspace]

    def at(self, uri: str) -> ChatDocument | None:
        """Return the chat document that ``uri`` is, if it is one, also of an earlier session."""
        if not uri.lower().endswith("/.aish/chat.md"):
            return None
        for chat in self._chats.values():
            if chat.is_at(uri):
                return chat
        chat = self.of(self._server.workspaces.resolve(Target(uri=uri)))
        return chat if chat.is_at(uri) else None

    def closed(self, workspace: Workspace) -> None:
        """Let go of the chat document of a workspace that closes."""
        chat = self._chats.pop(workspace, None)
        if chat is not None:
            self._server.spawn(chat.aclose(), "close a chat")

    async def aclose(self) -> None:
        """Finish all; the server is about to end."""
        await asyncio.gather(*(chat.aclose() for chat in self._chats.values()))


def setup(server: AishServer) -> None:
    """Bind the commands, follow the documents, complete the ``:`` commands."""

    async def open_chat(_call: Call, params: ChatParams) -> object:
        workspace = server.workspaces.resolve(params)
        return {"uri": await server.chats.of(workspace).open(params.prompt)}

    async def send(_call: Call, params: ChatParams) -> object:
        workspace = server.workspaces.resolve(params)
        return {"turnId": await server.chats.of(workspace).send(params.prompt)}

    def changed(uri: str, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        chat = server.chats.at(uri)
        if chat is not None:
            chat.follow_changes(changes)

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[":", " "])
    )
    def _complete(params: types.CompletionParams) -> list[types.CompletionItem]:
        return _completions(server, params)

    server.bind("aish.chat.open", open_chat)
    server.bind("aish.chat.send", send)
    server.documents.on_change(changed)
    server.workspaces.on_close(server.chats.closed)
    server.on_shutdown(server.chats.aclose)


def _completions(server: AishServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """Return the ``:`` commands that may stand at the cursor of a chat document."""
    uri, at = params.text_document.uri, params.position
    if server.chats.at(uri) is None:
        return []
    prefix = server.documents.prefix(uri, at)
    workspace = server.workspaces.of_document(uri)
    models = workspace.config.models if workspace else {}
    values = {"model": [*models, "offline"]}
    return [
        types.CompletionItem(
            label=item.label,
            kind=types.CompletionItemKind.Keyword,
            detail=item.detail,
            filter_text=item.insert,
            text_edit=types.TextEdit(
                types.Range(
                    types.Position(at.line, server.documents.width(prefix[: item.start])), at
                ),
                item.insert,
            ),
        )
        for item in complete(COLON_COMMANDS, prefix, values)
    ]


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Change(
            change.text,
            Position(start.line, start.character),
            Position(end.line, end.character),
        )
    return Change(change.text)
