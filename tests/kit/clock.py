"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    """Returns the seconds that a test sets, so no test has to wait."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
