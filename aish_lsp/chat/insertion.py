"""Where the next text goes in the chat document, what it needs around it, where the user writes.

The user writes below the last ``## You`` that we wrote. Only what follows it is ever read as a
message, so that no earlier text of the document can speak for the user. Lines end as LSP says (LF,
CRLF, CR), not as in ``str.splitlines``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from aish_lsp.chat.markdown import AISH, YOU
from aish_lsp.foundation.errors import NotFound

#: What a section begins with that is written again.
LOST: Final = (
    "> The chat was changed while this was being written, and its place could not be found again."
    " Here is all of it.\n\n"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write, and where it ``goes``; ``apart``: after a blank line.

    It goes on behind what was written last, to the end of the document, above its open heading, or
    in the place of ``standing``, if that and nothing else stands under the open heading. A remark
    stands above the open heading, too, until it is taken ``away`` again; other text goes on as if
    the remark were not there.
    """

    text: str
    apart: bool
    goes: Literal["on", "to the end", "above", "in place", "remark", "away"]
    standing: str = ""

    @property
    def is_remark(self) -> bool:
        """Whether it is a remark, or removes one."""
        return self.goes in ("remark", "away")


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: ``new`` replaces what stands from offset ``start`` to ``end``."""

    start: int
    end: int
    new: str

    def made_in(self, text: str) -> str:
        """Return ``text`` with this change."""
        return text[: self.start] + self.new + text[self.end :]

    def least(self, text: str) -> Edit:
        """Return the same change of ``text`` without what stays the same at its two ends."""
        old, new = text[self.start : self.end], self.new
        shared = _shared(old, new)
        old, new = old[shared:], new[shared:]
        kept = _shared(old[::-1], new[::-1])
        start = self.start + shared
        return Edit(start, start + len(old) - kept, new[: len(new) - kept])


#: What is inserted begins a section, continues it, or is a remark, which belongs to no section.
Part: TypeAlias = Literal["begins", "goes on", "remark"]


@dataclass(frozen=True, slots=True)
class Insertion:
    """What to insert into the document's text (with LF line ends), and at which ``offset``.

    It replaces ``removes`` characters there. What is written later goes on between ``text`` and
    ``behind``.
    """

    part: Part
    offset: int
    text: str
    behind: str = ""
    removes: int = 0

    @property
    def edit(self) -> Edit:
        """The change that it makes in that text."""
        return Edit(self.offset, self.offset + self.removes, self.text + self.behind)


def compose(text: str, batch: list[Piece], place: int | None) -> Insertion:
    """Return ``batch`` as one insertion into ``text``.

    What goes on does so at ``place``, or at the end if that is None. If the text to be replaced is
    not there any more, the insertion is empty.
    """
    goes = batch[0].goes
    part: Part = "remark" if batch[0].is_remark else "goes on" if goes == "on" else "begins"
    offset, apart, removes = len(text), batch[0].apart, 0
    if goes == "in place":
        found = _standing(text, batch[0].standing)
        if found is None:
            return Insertion(part, len(text), "")
        if batch[0].standing:
            offset, apart, removes = found, False, len(batch[0].standing)
    elif goes == "away":
        return _without(text, batch[0].text)
    elif goes in ("above", "remark"):
        offset = _open_heading(text)
        # A remark that is removed again must leave no blank line behind at the end.
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
        # Never empty: what goes on here must not come onto the heading's line.
        behind = _blank_line(before + written) or "\n"
    return Insertion(part, offset, written, behind, removes)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(number for number in range(most) if one[number] != other[number])


def anew(section: str) -> Piece:
    """Return all of a section whose place is lost, to be written again.

    A reply comes under a heading of its own at the end; a section without a heading, such as a
    command's output, comes above the open one.
    """
    _, heading, reply = section.rpartition(f"{AISH}\n\n")
    text = f"{heading}{LOST}{reply.removeprefix(LOST)}"
    return Piece(text, apart=True, goes="to the end" if heading else "above")


def _without(text: str, remark: str) -> Insertion:
    """Return what removes ``remark``, which is whole lines, and the blank line behind it.

    It removes nothing unless the remark stands there exactly once: else it is not only ours.
    """
    offset = f"\n{text}".find(f"\n{remark}")
    if offset < 0 or text.find(remark, offset + 1) >= 0:
        return Insertion("remark", len(text), "")
    end = offset + len(remark)
    return Insertion("remark", offset, "", removes=len(remark) + text.startswith("\n", end))


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
    """Return where the heading that the user writes under begins, else where ``text`` ends."""
    place = open_place(text)
    if place is None:
        return len(text)
    return _line_start(text, place.line)


def _line_start(text: str, number: int) -> int:
    """Return where a line begins; for one behind the last, where ``text`` ends."""
    return min(len(text), sum(len(line) + 1 for line in lines_of(text)[:number]))


def _blank_line(before: str) -> str:
    """Return the line feeds that are missing for a blank line behind ``before``."""
    if not before:
        return ""
    return "\n" * (2 - len(before[-2:]) + len(before[-2:].rstrip("\n")))


def line_end_of(text: str) -> str:
    """Return the line end that ``text`` uses."""
    if "\r\n" in text:
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"


_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class Position(NamedTuple):
    """A place between two characters: line and character, from 0, in the client's units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the document as the client tells it: of a range, or (both None) of everything."""

    text: str
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The line, from 0, of the heading that the user writes under."""

    line: int

    def shift(self, change: Change) -> Place:
        """Return where the heading is after ``change``.

        If the change replaces the heading itself, that is the nearest heading in the new text, if
        there is one.
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
        """Return the place nearest to this one; the later of two."""
        nearest = min(lines, key=lambda line: (abs(line - self.line), -line), default=None)
        return None if nearest is None else Place(nearest)


def last_place(text: str) -> Place | None:
    """Return the place of the last ``## You`` of a document, if it has one."""
    headings = _headings(lines_of(text))
    return Place(headings[-1]) if headings else None


def open_place(text: str) -> Place | None:
    """Return the place of the last ``## You``, unless a reply follows: then it is answered."""
    place = last_place(text)
    if place is None or AISH in (line.rstrip() for line in lines_of(text)[place.line :]):
        return None
    return place


def heading_of(text: str, place: Place | None) -> Place | None:
    """Return where the heading is that the user writes under, if there is one.

    If it is not at its ``place`` (it was edited, an editor has yet to load the file, or the place
    is not known), the last heading of the document counts, unless a reply follows it: what was
    answered is not a new message.
    """
    if place is not None and _is_heading(lines_of(text), place.line):
        return place
    return open_place(text)


def prompt_after(text: str, place: Place | None) -> str:
    r"""Return what the user wrote: all that follows the heading, without blank lines around it.

    Args:
        text: the whole document.
        place: where the heading is, as ``heading_of`` takes it.

    Returns:
        The message, its lines joined by ``\n``; empty if nothing is written there.

    Raises:
        NotFound: there is no heading to write under.
    """
    place = heading_of(text, place)
    if place is None:
        raise NotFound(
            f"The chat has no open `{YOU}` heading. Write `{YOU}` on a line of its own at the end"
            " of .aish/chat.md, and your message below it. To start afresh, delete the file and run"
            " aish.chat.open."
        )
    return without_blank_lines("\n".join(lines_of(text)[place.line + 1 :]))


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
