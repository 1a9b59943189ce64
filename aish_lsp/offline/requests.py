"""The request in a long question: without greetings, reasons, and clauses that only tell.

What these clauses name, and what a pronoun stands for, becomes part of the request: "I have a
folder full of logs and would like to get rid of those older than a month" asks to "get rid of the
files in logs older than a month". What limits the request is never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from aish_lsp.offline.deeds import QUOTED, asks, tells
from aish_lsp.offline.words import data, spelled_out, words
from aish_lsp.offline.workspace import WorkspaceFacts

_NAME: Final = re.compile(r"(?<![\w.])(?<!\ba )(?<!\ban )[\w.~/-]*\w")
_FILE_LIKE: Final = re.compile(r"[\w/~-]+\.[a-z]\w{0,4}")

#: The most ways that are tried to say what was told.
_MOST: Final = 6


@cache
def _says(name: str) -> re.Pattern[str]:
    """Return an expression of requests.toml."""
    known = data("requests")
    text = spelled_out(known["patterns"][name], known["parts"])
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


def shortened(text: str, workspace: WorkspaceFacts) -> str:
    """Return the request of a long question with the names in the clauses that only tell.

    It is empty if there is nothing to drop, or a condition would be dropped.
    """
    told, wanted = _sorted_out(text)
    if not wanted or any(map(_says("limits").search, told)):
        return ""
    if told and _says("such").search(wanted):
        return ""
    names = list(dict.fromkeys(name for clause in told for name in _names(clause, workspace)))
    there = _says("there").search(wanted)
    if set(names) & set(_names(wanted, workspace)) or not (names or there):
        return wanted
    if not names or (there and there["many"] and _says("things").search(" ".join(told))):
        return ""  # It is not said what "it" is, or which of the files "they" are.
    meant = " and ".join(names)
    if there is None:
        return f"{wanted.rstrip('?.! ')} in {meant}"
    holds = re.search(r"\bfull of\b|\bfiles\b|\bin it\b", " ".join(told), re.IGNORECASE)
    if there["many"] and holds and all(map(workspace.is_folder, names)):
        meant = f"the files in {meant}"
    meant = f"in {meant}" if there["inside"] else meant
    return wanted[: there.start()] + meant + wanted[there.end() :]


def _names(clause: str, workspace: WorkspaceFacts) -> list[str]:
    """Return the names in a clause: what looks like a file, and what is there."""
    return [
        name
        for name in _NAME.findall(clause)
        if _FILE_LIKE.fullmatch(name) or (words().term(name.lower()) and workspace.exists(name))
    ]


def told_of(text: str, workspace: WorkspaceFacts) -> Iterator[str]:
    """Yield the request with all that the clause before it tells of the things that are meant."""
    told, wanted = _sorted_out(text)
    if len(told) != 1 or not wanted or _says("only").search(told[0]):
        return
    clause = _says("holds").sub(r"\2 in \1", _says("around").sub("", told[0]))
    there = _says("there").search(wanted)
    for start in [0, *(match.start() for match in _says("some").finditer(clause))][:_MOST]:
        things = _says("many").sub("all", clause[start:])
        if _names(clause[:start], workspace):
            return
        if "full of" in things:
            continue  # What is meant is not the folder, but what is in it.
        if there is None:
            yield f"{wanted.rstrip('?.! ')} of {things}"
        else:
            yield wanted[: there.start()] + things + wanted[there.end() :]


def _sorted_out(text: str) -> tuple[Sequence[str], str]:
    """Return the clauses that only tell, and the request, empty if that is all there is."""
    text = words().bare(_says("gone").sub(r"please delete \1", " ".join(text.split())))
    masked = QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text)
    breaks = [
        (0, 0),
        *(match.span() for match in _says("break").finditer(masked)),
        (len(text),) * 2,
    ]
    clauses = [text[start:end] for (_, start), (end, _) in pairwise(breaks)]
    empty = [_says("empty").fullmatch(clause) for clause in clauses]
    reasons = [found[0] for found in empty if found and found["reason"]]
    if any(_says("limits").search(one) or _says("keeps").search(one) for one in reasons):
        return [], ""
    clauses = [clause for clause, found in zip(clauses, empty, strict=True) if not found]
    told: list[str] = []
    wanted = ""
    for at, clause in enumerate(clauses):
        asked = words().bare(clause)
        is_asked = asks(asked) or (asked != clause and at == len(clauses) - 1)
        others = any(words().bare(one) != one or asks(one) for one in clauses[at + 1 :])
        if wanted and (whose := re.match(r"its(?= name)", clause, re.IGNORECASE)):
            wanted = f"{wanted} whose{clause[whose.end() :]}"
        elif (not is_asked and others and not wanted) or (tells(clause) and (wanted or others)):
            if wanted and _says("demands").search(clause):
                return [], ""
            told.append(clause)
        else:
            wanted = f"{wanted}, {asked}" if wanted else asked
    return told, "" if wanted.rstrip("?.! ") == text.rstrip("?.! ") else wanted
