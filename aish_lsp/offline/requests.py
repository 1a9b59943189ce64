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

#: Words of requests that may lose something.
_LOSES: Final = frozenset(("delete", "kill", "undo", "discard", "reset", "move", "clean", "empty"))

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
    there = _says("there").search(wanted)
    loses = bool(_terms(wanted) & _LOSES)
    names = list(dict.fromkeys(name for clause in told for name in _names(clause, workspace)))
    if (
        not wanted
        or _limits(told, wanted, refers=bool(there or names))
        or (told and _says("such").search(wanted))
    ):
        return ""
    if there and (_names(wanted[: there.start()], workspace) or (there["owner"] and not told)):
        there = None  # It was named in the request itself.
    if set(names) & set(_names(wanted, workspace)) or not (names or there):
        return "" if there and loses else wanted
    if not names or (there and there["many"] and _says("things").search(" ".join(told))):
        return ""  # It is not said what "it" is, or which of the files "they" are.
    meant = " and ".join(names)
    if there and there["owner"]:
        rest = re.sub(r"^ \w+", lambda noun: f"{noun[0]} of {meant}", wanted[there.end() :])
        return f"{wanted[: there.start()]}the{rest}"
    if there is None:
        own = loses and _names(wanted, workspace)  # There may be a copy in what was told.
        return wanted if own else f"{wanted.rstrip('?.! ')} in {meant}"
    holds = re.search(r"\bfull of\b|\bfiles\b|\bin it\b", " ".join(told), re.IGNORECASE)
    if there["many"] and holds and all(map(workspace.is_folder, names)):
        meant = f"the files in {meant}"
    meant = f"in {meant}" if there["inside"] else meant
    return wanted[: there.start()] + meant + wanted[there.end() :]


def _limits(told: Sequence[str], wanted: str, *, refers: bool) -> bool:
    """Return whether a clause that only tells may limit what is wanted.

    Where the request says itself what it is about, and loses nothing, only conditions do.
    """
    said = _terms(wanted)
    several = {words().term(one) for clause in told for one in re.findall(r"\w+s\b", clause)}
    is_about = refers or said & _LOSES or said & several - words().light - {""}
    limits = _says("limits" if is_about else "conditions")
    return any(limits.search(_says("called").sub("", clause)) for clause in told)


def _terms(clause: str) -> set[str]:
    """Return the words of a clause that say something, as they are compared."""
    found = (words().term(word.lower()) for word in re.findall(r"[\w'-]+", clause))
    return {term for term in found if term} - words().light


def _names(clause: str, workspace: WorkspaceFacts) -> list[str]:
    """Return the names in a clause: what is called so, else what looks like a file or is there."""
    called = [f"the {kind} {name}" for kind, name in _says("called").findall(clause)]
    return called or [
        name
        for name in _NAME.findall(clause)
        if _FILE_LIKE.fullmatch(name) or (words().term(name.lower()) and workspace.exists(name))
    ]


def told_of(text: str, workspace: WorkspaceFacts) -> Iterator[str]:
    """Yield the request with all that the clause before it tells of the things that are meant."""
    told, wanted = _sorted_out(text)
    there = _says("there").search(wanted)
    if len(told) != 1 or not wanted or _says("only").search(told[0]):
        return
    if there is None and _names(wanted, workspace) and _terms(wanted) & _LOSES:
        return  # It says itself what is to go.
    clause = _says("holds").sub(r"\2 in \1", _says("around").sub("", told[0]))
    for start in [0, *(match.start() for match in _says("some").finditer(clause))][:_MOST]:
        things = _says("many").sub("all", clause[start:])
        if _names(clause[:start], workspace):
            return
        if "full of" in things or clause[:start].endswith((" in ", " into ", " from ")):
            continue  # What is meant is in the folder, or was put into some.
        if there is None:
            yield f"{wanted.rstrip('?.! ')} of {things}"
        else:
            yield wanted[: there.start()] + things + wanted[there.end() :]


def _only_tells(clause: str) -> bool:
    return tells(clause) or _says("scene").match(clause) is not None


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
    limits = _says("limits" if _terms(text) & _LOSES else "only")
    if any(limits.search(one) or _says("keeps").search(one) for one in reasons):
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
        elif told and not wanted and _says("relative").match(clause):
            told[-1] = f"{told[-1]}, {clause}"
        elif (not is_asked and others and not wanted) or (
            _only_tells(clause) and (wanted or others)
        ):
            besides = _says("besides").match(clause)
            if wanted and besides:
                wanted = f"{wanted} and {clause[besides.end() :]}"
                continue
            if wanted and any(_says(one).search(clause) for one in ("demands", "limits")):
                return [], ""  # What is told behind the request may say more of it.
            told.append(clause)
        else:
            wanted = f"{wanted}, {asked}" if wanted else asked
    return told, "" if wanted.rstrip("?.! ") == text.rstrip("?.! ") else wanted
