"""How bad something is, and what one review of a command has found so far."""

from __future__ import annotations

from typing import Final

from aish_lsp.foundation.events import Risk

SAFE: Final = 0
CAUTION: Final = 1
DESTRUCTIVE: Final = 2

#: The words for the levels, by level.
LEVELS: Final[tuple[Risk, ...]] = ("safe", "caution", "destructive")

#: Reasons that are told; the worst come first and one is enough to ask.
_TOLD: Final = 6


class Findings:
    """The worst level so far, and why; the worst part of a command decides.

    Attributes:
        level: the worst level.
        unconfined: whether a rule of the user's has a part of it run unconfined.
    """

    __slots__ = ("_reasons", "level", "unconfined")

    def __init__(self) -> None:
        self.level = SAFE
        self.unconfined = False
        self._reasons: dict[str, int] = {}

    def add(self, level: int, reason: str) -> None:
        """Take down a finding; one that is safe needs no reason and leaves no trace."""
        if level:
            self.level = max(self.level, level)
            self._reasons[reason] = max(level, self._reasons.get(reason, SAFE))

    @property
    def risk(self) -> Risk:
        """The level in the words of the protocol."""
        return LEVELS[self.level]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of the worst level, in the order in which they were found."""
        if self.level == SAFE:
            return ()
        worst = [reason for reason, level in self._reasons.items() if level == self.level]
        return tuple(worst[:_TOLD])
