"""What the last command did, in a sentence and its telling lines, and what to do next."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from aish_lsp.models.offline.question import Ran
from aish_lsp.models.offline.quoting import plain_line, shortened
from aish_lsp.project.task import Intent

PORTS = "lsof -nP -iTCP -sTCP:LISTEN" if sys.platform == "darwin" else "ss -tlnp"

#: Lines of an output that are quoted.
_LINES = 6

_EXITS = {
    124: "it took too long",
    126: "it cannot be started",
    127: "there is no such command",
    130: "it was interrupted",
    137: "it was killed",
    143: "it was ended",
}

_TELLING = re.compile(
    r"\b(error|errors|failed|failure|failures|fatal|exception|panic|denied|cannot|can't)\b"
    r"|\bnot found\b|\bno such\b|\bno module\b|^E  |Error\b|^FAILED\b|✗|✘",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do next: a task of the project, else a command; after a failure, a look around.

    ``again`` are arguments for the same command, where it is one of the project's own.
    """

    sentence: str
    intent: Intent | None = None
    command: str = ""
    again: str | None = None


#: What an output says when it failed, and what helps. The first that fits is taken.
_CURES: tuple[tuple[str, Advice], ...] = (
    (
        r"no module named|cannot find (module|package)|command not found|could not find gem",
        Advice("Something is not installed; to install what the project needs:", "install"),
    ),
    (r"address already in use|eaddrinuse", Advice("To see what holds the port:", None, PORTS)),
    (r"no space left on device", Advice("To see how full the disk is:", None, "df -h .")),
    (r"permission denied|eacces", Advice("To see who may do what here:", None, "ls -la")),
    (r"merge conflict|unmerged paths", Advice("To see where it stands:", None, "git status")),
)

_AFTER_SUCCESS: dict[Intent, Advice] = {
    "install": Advice("Next, the tests:", "test"),
    "build": Advice("Next, the tests:", "test"),
    "lint": Advice("Next, the tests:", "test"),
    "check": Advice("Next, the tests:", "test"),
    "clean": Advice("Next, build it again:", "build"),
    "test": Advice("Next, the linter:", "lint"),
}


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


def advice(ran: Ran, intent: Intent | None) -> Advice:
    """Return what to do after ``ran``; ``intent`` is what the project runs that command for."""
    if ran.exit == 0:
        return _AFTER_SUCCESS.get(intent, Advice("")) if intent else Advice("")
    if ran.exit == 127:
        return _CURES[0][1]
    for pattern, cure in _CURES:
        if re.search(pattern, ran.output, re.IGNORECASE):
            return cure
    if intent == "test" and ran.command.endswith("pytest"):
        return Advice("To stop at the first of the tests that failed:", again="--lf -x")
    if intent == "lint":
        return Advice("Formatting may fix some of it:", "format")
    return Advice("")
