"""Where a question is asked: the machine and its tools, the folder with its names and tasks.

Each is looked up only when a question may refer to it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Self

from aish_lsp.offline.words import data, group, stem
from aish_lsp.project.manifests import NamedTask, find_entries, find_tasks
from aish_lsp.project.manifests.reading import Intent, Task
from aish_lsp.project.safe_read import read_regular

#: How many entries, and how many levels of folders, are searched for a name below the root.
_MOST: Final = 3000
_DEPTH: Final = 4

#: How many bytes of the list of branches are read.
_REFS_LIMIT: Final = 262144

_PASSED_OVER: Final = {"node_modules", "__pycache__", "venv", "target", "dist", "build"}

#: Tasks that may be meant instead if a project has no such task.
_INSTEAD: Final[Mapping[Intent, tuple[Intent, ...]]] = {
    "test": ("check",),
    "run": ("start",),
    "start": ("run",),
    "lint": ("check",),
}

#: A command whose " && " are all outside quotes and brackets, as far as a quick look can tell.
_STEPS_ARE_PLAIN: Final = re.compile(r"(?:[^'\"()]|'[^'\"&]*')*")


@dataclass(frozen=True, slots=True)
class Machine:
    """A system (``linux``, ``darwin``), the folders that are searched for tools, and a home."""

    system: str
    path: str
    home: Path
    _found: dict[str, str | None] = field(default_factory=dict, compare=False)

    @classmethod
    def here(cls) -> Self:
        """Return this machine as it is now."""
        system = "darwin" if sys.platform == "darwin" else "linux"
        return cls(system, os.environ.get("PATH", os.defpath), Path.home())

    def which(self, tool: str) -> str | None:
        """Return where ``tool`` is installed, if it is."""
        if tool not in self._found:
            self._found[tool] = shutil.which(tool, path=self.path)
        return self._found[tool]

    def has(self, tool: str) -> bool:
        """Return whether ``tool`` is installed."""
        return self.which(tool) is not None


#: Prefixes of a command, and those of their options that take a value.
_PREFIXES: Final = frozenset(("sudo", "nohup", "time", "env", "command"))
_TAKES_A_VALUE: Final = re.compile(r"-[a-zA-Z]*[ug]|-C|-S")


def to_install(
    commands: Sequence[str], machine: Machine, guessed: Collection[str] = ()
) -> tuple[str, tuple[str, ...]] | None:
    """Return a tool that ``commands`` need and this machine lacks, and what installs it.

    Returns None if no package manager is known: the commands then fail with their own messages.
    Nothing is said either of what is only ``guessed`` to be a program: anybody may have published a
    package of that name.
    """
    for command in commands:
        tool = _tool(command)
        if tool and tool not in guessed and not machine.has(tool):
            install = install_command(tool, machine)
            if install is not None:
                return tool, (install,)
    return None


def install_command(tool: str, machine: Machine) -> str | None:
    """Return the command that installs ``tool`` with this machine's package manager."""
    known = data("install")
    if tool in known["not_ours"].split():
        return None
    if machine.system != "darwin" and tool in known["elsewhere"]:
        return str(known["elsewhere"][tool])
    for manager, command in known["managers"].items():
        if machine.has(manager):
            names = known["packages"].get(tool, "").split() or [tool]
            return f"{command} {names[0] if manager == 'apt-get' else names[-1]}"
    return None


def _tool(command: str) -> str:
    """Return the program that a command of the table begins with; empty if there is none."""
    words = re.sub(r"^\w+=\$\(", "", command).split()
    while words and (words[0] in _PREFIXES or re.match(r"\w+=", words[0])):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1 + bool(_TAKES_A_VALUE.fullmatch(words[0])) :]
    tool = words[0] if words else ""
    return tool if re.fullmatch(r"[\w.+-]+", tool) and tool not in group("builtins") else ""


class Workspace:
    """A folder, the machine that it is on, the names in it, and its project's tasks."""

    def __init__(self, root: Path, machine: Machine | None = None) -> None:
        self.root = root.resolve()
        self.machine = machine or Machine.here()

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The project's tasks, the surest first."""
        return find_tasks(self.root)

    @cached_property
    def entries(self) -> tuple[NamedTask, ...]:
        """What the project's own task runners can be told to do, by its names."""
        return find_entries(self.root)

    @cached_property
    def in_git(self) -> bool:
        """Whether the folder lies in a repository."""
        return any((folder / ".git").exists() for folder in (self.root, *self.root.parents))

    def best(self, intent: Intent) -> list[Task]:
        """Return the tasks for ``intent``, or else for what may be meant instead."""
        for meant in (intent, *_INSTEAD.get(intent, ())):
            found = [task for task in self.tasks if task.intent == meant]
            if found:
                return found
        return []

    def best_steps(self, intent: Intent) -> tuple[str, ...]:
        """Return the commands of the surest task for ``intent``; empty if there is no such task."""
        return next(map(steps, self.best(intent)), ())

    def exists(self, name: str) -> bool:
        """Return whether something of that name exists, relative to the workspace."""
        if not name or len(name) > 1024 or "\0" in name:
            return False
        try:
            return os.path.lexists(self.root / os.path.expanduser(name))  # noqa: PTH111
        except (OSError, ValueError):
            return False

    def is_folder(self, name: str) -> bool:
        """Return whether that name belongs to a folder."""
        try:
            return (self.root / os.path.expanduser(name)).is_dir()  # noqa: PTH111
        except (OSError, ValueError):
            return False

    def find(self, name: str, *, folders: bool = False) -> str | None:
        """Return the path of ``name``: at the root, or else the only one of that name below it."""
        if self.exists(name):
            return name if not folders or self.is_folder(name) else None
        if "/" in name or ("." not in name.lstrip(".") and not folders):
            return None
        found = self._below.get(name, ())
        return found[0] if len(found) == 1 else None

    def alike(self, word: str) -> str | None:
        """Return the only entry at the root that ``word`` means in another spelling: "readme"."""
        found = self._spoken.get(stem(word.lower()), ())
        return found[0] if len(found) == 1 else None

    def has_branch(self, name: str) -> bool:
        """Return whether the repository has a branch of that name."""
        return name in self._branches

    @cached_property
    def _branches(self) -> frozenset[str]:
        git = self.root / ".git"
        refs = read_regular(git / "packed-refs", _REFS_LIMIT) or b""
        packed = re.findall(
            r" refs/(?:heads|remotes/[^/\s]+)/(\S+)", refs.decode("utf-8", "replace")
        )
        heads = git / "refs" / "heads"
        loose: list[str] = []
        for folder, _, names in os.walk(heads):
            loose += (os.path.relpath(f"{folder}/{name}", heads) for name in names)
            if len(loose) > _MOST:
                break
        return frozenset((*packed, *loose))

    @cached_property
    def _entries(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                return [entry.name for entry in islice(entries, _MOST)]
        except OSError:
            return []

    @cached_property
    def _spoken(self) -> dict[str, list[str]]:
        """The entries at the root, by their names without extension, in lower case and stemmed."""
        spoken: dict[str, list[str]] = {}
        for name in self._entries:
            bare = name.lower().partition(".")[0]
            if len(bare) > 2 and name.isprintable():
                spoken.setdefault(stem(bare), []).append(name)
        return spoken

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """The paths of what is in folders below the root, by name; bounded."""
        below: dict[str, list[str]] = {}
        left = _MOST
        waiting = [("", 0)]
        while waiting and left > 0:
            folder, depth = waiting.pop(0)
            try:
                with os.scandir(self.root / folder) as found:
                    entries = list(islice(found, left))
            except OSError:
                continue
            left -= len(entries)
            for entry in entries:
                path = f"{folder}{entry.name}"
                if folder and entry.name.isprintable():
                    below.setdefault(entry.name, []).append(path)
                hidden = entry.name.startswith(".") or entry.name in _PASSED_OVER
                if not hidden and depth < _DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{path}/", depth + 1))
        return below


def steps(task: Task) -> tuple[str, ...]:
    """Return the commands of a task in order, each to be run separately."""
    if _STEPS_ARE_PLAIN.fullmatch(task.command):
        return tuple(task.command.split(" && "))
    return (task.command,)
