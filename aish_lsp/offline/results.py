"""The result of the last command in a sentence with the most relevant lines, and what to do next.

errors.toml lists the most common errors of shells and tools: how each is recognized, what it means
and how to fix it. What an expression captures becomes a value in the commands, quoted as usual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, get_args

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.choosing import Part, chosen, plain_line, shortened
from aish_lsp.offline.table import FREE, Way, kind_of, ways_of
from aish_lsp.offline.tokens import is_name
from aish_lsp.offline.words import data, pattern, words
from aish_lsp.offline.workspace import WorkspaceFacts, steps
from aish_lsp.project.manifests.rules import Intent

#: How many lines of an output are quoted.
_LINES: Final = 6

_RELEVANT: Final = re.compile(
    r"\b(error|errors|failed|failure|failures|fatal|exception|panic|denied|cannot|can't)\b"
    r"|\bnot found\b|\bno such\b|\bno module\b|^E  |Error\b|^FAILED\b|✗|✘",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run, its exit status and what it printed."""

    command: str
    exit: int
    output: str


_IT = r"(?:that|it|this|they|the (?:\w+ )?(?:command|tests?|build|run|output|result|error)s?)"
_ENDED = r"(?:ok|okay|good|fine|done|success\w*|work\w*|pass\w*|fail\w*|green|red)"

#: Questions about the last command.
_OF_A_RESULT: Final = (
    rf"\bdid (?:{_IT}|everything|anything|all)\b",
    rf"\b(?:is|was|were|are|has|have) {_IT} {_ENDED}\b",
    rf"\bwhat (?:did|does|do|was|is wrong with) {_IT}(?! \S*[-/|])",
    r"\bwhat (?:did|does) (?:that|it|this|the)\b.*\b(?:print|say|output|show|mean)\b",
    r"\bwhat (?:was|is) the (?:output|result|error)\b",
    r"\bwhat (?:happened|went wrong|failed|broke|now|next)\b",
    rf"\bwhy (?:did|does|is|was|do|has|won't|can't|doesn't|didn't|isn't) (?:{_IT}|i)\b",
    r"\bwhy (?:did|does|do)\b.*\b(?:fail|crash|break)",
    r"^\W*why(?: not)?\W*$",
    r"^\W*which\b.*\bfail\w*\W*$",
    r"\bnow what\b",
    r"^\W*suggest what to run instead\b",
    r"\b(?:what|which) (?:was |is )?(?:the )?exit (?:code|status)\b",
    r"\b(?:last|previous) (?:output|error)\b",
    r"\b(?:fix|explain|solve|repair) (?:it|this|that|the)(?: last)?(?: error| problem)?\W*$",
    r"\bhow (?:do|can|should) (?:i|we) (?:fix|solve|repair) (?:it|this|that|the error)\b",
)
_RESULT: Final = re.compile("|".join(_OF_A_RESULT), re.IGNORECASE)


def asks_of_result(text: str) -> bool:
    """Return whether ``text`` asks about the result of the last command."""
    return _RESULT.search(" ".join(text.split())) is not None


def says_no_more(text: str) -> bool:
    """Return whether ``text``, a question about a result, mentions nothing else, such as a file."""
    terms = (words().term(word) for word in re.findall(r"[\w./-]*\w", text.lower()))
    known = {words().term(word) for word in data("errors")["of_any_result"].split()}
    return all(term in known for term in terms if term)


def asks_of_trouble(text: str) -> bool:
    """Return whether ``text`` may be about the command that was just run or its output."""
    return pattern("trouble").search(" ".join(text.split())) is not None


def result_parts(ran: Ran | None, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return what the last command did, and what to do next."""
    if ran is None:
        sentence = "Nothing has been run in this conversation yet; run a suggested command first."
        return [Part(sentence, workspace.best_steps("test"))]
    sentence, quote = _summary(ran)
    return [Part(sentence, quote=quote), *_next_steps(ran, workspace)]


def _summary(ran: Ran) -> tuple[str, tuple[str, ...]]:
    """Return a sentence about how a command ended, and the lines of its output that show it."""
    if ran.exit == 0:
        outcome = "succeeded (exit 0)"
    else:
        meaning = data("errors")["exits"].get(str(ran.exit))
        outcome = f"failed (exit {ran.exit}{f': {meaning}' if meaning else ''})"
    command = shortened(plain_line(ran.command)).replace("`", "'")
    lines = [line for line in map(str.rstrip, ran.output.split("\n")) if line.strip()]
    if not lines:
        return f"`{command}` {outcome} and printed nothing.", ()
    relevant = [line for line in lines if _RELEVANT.search(line)] if ran.exit else []
    if relevant and relevant[-1] != lines[-1]:
        relevant.append(lines[-1])
    shown = tuple((relevant or lines)[-_LINES:])
    if len(shown) == len(lines):
        says = "It printed"
    else:
        says = "The most relevant lines" if ran.exit else "It ended with"
    return f"`{command}` {outcome}. {says}:", shown


def _next_steps(ran: Ran, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return what may help after a failure, or what usually follows a success, if anything."""
    intent = next((t.intent for t in workspace.tasks if steps(t)[-1] == ran.command), None)
    if ran.exit == 0:
        return _after_success(intent, ran, workspace)
    if intent == "test" and ran.command.endswith("pytest"):
        again = (f"{ran.command} --lf -x",)
        return [Part("To run only the tests that failed, up to the first failure:", again)]
    return _cure(ran, workspace) or _fallback(intent, ran, workspace)


def _after_success(intent: Intent | None, ran: Ran, workspace: WorkspaceFacts) -> Sequence[Part]:
    if intent not in data("tasks")["next"]:
        return []
    sentence, following = data("tasks")["next"][intent]
    commands = workspace.best_steps(following)
    return [Part(sentence, commands)] if commands and commands[-1] != ran.command else []


def _cure(ran: Ran, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return what is known about the error in the output of ``ran``; empty if it is not known."""
    found = known_error(ran)
    if found is None:
        return []
    error, values = found
    if error.task in get_args(Intent):
        commands = workspace.best_steps(error.task)  # type: ignore[arg-type]
        if commands and commands[-1] != ran.command:
            return [Part(error.says, commands)]
    way = chosen(error.ways, values, values, workspace)
    return [Part(error.says, way.commands, note=way.note)] if way else [Part(error.says)]


def _fallback(intent: Intent | None, ran: Ran, workspace: WorkspaceFacts) -> Sequence[Part]:
    commands = workspace.best_steps("format") if intent == "lint" else ()
    if commands and commands[-1] != ran.command:
        return [Part("Formatting may fix some of it:", commands)]
    if workspace.in_git:
        return [Part("I do not know this error. What has changed here:", ("git status --short",))]
    return [Part("I do not know this error. What is here:", ("ls -la",))]


#: How many characters at the end of an output are searched.
_OUTPUT_LIMIT: Final = 20_000

#: Kinds that may be any text; a value of any other free kind has to be a name.
_SENTENCES: Final = frozenset(("text", "pattern", "name"))


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error: the expression that recognizes it, what to say, and the ways to fix it.

    ``task`` is a task that fixes it and is preferred to the ways if the project has it. ``command``
    is an expression that the command must match too, if the output alone is not enough.
    """

    name: str
    pattern: re.Pattern[str]
    says: str
    ways: tuple[Way, ...]
    task: str = ""
    command: re.Pattern[str] | None = None


@cache
def known_errors() -> tuple[KnownError, ...]:
    """Return the table of errors."""
    return tuple(_error(**given) for given in data("errors")["error"])


def _error(  # noqa: PLR0917 - the keys of an entry
    name: str,
    match: str,
    says: str,
    run: list[Any] | str = "",
    task: str = "",
    command: str = "",
) -> KnownError:
    ways = ways_of(run) if run else ()
    fits = re.compile(command) if command else None
    return KnownError(name, re.compile(match, re.IGNORECASE | re.MULTILINE), says, ways, task, fits)


def known_error(ran: Ran) -> tuple[KnownError, dict[str, str]] | None:
    """Return the first error of the table found in the output of ``ran``, and its values."""
    output = ran.output[-_OUTPUT_LIMIT:]
    for error in known_errors():
        if error.command is not None and not error.command.search(ran.command):
            continue
        match = error.pattern.search(f"{output}\n(exit {ran.exit})")
        if match is not None:
            given = {name: value for name, value in match.groupdict().items() if value}
            return error, {name: value for name, value in given.items() if _is_sound(name, value)}
    return None


def _is_sound(name: str, value: str) -> bool:
    """Return whether a value from an output may be put into a command: it is not an option."""
    kind = kind_of(name)
    if len(value) > 300:
        return False
    return kind not in FREE or kind in _SENTENCES or is_name(value)
