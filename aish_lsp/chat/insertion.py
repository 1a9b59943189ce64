"""Where in the chat document the next text comes, and what it needs around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from aish_lsp.chat.place import lines_of, open_place, without_blank_lines

#: Characters by which a place in the text is known again.
_TAIL: Final = 200

#: Of these as many as the user's own edits, which may be close above, have left as they were.
_KNOWN_BY: Final = (_TAIL, 100, 50, 25, 12)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write; ``apart``: after a blank line.

    It goes on behind what was written last, to the end of the document, above its open heading, or
    in the place of ``standing``, where that and nothing else stands under the open heading.
    """

    text: str
    apart: bool
    goes: Literal["on", "to the end", "above", "in place"]
    standing: str = ""


@dataclass(frozen=True, slots=True)
class Insertion:
    """What to put where in the document's text (its lines ended by LF).

    It takes the place of as many characters as ``removes``. What is written later goes on between
    ``text`` and ``behind``.
    """

    offset: int
    text: str
    behind: str = ""
    removes: int = 0

    def made_in(self, text: str) -> str:
        """Return ``text`` up to where this ends, once it is put there."""
        return text[: self.offset] + self.text + self.behind

    def whole_in(self, text: str) -> str:
        """Return ``text`` with this in it."""
        return self.made_in(text) + text[self.offset + self.removes :]

    def tail_in(self, text: str) -> str:
        """Return the end of what is written once this is put into ``text``."""
        return (text[max(0, self.offset - _TAIL) : self.offset] + self.text)[-_TAIL:]


def compose(text: str, tail: str, batch: list[Piece]) -> Insertion:
    """Return ``batch`` as one insertion into ``text``.

    What goes on does so right behind ``tail``, also in front of a line end that the editor put
    there by itself; where the user has deleted or changed that, at the end, apart. What goes in the
    place of something that does not stand there any more goes nowhere: the insertion is empty.
    """
    goes = batch[0].goes
    offset, apart, removes = len(text), batch[0].apart, 0
    if goes == "in place":
        found = _standing(text, batch[0].standing)
        if found is None:
            return Insertion(len(text), "")
        if batch[0].standing:
            offset, apart, removes = found, False, len(batch[0].standing)
    elif goes == "above":
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
    behind = ""
    if goes == "above" and offset < len(text):
        # Never none: what goes on behind this must not come onto the heading's line.
        behind = _blank_line(before + written) or "\n"
    return Insertion(offset, written, behind, removes)


def _behind(tail: str, text: str) -> int | None:
    """Return the place behind ``tail``, or behind the longest end of it that ``text`` holds."""
    for length in _KNOWN_BY:
        end = tail[-length:]
        found = text.rfind(end)
        if found >= 0:
            return found + len(end)
    return None


def _standing(text: str, standing: str) -> int | None:
    """Return where ``standing`` begins, if it is all that stands under the open heading."""
    place = open_place(text)
    if place is None:
        return None
    under = _line_start(text, place.line + 1)
    if without_blank_lines(text[under:]) != standing:
        return None
    return text.index(standing, under)


def _open_heading(text: str) -> int:
    """Return where the heading begins that the user writes under, else where ``text`` ends."""
    place = open_place(text)
    if place is None:
        return len(text)
    return _line_start(text, place.line)


def _line_start(text: str, number: int) -> int:
    """Return where a line begins; behind the last one, where ``text`` ends."""
    return min(len(text), sum(len(line) + 1 for line in lines_of(text)[:number]))


def _blank_line(before: str) -> str:
    """Return the line feeds that are lacking behind ``before`` for a blank line."""
    if not before:
        return ""
    return "\n" * (2 - len(before[-2:]) + len(before[-2:].rstrip("\n")))


def line_end_of(text: str) -> str:
    """Return the line end that ``text`` uses."""
    if "\r\n" in text:
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"
