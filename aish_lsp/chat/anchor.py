"""Where our text continues in a document that its user, and other programs, change meanwhile.

The place is followed by position through every change that is told, and by nothing that merely
looks alike. If the whole document is replaced (reloaded, reverted, written by somebody else), the
place counts as found only if exactly one stretch of it is our whole exchange.

The changes that an editor tells show what became of an edit that we sent to it. An editor that
heeds versions makes the edit before any other change, or not at all. One that does not makes it in
whatever it holds by then, and maybe in a wrong place: the change that it tells shows that, and the
edit is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from aish_lsp.chat.insertion import Edit, Insertion, Piece, Position, anew, compose
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
            if self.is_unsure and text[self.offset :] not in (below, f"{below}\n"):
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


@dataclass(slots=True)
class _Sent:
    """An edit on its way to the editor.

    It is for the text ``base``, from position ``start`` to ``end`` of that.

    Attributes:
        blind: the editor may make it in another text.
        wanted: where its place is by now; None if it must not be made any more. If the edit
            continues a section, the anchor knows instead.
        reloaded: the document was opened again since.
        overtaken: another change came first; so it was refused, unless its version comes again.
    """

    insertion: Insertion
    base: str
    start: Position
    end: Position
    blind: bool
    wanted: int | None
    reloaded: bool = False
    overtaken: bool = False


class Echo:
    """Follows an editor's document for an anchor, and the one edit that is on its way there.

    ``offset_at`` returns the offset in a text of a position in the client's units.

    Attributes:
        stray: an edit of the anchor's text that removes what was inserted in a wrong place.
        made: whether the last edit was made in its place.
    """

    def __init__(self, anchor: Anchor, offset_at: Callable[[str, Position], int]) -> None:
        self._anchor = anchor
        self._offset_at = offset_at
        self._sent: _Sent | None = None
        self.stray: Edit | None = None
        self.made = False

    @property
    def waits(self) -> bool:
        """Whether it is still unknown what became of the edit that was sent."""
        sent = self._sent
        return sent is not None and (sent.reloaded or not sent.overtaken)

    @property
    def reloaded(self) -> bool:
        """Whether the document was opened again while an edit was on its way, which may be lost."""
        return self._sent is not None and self._sent.reloaded

    def send(self, insertion: Insertion, start: Position, end: Position, *, blind: bool) -> None:
        """Expect an insertion into the anchor's text, from ``start`` to ``end`` in it."""
        base = self._anchor.text
        self._sent = _Sent(insertion, base, start, end, blind, insertion.offset)
        self._anchor.is_unsure = insertion.part == "goes on"
        self.made = False

    def give_up(self) -> None:
        """No longer expect the edit that was sent."""
        self._sent = None

    def reopened(self, text: str | None) -> None:
        """Note that the editor has opened the document again, or closed it (None)."""
        if text not in (None, self._anchor.text):
            self.stray = None
        sent = self._sent
        if sent is None or (text is not None and self._is_in(sent, text)):
            return
        # Its version may come again, with another text.
        sent.blind, sent.reloaded, sent.wanted = True, True, None

    def changed(self, before: str, edit: Edit) -> None:
        """Follow a change of the editor's document, which held ``before``."""
        sent, after = self._sent if self.waits else None, edit.made_in(before)
        if sent is not None and (at := self._landed(sent, before, after)) is not None:
            self._arrived(sent, before, after, at)
            return
        if sent is not None and not sent.blind and self._overtaken(sent, before, after):
            return
        edit = edit.least(before)
        if before == self._anchor.text:
            self._anchor.changed(edit)
            if self.stray is not None:
                # If text repeats, the editor may tell that another part of it was removed.
                is_gone = after == self.stray.made_in(before)
                self.stray = None if is_gone else _followed(self.stray, edit)
        if sent is not None and sent.wanted is not None:
            is_moved = not edit.start <= sent.wanted <= edit.end
            place = _followed(Edit(sent.wanted, sent.wanted, ""), edit) if is_moved else None
            sent.wanted = place.start if place else None

    def conclude(self, *, says_so: bool) -> None:
        """Assume that no further change can show a blind edit.

        ``says_so``: whether the editor says that it made the edit.
        """
        sent = self._sent
        if sent is None or not sent.blind:
            return
        self._sent = None
        if says_so and not sent.reloaded and not self._is_in(sent, self._anchor.text):
            self._doubt(sent)

    def _landed(self, sent: _Sent, before: str, after: str) -> int | None:
        """Return where in ``before`` the edit was made, if that is what led to ``after``."""
        start, end = (self._offset_at(before, place) for place in (sent.start, sent.end))
        made = Edit(start, end, sent.insertion.edit.new).made_in(before)
        # Some editors add an end to the last line.
        return start if after in (made, f"{made}\n") else None

    def _arrived(self, sent: _Sent, before: str, after: str, at: int) -> None:
        """Note that the edit was made at ``at`` in ``before``, which became ``after``."""
        self._sent, self._anchor.is_unsure = None, False
        self._anchor.settle(before)
        self.made = self._is_right(sent, before, at)
        if self.made:
            self._anchor.wrote(sent.insertion, at)
        else:
            new = sent.insertion.edit.new
            self._anchor.changed(Edit(at, at + sent.insertion.removes, new))
            self.stray = None if sent.insertion.removes else Edit(at, at + len(new), "")
        self._anchor.text = after

    def _is_right(self, sent: _Sent, before: str, at: int) -> bool:
        """Return whether ``at`` is the right place for the edit in ``before``, the anchor's text.

        If the document was opened again meanwhile, it is right in the text that the edit is for, or
        where the section certainly goes on.
        """
        goes_on = sent.insertion.part == "goes on"
        wanted = self._anchor.offset if goes_on else sent.wanted
        return at == wanted or before == sent.base

    def _overtaken(self, sent: _Sent, before: str, after: str) -> bool:
        """Note that ``before``, the text that the edit is for, became ``after`` by another change.

        So the edit was refused, unless the editor tells both as one change. Return whether that may
        be.
        """
        if self._is_in(sent, after):
            return True
        # It is kept: only an answer can tell that nothing else comes of it.
        sent.overtaken, sent.wanted = True, None
        edit = sent.insertion.edit
        above, below = f"{before[: edit.start]}{edit.new}", f"{edit.new}{before[edit.end :]}"
        if not edit.new or not (
            (after.startswith(above) and not before.startswith(above))
            or (after.endswith(below) and not before.endswith(below))
        ):
            return False
        self._anchor.settle(after)
        self._doubt(sent)
        return True

    def _is_in(self, sent: _Sent, text: str) -> bool:
        """Return whether the edit certainly is in ``text``, and note it if so."""
        if sent.insertion.part == "remark":
            return False
        whole = sent.insertion.edit.made_in(sent.base)
        place = relocated(whole, sent.insertion.offset + len(sent.insertion.text), text)
        if place is None:
            return False
        self._sent, self.made = None, True
        self._anchor.arrived(sent.insertion, text, place)
        return True

    def _doubt(self, sent: _Sent) -> None:
        """Note that nobody can tell whether and where the edit was made."""
        if sent.insertion.part == "remark":
            self.made = True
        else:
            self._anchor.offset = None


def _followed(part: Edit, edit: Edit) -> Edit | None:
    """Return where ``part`` is after ``edit``; None if the edit changed it."""
    if edit.start >= part.end:
        return part
    if edit.end <= part.start:
        moved = len(edit.new) - (edit.end - edit.start)
        return Edit(part.start + moved, part.end + moved, part.new)
    return None
