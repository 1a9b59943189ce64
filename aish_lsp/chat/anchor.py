"""Where our text continues in a document that its user, and other programs, change meanwhile.

The place is followed by position through every change that is told, and by nothing that merely
looks alike. If the whole document is replaced (reloaded, reverted, written by somebody else), the
place counts as found only if exactly one stretch of it is our whole exchange.
"""

from __future__ import annotations

from typing import Literal

from aish_lsp.chat.insertion import Edit, Insertion, Piece, anew, compose
from aish_lsp.chat.markdown import AISH, YOU


class Anchor:
    """The place behind what was last written of one section (say, a reply with its heading).

    Attributes:
        text: the document, with LF line ends, as it was when the place was last known.
        offset: the place in it; None if nothing is written yet, or the place is lost.
        section: all that was written of the section.
        is_unsure: more of the section may already stand behind the place, without being told.
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

    def plan(self, text: str, batch: list[Piece]) -> Insertion:
        """Return the insertion of ``batch`` into ``text``, which the document holds now.

        If the place of the section is lost, all of the section is written again.
        """
        self.settle(text)
        if batch[0].goes == "on" and self.lost:
            batch = [anew(self.section), *batch]
        return compose(text, batch, self.offset)

    def settle(self, text: str) -> None:
        """Note that the document holds ``text`` now, however that came about."""
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
        # A place that is lost is not found again by what is written at the end.
        is_lost = insertion.part == "goes on" and self.lost
        self.arrived(insertion, edit.made_in(self.text), at + len(insertion.text))
        if is_lost:
            self.offset = None

    def arrived(self, insertion: Insertion, text: str, offset: int) -> None:
        """Note that the document is ``text``, with ``insertion`` in it up to ``offset``."""
        new = insertion.text
        self.section = self.section + new if insertion.part == "goes on" else new
        self.text, self.offset, self.is_unsure = text, offset, False


def is_same(now: str, text: str) -> bool:
    """Return whether ``now`` is ``text``, or that with the end that some editors add to it."""
    return now in (text, f"{text}\n")


def shifted(place: int, size: int, text: str, edit: Edit) -> int | None:
    """Return where ``place`` in ``text`` is after ``edit``; text inserted there comes behind it.

    The ``size`` characters before it are ours. If the change is neither before nor behind them, the
    place is lost, unless they were replaced as a whole and stand there again.
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
    """Return where ``place`` of ``text`` is in ``now``, if nobody told how ``now`` came about.

    None unless ``now`` leaves no doubt: it is the same text, or it holds exactly once, as ``text``
    does, the whole exchange up to the place, and nothing of another exchange below it.
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
        # Blank lines at the end of the exchange may belong to what somebody put below it.
        return None
    same_line = below.split("\n", 1)[0] == below_now.split("\n", 1)[0]
    return at if same_line and _headings(below) == _headings(below_now) else None


def _exchange_start(above: str) -> int:
    """Return where the last exchange of ``above`` begins, or else where ``above`` ends."""
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
