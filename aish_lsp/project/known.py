"""The names of a workspace's files, sorted and bounded.

If there are more than the limit, the files in deep folders are folded into a count for each folder.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection

#: Stands for everything in a folded folder. No file has such a name.
FOLDED = "\0"

#: The character after the slash: a folder's path with it sorts right after all that is in it.
_AFTER_SLASH = "0"


def behind(folder: str) -> str:
    """Return what sorts right after all names in ``folder``."""
    return folder + _AFTER_SLASH


class KnownFiles:
    """Names relative to the root, ``/``-separated; one that ends in ``/`` is another repository.

    Attributes:
        names: sorted; a folded folder has one entry, its mark: its path, a slash and FOLDED.
        folded: the number of files behind each mark.
        unnamed: the number of files without a name or a mark, if the root itself has too many.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.names: list[str] = []
        self.folded: Counter[str] = Counter()
        self.unnamed = 0
        self._limit = limit
        #: How many folders deep a name may be; deeper ones are folded. None: any number.
        self._depth: int | None = None

    # Made and changed

    def extend(self, names: list[str]) -> None:
        """Add new names; call ``sort`` after the last ones.

        What is folded depends on the names and their order, not on how they are split over calls.
        """
        limit = self._limit
        if limit is None:
            self.names += names
            return
        while names:
            room = limit + 1 - len(self.names) - len(self.folded)
            self.names += self._kept(names[:room])
            names = names[room:]
            while len(self.names) + len(self.folded) > limit:
                self._fold(limit)

    def sort(self) -> None:
        """Put the names in order."""
        names = self._plain()
        names += self.folded
        names.sort()  # in place: copying would block the other threads for longer
        self.names = names

    def _fold(self, limit: int) -> None:
        """Fold the deepest folders, if possible until half of the limit is free.

        Folding one level at a time would look at all names again for each level.
        """
        names, folded = self._plain(), self.folded
        self.folded = Counter()
        if self._depth == 0:
            # The root itself has too many: only some keep their names.
            self._depth = -1
            self.names = names[: limit // 2]
            self.unnamed = len(names[limit // 2 :]) + folded.total()
            return
        levels = Counter(map(_depth_of, names))
        depth = max(levels, default=0) if self._depth is None else self._depth
        remaining = len(names) - levels[depth]
        depth -= 1
        while depth > 0 and remaining > limit // 2:
            remaining -= levels[depth]
            depth -= 1
        self._depth = max(0, depth)
        for mark, count in folded.items():
            self.folded[self._mark(mark)] += count
        self.names = self._kept(names)

    def _kept(self, names: list[str]) -> list[str]:
        """Return those of ``names`` that are not folded, and count the others."""
        if self._depth is None:
            return names
        if self._depth < 0:
            self.unnamed += len(names)
            return []
        self.folded.update(self._mark(name) for name in names if self.is_folded(name))
        return [name for name in names if not self.is_folded(name)]

    def _plain(self) -> list[str]:
        """Return the names without the marks."""
        if not self.folded:
            return self.names
        return [name for name in self.names if name not in self.folded]

    def is_folded(self, name: str) -> bool:
        """Return whether ``name`` is too deep to be kept, so that its existence is not known."""
        return self._depth is not None and _depth_of(name) > self._depth

    def folder_of(self, name: str) -> str:
        """Return the folded folder that contains ``name``."""
        return self._mark(name).removesuffix(f"/{FOLDED}")

    def _mark(self, name: str) -> str:
        above = name.split("/", (self._depth or 0) + 1)[:-1]
        return "/".join([*above, FOLDED])

    def drop(self, names: Collection[str]) -> None:
        """Drop these names, which may lack a nested repository's slash; call before ``sort``."""
        before = len(self.names)
        self.names = [name for name in self.names if name.removesuffix("/") not in names]
        if self._depth == -1:
            self.unnamed = max(0, self.unnamed - len(names) + before - len(self.names))
            return
        for name in names:
            mark = self._mark(name) if self.is_folded(name) else ""
            if self.folded[mark] > 1:
                self.folded[mark] -= 1
            else:
                self.folded.pop(mark, None)

    def remove(self, place: str) -> None:
        """Drop the file ``place``, and everything in a folder of that name."""
        low, high = self.inside(place)
        for name in self.names[low:high]:
            self.folded.pop(name, None)
        del self.names[low:high]
        if place in self:
            del self.names[bisect_left(self.names, place)]

    # Asked

    @property
    def total(self) -> int:
        """The number of files, folded ones included; valid after ``sort``."""
        return self.count(0, len(self.names)) + self.unnamed

    def count(self, low: int, high: int) -> int:
        """Return how many files ``names[low:high]`` stand for."""
        if not self.folded:
            return high - low
        return sum(self.folded.get(name, 1) for name in self.names[low:high])

    def inside(self, folder: str) -> tuple[int, int]:
        """Return where the names in ``folder`` begin and end."""
        low = bisect_left(self.names, folder + "/")
        return low, bisect_left(self.names, behind(folder), low)

    def names_in(self, prefix: str) -> set[str]:
        """Return the names of the files and folders directly in a folder; ``prefix`` ends in /."""
        names = set()
        at, end = self.inside(prefix[:-1]) if prefix else (0, len(self.names))
        while at < end:
            name, slash, _ = self.names[at][len(prefix) :].partition("/")
            names.add(name)
            at = bisect_left(self.names, behind(prefix + name), at + 1, end) if slash else at + 1
        return names

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self.names, name)
        return at < len(self.names) and self.names[at] == name


def _depth_of(name: str) -> int:
    return name.count("/", 0, -1)
