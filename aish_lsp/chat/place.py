"""Where in the chat document the user writes: the place of the last ``## You`` that we wrote.

Only what follows that place is ever read as a message, so that no earlier text of the document can
speak for the user. Lines are those of LSP (LF, CRLF, CR), not those of ``str.splitlines``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aish_lsp.chat.markdown import AISH, YOU
from aish_lsp.foundation.errors import NotFound

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class Position(NamedTuple):
    """A place between two characters: line and character, from 0, in the client's units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the document as the client tells it: of a range, or (both None) of all of it."""

    text: str
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The line, from 0, of the heading that the user writes under."""

    line: int

    def shift(self, change: Change) -> Place:
        """Return where the heading is after ``change``.

        Where the change replaces the heading itself, that is the nearest heading in the new text,
        if it has one.
        """
        new = lines_of(change.text)
        if change.start is None or change.end is None:
            return self._nearest(_headings(new)) or self
        last_new = change.start.line + len(new) - 1
        if change.end <= Position(self.line, 0):
            return Place(self.line - change.end.line + last_new)
        if change.start >= Position(self.line, len(YOU)):
            return self
        whole_lines = 0 if change.start.character == 0 else 1
        inserted = (
            change.start.line + number for number in _headings(new) if number >= whole_lines
        )
        return self._nearest(inserted) or Place(last_new)

    def _nearest(self, lines: Iterable[int]) -> Place | None:
        """Return the place nearest to this one, of two the later."""
        nearest = min(lines, key=lambda line: (abs(line - self.line), -line), default=None)
        return None if nearest is None else Place(nearest)


def last_place(text: str) -> Place | None:
    """Return the place of the last ``## You`` of a document, if it has one."""
    headings = _headings(lines_of(text))
    return Place(headings[-1]) if headings else None


def open_place(text: str) -> Place | None:
    """Return the place of the last ``## You``, unless a reply follows it: that one is answered."""
    place = last_place(text)
    if place is None or AISH in (line.rstrip() for line in lines_of(text)[place.line :]):
        return None
    return place


def prompt_after(text: str, place: Place | None) -> str:
    r"""Return what the user wrote: all that follows the heading, without blank lines around it.

    Where the heading is not at its place (it was edited, or the place is not known), the last one
    of the document counts, unless a reply follows it: what was answered is not a new message.

    Args:
        text: the whole document.
        place: where the heading is, as far as is known.

    Returns:
        The message, its lines joined by ``\n``; empty where nothing is written.

    Raises:
        NotFound: there is no heading to write under.
    """
    lines = lines_of(text)
    if place is None or not _is_heading(lines, place.line):
        place = open_place(text)
        if place is None:
            raise NotFound(
                f"The chat has no open `{YOU}` heading. Write `{YOU}` on a line of its own at the"
                " end of .aish/chat.md, and your message below it. To start afresh, delete the"
                " file and run aish.chat.open."
            )
    return without_blank_lines("\n".join(lines[place.line + 1 :]))


def without_blank_lines(text: str) -> str:
    """Return ``text`` without blank lines around it, and without blanks at its end."""
    text = text.rstrip()
    blank = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, blank) + 1 :]


def lines_of(text: str) -> list[str]:
    """Return the lines of ``text`` as an LSP client counts them, without their breaks."""
    return _LINE_BREAK.split(text)


def _is_heading(lines: Sequence[str], number: int) -> bool:
    return number < len(lines) and lines[number].rstrip() == YOU


def _headings(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that are the user's heading."""
    return [number for number in range(len(lines)) if _is_heading(lines, number)]
