"""Whether an intent does what a question asks for: the right action, with the right program.

The commands of an intent are classified like any command before it runs. An intent that can change
or lose something is meant only by a question with a verb for it, and never by one that asks to be
shown or told something. An answer with a different program than the question names is wrong too,
however similar the words are: "outdated npm packages".

Some clauses of a question only describe the situation ("my disk is full, ..."); the request is in
the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from aish_lsp.foundation.events import Risk
from aish_lsp.offline.choosing import render
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import Intent, Way
from aish_lsp.offline.words import group, pattern, words

#: A second sentence or clause: "port 80 is in use, kill it".
_GOES_ON: Final = re.compile(r"(?:[,;:.]\s|\b(?:and|then|so)\s)(?P<rest>.+)", re.IGNORECASE)
#: How a question begins that says all of what it asks for.
INQUIRES: Final = re.compile(
    r"\W*(?:what|which|who|where|when|why|how|is|are|does|did|has|was|were|should|can"
    r"|do(?=\s+(?:i|we|you|they|any|all|these|those|the|my)\b))\b(?! about)",
    re.IGNORECASE,
)
#: The same of one that asks what was done, by whom, or whether to do it.
_ASKS_BACK: Final = re.compile(
    r"\W*(?:did|has|had|was|were|should|who|have\s+(?:i|we|you|they))\b", re.IGNORECASE
)
_PLACEHOLDER: Final = re.compile(r"<[a-z@-]+>")
_LEVELS: Final[tuple[Risk, ...]] = ("safe", "caution", "destructive")

#: Deeds that undo one another: what is to be installed is not to be removed.
_BRINGS: Final = frozenset(["install", "make", "start", "change"])
_TAKES: Final = frozenset(["delete", "stop", "undo"])
_NONE: Final[frozenset[str]] = frozenset()
#: Deeds whose words are not everyday nouns.
_HARD_DEEDS: Final = frozenset(["delete", "undo", "install"])


def misfits(
    intent: Intent, terms: set[str], first: str, *, asks: bool, ignored: bool
) -> Iterator[str]:
    """Yield the evidence that ``intent`` does not do exactly what is asked.

    ``terms`` are the question's, ``first`` is its first one. ``asks`` means that it asks to be told
    something, ``ignored`` that the intent leaves out one of its values.
    """
    does, asked, risk = deeds_of(intent.number), deeds(terms), risk_of(intent)
    if ignored:
        yield "left out" if risk == "safe" else "left out of a change"
    begins = deeds([first]) & _HARD_DEEDS
    if begins and not (intent.topic or begins & does or first in verbs_of(intent.number)):
        yield "another deed first"
    if not (asked & does or terms & verbs_of(intent.number)):
        if changes(intent):
            yield "not asked to"
        elif asked & _HARD_DEEDS and not intent.topic:
            yield "another deed"
    elif asks and (risk == "destructive" or (changes(intent) and not is_asked(intent.number))):
        yield "asked to be told"
    if does and asked and not asked & does:
        yield "not this deed"
        begins = deeds([first])
        if (begins & _BRINGS and does <= _TAKES) or (begins & _TAKES and does <= _BRINGS):
            yield "the opposite"
    if risk != "safe":
        yield risk


def changes(intent: Intent) -> bool:
    """Return whether ``intent`` changes or loses something, and does not only look at it."""
    risk = risk_of(intent)
    return risk == "destructive" or (risk == "caution" and bool(deeds_of(intent.number)))


def is_only_asked(intent: Intent, question: str) -> bool:
    """Return whether a question like "which ...?" gets no answer that changes something."""
    is_changed = risk_of(intent) != "safe" and not intent.topic
    asks_back = _ASKS_BACK.match(question) is not None and changes(intent)
    inquires = INQUIRES.match(question) is not None and not is_asked(intent.number)
    return is_changed and (asks_back or inquires)


def is_asked_for(intent: Intent, said: set[str]) -> bool:
    """Return whether ``said``, words and terms, has a verb for an intent that loses something."""
    does, risk = deeds_of(intent.number), risk_of(intent)
    loses = does & _TAKES if risk == "destructive" else risk != "safe" and does and does <= _TAKES
    meant = _TAKES | (_BRINGS if said & group("denying") else _NONE)  # "do not start it at boot"
    return not loses or bool(deeds(said) & does & meant or said & group("loses"))


def deeds(terms: Iterable[str]) -> frozenset[str]:
    """Return the kinds of action that ``terms`` name."""
    known = words().deeds
    return frozenset(kind for term in terms for kind in known.get(term, ()))


def only_asks(question: str) -> bool:
    """Return whether ``question``, without its lead-in, asks to be shown or told something."""
    text = words().bare(question)
    if not pattern("asks").match(text):
        return False
    clause = _GOES_ON.search(text)
    if clause is None or pattern("asks").match(clause["rest"]):
        return True
    begins = re.match(r"\W*([\w'-]+)", clause["rest"])
    return begins is None or not deeds([words().term(begins[1].lower())])


def is_request(question: str) -> bool:
    """Return whether ``question`` asks for something that a command can do or show."""
    return (
        pattern("no_request").match(question) is None
        or question.endswith("any more")
        or "anymore" in question
    )


QUOTED: Final = re.compile(
    r"""(?<!\S)\{\s*"[^{}]*\}|`[^`]+`|(?<!\w)"[^"]+"|(?<!\w)'[^']+'(?!\w)|[\u201c\u201e][^\u201c\u201d]+[\u201c\u201d]"""
)
#: An English word.
PLAIN_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
#: Words that begin a question which only asks to be shown something.
LOOKS: Final = frozenset(("show", "find", "search", "check", "count", "compare"))
_SHOWS: Final = LOOKS | {"watch", "open", "explain", "download", "wait"}


def asides(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each clause that only describes the situation, if others ask.

    The third value is whether that is certain. If not, the clause merely asks for nothing and comes
    before one that does ("test suite takes forever, show the slowest tests"): its values may still
    be meant.
    """
    text = QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text)
    marks = [0, *(match.end() for match in pattern("clause_end").finditer(text)), len(text)]
    clauses = [(start, end) for start, end in pairwise(marks) if text[start:end].strip()]
    told = [tells(text[start:end]) for start, end in clauses]
    if all(told):
        return
    asked = [
        not tells and asks(text[start:end])
        for tells, (start, end) in zip(told, clauses, strict=True)
    ]
    for at, (start, end) in enumerate(clauses):
        if told[at] or (
            any(asked[at + 1 :])
            and not asked[at]
            and not pattern("says_where").match(text[start:end])
        ):
            yield start, end, told[at]


def tells(clause: str) -> bool:
    """Return whether a clause certainly only describes the situation."""
    return bool(
        pattern("describes").match(clause)
        or (pattern("ends_badly").match(clause) and not asks(clause))
    )


def asks(clause: str) -> bool:
    """Return whether a clause begins like a request: with a verb, or "which"."""
    found = PLAIN_WORD.search(words().bare(clause))
    first = found[0].lower() if found else ""
    term = words().term(first)
    return (
        first in group("question_words")
        or term in words().deeds
        or term in _SHOWS
        or first in group("programs")
    )


#: The most intents whose actions are cached.
_REMEMBERED: Final = 1024
#: An intent has a deed if at least this share of its phrasings have a word for one.
_MOSTLY: Final = 0.6


@lru_cache(_REMEMBERED)
def deeds_of(number: int) -> frozenset[str]:
    """Return the kinds of action that an intent's phrasings ask for, by the intent's number."""
    found = [deeds(phrasing.terms) for phrasing in ranking().phrasings_of(number)]
    mostly = sum(map(bool, found)) >= _MOSTLY * len(found)
    return frozenset().union(*found) if mostly else _NONE


@lru_cache(_REMEMBERED)
def is_asked(number: int) -> bool:
    """Return whether a phrasing of the intent with a number asks to be shown or told something."""
    wordings = (" ".join(phrasing.wording) for phrasing in ranking().phrasings_of(number))
    return any(
        pattern("asks").match(words().bare(wording)) or re.match(r"how\w", wording)  # "howmany"
        for wording in wordings
    )


_risks: Final[dict[str, Risk]] = {}


@lru_cache(_REMEMBERED)
def verbs_of(number: int) -> frozenset[str]:
    """Return the verbs with which the phrasings of the intent with a number begin."""
    first = [phrasing.wording[0] for phrasing in ranking().phrasings_of(number)]
    terms = {word if word in group("plain_verbs") else words().term(word) for word in first}
    return frozenset(terms - group("no_verbs") - {""})


def risk_of(intent: Intent) -> Risk:
    """Return how risky the commands of ``intent`` are: the riskiest decides."""
    if intent.name not in _risks:
        _risks[intent.name] = max(_judged(intent), key=_LEVELS.index, default="safe")
    return _risks[intent.name]


def _judged(intent: Intent) -> list[Risk]:
    # The parser and the tables of risks are loaded for the first likely intent.
    from aish_lsp.shell.risk import classify  # noqa: PLC0415

    if intent.topic.startswith("task:"):
        return ["caution"]
    # A command that is the user's own is asked for by its name.
    commands = {
        command.replace("{command|raw}", "true") for way in intent.ways for command in way.run
    }
    shown = (_PLACEHOLDER.sub("x", render(command, intent.defaults)) for command in commands)
    return [classify(command, "bash", confined=True).risk for command in shown]


_WORD: Final = re.compile(r"[\w.-]*\w")
#: Conditions of a way that no longer matter if the question names the program.
_SETTLED: Final = ("has:", "!has:", "here:", "!here:", "on:", "!on:")


def named(said: Iterable[str]) -> frozenset[str]:
    """Return the programs that ``said`` name."""
    return frozenset(word for word in said if word in words().programs_of)


@cache
def _used(way: Way) -> frozenset[str]:
    return frozenset(word for command in way.run for word in _WORD.findall(command))


def agrees(intent: Intent, program: str) -> bool:
    """Return whether ``intent`` has a command of ``program`` or names it in its description."""
    return (
        any(words().programs_of[program] & _used(way) for way in intent.ways)
        or program in intent.does.lower()
    )


def ways_with(intent: Intent, programs: Iterable[str]) -> tuple[Way, ...]:
    """Return the ways of ``intent`` that use one of ``programs``; empty if all or none do.

    The last of them is used whatever is installed, since the question asks for that program.
    """
    wanted = frozenset[str]().union(*(words().programs_of[program] for program in programs))
    found = [way for way in intent.ways if wanted & _used(way)]
    if not found or len(found) == len(intent.ways):
        return ()
    kept = tuple(term for term in found[-1].when if not term.startswith(_SETTLED))
    return (*found, replace(found[-1], when=kept))
