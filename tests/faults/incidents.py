"""What went wrong elsewhere, acted out against the real server; each act returns the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

Act: TypeAlias = Callable[[Path], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident; ``act`` is given an empty folder, and raises if the incident happens again.

    ``watched`` says that it needs strace.
    """

    what: str
    known_as: str
    act: Act
    watched: bool = False


INCIDENTS: Final[list[Incident]] = []


def incident(what: str, known_as: str = "", *, watched: bool = False) -> Callable[[Act], Act]:
    """Add a function to the incidents."""

    def add(act: Act) -> Act:
        INCIDENTS.append(Incident(what, known_as, act, watched))
        return act

    return add
