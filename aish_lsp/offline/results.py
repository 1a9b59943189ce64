"""What the last command did, in a sentence and its telling lines, and what to do next.

errors.toml has the commonest errors of shells and tools: how each is known, what it means, and what
mends it. What an expression captures is a value for the commands, and quoted as such.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from aish_lsp.offline.choosing import chosen
from aish_lsp.offline.part import Part, plain_line, shortened
from aish_lsp.offline.question import Ran
from aish_lsp.offline.table import FREE, Way, kind_of, ways_of
from aish_lsp.offline.tokens import is_name
from aish_lsp.offline.workspace import Workspace, steps
from aish_lsp.project.manifests.reading import Intent

#: Lines of an output that are quoted.
_LINES: Final = 6

_EXITS: Final = {
    124: "it took too long",
    126: "it cannot be started",
    127: "there is no such command",
    130: "it was interrupted",
    137: "it was killed",
    139: "it crashed: it used memory that is not its own",
    143: "it was ended",
}

_TELLING: Final = re.compile(
    r"\b(error|errors|failed|failure|failures|fatal|exception|panic|denied|cannot|can't)\b"
    r"|\bnot found\b|\bno such\b|\bno module\b|^E  |Error\b|^FAILED\b|✗|✘",
    re.IGNORECASE,
)

_AFTER_SUCCESS: Final[dict[Intent, tuple[str, Intent]]] = {
    "install": ("Next, the tests:", "test"),
    "build": ("Next, the tests:", "test"),
    "lint": ("Next, the tests:", "test"),
    "check": ("Next, the tests:", "test"),
    "clean": ("Next, build it again:", "build"),
    "test": ("Next, the linter:", "lint"),
}


def result_parts(ran: Ran | None, workspace: Workspace) -> Sequence[Part]:
    """Return what the last command did, and what to do next."""
    if ran is None:
        sentence = "Nothing has been run in this conversation yet; run a suggested command first."
        return [Part(sentence, workspace.best_steps("test"))]
    sentence, quote = told(ran)
    return [Part(sentence, quote=quote), *_next(ran, workspace)]


def told(ran: Ran) -> tuple[str, tuple[str, ...]]:
    """Return whether a command succeeded, in a sentence, and the lines that show it."""
    if ran.exit == 0:
        outcome = "succeeded (exit 0)"
    else:
        meaning = _EXITS.get(ran.exit)
        outcome = f"failed (exit {ran.exit}{f': {meaning}' if meaning else ''})"
    command = shortened(plain_line(ran.command)).replace("`", "'")
    lines = [line for line in map(str.rstrip, ran.output.split("\n")) if line.strip()]
    if not lines:
        return f"`{command}` {outcome} and printed nothing.", ()
    telling = [line for line in lines if _TELLING.search(line)] if ran.exit else []
    if telling and telling[-1] != lines[-1]:
        telling.append(lines[-1])
    shown = tuple((telling or lines)[-_LINES:])
    if len(shown) == len(lines):
        says = "It printed"
    else:
        says = "The most telling lines" if ran.exit else "It ended with"
    return f"`{command}` {outcome}. {says}:", shown


def _next(ran: Ran, workspace: Workspace) -> Sequence[Part]:
    """Return what helps after a failure, or what comes next after a success, if anything does."""
    intent = next((t.intent for t in workspace.tasks if steps(t)[-1] == ran.command), None)
    if ran.exit == 0:
        return _after_success(intent, ran, workspace)
    if intent == "test" and ran.command.endswith("pytest"):
        again = (f"{ran.command} --lf -x",)
        return [Part("To stop at the first of the tests that failed:", again)]
    return _cure(ran, workspace) or _fallback(intent, ran, workspace)


def _after_success(intent: Intent | None, ran: Ran, workspace: Workspace) -> Sequence[Part]:
    if intent not in _AFTER_SUCCESS:
        return []
    sentence, following = _AFTER_SUCCESS[intent]
    commands = workspace.best_steps(following)
    return [Part(sentence, commands)] if commands and commands[-1] != ran.command else []


def _cure(ran: Ran, workspace: Workspace) -> Sequence[Part]:
    """Return what is known of the error that ``ran`` ended with."""
    found = known_error(ran)
    if found is None:
        return []
    error, values = found
    if error.task in get_args(Intent):
        commands = workspace.best_steps(error.task)  # type: ignore[arg-type]
        if commands and commands[-1] != ran.command:
            return [Part(error.says, commands)]
    way = chosen(error.ways, values, values, workspace.here)
    return [Part(error.says, way.commands, note=way.note)] if way else [Part(error.says)]


def _fallback(intent: Intent | None, ran: Ran, workspace: Workspace) -> Sequence[Part]:
    commands = workspace.best_steps("format") if intent == "lint" else ()
    if commands and commands[-1] != ran.command:
        return [Part("Formatting may fix some of it:", commands)]
    if workspace.in_git:
        return [Part("I do not know this error. What has changed here:", ("git status --short",))]
    return [Part("I do not know this error. What is here:", ("ls -la",))]


_FILE: Final = Path(__file__).with_name("errors.toml")

#: Characters of an output that are looked through, from its end.
_MOST: Final = 20_000

#: What a value may hold that came from an output, where it has to be a name.
_SENTENCES: Final = frozenset(("text", "pattern", "name"))


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error: the expression that knows it, what is said, and the ways to mend it.

    ``task`` is what the project itself may have for it; that goes before the ways. ``command`` is
    an expression that the command must fit, where the output alone tells too little.
    """

    name: str
    pattern: re.Pattern[str]
    says: str
    ways: tuple[Way, ...]
    task: str = ""
    command: re.Pattern[str] | None = None


@cache
def known_errors() -> tuple[KnownError, ...]:
    """Return the table of errors; it is read when it is first needed."""
    data = tomllib.loads(_FILE.read_text("utf-8"))
    return tuple(_error(**given) for given in data["error"])


def _error(  # noqa: PLR0917 - the keys of a row
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
    """Return the first error of the table that the output of ``ran`` tells of, and its values."""
    output = ran.output[-_MOST:]
    for error in known_errors():
        if error.command is not None and not error.command.search(ran.command):
            continue
        match = error.pattern.search(f"{output}\n(exit {ran.exit})")
        if match is not None:
            given = {name: value for name, value in match.groupdict().items() if value}
            return error, {name: value for name, value in given.items() if _is_sound(name, value)}
    return None


def _is_sound(name: str, value: str) -> bool:
    """Return whether a value from an output may stand in a command: as a name, not as an option."""
    kind = kind_of(name)
    if len(value) > 300:
        return False
    return kind not in FREE or kind in _SENTENCES or is_name(value)
