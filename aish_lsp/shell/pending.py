"""The commands that were suggested and not yet run or dismissed."""

from __future__ import annotations

import difflib
import secrets
from typing import TYPE_CHECKING

from aish_lsp.errors import NotFound
from aish_lsp.events import CommandInfo

if TYPE_CHECKING:
    from aish_lsp.shell.risk import Verdict
    from aish_lsp.shell.suggestions import FoundCommand

#: Suggestions that are kept; older ones are dropped first.
KEPT = 200


def new_id() -> str:
    """Return an id that no other session uses: a stale one must never name another command."""
    return secrets.token_hex(4)


class PendingCommands:
    """Suggestions by id, oldest first, with the turn that each came from."""

    def __init__(self) -> None:
        self._commands: dict[str, CommandInfo] = {}
        self._turns: dict[str, str] = {}
        self._unconfined: set[str] = set()

    def add(
        self, found: FoundCommand, turn_id: str, verdict: Verdict, *, unconfined: bool = False
    ) -> CommandInfo:
        """Keep what a reply suggests; return it with its id and its risk.

        ``unconfined`` says that it is to run without confinement, whatever its risk.
        """
        info = self.restore(new_id(), found, turn_id, verdict)
        if unconfined:
            self._unconfined.add(info.id)
        return info

    def restore(
        self, command_id: str, found: FoundCommand, turn_id: str, verdict: Verdict
    ) -> CommandInfo:
        """Keep what a reply suggested in an earlier run, under the id that it had."""
        info = CommandInfo(command_id, found.text, found.line, verdict.risk, verdict.reasons)
        self._commands[info.id] = info
        self._turns[info.id] = turn_id
        while len(self._commands) > KEPT:
            self.remove(next(iter(self._commands)))
        return info

    def get(self, command_id: str) -> CommandInfo:
        """Return a suggestion.

        Raises:
            NotFound: it never was, was run, or was dismissed.
        """
        info = self._commands.get(command_id)
        if info is None:
            near = difflib.get_close_matches(command_id, self._commands, n=3, cutoff=0.5)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise NotFound(f"No suggested command {command_id[:40]!r} is waiting.{hint}")
        return info

    def remove(self, command_id: str) -> None:
        """Forget a suggestion that was run or dismissed; one that is gone is no error."""
        self._commands.pop(command_id, None)
        self._turns.pop(command_id, None)
        self._unconfined.discard(command_id)

    def is_unconfined(self, command_id: str) -> bool:
        """Return whether a suggestion is to run without confinement."""
        return command_id in self._unconfined

    def all(self) -> list[CommandInfo]:
        """Return every suggestion, oldest first."""
        return list(self._commands.values())

    def of_turn(self, turn_id: str) -> list[CommandInfo]:
        """Return the suggestions of one turn that still wait."""
        return [info for key, info in self._commands.items() if self._turns[key] == turn_id]

    def clear(self) -> None:
        """Forget all."""
        self._commands.clear()
        self._turns.clear()
        self._unconfined.clear()
