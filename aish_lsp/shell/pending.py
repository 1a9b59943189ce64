"""The commands that were suggested and not yet run or dismissed."""

from __future__ import annotations

import difflib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aish_lsp.foundation.errors import NotFound
from aish_lsp.shell.events import CommandInfo

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
