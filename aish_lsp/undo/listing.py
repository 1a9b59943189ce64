"""What a snapshot covers of a work tree: the files that git knows or would add, as on disk.

Files that git would leave out, and anything that is not a file, are not covered. They are listed,
so that they are not mistaken later for something that a command created. Files that editors create
for themselves are not even listed. Names are bytes, ``/``-separated and relative to the work tree.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
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
        gits: what is called ``.git`` in a folder with covered files, and the folders of
            repositories that are not covered, each with its status.
        index: git's mode and id of what the indexes hold, as ``MODE ID``.
    """

    files: dict[bytes, os.stat_result]
    folders: dict[bytes, int]
    uncovered: frozenset[bytes]
    repositories: tuple[bytes, ...]
    gits: dict[bytes, os.stat_result]
    index: dict[bytes, str]


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
        git: its ``inspect`` was called.
        also: names that are covered if they exist, even if git would leave them out now; each
            ``is_plain``.
        repositories: the nested repositories to look into; None for all. If they are given, git is
            not asked what it ignores.

    Raises:
        NoUndo: there are too many files or repositories, or git failed.
    """
    index: dict[bytes, str] = {}
    names: set[bytes] = set(also)
    uncovered: set[bytes] = set()
    listed: list[bytes] = []
    strange: set[bytes] = set()
    waiting = [b""]
    # The two lists of a repository are made in parallel.
    with ThreadPoolExecutor(1) as executor:
        while waiting:
            folder = waiting.pop()
            listed += [folder] if folder else []
            if len(listed) > REPOSITORY_LIMIT:
                raise NoUndo(f"there are more than {REPOSITORY_LIMIT} other repositories inside")
            asked = None if repositories is not None else executor.submit(_ignored, git, folder)
            inner = _list(git, folder, names, index)
            uncovered |= asked.result() if asked else set()
            here = {name for name in inner if _is_repository(git, name)}
            repositories_here = here if repositories is None else here & set(repositories)
            waiting += sorted(repositories_here)
            uncovered |= inner - repositories_here
            strange |= here - repositories_here
    names = {name for name in names if not is_editors_own(name)}
    if len(names) > FILE_LIMIT:
        raise NoUndo(f"there are more than {FILE_LIMIT:,} files")
    scan = Scan(git.top)
    for name in [b".git", *(place + b".git" for place in listed), *(one[:-1] for one in strange)]:
        scan.look_for_git(name)
    return scan.listing(names, uncovered, tuple(sorted(listed)), index)


def index_of(git: Git) -> dict[bytes, str]:
    """Return what the index of the repository holds, as in ``Listing``."""
    index: dict[bytes, str] = {}
    _list(git, b"", set(), index)
    return index


def is_editors_own(name: bytes) -> bool:
    """Return whether ``name`` is a file that an editor creates and manages for itself."""
    return _EDITORS.fullmatch(name.rpartition(b"/")[2]) is not None


def is_plain(name: bytes) -> bool:
    """Return whether ``name`` is inside the work tree and outside any ``.git``."""
    parts = name.split(b"/")
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)


def _split(answer: bytes) -> list[bytes]:
    return answer.split(b"\0")[:-1]


def _list(git: Git, place: bytes, names: set[bytes], index: dict[bytes, str]) -> set[bytes]:
    """Add what the repository at ``place`` has; return its nested ones, which end in ``/``."""
    inner: set[bytes] = set()
    for record in _split(git.ask(*_TRACKED_OR_NEW, below=place)):
        tag, _, rest = record.partition(b" ")
        about, _, name = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if about.endswith(b" 0"):  # not one of the sides of a merge
            index[place + name] = about[:-2].decode()
        if name.endswith(b"/") or about.startswith(b"160000"):
            inner.add(place + name.rstrip(b"/") + b"/")
        else:
            names.add(place + name)
    return inner


def _ignored(git: Git, place: bytes) -> set[bytes]:
    return {place + name for name in _split(git.ask(*_IGNORED, below=place))}


def _is_repository(git: Git, name: bytes) -> bool:
    """Return whether a folder has its own ``.git``; without it, git would use one from above."""
    path = os.path.join(os.fsencode(git.top), name)  # noqa: PTH118 - bytes
    real = os.path.realpath(path)
    return real == path.rstrip(b"/") and os.path.lexists(path + b".git")


class Scan:
    """Gets the status of files, and of each of their folders once, in the work tree ``top``."""

    def __init__(self, top: Path) -> None:
        self._top = os.fsencode(top) + b"/"
        self._folders: dict[bytes, int | None] = {b"": 0}
        self._gits: dict[bytes, os.stat_result] = {}

    def listing(
        self,
        names: Iterable[bytes],
        uncovered: Iterable[bytes] = (),
        repositories: tuple[bytes, ...] = (),
        index: Mapping[bytes, str] | None = None,
    ) -> Listing:
        """Return the listing of ``names``; what else it has is given."""
        files: dict[bytes, os.stat_result] = {}
        outside = set(uncovered)
        top, folders, lstat = self._top, self._folders, os.lstat  # this loop is hot
        for name in names:
            at = name.rfind(b"/")
            folder = name[: max(at, 0)]
            # A link's target is not part of this work tree; a damaged index may have any names.
            if (folders[folder] if folder in folders else self._folder(folder)) is None:
                continue
            if name[at + 1 : at + 2] in b"." and not is_plain(name[at + 1 :]):
                continue
            try:
                status = lstat(top + name)
            except OSError:
                continue
            if self._is_covered(name, status):
                files[name] = status
            elif not stat.S_ISDIR(status.st_mode):
                outside.add(name)
        modes = {name: mode for name, mode in folders.items() if name and mode is not None}
        covers = frozenset(outside - files.keys())
        return Listing(files, modes, covers, repositories, self._gits, dict(index or {}))

    def look_for_git(self, name: bytes) -> None:
        """Note what ``name`` is, if it exists: a ``.git``, or the folder of a repository."""
        with suppress(OSError):
            self._gits[name] = os.lstat(self._top + name)

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
            above, _, own = name.rpartition(b"/")
            if self._folder(above) is not None and is_plain(own):
                try:
                    file_mode = os.lstat(self._top + name).st_mode
                except OSError:
                    file_mode = 0
                if stat.S_ISDIR(file_mode):
                    mode = stat.S_IMODE(file_mode)
                    self.look_for_git(name + b"/.git")
            self._folders[name] = mode
        return self._folders[name]
