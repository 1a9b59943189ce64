"""A task of a project: what a user may want done, and the command that does it there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

Intent: TypeAlias = Literal[
    "test", "build", "run", "start", "lint", "format", "check", "clean", "install"
]


class Rank(IntEnum):
    """How sure it is that a task is what the project's people use; the lowest is surest."""

    OWN = 0
    """An entry that the project itself names: a make target, a package script."""
    CONFIGURED = 1
    """A tool whose configuration, or whose manifest, is there."""
    GUESS = 2
    """What such projects mostly use."""
    PART = 3
    """What a folder of the project tells, where that is a project of its own."""
    HINT = 4
    """Seen elsewhere, as in a CI file."""


@dataclass(frozen=True, slots=True)
class Task:
    """One command, one line; ``source`` is the file that told of it.

    ``folder`` is the part of the project that it is for, where that is a project of its own; the
    command goes there itself.
    """

    intent: Intent
    command: str
    source: str
    rank: Rank = Rank.CONFIGURED
    folder: str = ""


#: The names that people give to the entries of their own task runners, the usual ones first.
ENTRY_NAMES: dict[Intent, tuple[str, ...]] = {
    "test": ("test", "tests", "test:unit", "test-unit", "test_unit", "unit", "unittest", "pytest"),
    "build": ("build", "compile", "dist", "bundle", "all"),
    "run": ("run",),
    "start": ("dev", "start", "serve", "develop", "server", "up"),
    "lint": ("lint", "lint:check", "linter", "eslint", "ruff"),
    "format": ("format", "fmt", "prettier", "lint:fix"),
    "check": ("check", "typecheck", "type-check", "check-types", "types", "tsc", "mypy", "verify"),
    "clean": ("clean",),
    "install": ("install-dev", "dev-install", "deps", "setup", "bootstrap", "install"),
}


def named_tasks(names: Collection[str], runner: str, source: str) -> Iterator[Task]:
    """Yield a task for each intent that an entry among ``names`` is usually the name of.

    The command is the entry's name right behind ``runner``. Only names of ENTRY_NAMES ever get
    into a command, whatever else ``names`` holds.
    """
    for intent, candidates in ENTRY_NAMES.items():
        name = next((candidate for candidate in candidates if candidate in names), None)
        if name is not None:
            yield Task(intent, f"{runner}{name}", source, Rank.OWN)
