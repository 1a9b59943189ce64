"""Misspelled words of a question, replaced by the words of the table that they probably are.

Names are not words of the table: what is quoted, exists here or follows a word such as "called" is
kept as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from aish_lsp.offline.deeds import QUOTED
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.words import group, words
from aish_lsp.offline.workspace import WorkspaceFacts

#: A word alone, not part of a path or of an option.
_WORD: Final = re.compile(r"(?<![\w./@:+=~$*'\u2019-])[A-Za-z]{3,19}(?![\w/@:+=~*'\u2019-]|\.\w)")
#: How long a word has to be to have one wrong letter, and two mistakes.
_MEDIUM: Final = 6
_LONG: Final = 8
#: How often the table has to have a word that others are taken for.
_USUAL: Final = 3
_MOST: Final = 6


def corrected(text: str, workspace: WorkspaceFacts) -> str:
    """Return ``text`` with its misspelled words as the table spells them: "waht", "stauts"."""
    parts: list[str] = []
    end = 0
    for word in _misspelled(text, workspace):
        meant = _meant(word[0].lower())
        if meant:
            parts += [text[end : word.start()], meant]
            end = word.end()
    return "".join([*parts, text[end:]])


def _misspelled(text: str, workspace: WorkspaceFacts) -> Iterator[re.Match[str]]:
    """Yield the words that are neither of the table nor names, a few at most."""
    quoted = [found.span() for found in QUOTED.finditer(text)]
    before, left = "", _MOST
    for word in _WORD.finditer(text):
        said, previous = word[0].lower(), before
        before = said
        if (
            left
            and previous not in group("before_names")
            and not _is_known(said)
            and not any(start <= word.start() < end for start, end in quoted)
            and not workspace.exists(word[0])
            and not workspace.alike(word[0])
            and not workspace.has_branch(word[0])
        ):
            left -= 1
            yield word


def _is_known(word: str) -> bool:
    term = words().term(word)
    return (
        not term
        or term in ranking().weights
        or word in ranking().spellings
        or word in words().canonical
        or any(word in listed or term in listed for listed in (*_listed(), words().beyond))
    )


@cache
def _listed() -> tuple[frozenset[str], ...]:
    """Return the lists of words that a question may contain."""
    known = words()
    return (
        *known.groups.values(),
        known.light,
        frozenset(known.extensions),
        frozenset(known.numbers),
    )


@cache
def _spellings() -> dict[str, int]:
    """Return how usual each word is that others may be misspellings of."""
    usual = {word: times for word, times in ranking().spellings.items() if times >= _USUAL}
    return usual | {word: 1000 for word in group("stop") if word.isalpha() and len(word) > 2}


def _meant(word: str) -> str:
    """Return the word that ``word`` misspells; empty if there is none, or none likelier."""
    found = [
        (mistakes, -times, other)
        for other, times in _spellings().items()
        if (mistakes := _mistakes(word, other))
    ]
    return min(found, default=(0, 0, ""))[2]


def _mistakes(word: str, other: str) -> int:
    """Return how unlikely ``word`` is for ``other``: 1 for two letters swapped; 0 is impossible."""
    longer = len(other) - len(word)
    if abs(longer) > 1 + (len(word) >= _LONG):
        return 0
    if longer == 0 and sorted(word) == sorted(other):
        wrong = [at for at, (one, two) in enumerate(zip(word, other, strict=True)) if one != two]
        if len(wrong) == 2 and wrong[1] == wrong[0] + 1:
            return 1
    if word[0] != other[0] or min(len(word), len(other)) < 3 + (longer != 1):
        return 0
    if len(word) == 3 and word[-1] != other[-1]:
        return 0
    found = _distance(word, other)
    if found == 1 and (longer or len(word) >= _MEDIUM):
        return 2
    return 3 if found == 2 and len(word) >= _LONG else 0


def _distance(one: str, other: str) -> int:
    """Return how many letters are wrong, missing, surplus or swapped with the next."""
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
