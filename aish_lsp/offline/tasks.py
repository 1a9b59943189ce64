"""Answers about the project itself: how its tasks are run, and what it is.

A question may ask to run one of the project's own targets, recipes or scripts by its name. The
names are the project's own: "deploy" may be a target in one project and unknown in another. So a
question is taken for such a request only if its other words say no more than "run this".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aish_lsp.foundation.text import without_hidden
from aish_lsp.offline.choosing import Part, chosen
from aish_lsp.offline.table import ways_of
from aish_lsp.offline.words import data, group, words
from aish_lsp.offline.workspace import Workspace, steps
from aish_lsp.project.manifests.reading import ENTRY_NAMES, Intent, Rank
from aish_lsp.project.safe_read import read_head
from aish_lsp.project.tasks import NamedTask

_README_LIMIT: Final = 16384

#: How many other ways, and other parts of a project, are shown.
_OTHER_WAYS: Final = 1
_OTHER_PARTS: Final = 3


def task_parts(intent: Intent, workspace: Workspace) -> Sequence[Part]:
    """Return how a task is done here: the surest way, and another that the project configures.

    If only parts of the project have the task, several of them are shown.
    """
    found = workspace.best(intent)
    if not found:
        words = data("tasks")["described"][intent]
        usual = chosen(ways_of(data("tasks")["usual"].get(intent, ())), {}, {}, workspace)
        if usual is not None:
            said = f"I found no file here that says how to {words}; it is usual to:"
            return [Part(said, usual.commands)]
        return [Part(f"I found no file here that says how to {words}.", ("ls -la",))]
    first = found[0]
    words = data("tasks")["described"][first.intent]
    parts = [Part(f"To {words} here (from {first.source}):", steps(first))]
    seen = {first.folder or first.source}
    if first.rank == Rank.PART:
        others = (task for task in found if task.rank == Rank.PART)
        lead_in, most = "And, from {}:", _OTHER_PARTS
    else:
        others = (task for task in found if task.rank <= Rank.CONFIGURED)
        lead_in, most = "Or, from {}:", _OTHER_WAYS
    for other in others:
        place = other.folder or other.source
        if place not in seen and len(parts) <= most:
            seen.add(place)
            parts.append(Part(lead_in.format(other.source), steps(other)))
    return parts


def overview(workspace: Workspace) -> Part:
    """Return what the manifests and the beginning of the README say about the project."""
    sources = list(dict.fromkeys(task.source for task in workspace.tasks))[:6]
    known = (
        f"I find its tasks in {', '.join(sources)}."
        if sources
        else "I found no manifest that I know."
    )
    look = ["ls -la"]
    quote: tuple[str, ...] = ()
    for name in ("README.md", "README.rst", "README.txt", "README"):
        head = read_head(workspace.root, name, _README_LIMIT)
        if head is not None:
            lines = [line for line in without_hidden(head[0]).split("\n") if line.strip()]
            quote = tuple(lines[:4])
            look.insert(0, f"cat {name}")
            break
    begins = " Its README begins:" if quote else ""
    return Part(f"This is the folder {workspace.root.name}. {known}{begins}", tuple(look), quote)


#: The most words that a question about an entry may have.
_MOST: Final = 16
_WORD: Final = re.compile(r"[\w.:@+/=-]+")

_RUNNERS: Final = frozenset(("make", "just", "task", "npm", "pnpm", "yarn", "bun"))
#: Verbs that may come before what an entry makes: "build the docs".
_MAKES: Final = frozenset(["build", "make", "generate", "create", "produce"])
_STANDARD: Final = frozenset(name for names in ENTRY_NAMES.values() for name in names)
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=[\w./:@+-]*")


def entry_parts(text: str, workspace: Workspace) -> Sequence[Part]:
    """Return how to run the entry that ``text`` asks for by name; else nothing."""
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
    """Return whether all words but one say only that something is to be run."""
    others = [word for word in said if not _says_nothing(word)]
    return len(set(others)) <= 1


def _says_nothing(word: str) -> bool:
    ours = (_RUNNERS, group("entries"), group("runs"), _MAKES, group("says_nothing"))
    return any(word in listed for listed in ours) or _SETTING.fullmatch(word) is not None


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
    told = bool(runner) or any(word in group("entries") for word in rest)
    if entry.name.lower() in _STANDARD and not told:
        return None
    if any(_SETTING.fullmatch(word) for word in rest) and entry.runner not in ("make", "just"):
        return None
    asks = told or not rest or any(word in group("runs") | _MAKES for word in rest)
    return entry if asks or said[0] == name or "how" in rest else None


def _is_runner(said: Sequence[str], at: int, entries: Sequence[NamedTask]) -> bool:
    """Return whether a word names a runner that this project has: "just" mostly does not."""
    word = said[at]
    if word not in _RUNNERS or not any(entry.runner == word for entry in entries):
        return False
    return (
        word not in ("just", "task") or at == 0 or said[at - 1] in ("with", "using", "run", "via")
    )
