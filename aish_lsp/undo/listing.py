"""What a snapshot covers of a work tree: the files that git knows or would add, as on disk.

Files that git would leave out, and anything that is not a file, are not covered. They are listed,
so that they are not mistaken later for something that a command created. Files that editors create
for themselves are not even listed. Names are bytes, ``/``-separated and relative to the work tree.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from aish_lsp.undo.git import Git, NoUndo

#: The most files of a snapshot; if there are more, none is taken.
FILE_LIMIT: Final = 200_000
#: The largest file that is covered, in bytes.
SIZE_LIMIT: Final = 64 << 20
#: The most nested repositories in a work tree; if there are more, no snapshot is taken.
REPOSITORY_LIMIT: Final = 200

#: Swap files, locks and backups that editors keep next to the edited files: ``.*.sw?``, ``#*#``,
#: ``.#*``, ``*~``; and the temporary files of our own writes.
_EDITORS: Final = re.compile(rb"\..*\.sw.|#.*#|\.#.*|.*~|\..*[0-9a-f]{12}\.tmp", re.DOTALL)

_TRACKED_OR_NEW: Final = ("ls-files", "-z", "-t", "-s", "-c", "-o", "--exclude-standard")
_IGNORED: Final = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")


@dataclass(frozen=True, slots=True)
class Listing:
    """A work tree at one time.

    Attributes:
        files: the covered files: regular files and links, each with its status.
        folders: the permissions of the folders that they are in.
        uncovered: what exists and is not covered; a name that ends in ``/`` is a whole folder.
        repositories: the nested repositories whose files are covered, submodules or not.
    """

    files: dict[bytes, os.stat_result]
    folders: dict[bytes, int]
    uncovered: frozenset[bytes]
    repositories: tuple[bytes, ...]


def left_out(name: bytes, uncovered: Collection[bytes]) -> bool:
    """Return whether ``name`` is one of ``uncovered``, or is in one of its folders."""
    if name in uncovered or name + b"/" in uncovered:
        return True
    end = name.find(b"/")
    while end >= 0:
        if name[: end + 1] in uncovered:
            return True
        end = name.find(b"/", end + 1)
    return False


def list_work_tree(
    git: Git, also: Iterable[bytes] = (), repositories: Sequence[bytes] | None = None
) -> Listing:
    """Return the listing of the work tree of ``git``.

    Args:
        git: its ``settle`` was called.
        also: names that are covered if they exist, even if git would leave them out now; each
            ``is_plain``.
        repositories: the nested repositories to look into; None for all. If they are given, git is
            not asked what it ignores.

    Raises:
        NoUndo: there are too many files or repositories, or git failed.
    """
    names: set[bytes] = set()
    uncovered: set[bytes] = set()
    found: list[bytes] = []
    waiting = [b""]
    # The two lists of a repository are made in parallel.
    with ThreadPoolExecutor(1) as executor:
        while waiting:
            place = waiting.pop()
            found += [place] if place else []
            if len(found) > REPOSITORY_LIMIT:
                raise NoUndo(f"there are more than {REPOSITORY_LIMIT} other repositories inside")
            asked = None if repositories is not None else executor.submit(_ignored, git, place)
            own, inner = _listed(git, place)
            names |= own
            uncovered |= asked.result() if asked else set()
            known = inner if repositories is None else inner & set(repositories)
            waiting += sorted(name for name in known if _is_repository(git, name))
            uncovered |= inner - known
    names.update(also)
    names = {name for name in names if not is_editors_own(name)}
    if len(names) > FILE_LIMIT:
        raise NoUndo(f"there are more than {FILE_LIMIT:,} files")
    return _Scan(os.fsencode(git.top)).listing(names, uncovered, tuple(sorted(found)))


def is_editors_own(name: bytes) -> bool:
    """Return whether ``name`` is a file that an editor creates and manages for itself."""
    return _EDITORS.fullmatch(name.rpartition(b"/")[2]) is not None


def is_plain(name: bytes) -> bool:
    """Return whether ``name`` is inside the work tree and outside any ``.git``."""
    parts = name.split(b"/")
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)


def _split(answer: bytes) -> list[bytes]:
    return answer.split(b"\0")[:-1]


def _listed(git: Git, place: bytes) -> tuple[set[bytes], set[bytes]]:
    """Return the files of the repository at ``place``, and its nested ones, which end in ``/``."""
    files: set[bytes] = set()
    inner: set[bytes] = set()
    for record in _split(git.ask(*_TRACKED_OR_NEW, below=place)):
        tag, _, rest = record.partition(b" ")
        about, _, name = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if name.endswith(b"/") or about.startswith(b"160000"):
            inner.add(place + name.rstrip(b"/") + b"/")
        else:
            files.add(place + name)
    return files, inner


def _ignored(git: Git, place: bytes) -> set[bytes]:
    return {place + name for name in _split(git.ask(*_IGNORED, below=place))}


def _is_repository(git: Git, name: bytes) -> bool:
    """Return whether a folder has its own ``.git``; without it, git would use one from above."""
    path = os.path.join(os.fsencode(git.top), name)  # noqa: PTH118 - bytes
    real = os.path.realpath(path)
    return real == path.rstrip(b"/") and os.path.lexists(path + b".git")


class _Scan:
    """Gets the status of files, and of each of their folders once."""

    def __init__(self, top: bytes) -> None:
        self._top = top + b"/"
        self._folders: dict[bytes, int | None] = {b"": 0}

    def listing(
        self, names: Iterable[bytes], uncovered: set[bytes], repositories: tuple[bytes, ...]
    ) -> Listing:
        files: dict[bytes, os.stat_result] = {}
        top, folders, lstat = self._top, self._folders, os.lstat  # this loop is hot
        for name in names:
            folder = name[: max(name.rfind(b"/"), 0)]
            # A link's target is not part of this work tree.
            if (folders[folder] if folder in folders else self._folder(folder)) is None:
                continue
            try:
                found = lstat(top + name)
            except OSError:
                continue
            if self._is_covered(name, found):
                files[name] = found
            elif not stat.S_ISDIR(found.st_mode):
                uncovered.add(name)
        modes = {name: mode for name, mode in folders.items() if name and mode is not None}
        return Listing(files, modes, frozenset(uncovered - files.keys()), repositories)

    def _is_covered(self, name: bytes, found: os.stat_result) -> bool:
        mode = found.st_mode
        if stat.S_IFMT(mode) != stat.S_IFREG:
            return stat.S_ISLNK(mode)
        if found.st_size > SIZE_LIMIT:
            return False
        # Most files are readable by all; calling access for each would double the time.
        return mode & 0o444 == 0o444 or os.access(self._top + name, os.R_OK)

    def _folder(self, name: bytes) -> int | None:
        """Return the permissions of a folder; None if it is not a folder or is behind a link."""
        if name not in self._folders:
            mode = None
            if self._folder(name.rpartition(b"/")[0]) is not None:
                try:
                    found = os.lstat(self._top + name).st_mode
                except OSError:
                    found = 0
                mode = stat.S_IMODE(found) if stat.S_ISDIR(found) else None
            self._folders[name] = mode
        return self._folders[name]
