"""The tasks of a project, from every manifest in its folder, and the entries of its runners.

``reading`` reads files, ``entries`` the names in those of task runners, and ``rules.toml`` says
what runs if something is there; a module has what a table cannot say of a family of ecosystems.
Manifests are read as text and never executed. Their authors may be hostile: a name from a manifest
gets into a command only if it is a plain word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.project.manifests import compiled, entries, javascript, python
from aish_lsp.project.manifests.reading import Manifests, is_plain, is_plain_path
from aish_lsp.project.manifests.rules import (
    COMMANDS,
    Intent,
    Rank,
    Substitutions,
    Task,
    named_tasks,
    rule_tasks,
)

_Finder: TypeAlias = Callable[[Manifests], Iterator[Task]]


def _make(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the makefile that make would read and of those that it includes."""
    name, targets = entries.make(manifests)
    tasks = list(named_tasks(targets, "make ", name))
    yield from tasks
    default = entries.makefile(manifests).default
    makes_a_file = default.startswith(("$(", "${")) or default == "default"
    if makes_a_file and not any(task.intent == "build" for task in tasks):
        yield Task("build", "make", name, Rank.OWN)


def _scripts(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks that are scripts in one of the usual places; a binary there is not one."""
    for intent, candidates in COMMANDS["scripts"].items():
        startable = (path for path in candidates if manifests.executable(path))
        name = next((path for path in startable if manifests.text(path).startswith("#!")), None)
        if name is not None:
            yield Task(intent, f"./{name}", name, Rank.OWN)


def _containers(manifests: Manifests) -> Iterator[Task]:
    """Yield how the containers and processes of the folder are built and started."""
    image = re.sub(r"[^a-z0-9]+", "-", manifests.root.resolve().name.lower()).strip("-")
    yield from rule_tasks(
        manifests, "containers", Substitutions(manifests, image=image or "workspace")
    )


_BEFORE_COMMAND = re.compile(r"^(- )?((run|script|command):\s+|sh\s+)?")

_CI = COMMANDS["continuous_integration"]

#: Commands that count as hints if a line of a CI file is one of them, apart from harmless options.
_HINTS: Mapping[str, Intent] = {
    command: intent for intent, commands in _CI["commands"].items() for command in commands
}
_MOST_WORDS = max(len(command.split(" ")) for command in _HINTS)


def _continuous_integration(manifests: Manifests) -> Iterator[Task]:
    """Yield the commands in the CI files of which every word is known."""
    workflows = [path for one in _CI["folders"] for path in manifests.matching(f"{one}/*.y*ml")]
    for source in (*workflows, *_CI["files"]):
        for line in manifests.text(source).split("\n"):
            command = _BEFORE_COMMAND.sub("", line.strip())
            if command[:1] in ("'", '"') and command[-1] == command[0]:
                command = command[1:-1]
            intent = _hinted(command)
            if intent is not None:
                yield Task(intent, command, source, Rank.HINT)


def _hinted(command: str) -> Intent | None:
    """Return what a CI file runs ``command`` for, or None if one of its words is not known."""
    words = command.split(" ")
    for count in range(1, min(len(words), _MOST_WORDS) + 1):
        intent = _HINTS.get(" ".join(words[:count]))
        if intent is not None and set(_CI["harmless"]).issuperset(words[count:]):
            return intent
    return None


#: What gives tasks: groups of rules, and functions. Tasks of equal rank keep this order.
_FINDERS: tuple[str | _Finder, ...] = (
    *("runners", _make, "mage", javascript.package_json, "deno", python.python),
    *(compiled.cargo, compiled.go, compiled.gradle, "maven", compiled.dotnet, compiled.cmake),
    *("meson", "autotools", "composer", "ruby", "mix", "dart", "ecosystems", "beside"),
    *(_scripts, _containers, _continuous_integration),
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
    tasks: dict[tuple[Intent, str], Task] = {}
    for task in (*_own_tasks(manifests), *_parts(manifests)):
        tasks.setdefault((task.intent, task.command), task)
    return tuple(sorted(tasks.values(), key=lambda task: task.rank))


def _own_tasks(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks from the manifests of one folder."""
    for finder in _FINDERS:
        if isinstance(finder, str):
            yield from rule_tasks(manifests, finder)
        else:
            yield from finder(manifests)


def _parts(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the folders inside that are separate projects."""
    folders = [name for name in manifests.folders if name not in _NO_PARTS | _GROUPS]
    folders += manifests.members(f"{name}/*" for name in sorted(_GROUPS & manifests.names))
    parts = ((folder, manifests.within(folder)) for folder in folders if is_plain_path(folder))
    projects = (part for part in parts if not _MANIFESTS.isdisjoint(part[1].names))
    for folder, part in islice(projects, _PARTS):
        for task in sorted(_own_tasks(part), key=lambda task: task.rank):
            if task.rank <= Rank.GUESS:
                command, source = f"(cd {folder} && {task.command})", f"{folder}/{task.source}"
                yield Task(task.intent, command, source, Rank.PART, folder)


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
    for runner in ("just", "task", "make"):
        source, names = entries.READERS[runner](manifests)
        for name in sorted(filter(is_plain, names)):
            yield NamedTask(name, runner, f"{runner} {name}", source)
    begins, names = javascript.package_scripts(manifests)
    for name in sorted(filter(is_plain, names)):
        yield NamedTask(name, begins.split()[0], f"{begins}{name}", "package.json")
