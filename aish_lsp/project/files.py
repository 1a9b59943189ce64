"""The files of a workspace: those that git knows or would add or, without git, that a walk finds.

Opening a stranger's folder must not run anything in it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.opening import read_regular
from aish_lsp.project.git import GitUnavailable, ProjectGit

#: Names that are kept; a scan ends when it has found more.
FILE_LIMIT = 500_000
#: Seconds that git may take, and then again a walk.
TIME_LIMIT = 60.0
#: Places that git is asked about at once; it compares each file with each of them.
ASKED_AT_ONCE = 100
#: Names of files changed by the last commits that are kept.
_RECENT_LIMIT = 2000

#: How files are found: by git in their repository, by git in an empty one, or by a walk.
Way: TypeAlias = Literal["git", "given", "walk"]

_Result = TypeVar("_Result")


@dataclass(slots=True)
class FileListing:
    """What a scan found.

    Attributes:
        names: the files, sorted, relative to the root and ``/``-separated; one that ends in ``/``
            is another repository. Bytes that are not UTF-8 are decoded as ``os.fsdecode`` does.
        truncated: whether the scan ended before it had seen everything.
        reason: why it ended early, or why there are no files.
        way: how the files were found.
        deciding: files outside the list whose changes may change it.
        recent: names that the last commits changed, the latest first.
    """

    names: list[str] = field(default_factory=list)
    truncated: bool = False
    reason: str = ""
    way: Way = "walk"
    deciding: tuple[Path, ...] = ()
    recent: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self.names, name)
        return at < len(self.names) and self.names[at] == name

    def names_in(self, prefix: str) -> set[str]:
        """Return the names of the files and folders directly in a folder; ``prefix`` ends in /."""
        low = bisect_left(self.names, prefix)
        high = bisect_left(self.names, behind(prefix[:-1]), low) if prefix else None
        return {name[len(prefix) :].partition("/")[0] for name in self.names[low:high]}

    def remove(self, place: str) -> None:
        """Drop the file ``place``, and everything in a folder of that name."""
        low = bisect_left(self.names, f"{place}/")
        del self.names[low : bisect_left(self.names, behind(place), low)]
        if place in self:
            del self.names[bisect_left(self.names, place)]


def behind(folder: str) -> str:
    """Return what sorts right after all names in ``folder``: the character after ``/`` is 0."""
    return f"{folder}0"


async def in_thread(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """Return what ``work`` returns, run in a thread; call ``stop`` if this is cancelled."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([task], timeout=1)
        raise


class FolderScan:
    """One look at all files of a folder.

    Args:
        root: the folder.
        limit: how many names are kept; the scan ends when it has found more. None for all.

    Attributes:
        found: how many files have been found so far.
        stopped: whether the scan was stopped by a caller.
    """

    def __init__(self, root: Path, limit: int | None) -> None:
        self.found = 0
        self.stopped = False
        self._root = root
        self._limit = limit
        self._late = self._full = False
        self._git: ProjectGit | None = None

    async def listing(self) -> FileListing:
        """Return what is found; end git if this is cancelled.

        The list of a folder that is gone or unreadable is empty and has a reason. If git is missing
        or fails, the folder is walked.
        """
        return await in_thread(self.run, self.stop)

    def stop(self) -> None:
        """End the scan with what has been found so far. Safe in any thread."""
        self.stopped = True
        if self._git is not None:
            self._git.end()

    def run(self) -> FileListing:
        """Return what is found; blocks."""
        try:
            os.scandir(self._root).close()
        except OSError as error:
            reason = f"The folder {self._root} cannot be read: {error.strerror}."
            return FileListing(reason=reason)
        listing = self._by_git("git") or self._by_git("given") or self._by_walk()
        if self.stopped:
            listing.truncated, listing.reason = True, "The scan was stopped."
        elif self._late:
            reason = f"The folder could not be listed within {TIME_LIMIT:g} seconds."
            listing.truncated, listing.reason = True, reason
        elif self._full:
            reason = f"The folder has more than {self._limit:,} files: the others are left out."
            listing.truncated, listing.reason = True, reason
        return listing

    def _by_git(self, way: Literal["git", "given"]) -> FileListing | None:
        """Return what git lists, or None if it fails or lists nothing.

        It lists nothing for a folder that an outer repository ignores as a whole.
        """
        if self.stopped or self._late:
            return None
        git = self._git = ProjectGit(self._root, given=way == "given")
        if self.stopped:
            git.end()
        listing = FileListing(way=way)
        try:
            with git.at_work(TIME_LIMIT):
                self._take(git, listing)
        except GitUnavailable:
            return None
        finally:
            self._late = git.late
        listing.names.sort()  # in place: copying would block the other threads for longer
        return listing if listing.names else None

    def _take(self, git: ProjectGit, listing: FileListing) -> None:
        others = git.others()  # started first: the slowest
        if listing.way == "git":
            tracked, gone = git.tracked(), git.gone()
            recent, deciding = git.recent(), git.deciding()
            self._extend(listing.names, tracked)
            listing.deciding = tuple(deciding)
            with suppress(GitUnavailable):
                names = islice(chain.from_iterable(recent), _RECENT_LIMIT)
                listing.recent = tuple(dict.fromkeys(names))
            absent = {name for names in gone for name in names}
            if absent:
                known = listing.names
                listing.names = [one for one in known if one.removesuffix("/") not in absent]
        self._extend(listing.names, others)

    def _by_walk(self) -> FileListing:
        listing = FileListing()
        end = time.monotonic() + TIME_LIMIT
        self._late = False
        for names in walk(self._root):
            self._extend(listing.names, [names])
            self._late = time.monotonic() > end
            if self.stopped or self._late or self._full:
                break
        listing.names.sort()
        return listing

    def _extend(self, known: list[str], pieces: Iterable[list[str]]) -> None:
        for names in pieces:
            known += names
            self.found += len(names)
            if self._limit is not None and len(known) > self._limit:
                self._full = True
                del known[self._limit :]
                break


def list_again(root: Path, git: ProjectGit, places: Sequence[str]) -> list[str]:
    """Return the names that ``git`` lists at these files and folders; blocks.

    Raises:
        GitFailed: git failed, or was ended.
    """
    names: list[str] = []
    with git.at_work(TIME_LIMIT):
        for at in range(0, len(places), ASKED_AT_ONCE):
            asked = places[at : at + ASKED_AT_ONCE]
            names += chain.from_iterable(git.at(asked))
        if git.ended:
            raise GitUnavailable
    return [name for name in names if os.path.lexists(root / name)]


# If git is unusable: a walk that obeys the ignore files in the folder. Their rules are git's,
# except that there are no escapes, named classes of characters or reversed ranges, and that "?"
# matches any character rather than any byte.

#: Bytes of an ignore file that are read, and characters of a pattern; longer patterns are ignored.
_IGNORE_LIMIT = 128 << 10
_PATTERN_LIMIT = 4096

_MAGIC = re.compile(r"[*?\[]")

#: A glob, a literal name or, if None, any number of folders.
_Segment: TypeAlias = re.Pattern[str] | str | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of an ignore file that is ``above`` folders deep."""

    above: int
    ignores: bool
    folders_only: bool
    segments: tuple[_Segment, ...]


#: The rules that hold in a folder, the weakest first.
_Rules: TypeAlias = tuple[_Rule, ...]


def walk(root: Path) -> Iterator[list[str]]:
    """Yield the names of the files under ``root``, folder by folder.

    Links are named but not followed. A nested repository is named as a folder, without its files.
    What cannot be read is skipped.
    """
    waiting: list[tuple[tuple[str, ...], _Rules]] = [((), _first_rules(root))]
    while waiting:
        path, rules = waiting.pop()
        folder = root.joinpath(*path)
        if path and _is_repository(folder):
            yield ["/".join(path) + "/"]
            continue
        rules += _rules_in(folder / ".gitignore", len(path))
        names = []
        for entry in _entries(folder):
            inner = (*path, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _is_ignored(inner, rules, folder=is_folder):
                continue
            if is_folder:
                waiting.append((inner, rules))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                names.append("/".join(inner))
        yield names


def is_left_out(root: Path, name: str) -> bool:
    """Return whether a walk leaves out a file of that name, whether it exists or not."""
    path = tuple(name.split("/"))
    rules = _first_rules(root)
    folder = root
    for depth, part in enumerate(path):
        rules += _rules_in(folder / ".gitignore", depth)
        if part == ".git" or (depth and _is_repository(folder)):
            return True
        if _is_ignored(path[: depth + 1], rules, folder=depth + 1 < len(path)):
            return True
        folder /= part
    return False


def _is_repository(folder: Path) -> bool:
    # Path's methods raise an error if the folder may not be entered or a name is too long.
    return os.path.exists(folder / ".git" / "HEAD") or os.path.isfile(folder / ".git")  # noqa: PTH110, PTH113 - see above


def _first_rules(root: Path) -> _Rules:
    return _rules_in(root / ".git" / "info" / "exclude", 0)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _rules_in(file: Path, above: int) -> _Rules:
    """Return the rules of an ignore file; as in git, none if it is not a regular file."""
    text = os.fsdecode(read_regular(file, _IGNORE_LIMIT) or b"").removeprefix("\ufeff")
    rules = []
    for line in text.split("\n"):
        ignores = not line.startswith("!")
        pattern = line.removeprefix("!").rstrip(" \r").replace("\\", "").replace("[^", "[!")
        path = pattern.removesuffix("/")
        if not path or line.startswith("#") or len(path) > _PATTERN_LIMIT:
            continue
        parts = path.removeprefix("/").split("/") if "/" in path else ["**", path]
        rules.append(_Rule(above, ignores, pattern != path, tuple(map(_segment, parts))))
    return tuple(rules)


def _segment(part: str) -> _Segment:
    if part == "**":
        return None
    return re.compile(fnmatch.translate(part)) if _MAGIC.search(part) else part


def _is_ignored(path: Sequence[str], rules: _Rules, *, folder: bool) -> bool:
    """Return whether ``path`` is ignored, given that no folder above it is; the last rule wins."""
    for rule in reversed(rules):
        if (folder or not rule.folders_only) and _matches(rule.segments, path[rule.above :]):
            return rule.ignores
    return False


def _matches(segments: Sequence[_Segment], path: Sequence[str]) -> bool:
    """Return whether ``segments`` match the whole of ``path``.

    As with the stars of a glob, only the last ``**`` is ever retried, so the time is bounded.
    """
    at = position = 0
    star, star_place = -1, 0
    while position < len(path):
        if at < len(segments) and segments[at] is None:
            star, star_place = at, position
            at += 1
        elif at < len(segments) and _fits(segments[at], path[position]):
            at += 1
            position += 1
        elif star >= 0:
            star_place += 1
            at, position = star + 1, star_place
        else:
            return False
    return at == len(segments)


def _fits(segment: _Segment, name: str) -> bool:
    """Return whether one segment of a pattern matches one name."""
    if isinstance(segment, re.Pattern):
        return segment.fullmatch(name) is not None
    return segment == name
