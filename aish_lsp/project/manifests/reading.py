"""A folder as the manifest readers see it, bounded and text only; and the tasks they find."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from aish_lsp.foundation.opening import read_head

Intent: TypeAlias = Literal[
    "test", "build", "run", "start", "lint", "format", "check", "clean", "install"
]


class Rank(IntEnum):
    """How sure it is that the project's developers use a task; the lowest is the surest."""

    OWN = 0
    """An entry that the project itself names: a make target, a package script."""
    CONFIGURED = 1
    """A tool whose configuration, or whose manifest, is there."""
    GUESS = 2
    """What such projects usually use."""
    PART = 3
    """A task of a folder that is a project itself."""
    HINT = 4
    """Seen elsewhere, as in a CI file."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command of one line, with the file that it comes from as its ``source``.

    ``folder`` is the folder that the command is for and changes to, if that is a project itself.
    """

    intent: Intent
    command: str
    source: str
    rank: Rank = Rank.CONFIGURED
    folder: str = ""


#: What is known about the commands of all kinds of projects.
COMMANDS: Final = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))

#: The names that people give to entries of their task runners, the most usual first.
ENTRY_NAMES: Final[Mapping[Intent, Sequence[str]]] = COMMANDS["entries"]


def named_tasks(names: Collection[str], runner: str, source: str) -> Iterator[Task]:
    """Yield a task for each intent that has its usual name among ``names``.

    The command is that name right after ``runner``. Only names in ENTRY_NAMES ever get into a
    command, whatever else ``names`` contains.
    """
    for intent, candidates in ENTRY_NAMES.items():
        name = next((candidate for candidate in candidates if candidate in names), None)
        if name is not None:
            yield Task(intent, f"{runner}{name}", source, Rank.OWN)


def table_tasks(
    manifests: Manifests,
    commands: Mapping[Intent, Any],
    source: str,
    rank: Rank = Rank.CONFIGURED,
    **words: str,
) -> Iterator[Task]:
    """Yield a task from ``source`` for each command in a table of COMMANDS.

    A command may require that ``source`` matches a pattern, or that the folder has a file. Each
    ``{NAME}`` in it is replaced with the one of ``words`` that has this name.
    """
    for intent, entry in commands.items():
        row = {"command": entry} if isinstance(entry, str) else entry
        if "word" in row and not re.search(row["word"], manifests.text(source)):
            continue
        if "file" not in row or manifests.has(row["file"]):
            yield Task(intent, row["command"].format(**words), source, rank)


#: The largest manifest, in bytes; a larger one is skipped.
MANIFEST_LIMIT = 256 << 10
#: Names in a folder that are looked at.
_NAME_LIMIT = 5000
#: The most folders that a workspace's patterns may name, and the most patterns that are read.
_MEMBER_LIMIT = 100
_PATTERN_LIMIT = 200

Table: TypeAlias = dict[str, Any]

_COMMENT_OR_STRING = re.compile(r'"|//|/\*')
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"', re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")


def is_plain(name: str) -> bool:
    """Return whether a command may contain ``name`` unquoted: it is a word and not an option."""
    return _PLAIN.fullmatch(name) is not None


def is_plain_path(path: str) -> bool:
    """Return whether a command may contain ``path`` unquoted: plain words that do not lead up."""
    return all(map(is_plain, path.split("/")))


def table(value: object, *keys: str) -> Table:
    """Return the table that ``keys`` lead to, or an empty one if anything else is there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[str]:
    """Return the strings in a list; none if it is anything else."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class Manifests:
    """The manifests of one folder, each read at most once.

    One that is missing, unreadable, binary, broken or too large counts as empty, and does not
    affect the others.

    Attributes:
        root: the folder.
        above: the manifests of the project that the folder is a part of; None if there is none.
    """

    def __init__(self, root: Path, above: Manifests | None = None) -> None:
        self.root = root
        self.above = above
        self._folders: dict[str, list[str]] = {}
        self._texts: dict[str, str] = {}
        self._tables: dict[str, Table] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names directly in the folder."""
        return frozenset(self.inside("."))

    def inside(self, folder: str) -> list[str]:
        """Return a bounded number of the names in ``folder``, sorted. Do not change the list."""
        if folder not in self._folders:
            is_there = folder == "." or self.has(folder)
            self._folders[folder] = self._listed(folder) if is_there else []
        return self._folders[folder]

    def _listed(self, folder: str) -> list[str]:
        names = []
        try:
            with os.scandir(self.root / folder) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if len(names) >= _NAME_LIMIT:
                        break
        except (OSError, ValueError):
            return []
        return sorted(names)

    def matching(self, folder: str, pattern: str) -> list[str]:
        """Return the sorted paths of what in ``folder`` matches ``pattern`` by name."""
        names = [name for name in self.inside(folder) if fnmatchcase(name, pattern)]
        return names if folder == "." else [f"{folder}/{name}" for name in names]

    def first_matching(self, *patterns: str) -> str | None:
        """Return the first path that matches one of ``patterns``, which are tried in order."""
        for pattern in patterns:
            folder, _, name = pattern.rpartition("/")
            for path in self.matching(folder or ".", name):
                return path
        return None

    def within(self, folder: str) -> Manifests:
        """Return the manifests of a folder inside this one."""
        return Manifests(self.root / folder, self)

    @cached_property
    def folders(self) -> list[str]:
        """The sorted names of the folders directly in this one, without links and hidden ones."""
        names = sorted(name for name in self.names if not name.startswith("."))
        return [name for name in names if stat.S_ISDIR(self._mode(name, follow=False))]

    def members(self, patterns: Iterable[str]) -> list[str]:
        """Return a bounded number of the folders that a workspace's patterns name, if plain.

        A pattern that begins with ``!`` excludes folders.
        """
        found: dict[str, None] = {}
        for pattern in islice(patterns, _PATTERN_LIMIT):
            path = pattern.removeprefix("!").removeprefix("./").rstrip("/")
            folders = self._expanded(path)
            if pattern.startswith("!"):
                for name in folders:
                    found.pop(name, None)
            else:
                found |= dict.fromkeys(folders)
        return list(found)[:_MEMBER_LIMIT]

    def _expanded(self, pattern: str) -> list[str]:
        """Return the folders that ``pattern`` matches; ``**`` goes one folder deep."""
        folders = [""]
        for part in pattern.split("/"):
            if is_plain(part):
                folders = [f"{folder}{part}/" for folder in folders]
            elif "*" in part or "?" in part:
                folders = [
                    f"{folder}{name}/"
                    for folder in folders[:_MEMBER_LIMIT]
                    for name in self.inside(folder or ".")
                    if is_plain(name) and fnmatchcase(name, part)
                ]
            else:
                return []
        found = (folder.rstrip("/") for folder in folders[:_NAME_LIMIT])
        return [folder for folder in found if stat.S_ISDIR(self._mode(folder))]

    def first(self, *candidates: str) -> str | None:
        """Return the first of ``candidates`` (paths relative to the folder) that exists."""
        return next((name for name in candidates if self.has(name)), None)

    def has(self, name: str) -> bool:
        """Return whether there is a file, folder or link ``name``."""
        if "/" not in name:
            return name in self.names
        return name.partition("/")[0] in self.names and os.path.lexists(self.root / name)

    def exists(self, name: str) -> bool:
        """Return whether the file or folder ``name`` exists, following links."""
        return self.has(name) and self._mode(name) != 0

    def executable(self, name: str) -> bool:
        """Return whether ``name`` is an executable file."""
        is_file = self.has(name) and stat.S_ISREG(self._mode(name))
        return is_file and os.access(self.root / name, os.X_OK)

    def _mode(self, name: str, *, follow: bool = True) -> int:
        """Return the mode of ``name`` as stat reports it; 0 if it cannot."""
        try:
            return (self.root / name).stat(follow_symlinks=follow).st_mode
        except (OSError, ValueError):
            return 0

    def text(self, name: str) -> str:
        """Return a file's text; empty if it cannot be read."""
        if name not in self._texts:
            head = read_head(self.root, name, MANIFEST_LIMIT) if self.has(name) else None
            self._texts[name] = head[0] if head is not None and head[1] else ""
        return self._texts[name]

    def toml(self, name: str) -> Table:
        """Return a TOML file's data; empty if it is not TOML. Do not change it."""
        if name not in self._tables:
            try:
                self._tables[name] = tomllib.loads(self.text(name))
            except (ValueError, RecursionError):
                self._tables[name] = {}
        return self._tables[name]

    def json(self, name: str) -> Table:
        """Return a JSON file's object, as ``toml`` does; comments are allowed."""
        if name not in self._tables:
            self._tables[name] = _from_json(self.text(name))
        return self._tables[name]


def _from_json(text: str) -> Table:
    for form in (str, _without_comments):
        try:
            return table(json.loads(form(text)))
        except (ValueError, RecursionError):
            continue
    return {}


def _without_comments(text: str) -> str:
    """Return JSON without its comments, in linear time; strings stay as they are."""
    pieces: list[str] = []
    at = 0
    while (sign := _COMMENT_OR_STRING.search(text, at)) is not None:
        pieces.append(text[at : sign.start()])
        if sign[0] == '"':
            string = _STRING.match(text, sign.start())
            at = string.end() if string else len(text)
            pieces.append(text[sign.start() : at])
        else:
            end = text.find("\n" if sign[0] == "//" else "*/", sign.end())
            at = len(text) if end < 0 else end + (0 if sign[0] == "//" else 2)
    return "".join(pieces) + text[at:]
