"""The request in a long question: without greetings, reasons, and clauses that only tell.

What these clauses name, and what a pronoun stands for, becomes part of the request: "I have a
folder full of logs and would like to get rid of those older than a month" asks to "get rid of the
files in logs older than a month". What limits the request is never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from aish_lsp.offline.deeds import QUOTED, asks, tells
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import WorkspaceFacts

_SUBJECT: Final = (
    r"(?:i|we|you|he|she|they|it|its\s+name|there|my|our|nobody|somebody|someone|people)"
    r"(?:['\u2019]\w+)?\b"
)
_WISH: Final = (
    r"(?:i|we)(?:['\u2019]d|\s+would)?\s+(?:just\s+|only\s+|really\s+)*(?:want|need|like|love|have\s+to)\b"
    r"|(?:how|what)\s+(?:do|can|could|would|should|might)\s+(?:i|we|you)\b|(?:could|can)\s+you\b"
)
#: Where a clause ends; a conjunction begins one only before a subject or a wish.
_BREAK: Final = re.compile(
    rf"""(?:[,;:!?]|(?<!\.)\.{{1,3}})(?=\s|$)\s*(?:(?:and|but|so|therefore)\s+(?=\w))?
    |\s+-+\s+
    |\s+(?:and|but|so|therefore)\s+(?=(?:now\s+)?(?:{_SUBJECT}|all\s+(?:that\s+)?(?:i|we)\b|would|want|need|how|what|which\s+(?:ones?|of)\b))
    |\s+(?=(?:because|so\s+that|since\s+{_SUBJECT})\b)
    |(?<!\ball)(?<!what)(?<!that)(?<!and)(?<!but)(?<!so)(?<!because)\s+(?={_WISH})""",
    re.IGNORECASE | re.VERBOSE,
)
#: A clause that gives a reason, or asks without saying for what.
_EMPTY: Final = re.compile(
    rf"""\W*(?:
    (?P<reason>because|so\s+(?:that\s+)?(?!it\b){_SUBJECT}|(?:since|as)\s+{_SUBJECT}|whenever)\b.*
    |(?:sorry|apologies|hi|hello|hey|thanks|for\s+some\s+reason|i['\u2019]m\s+new)\b.*
    |(?:ok|so|well|basically|\s)*
    |(?:what|which)\s+command(?:\s+(?:do|should|can)\s+i\s+\w+)?
    |what\s+is\s+the\s+(?:best\s+)?(?:way|command)
    |how|(?:what|how)\s+(?:do|can|would|should)\s+(?:i|you|we)\s+(?:do|type|run|tell|use|know)
        (?:\s+(?:that|this|it|so))?
    |(?:what\s+to\s+do|any\s+(?:ideas?|help|hints?))(?:\s+here)?)\W*""",
    re.IGNORECASE | re.VERBOSE,
)
#: What a clause cannot be dropped with.
_LIMITS: Final = re.compile(
    r"\b(?:only|but|except|without|unless|not|never|nobody|excluding|old\w*|new\w*|\w+er than"
    r"|separat\w+|delimit\w+|semicolons?|tabs?|empty|hidden|\w+able|extensions?|suffix|prefix|owned"
    r"|permissions?|names?|largest|smallest|duplicates?|twice|links?|\d+)\b|(?<!\w)[\"'`]\S",
    re.IGNORECASE,
)
#: A reason that names what is to stay may be a condition: with it, nothing is dropped.
_KEEPS: Final = re.compile(r"\b(?:keep\w*|since|whenever|still)\b", re.IGNORECASE)
#: What is still asked for in a clause that follows the request: "it has to be signed".
_DEMANDS: Final = re.compile(
    r"\b(?:needs?|ha(?:s|ve) to|must|should|want|also|still|no|nothing|keep\w*|leave\w*|each)\b",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(r"\b(?:only|except|without|unless|but)\b", re.IGNORECASE)
#: What stands for something that was told before.
_THERE: Final = re.compile(
    r"\b(?:(?P<many>(?:all of )?(?:them|those|these)|the ones|they)|(?P<inside>in there)"
    r"|it|(?:this|that|the) (?:file|folder|directory|archive))\b(?! (?:is|was) possible)",
    re.IGNORECASE,
)
_THINGS: Final = re.compile(r"\b(?:files|folders|directories)\b", re.IGNORECASE)
_NAME: Final = re.compile(r"(?<![\w.])(?<!\ba )(?<!\ban )[\w.~/-]*\w")
_FILE_LIKE: Final = re.compile(r"[\w/~-]+\.[a-z]\w{0,4}")
#: What things begin with that are brought up: "there are some empty files in docs".
_SOME: Final = re.compile(
    r"\b(?:all|some|many|several|a lot of|lots of|the|my|an?|files|folders)\b", re.IGNORECASE
)
#: "the folder logs contains old files"
_HOLDS: Final = re.compile(
    r"\W*(?:(?:the|my|our) )?(?:folder |directory )?(\S+)(?: folder| directory)?"
    r" (?:contains|has) (.+)",
    re.IGNORECASE,
)
_AROUND: Final = re.compile(r"\s+(?:lying|hanging|sitting|spread|scattered)(?:\s+around)?\b")

#: The most ways that are tried to say what was told.
_MOST: Final = 6


def shortened(text: str, workspace: WorkspaceFacts) -> str:
    """Return the request of a long question with the names in the clauses that only tell.

    It is empty if there is nothing to drop, or a condition would be dropped.
    """
    told, wanted = _sorted_out(text)
    if not wanted or any(map(_LIMITS.search, told)):
        return ""
    names = list(dict.fromkeys(name for clause in told for name in _names(clause, workspace)))
    there = _THERE.search(wanted)
    if set(names) & set(_names(wanted, workspace)) or not (names or there):
        return wanted
    if not names:
        things = there and there["many"] and _THINGS.search(" ".join(told))
        # It is not said what "it" is.
        return _THERE.sub(things[0], wanted, count=1) if things else ""
    meant = " and ".join(names)
    if there is None:
        return f"{wanted.rstrip('?.! ')} in {meant}"
    holds = re.search(r"\bfull of\b|\bfiles\b", " ".join(told), re.IGNORECASE)
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
    if len(told) != 1 or not wanted or _ONLY.search(told[0]):
        return
    clause = _HOLDS.sub(r"\2 in \1", _AROUND.sub("", told[0]))
    there = _THERE.search(wanted)
    for start in [0, *(match.start() for match in _SOME.finditer(clause))][:_MOST]:
        things = clause[start:]
        if _names(clause[:start], workspace):
            return
        if there is None:
            yield f"{wanted.rstrip('?.! ')} of {things}"
        else:
            yield wanted[: there.start()] + things + wanted[there.end() :]


def _sorted_out(text: str) -> tuple[Sequence[str], str]:
    """Return the clauses that only tell, and the request, empty if that is all there is."""
    text = words().bare(" ".join(text.split()))
    masked = QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text)
    breaks = [(0, 0), *(match.span() for match in _BREAK.finditer(masked)), (len(text),) * 2]
    clauses = [text[start:end] for (_, start), (end, _) in pairwise(breaks)]
    empty = [_EMPTY.fullmatch(clause) for clause in clauses]
    reasons = [found[0] for found in empty if found and found["reason"]]
    if any(_LIMITS.search(one) or _KEEPS.search(one) for one in reasons):
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
            if wanted and _DEMANDS.search(clause):
                return [], ""
            told.append(clause)
        else:
            wanted = f"{wanted}, {asked}" if wanted else asked
    return told, "" if wanted.rstrip("?.! ") == text.rstrip("?.! ") else wanted
