"""The parts of documents that were asked about, tracked through the user's edits.

``selected`` finds what ``uri``, ``range`` and ``diagnostics`` of a question mean: text in the
editor or in a file.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from lsprotocol import types

from aish_lsp.chat.markdown import Change, ClientPosition, lines_of
from aish_lsp.context.attached import LARGEST
from aish_lsp.context.mentions import mentions
from aish_lsp.context.messages import Attached
from aish_lsp.context.selection import (
    Point,
    SourceText,
    between,
    clamped,
    language_of,
    selection,
)
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.opening import read_head, real_name
from aish_lsp.foundation.text import escaped, one_line, with_line_feeds
from aish_lsp.foundation.uris import is_uri, path_of
from aish_lsp.shell.blocks import Block, fenced_blocks

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.open_documents import OpenDocument, OpenDocuments
    from aish_lsp.operations.ask import AskParams, Problem

#: Questions that are remembered.
_MOST: Final = 20

#: Languages of blocks that are not a document's text, but a change to it or a console session.
_NO_TEXT: Final = ("diff", "patch", "console", "shell-session")


@dataclass(slots=True)
class SelectionQuestion:
    """A question about a part of a document, and the blocks of its reply.

    Attributes:
        turn_id: the id of the question's turn.
        uri: the document's URI, as the client spells it.
        name: what the document is called.
        span: where the part is now.
        text: the text of the part when it was asked about, with LF line ends.
        blocks: what may replace it; none until the reply is complete.
    """

    turn_id: str
    uri: str
    name: str
    span: Span
    text: str
    blocks: tuple[Block, ...] = ()

    @property
    def place(self) -> str:
        """Where the part is now, in words."""
        first, last = self.span.start.line + 1, self.span.end.line + 1
        last -= self.span.end.character == 0 and last > first
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        return f"{lines} of {escaped(self.name)}"


class Selections:
    """What the client has asked about recently, the latest question first."""

    def __init__(self, server: BaseServer, documents: OpenDocuments) -> None:
        self._server = server
        self._documents = documents
        self._asked: deque[SelectionQuestion] = deque(maxlen=_MOST)

    def __iter__(self) -> Iterator[SelectionQuestion]:
        return iter(self._asked)

    def follow(self, job: Job[Any], about: Selected | None = None) -> None:
        """Remember what a question is about; read its reply once it is complete.

        A question that is asked again is about what it was about before, if that is known.
        """
        if about is None:
            before = next((asked for asked in self._asked if asked.turn_id == job.again), None)
            if before is not None:
                self._remember(job, replace(before, turn_id=job.id, blocks=()))
            return
        lines = about.document.lines
        ends = (self._documents.position(lines, point) for point in (about.start, about.end))
        start, end = (ClientPosition(at.line, at.character) for at in ends)
        text = between(lines, about.start, about.end)
        self._remember(
            job, SelectionQuestion(job.id, about.uri, about.document.path, Span(start, end), text)
        )

    def _remember(self, job: Job[AskResult], asked: SelectionQuestion) -> None:
        self._asked.appendleft(asked)

        def ended() -> None:
            self._server.spawn(_read_reply(job, asked), "read a reply's blocks")

        job.on_end(ended)

    def changed(self, uri: str, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Follow the edits of a document."""
        for asked in self._asked:
            if asked.uri == uri:
                for change in changes:
                    asked.span = asked.span.after(change_of(change), self._documents.width)

    def of_turn(self, turn_id: str, number: int) -> tuple[SelectionQuestion, Block]:
        """Return a question, and the block of its reply with this ``number``, from 0.

        Raises:
            NotFound: there is no such question or block any more.
        """
        for asked in self._asked:
            if asked.turn_id == turn_id and number < len(asked.blocks):
                return asked, asked.blocks[number]
        raise NotFound(
            "There is no such block. A reply has blocks once it is complete, if the question was"
            f" about a selection and is one of the last {_MOST} of those."
        )

    def found(self, asked: SelectionQuestion) -> tuple[OpenDocument, Point, Point]:
        """Return the document as it is now, and where the selected text is in it.

        Raises:
            NotFound: the document is not open, or the text has changed.
        """
        document = self._documents.opened(asked.uri)
        if document is None:
            raise NotFound(f"{escaped(asked.name)} is not open any more. Open it and try again.")
        lines = document.text.split("\n")
        points = (self._documents.point(lines, at) for at in (asked.span.start, asked.span.end))
        start, end = (clamped(lines, point) for point in points)
        if between(lines, start, end) == asked.text:
            return document, start, end
        if asked.span.lost and document.text.count(asked.text) == 1:
            # The whole document was replaced, e.g. by a formatter, and the text is still there.
            before, text, _ = document.text.partition(asked.text)
            return document, _end_of(before), _end_of(before + text)
        # Short enough for one line of a screen: after a longer message Neovim waits for a key.
        raise NotFound(f"The text in {asked.place} has changed since. Select it and ask again.")


def named_lines(documents: OpenDocuments, workspace: Workspace, message: str) -> Selected | None:
    """Return the lines that a message names, if they are in just one open document."""
    root = workspace.root
    if root is None:
        return None
    ranges = [
        (reading, opened)
        for mention in mentions(message)
        for _, reading in (*mention.longer(), *mention.readings())
        if reading.first and (opened := documents.document(root / reading.name))
    ]
    if len(ranges) != 1:
        return None
    [(named, shown)] = ranges
    document = SourceText(path_in(workspace, shown.uri), shown.text)
    lines = document.lines
    start, end = (clamped(lines, Point(line, 0)) for line in (named.first - 1, named.last))
    return Selected(shown.uri, (), start, end, document)


async def _read_reply(job: Job[AskResult], asked: SelectionQuestion) -> None:
    """Keep the blocks of a reply that may replace what was asked about."""
    try:
        result = await job.result()
    except AishError:
        return
    # If only a part of the selection was sent, the reply cannot replace the whole.
    if any(
        part.kind == "selection" and part.path == asked.name and not part.cut
        for part in result.attached
    ):
        blocks = fenced_blocks(with_line_feeds(result.text))
        asked.blocks = tuple(block for block in blocks if _is_text(block))


def _is_text(block: Block) -> bool:
    """Return whether a block may be a document's text."""
    language = block.info.partition(" ")[0].lower()
    suggests = any(line.startswith("CMD: ") for line in block.text.split("\n"))
    return bool(block.text.strip()) and language not in _NO_TEXT and not suggests


def _end_of(text: str) -> Point:
    lines = text.split("\n")
    return Point(len(lines) - 1, len(lines[-1]))


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a document, in the client's units; ``lost`` if its place is not known."""

    start: ClientPosition
    end: ClientPosition
    lost: bool = False

    def after(self, change: Change, width: Callable[[str], int]) -> Span:
        """Return where the part is after a change; ``width`` measures a text in those units.

        A change within the part belongs to it, and so does text typed on its line directly before
        or after it. The part is lost if the whole document is replaced, since that does not show
        what happened to its parts.
        """
        if change.start is None or change.end is None:
            return Span(self.start, self.end, lost=True)
        new = lines_of(change.text)
        goes_on = change.start == self.end and self.end.character > 0 and new[0]
        if change.start >= self.end and not goes_on:
            return self
        new_end = ClientPosition(
            change.start.line + len(new) - 1,
            width(new[-1]) + (change.start.character if len(new) == 1 else 0),
        )
        start = self.start
        if change.end == start and new[-1]:
            start = change.start
        elif change.end <= start:
            start = _moved(start, change.end, new_end)
        elif change.start < start:
            start = new_end
        end = _moved(self.end, change.end, new_end) if change.end <= self.end else new_end
        return Span(start, max(start, end), self.lost)


def _moved(place: ClientPosition, before: ClientPosition, after: ClientPosition) -> ClientPosition:
    """Return where ``place`` is once the text before it ends at ``after`` instead of ``before``."""
    if place.line != before.line:
        return ClientPosition(place.line - before.line + after.line, place.character)
    return ClientPosition(after.line, place.character - before.character + after.character)


def change_of(event: types.TextDocumentContentChangeEvent) -> Change:
    """Return the change that a client's event describes."""
    if isinstance(event, types.TextDocumentContentChangePartial):
        start, end = event.range.start, event.range.end
        return Change(
            event.text,
            ClientPosition(start.line, start.character),
            ClientPosition(end.line, end.character),
        )
    return Change(event.text)


#: The most problems that are sent with one question, and the most characters of each.
_MOST_PROBLEMS: Final = 20
_PROBLEM: Final = 1000

_SEVERITIES: Final = {1: "error", 2: "warning", 3: "information", 4: "hint"}


@dataclass(frozen=True, slots=True)
class Selected:
    """What is selected: the place in a document, and what is attached to the question."""

    uri: str
    attached: tuple[Attached, ...]
    start: Point
    end: Point
    document: SourceText


async def selected(
    documents: OpenDocuments, workspace: Workspace, params: AskParams
) -> Selected | None:
    """Return what a question's fields select; None if they name no range.

    Raises:
        InvalidArgument: there is no such document or place, or it contains only blanks.
    """
    if params.range is None:
        if params.diagnostics:
            raise InvalidArgument("Problems need the range that they are about.", path="range")
        return None
    if params.uri is None:
        raise InvalidArgument("A range needs the uri of its document.", path="uri")
    uri, document = await _document(documents, workspace, params.uri)
    lines = document.lines
    start, end = sorted(
        documents.point(lines, position) for position in (params.range.start, params.range.end)
    )
    if start.line >= len(lines):
        raise InvalidArgument(
            f"The range begins at line {start.line + 1}, but {document.path} has {len(lines)}.",
            path="range.start",
        )
    # In a thread: a document may be long, and other requests must not wait.
    attached = await asyncio.to_thread(selection, document, start, end)
    if not attached and not params.diagnostics:
        raise InvalidArgument(f"Only blank space is selected in {document.path}.", path="range")
    attached += _problems(document, params.diagnostics)
    return Selected(uri, tuple(attached), clamped(lines, start), clamped(lines, end), document)


def path_in(workspace: Workspace, uri: str) -> str:
    """Return the name of a document: its path in the workspace, or else its file name."""
    path = path_of(uri)
    if path is None:
        named = unquote(urlsplit(uri).path) if is_uri(uri) else ""
        return PurePosixPath(named).name or "a document"
    if workspace.root is not None and (inside := _inside(workspace.root, path)):
        return inside
    return path.name


def _inside(root: Path, path: Path) -> str:
    """Return a path relative to a folder, by the real paths of both; empty if it is outside."""
    try:
        return real_name(root, str(path))
    except (OSError, ValueError):
        return ""


async def _document(
    documents: OpenDocuments, workspace: Workspace, uri: str
) -> tuple[str, SourceText]:
    """Return the URI and the document as the editor has them, or else the workspace's file."""
    name = path_in(workspace, uri)
    path = path_of(uri)
    opened = documents.opened(uri)
    if opened is None and path is not None:
        opened = documents.document(path)
    if opened is not None:
        return opened.uri, SourceText(name, opened.text, opened.language or language_of(name))
    if path is None:
        raise InvalidArgument(f"{uri[:200]} is not open in the editor.", path="uri")
    root = workspace.root
    inside = await asyncio.to_thread(_inside, root, path) if root else ""
    if root is None or not inside:
        message = f"{name} is not open in the editor, and is not in the workspace."
        raise InvalidArgument(message, path="uri")
    head = await asyncio.to_thread(read_head, root, inside, LARGEST, secret=True)
    if head is None or not head[1]:
        why = "is binary or cannot be read" if head is None else f"is over {LARGEST >> 20} MiB"
        raise InvalidArgument(f"{name} is not open in the editor, and {why}.", path="uri")
    return uri, SourceText(name, with_line_feeds(head[0]), language_of(name))


def _problems(document: SourceText, problems: Sequence[Problem]) -> list[Attached]:
    """Return an editor's diagnostics, as one text."""
    if not problems:
        return []
    rows = [_problem(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        rows.append(f"[... {len(problems) - _MOST_PROBLEMS} more ...]")
    return [Attached("problems", document.path, "\n".join(rows))]


def _problem(problem: Problem) -> str:
    """Return a diagnostic on one line: ``line 3: error: no such name (pyflakes F821)``."""
    severity = _SEVERITIES.get(problem.severity or 0, "problem")
    source = " ".join(str(part) for part in (problem.source, problem.code) if part is not None)
    text = f"line {problem.range.start.line + 1}: {severity}: {one_line(problem.message)}"
    return f"{text[:_PROBLEM]}{f' ({one_line(source)[:100]})' if source else ''}"
