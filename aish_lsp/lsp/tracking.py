"""A part of a document followed through the edits of the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsprotocol import types

from aish_lsp.chat.place import Change, Position, lines_of


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a document, in the client's units. ``lost`` where nobody knows where it went."""

    start: Position
    end: Position
    lost: bool = False

    def after(self, change: Change, width: Callable[[str], int]) -> Span:
        """Return where it is after a change; ``width`` tells a text's length in those units.

        What is changed within it is taken for its own, and so is what is typed right before or
        behind it on its line. It is lost where all of the document is replaced, which says nothing
        of what became of its parts.
        """
        if change.start is None or change.end is None:
            return Span(self.start, self.end, lost=True)
        new = lines_of(change.text)
        goes_on = change.start == self.end and self.end.character > 0 and new[0]
        if change.start >= self.end and not goes_on:
            return self
        behind = Position(
            change.start.line + len(new) - 1,
            width(new[-1]) + (change.start.character if len(new) == 1 else 0),
        )
        start = self.start
        if change.end == start and new[-1]:
            start = change.start
        elif change.end <= start:
            start = _moved(start, change.end, behind)
        elif change.start < start:
            start = behind
        end = _moved(self.end, change.end, behind) if change.end <= self.end else behind
        return Span(start, max(start, end), self.lost)


def _moved(place: Position, before: Position, after: Position) -> Position:
    """Return where ``place`` is once what ended at ``before`` ends at ``after``."""
    if place.line != before.line:
        return Position(place.line - before.line + after.line, place.character)
    return Position(after.line, place.character - before.character + after.character)


def change_of(event: types.TextDocumentContentChangeEvent) -> Change:
    """Return a change as the client tells it."""
    if isinstance(event, types.TextDocumentContentChangePartial):
        start, end = event.range.start, event.range.end
        return Change(
            event.text,
            Position(start.line, start.character),
            Position(end.line, end.character),
        )
    return Change(event.text)
