"""Where the next text goes in the chat document, what it needs around it, and where it continues.

The user and other programs change the document meanwhile. The place after our text is tracked by
position through every reported change, never by similar text. If the whole document is replaced
(reloaded, reverted, written by another program), the place counts as found only if our whole
exchange occurs in it exactly once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from aish_lsp.chat.markdown import AISH, YOU, open_heading, without_blank_lines
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import line_start

#: The beginning of a section that is written again.
LOST: Final = (
    "> The chat was changed while this was being written, and its place could not be found again."
    " Here is all of it.\n\n"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write, and where it ``goes``; ``apart``: after a blank line.

    It goes after what was written last, to the end of the document, above its open heading, or in
    place of ``standing``, if only that is below the open heading. A remark is also above the open
    heading, until it is taken ``away``; other text continues as if it were not there.
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
    """A change of a text: ``new`` replaces the part from offset ``start`` to ``end``."""

    start: int
    end: int
    new: str

    def made_in(self, text: str) -> str:
        """Return ``text`` with this change."""
        return text[: self.start] + self.new + text[self.end :]

    def least(self, text: str) -> Edit:
        """Return the same change of ``text``, without the parts at its ends that stay the same."""
        old, new = text[self.start : self.end], self.new
        shared = _shared(old, new)
        old, new = old[shared:], new[shared:]
        suffix = _shared(old[::-1], new[::-1])
        start = self.start + shared
        return Edit(start, start + len(old) - suffix, new[: len(new) - suffix])


#: An insertion begins a section, continues it, or is a remark, which belongs to no section.
Part: TypeAlias = Literal["begins", "goes on", "remark"]


@dataclass(frozen=True, slots=True)
class Insertion:
    """What to insert into the document's text (with LF line ends), and at which ``offset``.

    It replaces ``removes`` characters there. Later text continues between ``text`` and ``behind``.
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

    A text that continues a section is inserted at ``place``, or at the end if that is None. If the
    text to be replaced is no longer there, the insertion is empty.
    """
    goes = batch[0].goes
    part: Part = "remark" if batch[0].is_remark else "goes on" if goes == "on" else "begins"
    offset, apart, removes = len(text), batch[0].apart, 0
    if goes == "in place":
        start = _standing(text, batch[0].standing)
        if start is None:
            return Insertion(part, len(text), "")
        if batch[0].standing:
            offset, apart, removes = start, False, len(batch[0].standing)
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
        # Never empty: what continues here must not come onto the heading's line.
        behind = _blank_line(before + written) or "\n"
    return Insertion(part, offset, written, behind, removes)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(number for number in range(most) if one[number] != other[number])


def whole_section(section: str) -> Piece:
    """Return the whole section, whose place is lost, to be written again.

    A reply goes to the end, under its own heading; a section without a heading, such as a command's
    output, goes above the open one.
    """
    _, heading, reply = section.rpartition(f"{AISH}\n\n")
    text = f"{heading}{LOST}{reply.removeprefix(LOST)}"
    return Piece(text, apart=True, goes="to the end" if heading else "above")


def _without(text: str, remark: str) -> Insertion:
    """Return the removal of ``remark``, which is whole lines, and of the blank line after it.

    Nothing is removed unless the remark occurs exactly once: otherwise one may not be ours.
    """
    offset = f"\n{text}".find(f"\n{remark}")
    if offset < 0 or text.find(remark, offset + 1) >= 0:
        return Insertion("remark", len(text), "")
    end = offset + len(remark)
    return Insertion("remark", offset, "", removes=len(remark) + text.startswith("\n", end))


def _standing(text: str, standing: str) -> int | None:
    """Return where ``standing`` begins, if nothing else is below the open heading."""
    heading = open_heading(text)
    if heading is None:
        return None
    under = line_start(text, heading + 1)
    if without_blank_lines(text[under:]) != standing:
        return None
    return text.index(standing, under)


def _open_heading(text: str) -> int:
    """Return the offset of the heading that the user writes under, or else the end of ``text``."""
    heading = open_heading(text)
    return len(text) if heading is None else line_start(text, heading)


def _blank_line(before: str) -> str:
    """Return the line feeds that are missing for a blank line after ``before``."""
    if not before:
        return ""
    return "\n" * (2 - len(before[-2:]) + len(before[-2:].rstrip("\n")))


def line_end_of(text: str) -> str:
    """Return the line end that ``text`` uses."""
    if "\r\n" in text:
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"


class Anchor:
    """The place after what was last written of one section (for example, a reply with its heading).

    Attributes:
        text: the document, with LF line ends, when the place was last known.
        offset: the place in it; None if nothing is written yet, or the place is lost.
        section: all that was written of the section.
        is_unsure: more of the section may already be after the place, but not reported yet.
    """

    def __init__(self) -> None:
        self.text = ""
        self.offset: int | None = None
        self.section = ""
        self.is_unsure = False

    @property
    def lost(self) -> bool:
        """Whether a section was begun, and it is unknown where it continues."""
        return bool(self.section) and self.offset is None

    def plan(self, text: str, batch: list[Piece]) -> Insertion:
        """Return the insertion of ``batch`` into ``text``, which the document holds now.

        If the place of the section is lost, all of the section is written again.
        """
        self.settle(text)
        if batch[0].goes == "on" and self.lost:
            batch = [whole_section(self.section), *batch]
        return compose(text, batch, self.offset)

    def settle(self, text: str) -> None:
        """Note that the document holds ``text`` now, for whatever reason."""
        if text == self.text:
            return
        if self.offset is not None:
            below = self.text[self.offset :]
            self.offset = relocated(self.text, self.offset, text)
            if self.is_unsure and not is_same(text[self.offset :], below):
                self.offset = None
        self.text = text

    def changed(self, edit: Edit) -> None:
        """Follow a change of ``text``."""
        after = edit.made_in(self.text)
        if self.offset is not None:
            self.offset = shifted(self.offset, len(self.section), self.text, edit)
        self.text = after

    def wrote(self, insertion: Insertion, at: int | None = None) -> None:
        """Note that ``insertion`` was made in ``text``, perhaps not at its offset but ``at``."""
        at = insertion.offset if at is None else at
        edit = Edit(at, at + insertion.removes, insertion.edit.new)
        if insertion.part == "remark":
            self.changed(edit)
            return
        # Writing at the end does not find a lost place again.
        is_lost = insertion.part == "goes on" and self.lost
        self.arrived(insertion, edit.made_in(self.text), at + len(insertion.text))
        if is_lost:
            self.offset = None

    def arrived(self, insertion: Insertion, text: str, offset: int) -> None:
        """Note that the document is ``text``, with ``insertion`` in it up to ``offset``."""
        new = insertion.text
        self.section = self.section + new if insertion.part == "goes on" else new
        self.text, self.offset, self.is_unsure = text, offset, False

    def resume(self, section: str, below: str | None) -> None:
        """Continue an earlier ``section``, which had ``below`` after it; None if it was lost.

        Its place is known only if both are directly before the current place.
        """
        written = "" if self.offset is None else self.text[: self.offset]
        is_there = below is not None and written.endswith(section + below)
        self.offset = len(written) - len(below or "") if is_there else None
        self.section = section


def is_same(now: str, text: str) -> bool:
    """Return whether ``now`` is ``text``, perhaps with the line feed that some editors append."""
    return now in (text, f"{text}\n")


def shifted(place: int, size: int, text: str, edit: Edit) -> int | None:
    """Return where ``place`` in ``text`` is after ``edit``; text inserted there comes after it.

    The ``size`` characters before it are ours. If the change is neither before nor after them, the
    place is lost, unless they were replaced as a whole by text that holds them again.
    """
    edit = edit.least(text)
    if edit.start >= place:
        return place
    if edit.end <= place - size:
        return place + len(edit.new) - (edit.end - edit.start)
    if edit.start <= place - size and edit.end >= place:
        return relocated(text, place, edit.made_in(text))
    return None


def relocated(text: str, place: int, now: str) -> int | None:
    """Return where ``place`` of ``text`` is in ``now``, when the change between them is unknown.

    None unless there is no doubt: ``now`` is the same text, or both hold the whole exchange up to
    the place exactly once, and ``now`` has nothing of another exchange below it.
    """
    if is_same(now, text):
        return place
    exchange = text[_exchange_start(text[:place]) : place]
    if not exchange or _count(text, exchange) != 1 or _count(now, exchange) != 1:
        return None
    at = now.index(exchange)
    if at and now[at - 1] != "\n":
        return None
    at += len(exchange)
    below, below_now = text[place:], now[at:]
    if not below_now.strip("\n"):
        return at
    if exchange.endswith("\n") and _line_feeds(below) != _line_feeds(below_now):
        # Blank lines at the end of the exchange may belong to what was inserted below it.
        return None
    same_line = below.split("\n", 1)[0] == below_now.split("\n", 1)[0]
    return at if same_line and _own_headings(below) == _own_headings(below_now) else None


def _exchange_start(above: str) -> int:
    """Return the offset of the last exchange of ``above``, or else the end of ``above``."""
    if above.startswith(f"{YOU}\n") and f"\n{YOU}\n" not in above:
        return 0
    heading = above.rfind(f"\n{YOU}\n")
    return len(above) if heading < 0 else heading + 1


def _line_feeds(text: str) -> int:
    """Return how many line feeds ``text`` begins with."""
    return len(text) - len(text.lstrip("\n"))


def _own_headings(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")[1:] if line.rstrip() in (YOU, AISH)]


def _count(text: str, part: str) -> Literal[0, 1, 2]:
    """Return how often ``part`` is in ``text``, even overlapping; 2 means twice or more."""
    first = text.find(part)
    if first < 0:
        return 0
    return 1 if text.find(part, first + 1) < 0 else 2


def followed(part: Edit, edit: Edit) -> Edit | None:
    """Return where ``part`` is after ``edit``; None if the edit changed it."""
    if edit.start >= part.end:
        return part
    if edit.end <= part.start:
        moved = len(edit.new) - (edit.end - edit.start)
        return Edit(part.start + moved, part.end + moved, part.new)
    return None
