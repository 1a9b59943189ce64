"""What a question is about, by simple patterns. The first that fits decides, top to bottom."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from aish_lsp.project.task import Intent

#: "run the unit tests" is about tests; these stand between the two words.
_BETWEEN = (
    r"(?:(?:the|all|my|our|your|these|those|some|its|a|of|unit|integration|single"
    r"|just|only|one|this|that|every|each|failing|failed) )*"
)
_RUNS_A_TASK = (
    rf"(?! {_BETWEEN}(?:\w*tests?|testing|specs?|lint\w*|format\w*|builds?|checks?|type|mypy)\b)"
)

_IT = r"(?:that|it|this|they|the (?:\w+ )?(?:command|tests?|build|run|output|result|error)s?)"
_ENDED = r"(?:ok|okay|good|fine|done|success\w*|work\w*|pass\w*|fail\w*|green|red)"
_FILES = r"\b(?:files?|folders?|director\w+)\b"
_FIND = r"\b(?:find|locate|where (?:is|are)) (?:the |all |a |any |every )*"
_PLACES = r"(?:uses?|usages?|occurrences?|places?|mentions?|references?|lines?)"
_AT_A_PLACE = r"(?:defined|used|called|declared|implemented|mentioned|imported)"
_PROJECT = r"(?:project|repo\w*|code ?base|folder|workspace)\b"

#: The topics and how each is asked about; ``term`` is what to look for.
_TOPICS: dict[str, tuple[str, ...]] = {
    # As the code actions ask: the words behind it are the name of a file.
    "code": (r"^(?:explain|fix|suggest)\b.* lines? \d",),
    "connect": (
        r"\bconnect\w*\b.*\b(model|llm|provider|claude|gpt|gemini)\b",
        r"\b(real|what|which|another|better) (model|llm)\b",
        r"\bapi[ _-]?keys?\b",
        r"\b(ollama|llama\.?cpp|offline model|aish-lsp doctor)\b",
        r"\bwho are you\b",
    ),
    "help": (
        r"^\W*(help|hi|hello|hey|thanks?( you)?)?\W*$",
        r"\bwhat can (you|i)\b",
    ),
    "remember": (r"\b(remember|forget)\b", r"\baish'?s? memory\b"),
    "overview": (
        rf"\b(about|describe|summari[sz]e|overview of|explain) (this |the )?{_PROJECT}",
        rf"\b(what is|what kind of) (this |the )?{_PROJECT}",
        rf"\bwhat does (this|the) {_PROJECT}",
        r"\bwhat(?:'s| is) (this|here)\W*$",
    ),
    "follow_up": (
        rf"\bdid (?:{_IT}|everything|anything|all)\b",
        rf"\b(is|was|were|are|has|have) {_IT} {_ENDED}\b",
        rf"\bwhat (did|does|do|was|is wrong with) {_IT}",
        r"\bwhat (did|does) .*\b(print|say|output|show|mean)\b",
        r"\bwhat (was|is) the (output|result|error)\b",
        r"\bwhat (happened|went wrong|failed|broke|now|next)\b",
        rf"\bwhy (did|does|is|was|do|has) {_IT}",
        r"\bwhy (did|does|do)\b.*\b(fail|crash|break)",
        r"^\W*why\W*$",
        r"\bwhich\b.*\bfail\w*",
        r"\bnow what\b",
        r"\bexit (code|status)\b",
        r"\b(last|previous) (command|output)\b",
        r"\b(fix|explain) (it|this|that)( error)?\W*$",
    ),
    "git_diff": (r"\bdiff\b", r"\bwhat (have i |did i |has )?changed?\b", r"\bmy changes\b"),
    "git_status": (
        r"\bgit status\b",
        r"\b(uncommitted|untracked|unstaged)\b",
        r"\b(modified|changed) files\b",
        r"\bfiles (have |that |are |were )*(changed|modified)\b",
    ),
    "large": (rf"\b(large|larger|largest|big|bigger|biggest)\b.*{_FILES}",),
    "file": (
        rf"{_FIND}{_FILES} (?:named |called |like )?(?P<term>[^\s?]+)",
        rf"{_FIND}(?P<term>[\w*-][\w.*-]*\.\w{{1,6}})\b",
    ),
    "search": (
        r"\b(?:search|grep|look)(?: \w+)? for (?P<term>.+)",
        r"\b(?:grep|search) (?P<term>.+)",
        rf"{_FIND}{_PLACES} (?:of|with|to|where|that \w+) (?P<term>.+)",
        rf"\bwhere (?:is|are|do we|does it) (?P<term>.+?) {_AT_A_PLACE}\b",
        r"\bwho (?:calls|uses) (?P<term>.+)",
        r"\bfind (?P<term>.+)",
    ),
    "git_log": (
        r"\bgit (log|history)\b",
        r"\bcommits\b",
        r"\b(last|recent|latest) commit\b",
        r"\bhistory\b",
    ),
    "git_branch": (r"\bbranch(es)?\b",),
    "git": (r"\bgit\b", r"\bcommit\b"),
    "ports": (r"\bports?\b", r"\blistening\b"),
    "processes": (r"\bprocess(es)?\b", r"\bcpu\b", r"\bwhat is running\b"),
    "ram": (r"\bram\b", r"\b(free|available|much) memory\b", r"\bmemory (use|usage|is free)\b"),
    "disk": (r"\bdisks?\b", r"\b(free|disk) space\b", r"\bspace left\b", r"\bhow big\b"),
    "system": (r"\b(operating system|which os|what os|kernel|uname)\b",),
    "list": (rf"\b(list|show|which|what)\b.*{_FILES}", r"^\W*(ls|dir)\b"),
}

#: What may be asked for together: "how do I build and test this?"
_TASKS: dict[Intent, str] = {
    "install": r"\binstall\w*\b|\bset ?up\b|\bdependenc\w+\b|\bbootstrap\b|\bgett?(ing)? started\b",
    "build": r"\bbuild(s|ing)?\b(?! (artifacts|folder|output))|\bcompil\w+\b|\bbundle\b",
    "test": r"\btest(s|ing|ed)?\b|\bpytest\b|\bunittests?\b|\bspecs?\b",
    "lint": r"\blint\w*\b|\bcode style\b|\bstatic analysis\b",
    "format": r"\b(re)?format\w*\b|\bprettif\w+\b",
    "check": r"\btype ?-?check\w*\b|\bcheck (the )?types\b|\bmypy\b|\bchecks\b",
    "clean": r"\bclean\b",
    "start": rf"\b(dev|development|web) server\b|\bserve\b|\b(launch|start)\b{_RUNS_A_TASK}",
    "run": rf"\b(run|execute)\b{_RUNS_A_TASK}",
}
assert set(_TASKS) == set(get_args(Intent))

_MATCHERS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, patterns in _TOPICS.items()
    for pattern in patterns
)
_TASK_MATCHERS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _TASKS.items()}

_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'")
_BEFORE_A_TERM = re.compile(
    r"^(?:(?:the|a|an|all|any|every|word|words|string|text|function|method|class|symbol|variable"
    r"|term|where|code|uses|usages|of)\s+)+(?=\S)",
    re.IGNORECASE,
)
_BEHIND_A_TERM = re.compile(
    r"\s+(?:(?:in|within|inside|across|through)\s+(?:(?:the|this|my|our|all|whole)\s+)*"
    r"(?:code|codebase|project|repo|repository|files?|folder|workspace|sources?|it|here)|here"
    r"|please|is|are|(?:is|are)?\s*(?:defined|used|called))\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Topic:
    """What is asked about; ``term`` is what to look for, as the user wrote it, blanks aside."""

    name: str
    term: str = ""


def topic(text: str) -> Topic | None:
    """Return the topic of ``text`` that is no task of the project, or None."""
    line = " ".join(text.split())
    for name, matcher in _MATCHERS:
        match = matcher.search(line)
        if match is not None:
            return Topic(name, _trimmed(match.groupdict().get("term", "")))
    return None


def intents(text: str) -> tuple[Intent, ...]:
    """Return the tasks that ``text`` asks about, in the order in which it names them."""
    line = " ".join(text.split())
    found = {name: matcher.search(line) for name, matcher in _TASK_MATCHERS.items()}
    places = [(match.start(), name) for name, match in found.items() if match is not None]
    return tuple(name for _, name in sorted(places))


def _trimmed(term: str) -> str:
    """Return what is quoted in ``term``, else ``term`` without the words around the thing."""
    quoted = _QUOTED.search(term)
    if quoted is not None:
        return next(part for part in quoted.groups() if part)
    bare = term.strip(" ?!.,;:")
    while (shorter := _BEHIND_A_TERM.sub("", bare)) != bare:
        bare = shorter
    return _BEFORE_A_TERM.sub("", bare)
