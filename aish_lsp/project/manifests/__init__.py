"""The tasks of a project, from every manifest in its folder, and the entries of its runners.

One module reads the manifests of a family of ecosystems. They are read as text and never executed.
Their authors may be hostile: a name from a manifest gets into a command only if it is a plain word.
"""

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

#: A function for each kind of manifest. Tasks of equal rank keep the order of this table.
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


#: Files that make a folder inside a separate project; folders that contain such projects; and
#: folders whose manifests belong to others or do not serve the project.
_MANIFESTS, _GROUPS, _NO_PARTS = map(
    frozenset[str], (COMMANDS["parts"][key] for key in ("manifests", "groups", "none"))
)
#: How many projects inside are looked into.
_PARTS = 20

#: The longest command in the prompt's line of tasks, in characters.
_SHORT_COMMAND = 100

#: The intents in the order of that line.
_LINE: tuple[Intent, ...] = (
    *("test", "build", "run", "start", "lint", "format", "check", "install", "clean"),
)
_HARMLESS = re.compile(r"[\w ./:@=&+,*'()\[\]-]+", re.ASCII)


def find_tasks(root: Path) -> tuple[Task, ...]:
    """Return what can be done in the project at ``root``, the surest first.

    Manifests are read as text and nothing is run. What is missing or broken is skipped; a folder
    that is gone has no tasks. The tasks of a project inside run in that project's folder.
    """
    manifests = Manifests(root)
    found: dict[tuple[Intent, str], Task] = {}
    for task in (*_told(manifests), *_parts(manifests)):
        found.setdefault((task.intent, task.command), task)
    return tuple(sorted(found.values(), key=lambda task: task.rank))


def _told(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks from the manifests of one folder."""
    for finder in _FINDERS:
        yield from finder(manifests)


def _parts(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the folders inside that are separate projects."""
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
    """Return the surest command for each intent on one line of at most ``max_chars`` characters.

    For example ``Tasks: test: uv run pytest; lint: uv run ruff check .``. Hints are left out, and
    so are commands that contain file names, which could say anything. The line is empty if no
    command is left. The same tasks always give the same line.
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
    """Return whether a command is short and contains no quoted sentence."""
    if len(command) > _SHORT_COMMAND or not _HARMLESS.fullmatch(command):
        return False
    return all(" " not in quoted for quoted in command.split("'")[1::2])


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A make target, a recipe, a task or a package's script.

    Attributes:
        name: its name in the project.
        runner: the program that runs it, such as ``make``, ``just``, ``task`` or ``npm``.
        command: the command that runs it.
        source: the file that defines it.
    """

    name: str
    runner: str
    command: str
    source: str


def find_entries(root: Path) -> tuple[NamedTask, ...]:
    """Return the entries of the task runners at ``root`` whose names are plain.

    Manifests are read as text and nothing is run. What is missing or broken is skipped.
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
