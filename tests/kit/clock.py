"""A clock that a test turns."""

from __future__ import annotations


class Clock:
    """Tells the seconds that a test sets; nothing has to be waited out."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
