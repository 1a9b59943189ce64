"""Where text of ours goes on in a document that its user, and other programs, change meanwhile.

The place is followed by positions through every change that is told, and by nothing that merely
looks alike. Where the whole document comes anew (it was reloaded, reverted, written by somebody
else), the place counts as found only where one stretch of it, and one alone, is our whole exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from aish_lsp.chat.markdown import AISH, YOU

if TYPE_CHECKING:
    from aish_lsp.chat.insertion import Insertion
    from aish_lsp.chat.place import Position


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


@dataclass(slots=True)
class _Sent:
    """An edit of ours on its way to the editor.

    ``start`` and ``end`` are where it was sent to, ``wanted`` is where that place is by now.
    """

    insertion: Insertion
    start: Position
    end: Position
    wanted: int | None
    goes_on: bool
    is_remark: bool

    @property
    def new(self) -> str:
        return self.insertion.text + self.insertion.behind


class Anchor:
    """The place behind what was written last of one section (a reply, say, with its heading).

    ``offset_at`` returns the offset in a text of a position in the client's units.

    Attributes:
        text: the document, its lines ended by LF, as it was when the place was known last.
        offset: the place in it; None where nothing is written yet, or the place is lost.
        section: all that was written of the section.
        stray: what an editor without versions has put in a wrong place, as an edit that removes
            it from ``text``.
    """

    def __init__(self, offset_at: Callable[[str, Position], int]) -> None:
        self._offset_at = offset_at
        self._sent: _Sent | None = None
        self.text = ""
        self.offset: int | None = None
        self.section = ""
        self.stray: Edit | None = None

    @property
    def lost(self) -> bool:
        """Whether a section was begun, and nobody can tell where it goes on."""
        return bool(self.section) and self.offset is None

    @property
    def waits(self) -> bool:
        """Whether an edit is on its way of which it is not known yet what became of it."""
        return self._sent is not None

    def settle(self, text: str) -> None:
        """Take ``text`` for what the document holds now."""
        if text != self.text:
            if self.offset is not None:
                self.offset = relocated(self.text, self.offset, text)
            self.text, self.stray = text, None

    def wrote(self, insertion: Insertion, *, goes_on: bool) -> None:
        """Take note that ``insertion`` was made in ``text``; ``goes_on`` as for ``send``."""
        self._noted(insertion, goes_on=goes_on)
        self.offset = insertion.offset + len(insertion.text)
        self.text = insertion.whole_in(self.text)

    def remarked(self, insertion: Insertion) -> None:
        """Take note that ``insertion``, of a remark, was made in ``text``."""
        edit = Edit(
            insertion.offset,
            insertion.offset + insertion.removes,
            insertion.text + insertion.behind,
        )
        if self.offset is not None:
            self.offset = shifted(self.offset, len(self.section), self.text, edit)
        self.text = edit.made_in(self.text)

    # An edit on its way to the editor

    def send(
        self,
        insertion: Insertion,
        start: Position,
        end: Position,
        *,
        goes_on: bool,
        is_remark: bool = False,
    ) -> None:
        """Expect ``insertion``, which is for ``text``, from ``start`` to ``end`` in its positions.

        ``goes_on``: it belongs to what was written before; else it begins a section, unless it
        ``is_remark``, which is of none.
        """
        self._sent = _Sent(insertion, start, end, insertion.offset, goes_on, is_remark)

    def recall(self) -> None:
        """Expect the edit that was sent no more."""
        self._sent = None

    def reopened(self) -> None:
        """Take note that the editor has closed the document, or opened it anew."""
        if self._sent is not None:
            self._sent.wanted = None

    def changed(self, before: str, edit: Edit) -> None:
        """Follow a change of the editor's document, which held ``before``."""
        after = edit.made_in(before)
        sent = self._sent
        if sent is not None and (at := self._landed(sent, before, after)) is not None:
            if not sent.is_remark:
                self._arrived(sent, before, after, at)
                return
            self._sent = sent = None
        if sent is not None and sent.wanted is not None:
            sent.wanted = _carried(sent.wanted, edit.least(before))
        if before != self.text:
            return
        if self.offset is not None:
            moved = shifted(self.offset, len(self.section), before, edit)
            self.offset = relocated(before, self.offset, after) if moved is None else moved
        if self.stray is not None:
            self.stray = _stray_after(self.stray, edit.least(before))
        self.text = after

    def arrived_in(self, text: str) -> bool:
        """Return whether the edit that waits is in ``text``, which came without its changes."""
        sent = self._sent
        if sent is None or sent.is_remark:
            return False
        with_it = sent.insertion.whole_in(self.text)
        place = relocated(with_it, sent.insertion.offset + len(sent.insertion.text), text)
        if place is None:
            return False
        self._sent = None
        self._noted(sent.insertion, goes_on=sent.goes_on)
        self.text, self.offset = text, place
        return True

    def _noted(self, insertion: Insertion, *, goes_on: bool) -> None:
        self.section = insertion.text if not goes_on else self.section + insertion.text

    def _landed(self, sent: _Sent, before: str, after: str) -> int | None:
        """Return where in ``before`` the edit was made, if that is what led to ``after``."""
        start, end = (self._offset_at(before, place) for place in (sent.start, sent.end))
        made = Edit(start, end, sent.new).made_in(before)
        # Some editors end the last line by themselves.
        if after in (made, f"{made}\n"):
            return start
        if sent.wanted is None:
            return None
        # It may come as one change with what the user did, on one side of it.
        at, new = sent.wanted, sent.new
        above, below = before[:at], before[at + sent.insertion.removes :]
        if after.startswith(above + new) and not before.startswith(above + new):
            return at
        if after.endswith(new + below) and not before.endswith(new + below):
            return at
        return None

    def _arrived(self, sent: _Sent, before: str, after: str, at: int) -> None:
        """Take note that the edit was made at ``at`` in ``before``, which led to ``after``."""
        self._sent = None
        if at != sent.wanted:
            # An editor without versions has put it where its place was before a change.
            if self.offset is not None and before != self.text:
                self.offset = relocated(self.text, self.offset, before)
            if self.offset is not None:
                self.offset = _carried(self.offset, Edit(at, at, sent.new))
            self.text = after
            self.stray = None if sent.insertion.removes else Edit(at, at + len(sent.new), "")
            return
        known = before == self.text
        whole = not sent.goes_on or not self.section or (known and self.offset is not None)
        self._noted(sent.insertion, goes_on=sent.goes_on)
        if not whole:
            self.offset = None
        elif after.startswith(before[:at] + sent.new):
            self.offset = at + len(sent.insertion.text)
        else:
            below = before[at + sent.insertion.removes :]
            self.offset = len(after) - len(below) - len(sent.insertion.behind)
        self.text = after


def shifted(place: int, size: int, text: str, edit: Edit) -> int | None:
    """Return where ``place`` in ``text`` is after ``edit``; what comes right there stays behind it.

    None where the ``size`` characters before it, which are ours, are not all left as they are: they
    may be gone, and what stands there now may only end as they did.
    """
    after = edit.made_in(text)
    if after.startswith(text[:place]):
        return place
    edit = edit.least(text)
    if edit.end > place - size:
        return None
    gone = edit.end - edit.start
    if not edit.new and after == text[: place - gone] + text[place:]:
        # Of repeated text nobody can tell which of it was removed.
        return None
    return place + len(edit.new) - gone


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


def _carried(place: int, edit: Edit) -> int:
    """Return where ``place`` is after ``edit``, whatever became of the text beside it."""
    if edit.start >= place:
        return place
    return edit.start + len(edit.new) + max(0, place - edit.end)


def _stray_after(stray: Edit, edit: Edit) -> Edit | None:
    """Return what removes ``stray`` after ``edit``; None where that has changed it."""
    if edit.start >= stray.end:
        return stray
    if edit.end <= stray.start:
        moved = len(edit.new) - (edit.end - edit.start)
        return Edit(stray.start + moved, stray.end + moved, "")
    return None


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(number for number in range(most) if one[number] != other[number])
