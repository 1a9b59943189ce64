"""Whether an intent does what a question asks for: what is to be done, and with which program.

What an intent does is judged as any command is before it runs. One that can change or lose
something is meant only by a question that has a verb for it, and never by one that asks to be
shown or told something. An answer with another program than the question names is not what was
asked either, however alike the words are: "outdated npm packages".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Final

from aish_lsp.foundation.events import Risk
from aish_lsp.offline.choosing import render
from aish_lsp.offline.table import Intent, Way, phrasings_of
from aish_lsp.offline.words import words

#: How a question begins that asks to be shown or told something.
_ASKS: Final = re.compile(
    r"\W*(?:show|list|display|print|see|view|find|count|compare|is|are|was|were|do|does|did|has|have|"
    r"am|which|what|what's|whats|who|whos|who's|whose|where|wheres|when|why|how)\b",
    re.IGNORECASE,
)
#: A second sentence or clause: "port 80 is in use, kill it".
_GOES_ON: Final = re.compile(r"(?:[,;:.]\s|\b(?:and|then|so)\s)(?P<rest>.+)", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"<[a-z@-]+>")
_LEVELS: Final[tuple[Risk, ...]] = ("safe", "caution", "destructive")

#: Deeds that undo one another: what is to be installed is not to be removed.
_BRINGS: Final = frozenset(["install", "make", "start", "change"])
_TAKES: Final = frozenset(["delete", "stop", "undo"])
#: Deeds that are no everyday nouns.
_HARD_DEEDS: Final = frozenset(["delete", "undo", "install"])


def misfits(
    intent: Intent, terms: set[str], first: str, *, asks: bool, ignored: bool
) -> Iterator[str]:
    """Yield what tells that ``intent`` does not do just what is asked.

    ``terms`` are the question's, ``first`` the one that it begins with; ``asks`` says that it asks
    to be told something, ``ignored`` that the intent leaves out a value that it was asked with.
    """
    does, asked, risk = deeds_of(intent), deeds(terms), risk_of(intent)
    if ignored:
        yield "left out" if risk == "safe" else "left out of a change"
    changes = risk == "destructive" or (risk == "caution" and bool(does))
    if not (asked & does or terms & verbs_of(intent)):
        if changes:
            yield "not asked to"
        elif asked & _HARD_DEEDS and not intent.topic:
            yield "another deed first" if deeds([first]) & _HARD_DEEDS else "another deed"
    elif asks and (risk == "destructive" or (changes and not is_asked(intent))):
        yield "asked to be told"
    if does and asked and not asked & does:
        yield "not this deed"
        begins = deeds([first])
        if (begins & _BRINGS and does <= _TAKES) or (begins & _TAKES and does <= _BRINGS):
            yield "the opposite"
    if risk != "safe":
        yield risk


def deeds(terms: Iterable[str]) -> frozenset[str]:
    """Return the kinds of deed that ``terms`` name."""
    known = words().deeds
    return frozenset(kind for term in terms for kind in known.get(term, ()))


def only_asks(question: str) -> bool:
    """Return whether ``question``, without its lead-in, asks to be shown or told something."""
    text = words().bare(question)
    if not _ASKS.match(text):
        return False
    clause = _GOES_ON.search(text)
    if clause is None or _ASKS.match(clause["rest"]):
        return True
    begins = re.match(r"\W*([\w'-]+)", clause["rest"])
    return begins is None or not deeds([words().term(begins[1].lower())])


#: What is not to be done, and what asks for a definition: nothing that a command does.
_NO_REQUEST: Final = re.compile(
    r"\W*(?:please\s+)?(?:(?:i\s+)?(?:do\s+not|do ?n['\u2019]?t|never)"
    r"(?!\s+(?:know|remember|have|see|get|understand|care|need|"
    r"want\s+(?:the|this|that|my)\b))|what\s+(?:happens|would\s+happen)\s+(?:if|when)|should\s+i|"
    r"is\s+it\s+(?:safe|ok|okay|dangerous|bad|good)|"
    r"(?:why|when)\s+(?:should|would|do)\s+(?:i|we|people|you)\b|"
    r"(?:\w+\s+){0,2}how(?:['\u2019]?s|\s+is|\s+are|\s+was)\s+(?:you|your)\b|i\s+(?:love|hate|like)\s+you|"
    r"(?:what(?:['\u2019]s|\s+is|\s+are)\s+the\s+)?(?:best|better|worst)\s+(?!way|command|compression)\w+|"
    r"which\s+(?:\w+\s+)?is\s+(?:better|best|nicer)\b|who\s+invented\b)"
    r"|.*\bwhich\s+(?:one\s+)?is\s+(?:better|best)\W*$"
    r"|\W*what(?:['\u2019]s|s|\s+is|\s+are)\s+(?:an?\s+)?[a-z]+\W*$",
    re.IGNORECASE,
)


def is_request(question: str) -> bool:
    """Return whether ``question`` asks for what a command can do or tell."""
    return (
        _NO_REQUEST.match(question) is None
        or question.endswith("any more")
        or "anymore" in question
    )


#: Intents of which it is remembered what they are there for.
_REMEMBERED: Final = 1024
#: So many of an intent's phrasings have a word for a deed where it is there for that.
_MOSTLY: Final = 0.6


#: Words that begin a phrasing and are no verb for what is to be done.
_NO_VERBS: Final = frozenset(
    [
        "git",
        "docker",
        "npm",
        "pip",
        "apt",
        "brew",
        "cargo",
        "kubectl",
        "dockercompose",
        "show",
        "find",
    ]
)
#: Verbs that mean too much to be compared elsewhere.
_PLAIN_VERBS: Final = frozenset(["get", "go", "let", "give", "take", "bring", "put"])
_NONE: Final[frozenset[str]] = frozenset()


def deeds_of(intent: Intent) -> frozenset[str]:
    """Return the kinds of deed that ``intent`` is there for, by its phrasings."""
    return _deeds_of(intent.number)


@lru_cache(_REMEMBERED)
def _deeds_of(number: int) -> frozenset[str]:
    found = [deeds(phrasing.terms) for phrasing in phrasings_of(number)]
    mostly = sum(map(bool, found)) >= _MOSTLY * len(found)
    return frozenset().union(*found) if mostly else _NONE


def is_asked(intent: Intent) -> bool:
    """Return whether a phrasing of ``intent`` asks to be shown or told something."""
    return _is_asked(intent.number)


@lru_cache(_REMEMBERED)
def _is_asked(number: int) -> bool:
    return any(
        _ASKS.match(words().bare(" ".join(phrasing.wording))) for phrasing in phrasings_of(number)
    )


_risks: Final[dict[str, Risk]] = {}


def verbs_of(intent: Intent) -> frozenset[str]:
    """Return the words with which the phrasings of ``intent`` begin: what it is asked for with."""
    return _verbs_of(intent.number)


@lru_cache(_REMEMBERED)
def _verbs_of(number: int) -> frozenset[str]:
    first = [phrasing.wording[0] for phrasing in phrasings_of(number)]
    terms = {word if word in _PLAIN_VERBS else words().term(word) for word in first}
    return frozenset(terms - _NO_VERBS - {""})


def risk_of(intent: Intent) -> Risk:
    """Return how much the commands of ``intent`` can harm: the worst of them decides."""
    if intent.name not in _risks:
        _risks[intent.name] = max(_judged(intent), key=_LEVELS.index, default="safe")
    return _risks[intent.name]


def _judged(intent: Intent) -> list[Risk]:
    # The parser and the tables of risks come with the first intent that is likely to be meant.
    from aish_lsp.shell.risk import classify  # noqa: PLC0415

    if intent.topic.startswith("task:"):
        return ["caution"]
    # A command that is the user's own is asked for by its name.
    commands = {
        command.replace("{command|raw}", "true") for way in intent.ways for command in way.run
    }
    shown = (_PLACEHOLDER.sub("x", render(command, intent.defaults)) for command in commands)
    return [classify(command, "bash").risk for command in shown]


#: What a question may name, and the programs that its commands are of.
_PROGRAMS: Final[Mapping[str, frozenset[str]]] = {
    **{
        name: frozenset((name,))
        for name in (
            *("npm", "yarn", "pnpm", "bun", "uv", "poetry", "pdm", "conda", "pipx", "brew", "dnf"),
            *("yum", "pacman", "apk", "zypper", "snap", "flatpak", "cargo", "gem", "bundle"),
            *("composer", "maven", "gradle", "podman", "helm", "terraform", "ansible", "svn", "hg"),
            *("vagrant", "heroku", "aws", "gcloud", "az", "netlify", "vercel", "mvn", "rustup"),
        )
    },
    "pip": frozenset(("pip", "pip3", "pip-audit")),
    "pip3": frozenset(("pip", "pip3", "pip-audit")),
    "homebrew": frozenset(("brew",)),
    "apt": frozenset(("apt", "apt-get", "apt-cache", "apt-mark", "dpkg", "add-apt-repository")),
    "apt-get": frozenset(("apt", "apt-get")),
    "docker": frozenset(("docker", "docker-compose")),
    "kubectl": frozenset(("kubectl",)),
    "kubernetes": frozenset(("kubectl",)),
    "k8s": frozenset(("kubectl",)),
    "git": frozenset(("git",)),
}
_WORD: Final = re.compile(r"[\w.-]*\w")
#: Conditions of a way that a question settles which names the program.
_SETTLED: Final = ("has:", "!has:", "here:", "!here:", "on:", "!on:")


def named(words: Iterable[str]) -> frozenset[str]:
    """Return the programs that ``words`` name."""
    return frozenset(word for word in words if word in _PROGRAMS)


@cache
def _used(way: Way) -> frozenset[str]:
    return frozenset(word for command in way.run for word in _WORD.findall(command))


def agrees(intent: Intent, program: str) -> bool:
    """Return whether a command of ``intent`` is of ``program``, or what is said of it names it."""
    return (
        any(_PROGRAMS[program] & _used(way) for way in intent.ways)
        or program in intent.does.lower()
    )


def ways_with(intent: Intent, programs: Iterable[str]) -> tuple[Way, ...]:
    """Return the ways of ``intent`` that are of one of ``programs``; none where all or none are.

    The last of them serves whatever is installed: the question says that it is to be that one.
    """
    wanted = frozenset[str]().union(*(_PROGRAMS[program] for program in programs))
    found = [way for way in intent.ways if wanted & _used(way)]
    if not found or len(found) == len(intent.ways):
        return ()
    kept = tuple(term for term in found[-1].when if not term.startswith(_SETTLED))
    return (*found, replace(found[-1], when=kept))
