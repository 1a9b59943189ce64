"""The list of a workspace's files, kept up to date at little cost.

The editor reports what changed; if it does not, a look at the few files that determine the list
shows whether it may have. git is asked about what is new. If that settles nothing, the whole folder
is scanned again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from aish_lsp.project.files import (
    ASKED_AT_ONCE,
    FILE_LIMIT,
    TIME_LIMIT,
    FileListing,
    FolderScan,
    in_thread,
    is_left_out,
    list_again,
)
from aish_lsp.project.git import GitUnavailable, ProjectGit

#: Called when a scan begins, with the scan and the task that runs it.
ScanListener: TypeAlias = Callable[[FolderScan, "asyncio.Task[FileListing]"], None]

#: Changes that are looked at one by one; if there are more, a scan is cheaper.
PENDING_LIMIT = 1000

#: Recently edited files that are remembered.
_EDITED_LIMIT = 50

#: If nobody reports changes, a scan that took less than _CHEAP seconds is repeated for each look.
#: One that took longer is repeated once it is older than _AGE_FACTOR times as long, and older than
#: _LEAST_AGE seconds.
_CHEAP = 0.1
_AGE_FACTOR = 20
_LEAST_AGE = 10.0


#: A file's time, size and inode: one of them differs after a change. None if there is no file.
_Trace: TypeAlias = tuple[int, int, int] | None


class CurrentFiles:
    """The files of the folder ``root``.

    Attributes:
        watched: whether the editor reports every file that is created or deleted.
        listing: the files as of the last update.
        lock: held while the list changes; hold it to read the list in a thread.
    """

    def __init__(self, root: Path) -> None:
        self.watched = False
        self.listing = FileListing()
        self._root = root
        self._doubtful = True
        self._given_up = False
        self._pending: dict[str, None] = {}
        self._edited: dict[str, None] = {}
        self._traces: dict[Path, _Trace] = {}
        #: When the last scan began, by the clock that dates files and by the monotonic one.
        self._begun = 0
        self._scanned_at = 0.0
        self._took = 0.0
        #: Of each folder that is shown, what the last look at it found: when it was changed, and
        #: the names there that were not known.
        self._shown: dict[str, tuple[int, set[str]] | None] = {}
        self._listeners: list[ScanListener] = []
        self.lock = asyncio.Lock()

    @property
    def recent(self) -> set[str]:
        """The files that were changed recently: here, and by the last commits."""
        return {*self._edited, *self.listing.recent}

    def on_scan(self, listener: ScanListener) -> None:
        """Call ``listener`` whenever a scan begins."""
        self._listeners.append(listener)

    def changed(self, names: Iterable[str]) -> None:
        """Note that something at ``names`` may be new, gone or changed; costs nothing."""
        self._pending.update(dict.fromkeys(names))
        if len(self._pending) > PENDING_LIMIT:
            self.distrust()

    def distrust(self) -> None:
        """Note that much may have changed: the next update scans the whole folder."""
        self._pending.clear()
        self._doubtful = True

    def edited(self, name: str) -> None:
        """Note that the user is working on this file."""
        self._edited.pop(name, None)
        self._edited[name] = None
        if len(self._edited) > _EDITED_LIMIT:
            del self._edited[next(iter(self._edited))]
        self.changed([name])

    def renew(self) -> None:
        """Make the next update scan the whole folder, even if the user stopped a scan before."""
        self._doubtful = True
        self._given_up = False

    def watch(self) -> None:
        """Rely on reports of changes from now on; the next update still scans the folder."""
        self.watched = True
        self.distrust()

    async def update(self) -> bool:
        """Bring the list up to date; return whether the list or ``recent`` may have changed."""
        async with self.lock:
            names, self._pending = self._pending, {}
            if self._given_up:
                return False
            if not self._doubtful:
                git = self._git()
                try:
                    taken_in = await in_thread(lambda: self._take_in(git, names), git.end)
                except BaseException:
                    self._doubtful = True  # the changes at ``names`` are forgotten
                    raise
                if taken_in is not None:
                    return taken_in
            await self._scan()
            return True

    async def left_out(self, paths: Iterable[str]) -> set[str]:
        """Return those of ``paths``, all of which exist, that are not files of the project."""
        unknown = [path for path in paths if path not in self.listing]
        if not unknown:
            return set()
        git = self._git()
        left_out = await in_thread(lambda: self._left_out(git, unknown), git.end)
        # A new file may not have been reported yet.
        self.changed(set(unknown) - left_out)
        return left_out

    async def ignores(self, name: str) -> bool:
        """Return whether a file of that name is ignored, whether it exists or not."""
        git = self._git()
        return await in_thread(lambda: self._ignores(git, name), git.end)

    def _git(self) -> ProjectGit:
        return ProjectGit(self._root, given=self.listing.way == "given")

    async def _scan(self) -> None:
        begun, clock = time.time_ns(), time.monotonic()
        self._doubtful = False
        scan = FolderScan(self._root, FILE_LIMIT)
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
        # What changed during the scan may be missing from it.
        if any(trace is not None and trace[0] >= begun for trace in self._traces.values()):
            self._doubtful = True
        self._begun, self._scanned_at, self._took = begun, clock, time.monotonic() - clock

    def watch_over(self, prefixes: Iterable[str]) -> None:
        """Check these folders at each update for new and deleted files; "" is the root."""
        self._shown = {prefix: self._shown.get(prefix) for prefix in prefixes}

    def _take_in(self, git: ProjectGit, names: Iterable[str]) -> bool | None:
        """Update the list at ``names`` and in the folders that are shown.

        Reports are never trusted: the disk shows what exists, and git decides whether it counts.
        Return whether there was anything to look at, or None if only a new scan can tell.
        """
        if self._look() != self._traces or (not self.watched and self._is_old()):
            return None
        files = self.listing
        places = {_place_of(name) for name in (*names, *self._came_or_went())}
        came = set()
        for folder in places - {""}:
            if not os.path.lexists(self._root / folder):
                files.remove(folder)
            elif folder not in files or os.path.isdir(self._root / folder):  # noqa: PTH112 - Path's raises
                came.add(folder)
        if _ROOT in places or (came and not self._ask(git, came)):
            return None
        return bool(places)

    def _ask(self, git: ProjectGit, places: set[str]) -> bool:
        """Replace what is known at ``places`` with what git lists; return whether it was asked."""
        if self.listing.way == "walk" or len(places) > ASKED_AT_ONCE:
            return False
        try:
            names = list_again(self._root, git, sorted(places))
        except GitUnavailable:
            return False
        for folder in places:
            self.listing.remove(folder)
        self.listing.names += names
        self.listing.names.sort()
        return True

    def _left_out(self, git: ProjectGit, paths: Sequence[str]) -> set[str]:
        if self.listing.way != "walk":
            with suppress(GitUnavailable):
                return set(paths).difference(list_again(self._root, git, paths))
        return {path for path in paths if is_left_out(self._root, path)}

    def _ignores(self, git: ProjectGit, name: str) -> bool:
        if self.listing.way != "walk" and ".git" not in name.split("/"):
            with suppress(GitUnavailable), git.at_work(TIME_LIMIT):
                return git.ignores(name)
        return is_left_out(self._root, name)

    def _came_or_went(self) -> Iterator[str]:
        """Yield the names in shown folders that are on disk but not known, or the reverse."""
        for prefix, before in self._shown.items():
            with suppress(OSError):
                changed = (self._root / prefix).stat().st_mtime_ns
                if before is not None and changed == before[0]:
                    continue
                known = self.listing.names_in(prefix)
                on_disk = set(os.listdir(self._root / prefix)) - {".git"}  # noqa: PTH208 - names alone
                unknown = on_disk - known
                self._shown[prefix] = changed, unknown
                cut = self.listing.truncated
                # What has not changed since the scan is as the scan found it.
                if before is None and (cut or changed < self._begun):
                    continue
                # Most of so many are ignored, and asking about all of them takes a scan; or the
                # scan left them out, as there are too many files.
                if before is not None and (cut or len(unknown) > ASKED_AT_ONCE):
                    unknown = unknown - before[1]
                yield from (prefix + name for name in (known - on_disk) | unknown)

    def _is_old(self) -> bool:
        """Return whether the list needs a new scan, if nobody reports changes."""
        if self._took < _CHEAP:
            return True
        age = time.monotonic() - self._scanned_at
        return age > max(_LEAST_AGE, _AGE_FACTOR * self._took)

    def _look(self) -> dict[Path, _Trace]:
        """Return the traces of the files that determine the list."""
        # The root's own index too: the others are another repository's if git lists nothing here.
        own = (".git", ".git/index", ".gitignore")
        paths = (*self.listing.deciding, self._root, *(self._root / name for name in own))
        return {path: _trace(path) for path in paths}


def _trace(path: Path) -> _Trace:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    # Each new file changes its folder's time; only whether the folder was replaced matters.
    return (
        (0, 0, status.st_ino)
        if path.is_dir()
        else (status.st_mtime_ns, status.st_size, status.st_ino)
    )


#: Among places in the folder, stands for the whole of it.
_ROOT = "."


def _place_of(name: str) -> str:
    """Return the place whose files a change at ``name`` may affect; empty if it affects none."""
    above, _, last = name.rpartition("/")
    parts = name.split("/")
    if ".git" in parts:
        # A nested repository was made or removed; the traces show changes of the folder's own.
        return "/".join(parts[: parts.index(".git")])
    if last == ".gitignore":
        return above or _ROOT
    return name or _ROOT
