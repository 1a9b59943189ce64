"""The names of a workspace's files: sorted, bounded, and changed one by one.

Where there are more than the limit, the deep ones are folded: of their folder the count is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Self

#: Stands, in a folder that is folded, for all that is in it. No file has such a name.
FOLDED = "\0"

#: Names that are sorted, or folded, at once: for a millisecond or so other threads stand still.
_STEP = 5000

#: The sign after the slash: a folder's path and this come right behind all that is in it.
_AFTER_SLASH = "0"


def behind(folder: str) -> str:
    """Return what sorts right behind all names in ``folder``."""
    return folder + _AFTER_SLASH


class KnownFiles:
    """Names relative to the root, ``/``-separated; one that ends in ``/`` is another repository.

    Attributes:
        names: sorted; for a folder that is folded, its path, a slash and FOLDED.
        folded: the number of files in each of those; under "", of those in no folder that is named.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.names: list[str] = []
        self.folded: Counter[str] = Counter()
        self._limit = limit
        #: Folders that a name may lie in; with more it is folded. None: any number.
        self._depth: int | None = None
        self._marks: list[str] = []
        self._counts: list[int] = [0]

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Return all of ``names``."""
        known = cls()
        known.extend(list(names))
        known.sort()
        return known

    # Made

    def extend(self, names: list[str]) -> None:
        """Take in names that are new; after the last ones comes ``sort``.

        What is folded depends on the names and their order, not on the pieces that they come in.
        """
        at = 0
        while at < len(names):
            room = len(names) if self._limit is None else self._limit + 1 - self._size()
            piece = names[at : at + room]
            at += len(piece)
            self.names += self._kept(piece)
            if self._limit is not None and self._size() > self._limit:
                self._fold(self._limit)

    def sort(self) -> None:
        """Put the names in order."""
        self._marks = sorted(f"{folder}/{FOLDED}" for folder in self.folded if folder)
        self._add_up()
        self.names = in_order([*self.names, *self._marks])

    def _add_up(self) -> None:
        self._counts = [0, *accumulate(self.folded[mark[:-2]] for mark in self._marks)]

    def _size(self) -> int:
        return len(self.names) + len(self.folded)

    def _fold(self, limit: int) -> None:
        """Fold what lies deepest, until half of the limit is free."""
        levels = Counter(name.count("/", 0, -1) for name in self.names)
        deepest = max(levels) if self._depth is None else self._depth
        kept = list(accumulate(levels[level] for level in range(deepest)))
        self._depth = bisect_right(kept, limit // 2) - 1
        while self._size() > limit // 2:
            names, folded = self.names, self.folded
            if self._depth < 0:
                # Nothing but files in the root, or too many folders there: some, and a count.
                self.names = names[: limit // 2]
                self.folded = Counter({"": sum(folded.values()) + len(names[limit // 2 :])})
                return
            self.folded = Counter()
            for folder, count in folded.items():
                self.folded[_above(folder, self._depth)] += count
            self.names = []
            while names:  # in steps, and freed in steps, for other threads' sake
                piece, names[:_STEP] = names[:_STEP], []
                self.names += self._kept(piece)
            # The folders that are counted may be too many as well.
            self._depth -= self._size() > limit // 2

    def _kept(self, names: list[str]) -> list[str]:
        """Return those of ``names`` that are not folded; the others are counted."""
        depth = self._depth
        if depth is None:
            return names
        if depth < 0:
            self.folded[""] += len(names)
            return []
        folder_of = re.compile(rf"(?:[^/]*/){{{depth + 1}}}(?=.)", re.DOTALL).match
        folders = [found[0] if (found := folder_of(name)) else "" for name in names]
        self.folded.update(folder[:-1] for folder in folders if folder)
        return [name for name, folder in zip(names, folders, strict=True) if not folder]

    # Asked

    @property
    def total(self) -> int:
        """How many files there are, those that are folded too."""
        return self.count(0, len(self.names)) + self.folded[""]

    def count(self, low: int, high: int) -> int:
        """Return how many files the names from ``low`` to before ``high`` stand for."""
        if not self._marks or low >= high:
            return high - low
        first = bisect_left(self._marks, self.names[low])
        last = bisect_left(self._marks, self.names[high]) if high < len(self.names) else None
        last = len(self._marks) if last is None else last
        return high - low - (last - first) + self._counts[last] - self._counts[first]

    def inside(self, folder: str) -> tuple[int, int]:
        """Return where the names in ``folder`` begin and end."""
        low = bisect_left(self.names, folder + "/")
        return low, bisect_left(self.names, behind(folder), low)

    def names_in(self, prefix: str) -> set[str]:
        """Return the names of the files and folders in a folder itself; ``prefix`` ends in /."""
        found = set()
        at, end = self.inside(prefix[:-1]) if prefix else (0, len(self.names))
        while at < end:
            name, slash, _ = self.names[at][len(prefix) :].partition("/")
            found.add(name)
            at = bisect_left(self.names, behind(prefix + name), at + 1, end) if slash else at + 1
        return found

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self.names, name)
        return at < len(self.names) and self.names[at] == name

    # Changed

    def add(self, name: str) -> None:
        """Add a name that is new."""
        insort(self.names, name)

    def remove(self, name: str) -> bool:
        """Drop a name; return whether it was there."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name:
            return False
        del self.names[at]
        return True

    def remove_all(self, names: Iterable[str]) -> bool:
        """Drop names that are gone, folded ones too; return whether any was there."""
        total = self.total
        for name in names:
            if self.is_folded(name):
                folder = _above(name, self._depth or 0) if self._depth != -1 else ""
                self.folded[folder] = max(0, self.folded[folder] - 1)
            else:
                self.remove(name)
        self._add_up()
        return self.total < total

    def is_folded(self, name: str) -> bool:
        """Return whether it is not known if ``name`` is there."""
        if self._depth is None:
            return False
        return self._depth < 0 or name.count("/", 0, -1) > self._depth

    def remove_inside(self, folder: str) -> bool:
        """Drop all names in ``folder``; return whether there were any."""
        low, high = self.inside(folder)
        del self.names[low:high]
        return low < high


def in_order(names: list[str]) -> list[str]:
    """Return ``names`` sorted. Other threads get on meanwhile: no step takes above a millisecond.

    What is in order already costs next to nothing, as with ``sorted``.
    """
    runs: list[list[str]] = []
    for at in range(0, len(names), _STEP):
        piece = sorted(names[at : at + _STEP])
        if runs and runs[-1][-1] <= piece[0]:
            runs[-1] += piece
        else:
            runs.append(piece)
    while len(runs) > 1:
        pairs = zip(runs[::2], runs[1::2], strict=False)
        runs = [_merged(*pair) for pair in pairs] + (runs[-1:] if len(runs) % 2 else [])
    return runs[0] if runs else []


def _merged(one: list[str], other: list[str]) -> list[str]:
    """Return the names of two lists that are in order, in order."""
    merged: list[str] = []
    at = beside = 0
    while at < len(one) and beside < len(other):
        last = min(one[min(at + _STEP, len(one)) - 1], other[min(beside + _STEP, len(other)) - 1])
        end, behind_it = bisect_right(one, last, at), bisect_right(other, last, beside)
        merged += sorted(one[at:end] + other[beside:behind_it])
        at, beside = end, behind_it
    merged += one[at:]
    merged += other[beside:]
    return merged


def _above(path: str, depth: int) -> str:
    """Return the folder of ``path`` that has ``depth`` folders above it."""
    return "/".join(path.split("/", depth + 1)[: depth + 1])
