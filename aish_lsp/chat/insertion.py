"""Where in the chat document the next text comes, and what it needs around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from aish_lsp.chat.markdown import AISH
from aish_lsp.chat.place import lines_of, open_place, without_blank_lines

#: What is told of a section that is written anew.
LOST: Final = (
    "> The chat was changed while this was being written, and its place could not be found again."
    " Here is all of it.\n\n"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write; ``apart``: after a blank line.

    It goes on behind what was written last, to the end of the document, above its open heading, or
    in the place of ``standing``, where that and nothing else stands under the open heading. A
    remark stands above the open heading, too, until it is taken ``away`` again; what is written
    otherwise goes on as if it were not there.
    """

    text: str
    apart: bool
    goes: Literal["on", "to the end", "above", "in place", "remark", "away"]
    standing: str = ""

    @property
    def is_remark(self) -> bool:
        """Whether it is a remark, or takes one away."""
        return self.goes in ("remark", "away")


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


def compose(text: str, batch: list[Piece], place: int | None) -> Insertion:
    """Return ``batch`` as one insertion into ``text``.

    What goes on does so at ``place``, or at the end where that is None. What goes in the place of
    something that does not stand there any more goes nowhere: the insertion is empty.
    """
    goes = batch[0].goes
    offset, apart, removes = len(text), batch[0].apart, 0
    if goes == "in place":
        found = _standing(text, batch[0].standing)
        if found is None:
            return Insertion(len(text), "")
        if batch[0].standing:
            offset, apart, removes = found, False, len(batch[0].standing)
    elif goes == "away":
        return _without(text, batch[0].text)
    elif goes in ("above", "remark"):
        offset = _open_heading(text)
        # What is taken away again leaves no blank line behind at the end.
        apart &= goes == "above" or offset < len(text) or not text.endswith("\n")
    elif goes == "on" and place is not None:
        offset = place
    before = text[:offset][-2:]
    written = ""
    for piece in (replace(batch[0], apart=apart), *batch[1:]):
        if piece.apart:
            written += _blank_line(before + written)
        written += piece.text
    behind = ""
    if goes in ("above", "remark") and offset < len(text):
        # Never none: what goes on behind this must not come onto the heading's line.
        behind = _blank_line(before + written) or "\n"
    return Insertion(offset, written, behind, removes)


def anew(section: str) -> Piece:
    """Return all of a section of which nobody can tell any more where it goes on.

    A reply comes under a heading of its own at the end; what has none, such as an output, above the
    open one.
    """
    _, heading, reply = section.rpartition(f"{AISH}\n\n")
    text = f"{heading}{LOST}{reply.removeprefix(LOST)}"
    return Piece(text, apart=True, goes="to the end" if heading else "above")


def _without(text: str, remark: str) -> Insertion:
    """Return what takes ``remark``, whole lines, and the blank line behind it away.

    Nothing is, where it does not stand there exactly once: it is not only ours any more.
    """
    offset = f"\n{text}".find(f"\n{remark}")
    if offset < 0 or text.find(remark, offset + 1) >= 0:
        return Insertion(len(text), "")
    end = offset + len(remark)
    return Insertion(offset, "", removes=len(remark) + text.startswith("\n", end))


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
