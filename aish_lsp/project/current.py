"""The list of a workspace's files, kept up to date at little cost.

What changed is told by the editor, or found by a look at the few files that decide; single changes
are taken in one by one, and where that does not tell for sure, all is scanned anew.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from aish_lsp.project.files import FILE_LIMIT, Listing, Scan, gone
from aish_lsp.project.known import KnownFiles

if TYPE_CHECKING:
    from aish_lsp.project.files import Listing
    from aish_lsp.project.ignore import IgnoreFiles
    from aish_lsp.project.known import KnownFiles

#: Called with each scan when it begins, and with the task that is done when it has ended.
ScanListener: TypeAlias = Callable[[Scan, "asyncio.Task[Listing]"], None]

#: Changes that are taken in one by one; of more, a scan is cheaper.
PENDING_LIMIT = 1000

#: Names in a folder that are known and not there, or the reverse; of more, most are ignored.
_DIFFERING_LIMIT = 200

#: Files edited of late that are remembered.
_EDITED_LIMIT = 50

#: Where nobody tells of changes: a scan that took less (seconds) is made anew for each look; one
#: that took more, once it is older than so many times that, and than so many seconds.
_CHEAP = 0.1
_AGE_FACTOR = 20
_LEAST_AGE = 10.0

#: A file's time, size and number, which are others after a change; None where there is no file.
_Trace: TypeAlias = tuple[int, int, int] | None


class CurrentFiles:
    """The files of the folder ``root``.

    Attributes:
        watched: whether somebody tells of all files that come and go.
        listing: the files as of the last update.
        lock: held while the list is changed; to be held by who reads it in a thread.
    """

    def __init__(self, root: Path) -> None:
        self.watched = False
        self.listing = Listing(KnownFiles())
        self._root = root
        self._doubtful = True
        self._given_up = False
        self._pending: dict[str, None] = {}
        self._edited: dict[str, None] = {}
        self._traces: dict[Path, _Trace] = {}
        self._scanned_at = 0.0
        self._took = 0.0
        self._shown: dict[str, int] = {}
        self._listeners: list[ScanListener] = []
        self.lock = asyncio.Lock()

    @property
    def recent(self) -> set[str]:
        """The files that were changed of late: here, and by the last commits."""
        return {*self._edited, *self.listing.recent}

    def on_scan(self, listener: ScanListener) -> None:
        """Have ``listener`` called with each scan that begins."""
        self._listeners.append(listener)

    def changed(self, names: Iterable[str]) -> None:
        """Take note that something may have come, gone or changed at ``names``; costs nothing."""
        self._pending.update(dict.fromkeys(names))
        if len(self._pending) > PENDING_LIMIT:
            self.distrust()

    def distrust(self) -> None:
        """Take note that much has changed: the next update scans all."""
        self._pending.clear()
        self._doubtful = True

    def edited(self, name: str) -> None:
        """Take note that the user works on this file."""
        self._edited.pop(name, None)
        self._edited[name] = None
        if len(self._edited) > _EDITED_LIMIT:
            del self._edited[next(iter(self._edited))]
        self.changed([name])

    def renew(self) -> None:
        """Have the next update scan all, also where the user has stopped a scan before."""
        self._doubtful = True
        self._given_up = False

    def watch(self) -> None:
        """Believe what is told of changes from now on; what came before is looked at once more."""
        self.watched = True
        self.distrust()

    async def update(self) -> bool:
        """Bring the list up to date; return whether it, or ``recent``, may have changed."""
        async with self.lock:
            names, self._pending = self._pending, {}
            if self._given_up:
                return False
            if not self._doubtful:
                effect = await asyncio.to_thread(self._take_in, names)
                if effect is not Effect.DOUBTFUL:
                    return effect is Effect.CHANGED or bool(names)
            await self._scan()
            return True

    async def check(self) -> bool:
        """Drop what is tracked and gone, where the scan left that open; return whether it did."""
        if not self.listing.unchecked:
            return False
        listing = self.listing
        listing.unchecked = False
        absent = await gone(self._root)
        async with self.lock:
            if listing is not self.listing or not absent:
                return False
            listing.missed.update(absent)
            return await asyncio.to_thread(listing.known.remove_all, absent)

    async def _scan(self) -> None:
        begun, clock = time.time_ns(), time.monotonic()
        self._doubtful = False
        scan = Scan(self._root, FILE_LIMIT)
        work = asyncio.create_task(scan.listing(), name="scan a project")
        for listener in self._listeners:
            listener(scan, work)
        try:
            self.listing = await work
        except BaseException:
            self._doubtful = True
            work.cancel()
            raise
        self._given_up = scan.stopped
        self._traces = await asyncio.to_thread(self._look)
        # What changed while the scan ran may be in it, or not.
        if any(trace is not None and trace[0] >= begun for trace in self._traces.values()):
            self._doubtful = True
        self._scanned_at, self._took = clock, time.monotonic() - clock

    def watch_over(self, prefixes: Iterable[str]) -> None:
        """Look at each update whether something came or went in these folders; "" is the root."""
        self._shown = {prefix: self._shown.get(prefix, 0) for prefix in prefixes}

    def _take_in(self, names: Iterable[str]) -> Effect:
        if self._look() != self._traces or (not self.watched and self._is_old()):
            return Effect.DOUBTFUL
        return take_in(self.listing, self._root, [*names, *self._came_or_went()])

    def _came_or_went(self) -> Iterator[str]:
        """Yield what is on disk and not known, and the reverse, of the folders that are shown."""
        for prefix, before in self._shown.items():
            folder = self._root / prefix
            with suppress(OSError):
                changed = folder.stat().st_mtime_ns
                if changed != before:
                    self._shown[prefix] = changed
                    on_disk = {name for name in os.listdir(folder) if name != ".git"}  # noqa: PTH208 - names alone
                    differing = on_disk ^ self.listing.known.names_in(prefix)
                    if len(differing) <= _DIFFERING_LIMIT:
                        yield from (prefix + name for name in sorted(differing))

    def _is_old(self) -> bool:
        """Return whether a list that nobody tells changes of is to be made anew."""
        if self._took < _CHEAP:
            return True
        age = time.monotonic() - self._scanned_at
        return age > max(_LEAST_AGE, _AGE_FACTOR * self._took)

    def _look(self) -> dict[Path, _Trace]:
        """Return the traces of the files that decide, and of those that the rules start with."""
        # The index: what decides is another's where git had nothing to list of this one.
        own = (".git", ".git/index", ".gitignore")
        paths = (*self.listing.deciding, self._root, *(self._root / name for name in own))
        return {path: _trace(path) for path in paths}


def _trace(path: Path) -> _Trace:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    # A folder's own time tells of each file that is made in it; that it is another one is enough.
    return (
        (0, 0, found.st_ino) if path.is_dir() else (found.st_mtime_ns, found.st_size, found.st_ino)
    )


# Changes of single files, taken into the list of files without a new scan.
#
# What is told of a change is never trusted: the disk says what is there, the rules whether it
# counts.

#: What, in a repository's own folder, decides about its files.
_DECIDING = frozenset({"index", "HEAD", "config", "info/exclude", ""})

#: Entries of a new folder that are looked at.
_LOOKED_AT = 100


class Effect(Enum):
    """What changes came to."""

    NONE = auto()
    CHANGED = auto()
    DOUBTFUL = auto()
    """Only a new scan can tell."""


def take_in(listing: Listing, root: Path, names: Iterable[str]) -> Effect:
    """Bring the list up to date with what is on disk at ``names``, relative to ``root``.

    Blocks for a few calls of the system a name. Where the effect is doubtful, the list is not to
    be used any more.
    """
    if listing.ignore_files is None:
        return Effect.DOUBTFUL
    effect = Effect.NONE
    for name in names:
        match _take_in(listing, listing.ignore_files, root, name):
            case Effect.DOUBTFUL:
                return Effect.DOUBTFUL
            case Effect.CHANGED:
                effect = Effect.CHANGED
    return effect


def _take_in(listing: Listing, ignore_files: IgnoreFiles, root: Path, name: str) -> Effect:
    parts = PurePosixPath(name).parts
    effect = _by_name(listing.known, ignore_files, name, parts)
    if effect is not None:
        return effect
    mode = _mode(root / name)
    if mode is None:
        return _drop(listing, ignore_files, name)
    parent = Path(os.path.realpath(root), *parts[:-1])
    if Path(os.path.realpath(parent)) != parent:
        return Effect.NONE  # behind a link
    if stat.S_ISDIR(mode):
        return _look_into(listing, ignore_files, root, name)
    return _add(listing, ignore_files, name, mode)


def _by_name(
    known: KnownFiles, ignore_files: IgnoreFiles, name: str, parts: tuple[str, ...]
) -> Effect | None:
    """Return what a change comes to where its name alone tells."""
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if ".git" in parts:
        return _in_repository(known, ignore_files, parts)
    if "\0" in name or any(f"{folder}/" in known for folder in above):
        return Effect.NONE  # no file's name, or another repository's
    if not parts or known.is_folded(name) or any(folder in known for folder in above):
        return Effect.DOUBTFUL
    if parts[-1] == ".gitignore":
        unread = above and ignore_files.ignores(above[-1], folder=True)
        return Effect.NONE if unread else Effect.DOUBTFUL
    return None


def _in_repository(known: KnownFiles, ignore_files: IgnoreFiles, parts: tuple[str, ...]) -> Effect:
    """Return what a change in a ``.git`` comes to, of this repository or of one inside."""
    at = parts.index(".git")
    folder, inside = "/".join(parts[:at]), "/".join(parts[at + 1 :])
    if inside and f"{folder}/" in known:
        return Effect.NONE
    if folder and ignore_files.ignores(folder, folder=True):
        return Effect.NONE
    return Effect.DOUBTFUL if inside in _DECIDING else Effect.NONE


def _drop(listing: Listing, ignore_files: IgnoreFiles, name: str) -> Effect:
    """Drop a file that is gone, or a folder with all that was in it."""
    known = listing.known
    if known.remove(name):
        if ignore_files.ignores(name):
            listing.missed.add(name)  # it was listed all the same
        return Effect.CHANGED
    low, high = known.inside(name)
    if low == high:
        return Effect.NONE
    if listing.known.folded:
        return Effect.DOUBTFUL
    listing.missed.update(n for n in known.names[low:high] if ignore_files.ignores(n))
    known.remove_inside(name)
    return Effect.CHANGED


def _look_into(listing: Listing, ignore_files: IgnoreFiles, root: Path, name: str) -> Effect:
    """Return what a folder comes to that is there: nothing, where all that is in it is ignored."""
    low, high = listing.known.inside(name)
    if low < high or name in listing.known:
        return Effect.DOUBTFUL
    if any(f"{missed}/".startswith(f"{name}/") for missed in listing.missed):
        return Effect.DOUBTFUL
    if ignore_files.ignores(name, folder=True):
        return Effect.NONE
    with suppress(OSError), os.scandir(root / name) as entries:
        for count, entry in enumerate(entries):
            folder = entry.is_dir(follow_symlinks=False)
            ignored = ignore_files.ignores(f"{name}/{entry.name}", folder=folder)
            if not ignored or count == _LOOKED_AT:
                return Effect.DOUBTFUL
    return Effect.NONE


def _add(listing: Listing, ignore_files: IgnoreFiles, name: str, mode: int) -> Effect:
    """Add a file or a link that is there, unless it is known or ignored."""
    known = listing.known
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or name in known:
        return Effect.NONE
    low, high = known.inside(name)
    if low < high:
        return Effect.DOUBTFUL
    if ignore_files.ignores(name) and name not in listing.missed:
        return Effect.NONE
    known.add(name)
    return Effect.CHANGED


def _mode(path: Path) -> int | None:
    """Return what is at ``path``, itself; None where nothing is, or nothing that can be seen."""
    try:
        return path.lstat().st_mode
    except (OSError, ValueError):
        return None
