"""Asking the user through the editor: ``window/showMessageRequest``, where only a yes is a yes.

The client is also asked about the code (``aish/lookup``, which its other language servers answer),
and for what its terminal ran last (``aish/terminal``).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from contextlib import suppress
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lsprotocol import types

from aish_lsp.context.attached import LARGEST
from aish_lsp.context.selection import Point
from aish_lsp.foundation.diff import changed_lines
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.foundation.files import data_dir, private_dir, write_atomic
from aish_lsp.foundation.opening import read_regular
from aish_lsp.foundation.ports import (
    CALL,
    CALLING_SESSION,
    Approval,
    Choice,
    CodeLocation,
    Diff,
    LookUp,
    Lookup,
    Question,
    TerminalShown,
    UserAnswer,
)
from aish_lsp.foundation.text import shown_path, with_line_feeds
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import can, client_name, declares
from aish_lsp.lsp.protocol import ApprovalRequest, DiffShown, LookupRequest, TerminalRequest
from aish_lsp.operations.ask import Position
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from aish_lsp.foundation.ports import ReadTerminal
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.open_documents import OpenDocuments

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: The event to set before code in this context asks a question.
_ASKS: ContextVar[asyncio.Event | None] = ContextVar("asks", default=None)

#: Seconds that a question waits for its answer; no answer by then is a no.
_PATIENCE = 600.0

#: Seconds after which a file that shows the subject of a question is removed.
_MAX_AGE: Final = 86_400.0

#: Seconds that a question waits while it is not known whether the client shows questions at all:
#: ALE does not, and never answers.
_DOUBT: Final = 60.0

#: Seconds by which a question is delayed, so that the answer to the command that led to it is sent
#: first: eglot waits ten seconds for that answer, and would ask the user while it waits.
_DELAY = 0.05


class Questions:
    """Asks the user of a client.

    A client that does not declare that it shows buttons asks in its own way, as eglot does in the
    minibuffer, and may never report that the user has dismissed a question. The user's next command
    shows that they have.
    """

    def __init__(self, server: BaseServer, documents: OpenDocuments) -> None:
        self._server = server
        self._documents = documents
        # Seconds that a question without buttons waits for its answer.
        self._patience = _DOUBT
        self._open: set[asyncio.Task[Any]] = set()
        server.on_command.append(self._dismiss)

    async def ask_user(self, question: Question) -> UserAnswer:
        """Implement ``ports.AskUser``."""
        if question.approval is not None and declares(self._server, "approve"):
            return await self._approved(question, question.approval)
        answers = question.answers
        title = await self._ask(question.message, question.whole, tuple(answers))
        return answers.get(title) if title else None

    async def choose(self, choice: Choice) -> int | None:
        """Implement ``ports.Choose``.

        A client that does not declare that it shows buttons is not asked: there are other ways.
        """
        if not can_choose(self._server):
            return None
        title = await self._ask(choice.message, choice.whole, choice.options)
        return choice.options.index(title) if title in choice.options else None

    async def _approved(self, question: Question, approval: Approval) -> UserAnswer:
        """Ask with ``aish/approve``: only ``{approved: true}`` is a yes; None if unanswered."""
        diff = approval.diff
        remember = question.remember
        params = ApprovalRequest(
            id=new_id(),
            call_id=CALL.get(),
            session=CALLING_SESSION.get(),
            kind=approval.kind,
            text=approval.text,
            cwd=approval.cwd.as_uri(),
            risk=approval.risk,
            reasons=approval.reasons,
            diff=_diff_shown(diff) if diff else None,
            undo=approval.undo,
            covers=approval.covers,
            remember=tuple(remember),
            labels=(question.no, question.yes, *remember.values()),
        )
        await asyncio.sleep(_DELAY)
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await self._server.protocol.send_request_async("aish/approve", params)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, it was not approved
            logger.info("the client could not ask the user: %s", type(error).__name__)
            return None
        if _field(answer, "approved") is not True:
            return False
        wanted = _field(answer, "remember")
        return next((scope for scope in remember if scope == wanted), True)

    async def _ask(self, message: str, whole: str, titles: Sequence[str]) -> str | None:
        """Return the title that the user chose, as the client sent it; None for no answer."""
        if whole:
            message += await self._shown_whole(whole)
        # The last one does nothing. Many clients choose the first one if the user only confirms,
        # but vim-lsp sends no other: all that follow it count as no answer there.
        if client_name(self._server) != "vim-lsp":
            titles = (*titles[-1:], *titles[:-1])
        actions = [types.MessageActionItem(title) for title in titles]
        params = types.ShowMessageRequestParams(types.MessageType.Warning, message, actions)
        if (asks := _ASKS.get()) is not None:
            asks.set()
        await asyncio.sleep(_DELAY)
        has_buttons = can_choose(self._server)
        patience = _PATIENCE if has_buttons else self._patience
        asking = self._server.window_show_message_request_async(params)
        if not has_buttons:
            # With buttons, the user may do something else and return to them.
            asking = self._unless_dismissed(asking)
        answer = await self._server.answer_of(asking, patience)
        return answer.title if answer else None

    async def _unless_dismissed(self, asking: Coroutine[Any, Any, R]) -> R:
        """Return the client's answer, unless the user dismisses the question.

        Raises:
            TimeoutError: the user has dismissed the question.
            Exception: what ``asking`` raises.
        """
        task = asyncio.create_task(asking)
        self._open.add(task)
        try:
            answer = await task
        except asyncio.CancelledError:
            if task in self._open:
                raise
            raise TimeoutError from None
        finally:
            self._open.discard(task)
        self._patience = _PATIENCE
        return answer

    def _dismiss(self, command: str) -> None:
        """End the open questions without an answer, since the client sends a ``command``.

        ``aish.cancel`` does not end them: it stops the work that asks.
        """
        if command == "aish.cancel":
            return
        for task in list(self._open):
            self._open.discard(task)
            task.cancel()

    async def _shown_whole(self, text: str) -> str:
        """Show ``text`` in a document beside the question; return what to add to the question."""
        # The document is in our data folder: in the workspace it could be changed before the user
        # reads it. Each text has its own file, since two editors may ask at the same time.
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
        path = data_dir() / "asked" / f"{digest}.txt"
        try:
            await asyncio.to_thread(_write_asked, path, text)
        except AishError as error:
            logger.info("the whole text of a question could not be written: %s", error.message)
            return ""
        if self._documents.capabilities.show_document:
            self._documents.show(path, 0)
        return f"\n\nIt is cut off here. The whole text is in {shown_path(path)}"


def _diff_shown(diff: Diff) -> DiffShown:
    lines = tuple(changed_lines(diff.before, diff.after))
    return DiffShown(diff.path.as_uri(), diff.before, diff.after, lines)


def can_choose(server: BaseServer) -> bool:
    """Return whether the client declares that it shows questions with buttons."""
    return can(server, "window.show_message.message_action_item")


async def answer_before_asking(
    server: BaseServer, work: Awaitable[R], described: Callable[[R], str]
) -> R:
    """Return the result of the work for a command, unless the user has to be asked first.

    A client that does not declare buttons may read no question until the command is answered, like
    eglot, or give up on the command, like Helix after 20 seconds. Such a client gets the question
    after the answer, and then a message: the text that ``described`` returns for the result.

    Raises:
        Busy: the user is being asked.
    """
    if can_choose(server):
        return await work
    asks, context = asyncio.Event(), copy_context()
    context.run(_ASKS.set, asks)
    task = asyncio.create_task(_awaited(work), name="what may ask", context=context)
    asked = asyncio.create_task(asks.wait())
    try:
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        asked.cancel()
    if task.done():
        return task.result()
    server.spawn(_tell_later(server, task, described), "show the result of a question")
    raise Busy("aish asks you first. A message then shows the result.")


async def _awaited(work: Awaitable[R]) -> R:
    return await work


async def _tell_later(
    server: BaseServer, task: asyncio.Task[R], described: Callable[[R], str]
) -> None:
    """Show the user the result of a command that has been answered already."""
    try:
        message = described(await task)
    except AishError as error:
        server.tell(error.message, error=True)
    else:
        if message:
            server.tell(message)


def _write_asked(path: Path, text: str) -> None:
    """Write ``text``, which a question is about, and remove the texts of old questions.

    Raises:
        AishError: the text cannot be written.
    """
    private_dir(path.parent)
    for old in path.parent.glob("*.txt"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _MAX_AGE:
                old.unlink()
    write_atomic(path, text)


#: Seconds within which a client must answer: a language server may have to start first.
_LOOKUP_PATIENCE: Final = 20.0


class ClientLookUp(LookUp):
    """Implements ``ports.LookUp`` over the client."""

    def __init__(self, server: BaseServer, documents: OpenDocuments) -> None:
        self._server = server
        self._documents = documents

    def is_offered(self) -> bool:
        """Return whether the client declared ``initializationOptions.aish.lookup``."""
        return declares(self._server, "lookup")

    async def __call__(self, lookup: Lookup, /) -> list[CodeLocation] | None:
        """Return what the client found; None if it does not know, or its answer is malformed."""
        uri = lookup.path.as_uri() if lookup.path else None
        position = None
        if lookup.what == "definition" and lookup.path is not None:
            position = self._position(lookup.path, Point(lookup.line, lookup.character))
        params = LookupRequest(lookup.what, uri, lookup.query, position)
        asking = self._server.protocol.send_request_async("aish/lookup", params)
        return _found(await self._server.answer_of(asking, _LOOKUP_PATIENCE))

    def _position(self, path: Path, point: Point) -> Position:
        """Return a place in the client's units, in the file as it is in the client or on disk."""
        document = self._documents.document(path)
        # It was a regular file a moment ago; a pipe in its place must not be waited for.
        held = None if document else read_regular(path, LARGEST)
        text = document.text if document else (held or b"").decode(errors="replace")
        at = self._documents.position(with_line_feeds(text).split("\n"), point)
        return Position(line=at.line, character=at.character)


def _found(answer: object) -> list[CodeLocation] | None:
    """Return the items of a client's answer; None if the answer is malformed.

    A malformed item is left out: the rest is still useful.
    """
    items = _field(answer, "items")
    if not isinstance(items, list):
        return None
    matches = []
    for item in items:
        uri, line, text = (_field(item, name) for name in ("uri", "line", "text"))
        path = path_of(uri) if isinstance(uri, str) else None
        if path is not None and isinstance(line, int) and line >= 0 and isinstance(text, str):
            # Its real path shows whether it is in the workspace.
            matches.append(CodeLocation(Path(os.path.realpath(path)), line, text))
    return matches


def _field(value: object, name: str) -> Any:
    """Return a field of a JSON object, or of LSP's type for it; None if it is missing."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


#: Seconds within which a client must read its terminal.
_TERMINAL_PATIENCE: Final = 10.0


def terminal_reader(server: BaseServer) -> ReadTerminal:
    """Return a function that asks what the client's terminal ran last."""

    async def read() -> TerminalShown | None:
        if not declares(server, "terminal"):
            return None
        asking = server.protocol.send_request_async("aish/terminal", TerminalRequest())
        answer = await server.answer_of(asking, _TERMINAL_PATIENCE)
        names = ("command", "output", "cwd", "exitCode")
        command, output, cwd, code = (_field(answer, name) for name in names)
        if not (isinstance(command, str) and isinstance(output, str)):
            return None
        is_code = isinstance(code, int) and not isinstance(code, bool)
        folder = cwd if isinstance(cwd, str) else ""
        return TerminalShown(output, command, folder, code if is_code else None)

    return read
