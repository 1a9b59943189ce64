"""Where in the chat document the next text comes, and what it needs around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from aish_lsp.chat.place import lines_of, open_place

#: Characters by which a place in the text is known again.
_TAIL: Final = 200

#: Of these as many as the user's own edits, which may be close above, have left as they were.
_KNOWN_BY: Final = (_TAIL, 100, 50, 25, 12)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write; ``apart``: after a blank line.

    It goes on behind what was written last, to the end of the document, or above its open heading.
    """

    text: str
    apart: bool
    goes: Literal["on", "to the end", "above"]


@dataclass(frozen=True, slots=True)
class Insertion:
    """What to put where in the document's text (its lines ended by LF).

    What is written later goes on between ``text`` and ``behind``.
    """

    offset: int
    text: str
    behind: str = ""

    def made_in(self, text: str) -> str:
        """Return ``text`` up to where this ends, once it is put there."""
        return text[: self.offset] + self.text + self.behind

    def tail_in(self, text: str) -> str:
        """Return the end of what is written once this is put into ``text``."""
        return (text[max(0, self.offset - _TAIL) : self.offset] + self.text)[-_TAIL:]


def compose(text: str, tail: str, batch: list[Piece]) -> Insertion:
    """Return ``batch`` as one insertion into ``text``.

    What goes on does so right behind ``tail``, also in front of a line end that the editor put
    there by itself; where the user has deleted or changed that, at the end, apart.
    """
    goes = batch[0].goes
    offset, apart = len(text), batch[0].apart
    if goes == "above":
        offset = _open_heading(text)
    elif goes == "on" and tail:
        found = _behind(tail, text)
        offset, apart = (offset, True) if found is None else (found, apart)
    before = text[max(0, offset - _TAIL) : offset]
    written = ""
    for piece in (replace(batch[0], apart=apart), *batch[1:]):
        if piece.apart:
            written += _blank_line(before + written)
        written += piece.text
    stands_above = goes == "above" and offset < len(text)
    return Insertion(offset, written, _blank_line(before + written) if stands_above else "")


def _behind(tail: str, text: str) -> int | None:
    """Return the place behind ``tail``, or behind the longest end of it that ``text`` holds."""
    for length in _KNOWN_BY:
        end = tail[-length:]
        found = text.rfind(end)
        if found >= 0:
            return found + len(end)
    return None


def _open_heading(text: str) -> int:
    """Return where the heading begins that the user writes under, else where ``text`` ends."""
    place = open_place(text)
    if place is None:
        return len(text)
    return sum(len(line) + 1 for line in lines_of(text)[: place.line])


def _blank_line(before: str) -> str:
    """Return the line feeds that are lacking behind ``before`` for a blank line."""
    if not before:
        return ""
    return "\n" * (2 - len(before[-2:]) + len(before[-2:].rstrip("\n")))


def line_end_of(text: str) -> str:
    """Return the line end that ``text`` uses."""
    return "\r\n" if "\r\n" in text else "\n"
