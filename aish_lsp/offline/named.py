"""Questions that ask to run one of the project's own targets, recipes or scripts by its name.

The names are the project's, and mean whatever it says: "deploy" is a target here and nothing there.
So a question is only taken for one where each of its other words says no more than "run this".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aish_lsp.offline.part import Part
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import Workspace
from aish_lsp.project.manifests.reading import ENTRY_NAMES
from aish_lsp.project.tasks import NamedTask

#: Words of a question that asks for no more than that.
_MOST: Final = 16
_WORD: Final = re.compile(r"[\w.:@+/=-]+")

_RUNNERS: Final = frozenset(("make", "just", "task", "npm", "pnpm", "yarn", "bun"))
#: What an entry is called, in questions.
_KINDS: Final = frozenset(
    [
        *("target", "targets", "script", "scripts", "recipe", "recipes", "task", "tasks", "job"),
        *("entry", "rule", "makefile", "justfile", "taskfile", "package.json", "command"),
    ]
)
#: Verbs that ask for an entry to be run.
_RUNS: Final = frozenset(
    ["run", "execute", "start", "launch", "do", "call", "invoke", "trigger", "use", "kick", "fire"]
)
#: Verbs that may stand before what an entry makes: "build the docs".
_MAKES: Final = frozenset(["build", "make", "generate", "create", "produce"])
#: What says nothing more.
_SAYS_NOTHING: Final = frozenset(
    [
        *("the", "a", "an", "my", "our", "this", "that", "it", "me", "please", "now", "again"),
        *("here", "just", "only", "for", "with", "using", "via", "in", "from", "of", "on", "to"),
        *("how", "can", "do", "does", "i", "we", "you", "is", "there", "theres", "there's", "s"),
        *("project", "app", "application", "repo", "code", "everything", "site", "website", "off"),
        *("called", "named", "through", "want", "would", "like", "has", "have", "one", "its"),
        *("tests", "test", "suite", "server", "step", "-", "run-script"),
    ]
)
_STANDARD: Final = frozenset(name for names in ENTRY_NAMES.values() for name in names)
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=[\w./:@+-]*")


def entry_parts(text: str, workspace: Workspace) -> Sequence[Part]:
    """Return how the entry is run that ``text`` asks for by its name; else nothing."""
    said = [word.strip(".:") for word in _WORD.findall(words().bare(text).lower())]
    if not 0 < len(said) <= _MOST or not _may_ask(said):
        return ()
    found = _asked(said, workspace.entries)
    if found is None:
        return ()
    settings = "".join(f" {word}" for word in _WORD.findall(text) if _SETTING.fullmatch(word))
    command = f"{found.command}{settings}"
    return [Part(f"Runs `{found.name}` (from {found.source}):", (command,))]


def _may_ask(said: Sequence[str]) -> bool:
    """Return whether all but a word or two say no more than that something is to be run."""
    others = [word for word in said if not _says_nothing(word)]
    return len(set(others)) <= 1


def _says_nothing(word: str) -> bool:
    ours = (_RUNNERS, _KINDS, _RUNS, _MAKES, _SAYS_NOTHING)
    return any(word in group for group in ours) or _SETTING.fullmatch(word) is not None


def _asked(said: Sequence[str], entries: Sequence[NamedTask]) -> NamedTask | None:
    """Return the entry that is named among the words, or None."""
    runner = next((word for at, word in enumerate(said) if _is_runner(said, at, entries)), "")
    of_runner = [entry for entry in entries if not runner or entry.runner == runner]
    named = {entry.name.lower(): entry for entry in reversed(of_runner)}
    others = [word for word in said if not _says_nothing(word)]
    name = others[0] if others else said[-1]
    entry = named.get(name)
    if entry is None:
        return None
    rest = [word for word in said if word != name]
    told = bool(runner) or any(word in _KINDS for word in rest)
    if entry.name.lower() in _STANDARD and not told:
        return None
    if any(_SETTING.fullmatch(word) for word in rest) and entry.runner not in ("make", "just"):
        return None
    asks = told or not rest or any(word in _RUNS | _MAKES for word in rest)
    return entry if asks or said[0] == name or "how" in rest else None


def _is_runner(said: Sequence[str], at: int, entries: Sequence[NamedTask]) -> bool:
    """Return whether a word names a runner that this project has: "just" mostly does not."""
    word = said[at]
    if word not in _RUNNERS or not any(entry.runner == word for entry in entries):
        return False
    return (
        word not in ("just", "task") or at == 0 or said[at - 1] in ("with", "using", "run", "via")
    )
