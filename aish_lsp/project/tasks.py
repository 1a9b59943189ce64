"""The tasks of a project, from every manifest in its folder, and what its own runners can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from aish_lsp.project.manifests import (
    compiled,
    javascript,
    others,
    python,
    runners,
)
from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Intent,
    Manifests,
    Rank,
    Task,
    is_plain,
    is_plain_path,
)

#: One function per kind of manifest. Of tasks of one rank, those that stand first here come first.
_FINDERS: tuple[Callable[[Manifests], Iterator[Task]], ...] = (
    runners.just,
    runners.taskfile,
    runners.mise,
    runners.cargo_make,
    runners.earthly,
    runners.make,
    runners.mage,
    javascript.package_json,
    javascript.deno,
    python.python,
    compiled.cargo,
    compiled.go,
    compiled.gradle,
    compiled.maven,
    compiled.dotnet,
    compiled.cmake,
    compiled.meson,
    compiled.autotools,
    others.composer,
    others.ruby,
    others.mix,
    others.dart,
    others.simple,
    others.infrastructure,
    runners.scripts,
    others.containers,
    runners.continuous_integration,
)


#: What makes a folder within the project a project of its own; folders that hold such folders; and
#: those whose manifests are those of others, or serve something else than the project.
_MANIFESTS, _GROUPS, _NO_PARTS = map(
    frozenset[str], (COMMANDS["parts"][key] for key in ("manifests", "groups", "none"))
)
#: Such folders that are looked into.
_PARTS = 20

#: Characters of a command that the prompt's line has.
_SHORT_COMMAND = 100

#: The intents in the order of the prompt's line.
_LINE: tuple[Intent, ...] = (
    *("test", "build", "run", "start", "lint", "format", "check", "install", "clean"),
)
_HARMLESS = re.compile(r"[\w ./:@=&+,*'()\[\]-]+", re.ASCII)


def find_tasks(root: Path) -> tuple[Task, ...]:
    """Return what can be done in the project at ``root``, the surest first.

    Reads manifests as text and runs nothing. What is missing or broken is passed over; a folder
    that is gone has no tasks. What a folder of it tells, where that is a project of its own, runs
    there.
    """
    manifests = Manifests(root)
    found: dict[tuple[Intent, str], Task] = {}
    for task in (*_told(manifests), *_parts(manifests)):
        found.setdefault((task.intent, task.command), task)
    return tuple(sorted(found.values(), key=lambda task: task.rank))


def _told(manifests: Manifests) -> Iterator[Task]:
    """Yield what the manifests of one folder tell."""
    for finder in _FINDERS:
        yield from finder(manifests)


def _parts(manifests: Manifests) -> Iterator[Task]:
    """Yield what the folders tell that are projects of their own."""
    places = [name for name in manifests.folders if name not in _NO_PARTS | _GROUPS]
    places += manifests.members(f"{name}/*" for name in sorted(_GROUPS & manifests.names))
    parts = (manifests.within(place) for place in places if is_plain_path(place))
    own = (part for part in parts if not _MANIFESTS.isdisjoint(part.names))
    for part in islice(own, _PARTS):
        place = part.root.relative_to(manifests.root).as_posix()
        for task in sorted(_told(part), key=lambda task: task.rank):
            if task.rank <= Rank.GUESS:
                command, source = f"(cd {place} && {task.command})", f"{place}/{task.source}"
                yield Task(task.intent, command, source, Rank.PART, place)


def tasks_line(tasks: Sequence[Task], max_chars: int) -> str:
    """Return the surest command for each intent as one line, ``max_chars`` characters at most.

    ``Tasks: test: uv run pytest; lint: uv run ruff check .``. Hints are not among them. Nor is a
    command with words from the names of files, which could say anything; nothing at all where no
    command is left. The same tasks, the same line.
    """
    line = ""
    for intent in _LINE:
        task = next((t for t in tasks if t.intent == intent and t.rank < Rank.HINT), None)
        if task is None or not _is_plain(task.command):
            continue
        longer = f"{line}; " if line else "Tasks: "
        longer += f"{intent}: {task.command}"
        if len(longer) <= max_chars:
            line = longer
    return line


def _is_plain(command: str) -> bool:
    """Return whether a command is short, and of words that are no sentence in quotes."""
    if len(command) > _SHORT_COMMAND or not _HARMLESS.fullmatch(command):
        return False
    return all(" " not in quoted for quoted in command.split("'")[1::2])


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A make target, a recipe, a task or a package's script.

    Attributes:
        name: as the project calls it.
        runner: the program that runs it: ``make``, ``just``, ``task``, ``npm``.
        command: how it is run.
        source: the file that tells of it.
    """

    name: str
    runner: str
    command: str
    source: str


def find_entries(root: Path) -> tuple[NamedTask, ...]:
    """Return what the task runners at ``root`` know; names with other than plain signs are not.

    Reads manifests as text and runs nothing. What is missing or broken is passed over.
    """
    return tuple(_entries(Manifests(root)))


def _entries(manifests: Manifests) -> Iterator[NamedTask]:
    for runner, (source, names) in (
        ("just", runners.justfile_recipes(manifests)),
        ("task", runners.taskfile_entries(manifests)),
        ("make", runners.make_targets(manifests)),
    ):
        for name in sorted(filter(is_plain, names)):
            yield NamedTask(name, runner, f"{runner} {name}", source)
    begins, names = javascript.package_scripts(manifests)
    for name in sorted(filter(is_plain, names)):
        yield NamedTask(name, begins.split()[0], f"{begins}{name}", "package.json")
