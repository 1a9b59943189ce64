"""The files of a workspace: those that git knows or would add, else those a walk finds.

Opening a stranger's folder must run nothing of its own.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aish_lsp.project.git import Git, GitFailed, Places, excludes_file, git_command
from aish_lsp.project.ignore import Chain, IgnoreFiles, is_ignored
from aish_lsp.project.known import FOLDED, KnownFiles
from aish_lsp.project.safe_read import read_regular

#: Names that are kept; of more, those that lie deep are counted.
FILE_LIMIT = 200_000
#: Seconds that git, and then a walk, may take.
TIME_LIMIT = 60.0
#: Of more names, it is found out later which tracked files are gone: git looks at each for that.
CHECKED_AT_ONCE = 20_000
#: Bytes of a repository's own ignore file, where git refuses the repository.
_EXCLUDE_LIMIT = 128 << 10
#: Seconds of rest after each piece of names in a long scan, in which other threads get on.
_REST = 0.001


@dataclass(frozen=True, slots=True)
class FileList:
    """The files of a folder: relative, ``/``-separated, sorted.

    A name that ends in ``/`` is another repository inside, which is not looked into. Bytes that
    are no UTF-8 are held as ``os.fsdecode`` holds them. ``truncated`` says that there are more;
    ``reason`` says why there is nothing, or not all.
    """

    files: tuple[str, ...]
    truncated: bool = False
    reason: str = ""


@dataclass(slots=True)
class Listing:
    """What a scan found.

    Attributes:
        known: the files.
        truncated: whether the scan ended before it had seen all.
        reason: why, or why there is nothing.
        ignore_files: the rules by which they were found; None where only a new scan can tell.
        deciding: files outside of the list whose change may change it.
        recent: names that the last commits have changed, the last first.
        unchecked: whether tracked files may be in it that are gone; ``gone`` finds out.
        missed: tracked names that have gone. They are listed once they are back, ignored or not.
    """

    known: KnownFiles
    truncated: bool = False
    reason: str = ""
    ignore_files: IgnoreFiles | None = None
    deciding: tuple[Path, ...] = ()
    recent: tuple[str, ...] = ()
    unchecked: bool = False
    missed: set[str] = field(default_factory=set)


async def list_files(root: Path, *, every: bool = False) -> FileList:
    """Return the files under ``root`` that no ignore rule leaves out; ``every`` one of them.

    A folder that is gone or cannot be read gives an empty list with a reason. Where git is missing
    or fails, the folder is walked.
    """
    listing = await Scan(root, None if every else FILE_LIMIT).listing()
    known = listing.known
    if listing.unchecked:
        known.remove_all(await gone(root))
    if not known.folded:
        return FileList(tuple(known.names), listing.truncated, listing.reason)
    named = tuple(name for name in known.names if not name.endswith(FOLDED))
    return FileList(named, True, f"Only {len(named)} of {known.total} files are listed.")


async def gone(root: Path) -> list[str]:
    """Return the names that git tracks and that are not on disk."""
    git = Git(root)
    work = asyncio.ensure_future(asyncio.to_thread(_gone_of, git))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        git.end()
        raise


def _gone_of(git: Git) -> list[str]:
    with _time_limit(git.end):
        try:
            return _gone(git)
        except GitFailed:
            return []
        finally:
            git.close()


class Scan:
    """One look at all files of a folder.

    Args:
        root: the folder.
        limit: names that are kept; None: all.

    Attributes:
        found: how many files were found by now.
        stopped: whether somebody has ended it.
    """

    def __init__(self, root: Path, limit: int | None) -> None:
        self.found = 0
        self._root = root
        self._limit = limit
        self.stopped = False
        self._late = False
        self._git: Git | None = None

    async def listing(self) -> Listing:
        """Return what is found; where it is cancelled, git is ended first."""
        work = asyncio.ensure_future(asyncio.to_thread(self.run))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([work], timeout=1)
            raise

    def stop(self) -> None:
        """End it: what was found by now is what there is. Safe in any thread."""
        self.stopped = True
        self._end_git()

    def run(self) -> Listing:
        """Return what is found; blocks."""
        problem = _problem(self._root)
        if problem:
            return Listing(KnownFiles(), reason=problem)
        with _time_limit(self._run_late):
            listing = self._by_git() or self._by_git_elsewhere()
        if listing is None and not self.stopped:
            self._late = False
            with _time_limit(self._run_late):
                listing = self._by_walk()
        listing = listing or Listing(KnownFiles())
        listing.known.sort()
        if self.stopped:
            listing.truncated, listing.reason = True, "The scan was stopped."
        elif self._late:
            reason = f"The folder could not be listed within {TIME_LIMIT:g} seconds."
            listing.truncated, listing.reason = True, reason
        return listing

    def _run_late(self) -> None:
        self._late = True
        self._end_git()

    def _end_git(self) -> None:
        if self._git is not None:
            self._git.end()

    def _by_git(self, repository: Path | None = None) -> Listing | None:
        """Return what git lists; None where it fails, or lists nothing.

        An outer repository that ignores the whole folder has nothing to say of it.
        """
        if self.stopped or self._late:
            return None
        git = self._git = Git(self._root, repository)
        if self.stopped or self._late:
            git.end()
        try:
            listing = self._listed(git, empty=repository is not None)
        except GitFailed:
            return None
        finally:
            git.close()
        return listing if listing.known.total else None

    def _listed(self, git: Git, *, empty: bool) -> Listing:
        others = git.start_others()  # the slowest goes first
        tracked = None if empty else git.start_tracked()
        commits = None if empty else git.ask_commits()
        places = git.ask_places()
        known = KnownFiles(self._limit)
        if tracked is not None:
            self._take(known, git.tracked(tracked))
        changed = None if commits is None else git.ask_recent(commits)
        unchecked = self.found > CHECKED_AT_ONCE
        absent = _gone(git) if self.found and not unchecked else []
        self._take(known, git.others(others))
        listing = Listing(known, unchecked=unchecked)
        if absent:
            gone_by_now = set(absent)
            known.names = [name for name in known.names if name not in gone_by_now]
            listing.missed = gone_by_now
        if changed is not None:
            listing.recent = git.recent(changed)
        self._say_what_decides(listing, git.places(places), exact=not git.sparse)
        return listing

    def _by_git_elsewhere(self) -> Listing | None:
        """Return what git lists where there is no repository, or one that it refuses.

        It is given an empty one, for its rules are the rules.
        """
        if self.stopped or self._late or git_command(self._root) is None:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="aish-", ignore_cleanup_errors=True) as folder:
                repository = Path(folder)
                (repository / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
                for name in ("objects", "refs", "info"):
                    (repository / name).mkdir()
                exclude = read_regular(_exclude_of(self._root), _EXCLUDE_LIMIT)
                (repository / "info" / "exclude").write_bytes(exclude or b"")
                return self._by_git(repository)
        except OSError:
            return None

    def _by_walk(self) -> Listing:
        places = Places(self._root, _exclude_of(self._root), None, excludes_file(), False)
        listing = Listing(KnownFiles(self._limit))
        self._say_what_decides(listing, places, exact=True)
        ignore_files = listing.ignore_files or IgnoreFiles(self._root)
        self._take(
            listing.known, walk(self._root, ignore_files, lambda: self.stopped or self._late)
        )
        return listing

    def _take(self, known: KnownFiles, pieces: Iterable[list[str]]) -> None:
        for names in pieces:
            known.extend(names)
            self.found += len(names)
            if self.found > FILE_LIMIT:
                time.sleep(_REST)

    def _say_what_decides(self, listing: Listing, places: Places, *, exact: bool) -> None:
        """Keep what tells of a change whether, and how, it changes the list."""
        found = (places.index, places.exclude, places.everywhere)
        listing.deciding = tuple(path for path in found if path is not None)
        root = Path(os.path.realpath(self._root))
        top = places.top and Path(os.path.realpath(places.top))
        if exact and not places.case_folded and top is not None and root.is_relative_to(top):
            listing.ignore_files = IgnoreFiles(
                root, top=top, exclude=places.exclude, everywhere=places.everywhere
            )


@contextmanager
def _time_limit(late: Callable[[], None]) -> Iterator[None]:
    """Call ``late``, in a thread of its own, where the block takes longer than TIME_LIMIT."""
    timer = threading.Timer(TIME_LIMIT, late)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _gone(git: Git) -> list[str]:
    """Return the names of what is tracked and not on disk; of a submodule with its slash, too."""
    plain = [name for names in git.gone() for name in names]
    return [*plain, *(f"{name}/" for name in plain)]


def _exclude_of(root: Path) -> Path:
    return root / ".git" / "info" / "exclude"


def _problem(root: Path) -> str:
    """Return why ``root`` cannot be listed, or nothing."""
    try:
        with os.scandir(root):
            return ""
    except OSError as error:
        return f"The folder {root} cannot be read: {error.strerror}."


# The files of a folder that git cannot list: by the rules that git has.


def walk(root: Path, ignore_files: IgnoreFiles, stopped: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield the names of the files under ``root``, folder by folder, until ``stopped`` says so.

    Links are named and not followed; of another repository only its folder is named. What cannot
    be read is passed over.
    """
    waiting: deque[tuple[tuple[str, ...], Chain]] = deque([((), ignore_files.chain(()))])
    while waiting and not stopped():
        path, chain = waiting.popleft()
        try:
            with os.scandir(root.joinpath(*path)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        if path and any(entry.name == ".git" and _is_repository(entry) for entry in entries):
            yield ["/".join(path) + "/"]
            continue
        if path and any(entry.name == ".gitignore" for entry in entries):
            chain = ignore_files.with_own(chain, path)
        names = []
        for entry in entries:
            inner = (*path, entry.name)
            folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or is_ignored(chain, inner, folder=folder):
                continue
            if folder:
                waiting.append((inner, chain))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                names.append("/".join(inner))
        yield names


def _is_repository(entry: os.DirEntry[str]) -> bool:
    """Return whether ``entry``, called ``.git``, makes a repository of the folder it is in."""
    if entry.is_dir(follow_symlinks=False):
        return Path(entry.path, "HEAD").exists() and Path(entry.path, "objects").exists()
    return entry.is_file(follow_symlinks=False)
