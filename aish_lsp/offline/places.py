"""The names that exist in a workspace, as far as a question may mean them."""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import Final

from aish_lsp.offline.words import stem
from aish_lsp.project.safe_read import read_regular

#: Entries that are looked at for a name that stands somewhere below, and how deep.
_MOST: Final = 3000
_DEPTH: Final = 4

#: Bytes of the list of branches that are read.
_REFS_LIMIT: Final = 262144

_PASSED_OVER: Final = {"node_modules", "__pycache__", "venv", "target", "dist", "build"}


class Places:
    """The files and folders of a workspace, looked up when a question may name them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def exists(self, name: str) -> bool:
        """Return whether there is something of that name, told from the workspace."""
        if not name or len(name) > 1024 or "\0" in name:
            return False
        try:
            return os.path.lexists(self.root / os.path.expanduser(name))  # noqa: PTH111
        except (OSError, ValueError):
            return False

    def is_folder(self, name: str) -> bool:
        """Return whether that name is a folder's."""
        try:
            return (self.root / os.path.expanduser(name)).is_dir()  # noqa: PTH111
        except (OSError, ValueError):
            return False

    def find(self, name: str, *, folders: bool = False) -> str | None:
        """Return the path of what is called ``name``: here, else the only one somewhere below."""
        if self.exists(name):
            return name if not folders or self.is_folder(name) else None
        if "/" in name or ("." not in name.lstrip(".") and not folders):
            return None
        found = self._below.get(name, ())
        return found[0] if len(found) == 1 else None

    def alike(self, word: str) -> str | None:
        """Return the one entry here that ``word`` means in another spelling: "readme"."""
        found = self._spoken.get(stem(word.lower()), ())
        return found[0] if len(found) == 1 else None

    def has_branch(self, name: str) -> bool:
        """Return whether the repository here has a branch of that name."""
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
                return [entry.name for _, entry in zip(range(_MOST), entries, strict=False)]
        except OSError:
            return []

    @cached_property
    def _spoken(self) -> dict[str, list[str]]:
        """The entries by their names without extension, in lower case and stemmed."""
        spoken: dict[str, list[str]] = {}
        for name in self._entries:
            bare = name.lower().partition(".")[0]
            if len(bare) > 2 and name.isprintable():
                spoken.setdefault(stem(bare), []).append(name)
        return spoken

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """The paths of what lies in folders, by name; bounded."""
        below: dict[str, list[str]] = {}
        left = _MOST
        waiting = [("", 0)]
        while waiting and left > 0:
            folder, depth = waiting.pop(0)
            try:
                entries = list(os.scandir(self.root / folder))
            except OSError:
                continue
            for entry in entries:
                left -= 1
                path = f"{folder}{entry.name}"
                if folder and entry.name.isprintable():
                    below.setdefault(entry.name, []).append(path)
                hidden = entry.name.startswith(".") or entry.name in _PASSED_OVER
                if not hidden and depth < _DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{path}/", depth + 1))
        return below
