"""What becomes of an edit of ours that is sent to an editor, by the changes that the editor tells.

An editor that heeds versions makes the edit before any other change, or not at all. One that heeds
none makes it in whatever it holds by then, and maybe in a wrong place: that is known by the change
that it tells, and is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aish_lsp.chat.anchor import Anchor, Edit, Step, relocated
from aish_lsp.chat.place import Position


@dataclass(slots=True)
class _Sent:
    """An edit on its way.

    It is for the text ``base``, from ``start`` to ``end`` in the positions of that.

    Attributes:
        blind: the editor may make it in another text.
        wanted: where its place is by now; None where it must not come any more.
        reloaded: the document was opened anew since.
        overtaken: another change came first; so it was refused, unless its version comes again.
    """

    step: Step
    base: str
    start: Position
    end: Position
    blind: bool
    wanted: int | None
    reloaded: bool = False
    overtaken: bool = False


class Echo:
    """Follows the document of an editor, for an anchor, and the one edit that is on its way there.

    ``offset_at`` returns the offset in a text of a position in the client's units.

    Attributes:
        stray: what came into a wrong place, as an edit that removes it from the anchor's text.
        made: whether the last edit came into its place.
    """

    def __init__(self, anchor: Anchor, offset_at: Callable[[str, Position], int]) -> None:
        self._anchor = anchor
        self._offset_at = offset_at
        self._sent: _Sent | None = None
        self.stray: Edit | None = None
        self.made = False

    @property
    def waits(self) -> bool:
        """Whether it is not known yet what became of the edit that was sent."""
        sent = self._sent
        return sent is not None and (sent.reloaded or not sent.overtaken)

    @property
    def reloaded(self) -> bool:
        """Whether the document was opened anew while an edit was on its way, which may be gone."""
        return self._sent is not None and self._sent.reloaded

    def send(self, step: Step, start: Position, end: Position, *, blind: bool) -> None:
        """Expect a step, which is for the anchor's text, from ``start`` to ``end`` in it."""
        base = self._anchor.text
        self._sent = _Sent(step, base, start, end, blind, step.insertion.offset)
        self._anchor.is_unsure = step.part == "goes on"
        self.made = False

    def give_up(self) -> None:
        """Expect the edit that was sent no more."""
        self._sent = None

    def reopened(self, text: str | None) -> None:
        """Take note that the editor has opened the document anew, or closed it (None)."""
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
                # Of repeated text the editor may tell that another part was removed.
                is_gone = after == self.stray.made_in(before)
                self.stray = None if is_gone else _followed(self.stray, edit)
        if sent is not None and sent.wanted is not None:
            sent.wanted = self._wanted_after(sent, sent.wanted, edit)

    def conclude(self, *, says_so: bool) -> None:
        """Take it that no change comes any more in which a blind edit would be seen.

        ``says_so``: whether the editor says that it made it.
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
        made = Edit(start, end, sent.step.edit.new).made_in(before)
        # Some editors end the last line by themselves.
        return start if after in (made, f"{made}\n") else None

    def _arrived(self, sent: _Sent, before: str, after: str, at: int) -> None:
        """Take note that the edit was made at ``at`` in ``before``, which led to ``after``."""
        self._sent, self._anchor.is_unsure = None, False
        self._anchor.settle(before)
        self.made = self._is_right(sent, before, at)
        if self.made:
            self._anchor.wrote(sent.step, at)
        else:
            new = sent.step.edit.new
            self._anchor.changed(Edit(at, at + sent.step.insertion.removes, new))
            self.stray = None if sent.step.insertion.removes else Edit(at, at + len(new), "")
        self._anchor.text = after

    def _is_right(self, sent: _Sent, before: str, at: int) -> bool:
        """Return whether the edit has its place at ``at`` in ``before``, the anchor's text.

        Also where the document was opened anew meanwhile: in the text that it is for, or where the
        section goes on for certain.
        """
        goes_on = sent.step.part == "goes on" and at == self._anchor.offset
        return goes_on or at == sent.wanted or before == sent.base

    def _overtaken(self, sent: _Sent, before: str, after: str) -> bool:
        """Take note that ``before``, the text that the edit is for, became another ``after``.

        So the edit was refused; unless the editor tells it and what came then as one change. Return
        whether that may be.
        """
        if self._is_in(sent, after):
            return True
        # Not forgotten: an answer has yet to say that nothing else can come of it.
        sent.overtaken, sent.wanted = True, None
        edit = sent.step.edit
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
        """Return whether the edit is in ``text`` for certain; take note of it."""
        if sent.step.part == "remark":
            return False
        insertion = sent.step.insertion
        whole = sent.step.edit.made_in(sent.base)
        place = relocated(whole, insertion.offset + len(insertion.text), text)
        if place is None:
            return False
        self._sent, self.made = None, True
        self._anchor.arrived(sent.step, text, place)
        return True

    def _doubt(self, sent: _Sent) -> None:
        """Take note that nobody can tell whether the edit was made, and where."""
        if sent.step.part == "remark":
            self.made = True
        else:
            self._anchor.offset = None

    def _wanted_after(self, sent: _Sent, place: int, edit: Edit) -> int | None:
        """Return where the place of the edit is after another change, if it is for certain."""
        if sent.step.part == "goes on":
            return self._anchor.offset
        if edit.start <= place <= edit.end:
            return None
        moved = _followed(Edit(place, place, ""), edit)
        return None if moved is None else moved.start


def _followed(part: Edit, edit: Edit) -> Edit | None:
    """Return what ``part`` is after ``edit``; None where that has changed it."""
    if edit.start >= part.end:
        return part
    if edit.end <= part.start:
        moved = len(edit.new) - (edit.end - edit.start)
        return Edit(part.start + moved, part.end + moved, part.new)
    return None
