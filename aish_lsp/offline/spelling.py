"""Slips of the pen: the one word that another was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: From this length on, a word may have two slips.
_LONG: Final = 8


def near(word: str, known: Iterable[str]) -> str:
    """Return the one of ``known`` that ``word`` is a slip for, or nothing where two may be."""
    most = 2 if len(word) >= _LONG else 1
    best: list[str] = []
    for other in known:
        if len(other) < 4 or abs(len(other) - len(word)) > most:
            continue
        found = distance(word, other)
        if found < most:
            most, best = found, [other]
        elif found == most:
            best.append(other)
    return best[0] if len(best) == 1 else ""


def distance(one: str, other: str) -> int:
    """Return how many letters are wrong, missing, too many, or swapped with the next."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        older, before, row = before, row, [at]
        for place, against in enumerate(other, 1):
            same = letter == against
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (not same))
            swapped = at > 1 and place > 1 and one[at - 2] == against and letter == other[place - 2]
            row.append(min(cost, older[place - 2] + 1) if swapped and not same else cost)
    return row[-1]
