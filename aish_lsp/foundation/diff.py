"""How two texts differ, line by line, in bounded time."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Lines around a change that are shown.
_AROUND: Final = 2

#: The most pairs of lines that are compared, without the equal lines at both ends.
MOST_COMPARED: Final = 250_000


def changed_lines(before: str, after: str) -> list[str]:
    """Return the lines of a diff, without its heading; ``...`` stands for those left out."""
    old, new = before.split("\n"), after.split("\n")
    first, end = same_ends(old, new)
    head, tail = old[max(0, first - _AROUND) : first], old[len(old) - end :][:_AROUND]
    old, new = old[first : len(old) - end], new[first : len(new) - end]
    if len(old) * len(new) > MOST_COMPARED:
        # Comparing each line with each other would take minutes.
        gone, came = (f"-{line}" for line in old), (f"+{line}" for line in new)
        return [*(f" {line}" for line in head), *gone, *came, *(f" {line}" for line in tail)]
    old, new = [*head, *old, *tail], [*head, *new, *tail]
    rows = difflib.unified_diff(old, new, n=_AROUND, lineterm="")
    return ["..." if row.startswith("@@") else row for row in list(rows)[3:]]


def same_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are the same at the beginning, and how many others at the end."""
    most, first, end = min(len(old), len(new)), 0, 0
    while first < most and old[first] == new[first]:
        first += 1
    while end < most - first and old[-1 - end] == new[-1 - end]:
        end += 1
    return first, end
