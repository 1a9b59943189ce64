"""Where a question is asked: the machine and its tools, the folder with its names and its tasks.

Everything is looked up only when a question may refer to it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Self

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import expanded
from aish_lsp.foundation.opening import read_regular
from aish_lsp.offline.words import data, group, stem
from aish_lsp.project.manifests import NamedTask, find_entries, find_tasks
from aish_lsp.project.manifests.rules import Intent, Task

#: The most entries, and the most levels of folders, that are searched for a name below the root.
_ENTRY_LIMIT: Final = 3000
_MAX_DEPTH: Final = 4

#: The most bytes of the list of branches that are read.
_REFS_LIMIT: Final = 262144

_SKIPPED: Final = {"node_modules", "__pycache__", "venv", "target", "dist", "build"}

#: The related intents to try if a project has no task for one.
_INSTEAD: Final[Mapping[Intent, tuple[Intent, ...]]] = {
    "test": ("check",),
    "run": ("start",),
    "start": ("run",),
    "lint": ("check",),
}

#: A command whose " && " are all outside quotes and brackets, as far as a simple pattern can tell.
_PLAIN_STEPS: Final = re.compile(r"(?:[^'\"()]|'[^'\"&]*')*")


#: ``sudo`` before a command, not before an option that names another user.
_SUDO: Final = re.compile(r"(?:^|(?<=[|;&(] ))sudo (?!-)")


@dataclass(frozen=True, slots=True)
class Machine:
    """A system (``linux``, ``darwin``), the PATH on which tools are found, and the home folder.

    ``is_root`` says that commands are run by the administrator.
    """

    system: str
    path: str
    home: Path
    is_root: bool = field(default=False, kw_only=True)
    _found: dict[str, str | None] = field(default_factory=dict, compare=False)

    @classmethod
    def here(cls) -> Self:
        """Return this machine as it is now."""
        system = "darwin" if sys.platform == "darwin" else "linux"
        path = os.environ.get("PATH", os.defpath)
        return cls(system, path, Path.home(), is_root=os.geteuid() == 0)

    def which(self, tool: str) -> str | None:
        """Return where ``tool`` is installed, if it is."""
        if tool not in self._found:
            self._found[tool] = shutil.which(tool, path=self.path)
        return self._found[tool]

    def has(self, tool: str) -> bool:
        """Return whether ``tool`` is installed."""
        return self.which(tool) is not None

    def with_rights(self, command: str) -> str:
        """Return a command of the table without ``sudo`` where nobody needs or has it."""
        if self.is_root or not self.has("sudo"):
            return _SUDO.sub("", command)
        return command


#: Prefixes of a command, and those of their options that take a value.
_PREFIXES: Final = frozenset(("sudo", "nohup", "time", "env", "command"))
_TAKES_A_VALUE: Final = re.compile(r"-[a-zA-Z]*[ug]|-C|-S")


def to_install(
    commands: Sequence[str], machine: Machine, guessed: Collection[str] = ()
) -> tuple[str, tuple[str, ...]] | None:
    """Return the first tool that ``commands`` need and this machine lacks, and what installs it.

    Returns None if nothing is missing, or if no package manager is known: the commands then fail
    with their own messages. Tools that are only ``guessed`` from a question are ignored, since
    anybody may have published a package with that name.
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
            name = names[0] if manager == "apt-get" else names[-1]
            return machine.with_rights(f"{command} {name}")
    return None


def _tool(command: str) -> str:
    """Return the program that a command of the table starts; empty if it starts none."""
    words = re.sub(r"^\w+=\$\(", "", command).split()
    while words and (words[0] in _PREFIXES or re.match(r"\w+=", words[0])):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1 + bool(_TAKES_A_VALUE.fullmatch(words[0])) :]
    tool = words[0] if words else ""
    return tool if re.fullmatch(r"[\w.+-]+", tool) and tool not in group("builtins") else ""


class WorkspaceFacts:
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
        """The entries of the project's task runners: targets, recipes, scripts."""
        return find_entries(self.root)

    @cached_property
    def in_git(self) -> bool:
        """Whether the folder is in a repository."""
        return any(self.exists(f"{folder}/.git") for folder in (self.root, *self.root.parents))

    def best(self, intent: Intent) -> list[Task]:
        """Return the tasks for ``intent``; if there are none, those of a related intent."""
        for meant in (intent, *_INSTEAD.get(intent, ())):
            found = [task for task in self.tasks if task.intent == meant]
            if found:
                return found
        return []

    def best_steps(self, intent: Intent) -> tuple[str, ...]:
        """Return the commands of the surest task for ``intent``; empty if there is none."""
        return next(map(steps, self.best(intent)), ())

    def exists(self, name: str) -> bool:
        """Return whether the path ``name``, in the workspace or after ``~``, exists."""
        if not name or len(name) > 1024 or "\0" in name:
            return False
        try:
            return os.path.lexists(self.root / expanded(name))
        except (OSError, ValueError):
            return False

    def is_folder(self, name: str) -> bool:
        """Return whether the path ``name`` is a folder; False if that cannot be found out."""
        try:
            return (self.root / expanded(name)).is_dir()
        except (OSError, ValueError):
            return False

    def find(self, name: str, *, folders: bool = False) -> str | None:
        """Return the path of ``name``: at the root, or else the only file of that name below it."""
        if self.exists(name):
            return name if not folders or self.is_folder(name) else None
        if "/" in name or ("." not in name.lstrip(".") and not folders):
            return None
        found = self._below.get(name, ())
        return found[0] if len(found) == 1 else None

    def lacks(self, name: str) -> bool:
        """Return whether there are files here, but none of that name, as far as was looked."""
        is_here = not name or self.exists(name) or name.rpartition("/")[2] in self._below
        return bool(self._entries) and not is_here

    def alike(self, word: str) -> str | None:
        """Return the only entry at the root whose name ``word`` spells differently: "readme"."""
        found = self._spoken.get(stem(word.lower()), ())
        if len(found) != 1 or self.is_folder(found[0]):
            return found[0] if len(found) == 1 else None
        # Several "images" are not the file image.iso.
        return found[0] if found[0].lower().partition(".")[0] == word.lower() else None

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
            if len(loose) > _ENTRY_LIMIT:
                break
        return frozenset((*packed, *loose))

    @cached_property
    def _entries(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                return [entry.name for entry in islice(entries, _ENTRY_LIMIT)]
        except OSError:
            return []

    @cached_property
    def _spoken(self) -> dict[str, list[str]]:
        """The entries at the root, by their names in lower case, stemmed and without extension."""
        spoken: dict[str, list[str]] = {}
        for name in self._entries:
            bare = name.lower().partition(".")[0]
            if len(bare) > 2 and name.isprintable():
                spoken.setdefault(stem(bare), []).append(name)
        return spoken

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """The paths in folders below the root, by name; a bounded number."""
        below: dict[str, list[str]] = {}
        left = _ENTRY_LIMIT
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
                hidden = entry.name.startswith(".") or entry.name in _SKIPPED
                if not hidden and depth < _MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{path}/", depth + 1))
        return below


def steps(task: Task) -> tuple[str, ...]:
    """Return the commands of a task in order, each to be run separately."""
    if _PLAIN_STEPS.fullmatch(task.command):
        return tuple(task.command.split(" && "))
    return (task.command,)
