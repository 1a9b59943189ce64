"""What was asked about, followed through the user's edits until something takes its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from aish_lsp.chat.place import Position
from aish_lsp.context.attached.mentions import mentions
from aish_lsp.context.attached.selection import Document, Point, between, clamped
from aish_lsp.foundation.errors import AishError, NotFound
from aish_lsp.foundation.text import escaped, with_line_feeds
from aish_lsp.lsp.selected import Selected, path_in
from aish_lsp.lsp.tracking import Span, change_of
from aish_lsp.shell.fences import Block, fenced_blocks

if TYPE_CHECKING:
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.client import Client
    from aish_lsp.lsp.open_documents import OpenDocuments, OpenedDocument

#: Questions that are remembered.
_MOST: Final = 20

#: What is not a text to stand in a document: changes to one, and what was typed and printed.
_NO_TEXT: Final = ("diff", "patch", "console", "shell-session")


@dataclass(slots=True)
class Asked:
    """A question about a part of a document, and the blocks of its reply.

    Attributes:
        turn_id: the question's.
        uri: the document's, as the client spells it.
        name: what the document is called.
        span: where the part is now.
        text: what stood there, LF at its line ends.
        blocks: what may take its place; none until the reply is there.
    """

    turn_id: str
    uri: str
    name: str
    span: Span
    text: str
    blocks: tuple[Block, ...] = ()

    @property
    def place(self) -> str:
        """Where it is now, in words."""
        first, last = self.span.start.line + 1, self.span.end.line + 1
        last -= self.span.end.character == 0 and last > first
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        return f"{lines} of {escaped(self.name)}"


class Selections:
    """What the client has asked about lately, the last question first."""

    def __init__(self, client: Client, documents: OpenDocuments) -> None:
        self._client = client
        self._documents = documents
        self._asked: deque[Asked] = deque(maxlen=_MOST)

    def __iter__(self) -> Iterator[Asked]:
        return iter(self._asked)

    def follow(self, job: Job[AskResult], about: Selected) -> None:
        """Remember what a question, which has just begun, is about; read its reply at the end."""
        width = self._documents.width
        lines = about.document.lines
        start, end = (
            Position(point.line, width(lines[point.line][: point.character]))
            for point in (about.start, about.end)
        )
        text = between(lines, about.start, about.end)
        self._remember(job, Asked(job.id, about.uri, about.document.path, Span(start, end), text))

    def follow_again(self, job: Job[Any]) -> None:
        """Remember what a question is about that has just begun, where it is asked again."""
        before = next((asked for asked in self._asked if asked.turn_id == job.again), None)
        if before is not None:
            self._remember(job, replace(before, turn_id=job.id, blocks=()))

    def _remember(self, job: Job[AskResult], asked: Asked) -> None:
        self._asked.appendleft(asked)

        def ended() -> None:
            self._client.spawn(_read_reply(job, asked), "read a reply's blocks")

        job.on_end(ended)

    def changed(self, uri: str, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Follow the edits of a document."""
        for asked in self._asked:
            if asked.uri == uri:
                for change in changes:
                    asked.span = asked.span.after(change_of(change), self._documents.width)

    def of_turn(self, turn_id: str, number: int) -> tuple[Asked, Block]:
        """Return a question, and a block of its reply counted from 0.

        Raises:
            NotFound: there is no such question or block, or none any more.
        """
        for asked in self._asked:
            if asked.turn_id == turn_id and number < len(asked.blocks):
                return asked, asked.blocks[number]
        raise NotFound(
            "There is no such block. A reply has them once it is whole, where the question was"
            f" about a selection, and for the last {_MOST} of those."
        )

    def found(self, asked: Asked) -> tuple[OpenedDocument, Point, Point]:
        """Return the document as it is now, and where the selected text stands in it.

        Raises:
            NotFound: it is not open, or the text is another.
        """
        document = self._documents.opened(asked.uri)
        if document is None:
            raise NotFound(f"{escaped(asked.name)} is not open any more. Open it and try again.")
        lines = document.text.split("\n")
        start, end = (self._point(lines, at) for at in (asked.span.start, asked.span.end))
        if between(lines, start, end) == asked.text:
            return document, start, end
        if asked.span.lost and document.text.count(asked.text) == 1:
            # All of it was replaced, as by a formatter, and this is still there.
            before, text, _ = document.text.partition(asked.text)
            return document, _point_behind(before), _point_behind(before + text)
        # Short enough for one line of a screen: Neovim holds up what is longer.
        raise NotFound(f"The text in {asked.place} has changed since. Select it and ask again.")

    def _point(self, lines: Sequence[str], at: Position) -> Point:
        line = lines[at.line] if at.line < len(lines) else ""
        characters = self._documents.characters(line, at.character)
        return clamped(lines, Point(at.line, characters))


def named_lines(documents: OpenDocuments, workspace: Workspace, message: str) -> Selected | None:
    """Return the lines that a message names, if it names those of one open document alone."""
    root = workspace.root
    if root is None:
        return None
    found = [
        (reading, opened)
        for mention in mentions(message)
        for reading in mention.readings
        if reading.first and (opened := documents.of_file(root / reading.name))
    ]
    if len(found) != 1:
        return None
    [(named, editors)] = found
    document = Document(path_in(workspace, editors.uri), editors.text)
    lines = document.lines
    start, end = (clamped(lines, Point(line, 0)) for line in (named.first - 1, named.last))
    return Selected(editors.uri, (), start, end, document)


async def _read_reply(job: Job[AskResult], asked: Asked) -> None:
    """Keep the blocks of a reply that may take the place of what was asked about."""
    try:
        result = await job.result()
    except AishError:
        return
    # To a part of it a reply is not a substitute for all of it.
    if any(
        part.kind == "selection" and part.path == asked.name and not part.cut
        for part in result.attached
    ):
        found = fenced_blocks(with_line_feeds(result.text))
        asked.blocks = tuple(block for block in found if _is_text(block))


def _is_text(block: Block) -> bool:
    """Return whether a block may stand in a document."""
    language = block.info.partition(" ")[0].lower()
    suggests = any(line.startswith("CMD: ") for line in block.text.split("\n"))
    return bool(block.text.strip()) and language not in _NO_TEXT and not suggests


def _point_behind(text: str) -> Point:
    lines = text.split("\n")
    return Point(len(lines) - 1, len(lines[-1]))
