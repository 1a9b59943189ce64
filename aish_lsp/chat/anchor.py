"""Where text of ours goes on in a document that its user, and other programs, change meanwhile.

The place is followed by positions through every change that is told, and by nothing that merely
looks alike. Where the whole document comes anew (it was reloaded, reverted, written by somebody
else), the place counts as found only where one stretch of it, and one alone, is our whole exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from aish_lsp.chat.insertion import Insertion, Piece, anew, compose
from aish_lsp.chat.markdown import AISH, YOU


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: what stood from ``start`` to ``end`` (offsets) gives way to ``new``."""

    start: int
    end: int
    new: str

    def made_in(self, text: str) -> str:
        """Return ``text`` with this change."""
        return text[: self.start] + self.new + text[self.end :]

    def least(self, text: str) -> Edit:
        """Return the same change of ``text`` without what it leaves as it is at its two ends."""
        old, new = text[self.start : self.end], self.new
        shared = _shared(old, new)
        old, new = old[shared:], new[shared:]
        kept = _shared(old[::-1], new[::-1])
        start = self.start + shared
        return Edit(start, start + len(old) - kept, new[: len(new) - kept])


Part: TypeAlias = Literal["begins", "goes on", "remark"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be put into a document next, and whether it begins a section or goes on with it.

    A remark is of no section.
    """

    insertion: Insertion
    part: Part

    @property
    def edit(self) -> Edit:
        """It as a change of the text that it is for."""
        insertion = self.insertion
        end = insertion.offset + insertion.removes
        return Edit(insertion.offset, end, insertion.text + insertion.behind)


class Anchor:
    """The place behind what was written last of one section (a reply, say, with its heading).

    Attributes:
        text: the document, its lines ended by LF, as it was when the place was known last.
        offset: the place in it; None where nothing is written yet, or the place is lost.
        section: all that was written of the section.
        is_unsure: more of the section may stand behind the place already, and nobody has told.
    """

    def __init__(self) -> None:
        self.text = ""
        self.offset: int | None = None
        self.section = ""
        self.is_unsure = False

    @property
    def lost(self) -> bool:
        """Whether a section was begun, and nobody can tell where it goes on."""
        return bool(self.section) and self.offset is None

    def plan(self, text: str, batch: list[Piece]) -> Step:
        """Return what brings ``batch`` into ``text``, which the document holds now.

        Where the place of the section is lost, all of it comes anew.
        """
        self.settle(text)
        goes_on = batch[0].goes == "on"
        if goes_on and self.lost:
            batch, goes_on = [anew(self.section), *batch], False
        part: Part = "remark" if batch[0].is_remark else "goes on" if goes_on else "begins"
        return Step(compose(text, batch, self.offset), part)

    def settle(self, text: str) -> None:
        """Take ``text`` for what the document holds now, whatever led to it."""
        if text == self.text:
            return
        if self.offset is not None:
            below = self.text[self.offset :]
            self.offset = relocated(self.text, self.offset, text)
            if self.is_unsure and text[self.offset :] not in (below, f"{below}\n"):
                self.offset = None
        self.text = text

    def changed(self, edit: Edit) -> None:
        """Follow a change of ``text``."""
        after = edit.made_in(self.text)
        if self.offset is not None:
            self.offset = shifted(self.offset, len(self.section), self.text, edit)
        self.text = after

    def wrote(self, step: Step, at: int | None = None) -> None:
        """Take note that a step was made in ``text``, at ``at`` if that is not where it was for."""
        at = step.insertion.offset if at is None else at
        edit = Edit(at, at + step.insertion.removes, step.edit.new)
        if step.part == "remark":
            self.changed(edit)
            return
        # A section whose place is lost is not found again by its end.
        is_lost = step.part == "goes on" and self.lost
        self.arrived(step, edit.made_in(self.text), at + len(step.insertion.text))
        if is_lost:
            self.offset = None

    def arrived(self, step: Step, text: str, offset: int) -> None:
        """Take note that the document is ``text``, with a step in it that ends at ``offset``."""
        new = step.insertion.text
        self.section = self.section + new if step.part == "goes on" else new
        self.text, self.offset, self.is_unsure = text, offset, False


def shifted(place: int, size: int, text: str, edit: Edit) -> int | None:
    """Return where ``place`` in ``text`` is after ``edit``; what comes right there stays behind it.

    The ``size`` characters before it are ours. Where the change is not all before or all behind
    them, the place is lost, unless they were replaced as a whole and came again.
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
    """Return where ``place`` of ``text`` is in ``now``, of which nobody told how it came about.

    Only where ``now`` leaves no doubt: it is the same text, or it holds, once and not more, as
    ``text`` does, the whole exchange up to the place, and below it nothing of another exchange.
    """
    if now in (text, f"{text}\n"):
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
        # Blank lines that end the exchange may be those that begin what somebody put below it.
        return None
    same_line = below.split("\n", 1)[0] == below_now.split("\n", 1)[0]
    return at if same_line and _headings(below) == _headings(below_now) else None


def _exchange_start(above: str) -> int:
    """Return where the last exchange of ``above`` begins; where it ends, if there is none."""
    if above.startswith(f"{YOU}\n") and f"\n{YOU}\n" not in above:
        return 0
    found = above.rfind(f"\n{YOU}\n")
    return len(above) if found < 0 else found + 1


def _line_feeds(text: str) -> int:
    """Return how many line feeds ``text`` begins with."""
    return len(text) - len(text.lstrip("\n"))


def _headings(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")[1:] if line.rstrip() in (YOU, AISH)]


def _count(text: str, part: str) -> Literal[0, 1, 2]:
    """Return how often ``part`` is in ``text``, overlapping too; 2 stands for more."""
    first = text.find(part)
    if first < 0:
        return 0
    return 1 if text.find(part, first + 1) < 0 else 2


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(number for number in range(most) if one[number] != other[number])
