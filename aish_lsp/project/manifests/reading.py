"""A folder as the readers of manifests see it: text only, bounded, each file read at most once."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from aish_lsp.foundation.opening import read_head

#: The largest manifest, in bytes; a larger one is skipped.
MANIFEST_LIMIT = 256 << 10
#: Names in a folder that are looked at.
_NAME_LIMIT = 5000
#: The most folders that a workspace's patterns may name, and the most patterns that are read.
_MEMBER_LIMIT = 100
_PATTERN_LIMIT = 200

Table: TypeAlias = dict[str, Any]

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")

#: Comments, by the end of a file's name; what is not closed goes on to the end of the text.
_COMMENTS: Final = {
    (".xml",): re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL),
    (".txt", ".cmake"): re.compile(r"#.*"),
    (".exs", "Rakefile"): re.compile(r"^[ \t]*#.*", re.MULTILINE),
}
#: Strings, which stay, and comments in JSON.
_IN_JSON: Final = re.compile(
    r'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL
)


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


def walk(value: object, path: str, most: int, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield what the keys in ``path`` lead to: ``a.*.b`` leads to the ``b`` of each table in ``a``.

    Each comes with the key that the ``*`` stands for; at most ``most`` of them are read.
    """
    key, _, rest = path.partition(".")
    inner = {key: value[key]} if isinstance(value, dict) and key in value else {}
    for matched, item in islice((table(value) if key == "*" else inner).items(), most):
        here = matched if key == "*" else name
        yield from walk(item, rest, most, here) if rest else ((here, item),)


def strings(value: object) -> list[str]:
    """Return the strings in a list; none if it is anything else."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class Manifests:
    """The manifests of one folder.

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
        self._data: dict[str, Table] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names directly in the folder."""
        return frozenset(self.inside("."))

    def inside(self, folder: str) -> list[str]:
        """Return a bounded number of the names in ``folder``, sorted. Do not change the list."""
        if folder not in self._folders:
            names: list[str] = []
            if folder == "." or self.has(folder):
                try:
                    with os.scandir(self.root / folder) as entries:
                        names = [entry.name for entry in islice(entries, _NAME_LIMIT)]
                except (OSError, ValueError):
                    names = []
            self._folders[folder] = sorted(names)
        return self._folders[folder]

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted paths that match ``pattern`` in the last part of it."""
        folder, _, last = pattern.rpartition("/")
        if "*" not in last and "?" not in last and "[" not in last:
            return [pattern] if self.has(pattern) else []
        names = [name for name in self.inside(folder or ".") if fnmatchcase(name, last)]
        return [f"{folder}/{name}" for name in names] if folder else names

    def first(self, *patterns: str) -> str | None:
        """Return the first path that matches one of ``patterns``, which are tried in order."""
        return next((path for pattern in patterns for path in self.matching(pattern)), None)

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
        members: dict[str, None] = {}
        for pattern in islice(patterns, _PATTERN_LIMIT):
            path = pattern.removeprefix("!").removeprefix("./").rstrip("/")
            folders = self._expanded(path)
            if pattern.startswith("!"):
                for name in folders:
                    members.pop(name, None)
            else:
                members |= dict.fromkeys(folders)
        return list(members)[:_MEMBER_LIMIT]

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
        paths = (folder.rstrip("/") for folder in folders[:_NAME_LIMIT])
        return [path for path in paths if stat.S_ISDIR(self._mode(path))]

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

    def code(self, name: str) -> str:
        """Return a file's text without comments, where these are known."""
        for ends, comment in _COMMENTS.items():
            if name.endswith(ends):
                return comment.sub("", self.text(name))
        return self.text(name)

    def data(self, name: str) -> Table:
        """Return the data of a TOML or JSON file, which may have comments. Do not change it.

        It is empty if the file is anything else.
        """
        if name not in self._data:
            self._data[name] = {}
            try:
                text, is_json = self.text(name), name.endswith((".json", ".jsonc"))
                if is_json:
                    text = _IN_JSON.sub(lambda match: match[1] or "", text)
                self._data[name] = table((json if is_json else tomllib).loads(text))
            except (ValueError, RecursionError):
                pass
        return self._data[name]
