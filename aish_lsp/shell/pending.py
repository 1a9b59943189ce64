"""The commands that were suggested and not yet run or dismissed.

When a command needs the user's word before it runs, and what they are shown.
"""

from __future__ import annotations

import difflib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.ports import Approval, Question
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.suggestions import CommandInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aish_lsp.shell.risk import Verdict
    from aish_lsp.shell.suggestions import FoundCommand

#: Suggestions that are kept; older ones are dropped first.
KEPT = 200


def new_id() -> str:
    """Return an id that no other session uses: a stale one must never name another command."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion that waits.

    Attributes:
        info: what front ends show of it.
        turn_id: the turn that it came from.
        number: its place among the suggestions of that turn, from 1.
        shell: the shell that it names; empty for the user's own.
        obstacle: why that shell cannot be used here; empty where it can.
        unconfined: whether it is to run without confinement.
    """

    info: CommandInfo
    turn_id: str
    number: int
    shell: str = ""
    obstacle: str = ""
    unconfined: bool = False

    @property
    def runs(self) -> bool:
        """Whether it can be run as it stands."""
        return not self.obstacle and not self.info.placeholders


class PendingCommands:
    """Suggestions by id, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[str, Suggestion] = {}
        self._numbered: dict[str, int] = {}

    def add(
        self,
        found: FoundCommand,
        turn_id: str,
        verdict: Verdict,
        *,
        command_id: str | None = None,
        number: int = 0,
        obstacle: str = "",
        unconfined: bool = False,
    ) -> CommandInfo:
        """Keep what a reply suggests; return it with its id and its risk.

        With ``command_id`` it takes the place of the suggestion that has that id; with ``number``
        too it is one of an earlier run, and has the number that it had. ``unconfined`` says that it
        is to run without confinement, whatever its risk.
        """
        info = CommandInfo(
            id=command_id or new_id(),
            text=found.text,
            line=found.line,
            end_line=found.end_line,
            source=found.source,
            placeholders=found.placeholders,
            risk=verdict.risk,
            reasons=(*verdict.reasons, obstacle) if obstacle else verdict.reasons,
        )
        before = self._waiting.get(info.id)
        number = number or (before.number if before else self._next_number(turn_id))
        self._waiting[info.id] = Suggestion(
            info, turn_id, number, found.shell, obstacle, unconfined
        )
        while len(self._waiting) > KEPT:
            self.remove(next(iter(self._waiting)))
        return info

    def _next_number(self, turn_id: str) -> int:
        number = self._numbered.get(turn_id, 0) + 1
        # Of earlier turns nobody asks for a number.
        self._numbered = {turn_id: number}
        return number

    def suggestion(self, command_id: str) -> Suggestion:
        """Return a suggestion with all that is known of it.

        Raises:
            NotFound: it never was, was run, or was dismissed.
        """
        found = self._waiting.get(command_id)
        if found is None:
            near = difflib.get_close_matches(command_id, self._waiting, n=3, cutoff=0.5)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise NotFound(f"No suggested command {command_id[:40]!r} is waiting.{hint}")
        return found

    def get(self, command_id: str) -> CommandInfo:
        """Return a suggestion.

        Raises:
            NotFound: as ``suggestion``.
        """
        return self.suggestion(command_id).info

    def remove(self, command_id: str) -> None:
        """Forget a suggestion that was run or dismissed; one that is gone is not an error."""
        self._waiting.pop(command_id, None)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self._waiting.values())

    def all(self) -> list[CommandInfo]:
        """Return what front ends show of every suggestion, oldest first."""
        return [waiting.info for waiting in self._waiting.values()]

    def of_turn(self, turn_id: str) -> list[Suggestion]:
        """Return the suggestions of one turn that still wait."""
        return [waiting for waiting in self._waiting.values() if waiting.turn_id == turn_id]

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()
        self._numbered.clear()


#: Where a command's text comes from: a reply of ours, the user's own hand, or some document.
Origin = Literal["reply", "user", "document"]

#: Characters that a menu shows of a command. A longer one was not seen whole when it was clicked.
LINE_OF_SIGHT: Final = 80


def needs_approval(text: str, verdict: Verdict, origin: Origin, *, always: bool) -> bool:
    """Return whether the user is to be asked before ``text`` runs.

    A line of a stranger's document always asks, and so does what is destructive. What a reply
    suggests runs at the user's click if they could see all of it. ``always`` asks for everything.
    """
    if always or origin == "document" or verdict.risk == "destructive":
        return True
    return verdict.risk == "caution" and origin == "reply" and not _seen_whole(text)


def question_for(
    text: str, folder: Path, verdict: Verdict, origin: Origin, shell: str = ""
) -> Question:
    """Return the question that shows exactly what would run, where, and why it is asked.

    ``shell`` is what runs it, where that is not the user's own.
    """
    reasons = list(verdict.reasons)
    if origin == "document":
        reasons.append("it stands in a document, not in a reply")
    elif origin == "reply" and not _seen_whole(text):
        reasons.append("a menu does not show all of it")
    # No line of the command begins as ours do, or it could tell another folder or other reasons.
    lines = [f"    {escaped(line)}" for line in text.split("\n")]
    by = f", by {escaped(shell)}" if shell else ""
    where = ["", f"in {escaped(str(folder))}{by}", *(f"- {escaped(reason)}" for reason in reasons)]
    message = "\n".join([f"Run this command ({verdict.risk})?", "", *lines, *where])
    approval = Approval("command", text, folder, verdict.risk, tuple(reasons))
    return Question(message, "Run", approval=approval)


def _seen_whole(text: str) -> bool:
    return "\n" not in text and len(escaped(text)) <= LINE_OF_SIGHT
