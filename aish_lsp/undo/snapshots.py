"""Snapshots: what the files of a work tree hold, by the names that git gives to contents."""

from __future__ import annotations

import base64
import json
import stat
from array import array
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.undo.folder import NOT_COVERED, FileState, SeenFile, WorkFolder
from aish_lsp.undo.git import HASHES, Hash
from aish_lsp.undo.listing import Listing, left_out

#: How many names of uncovered files are recorded one by one.
_UNCOVERED: Final = 5000
#: Joins names in a file; no name has it.
_BETWEEN: Final = "//"


def as_text(name: bytes) -> str:
    """Return a file's name as it is recorded; ``as_name`` restores its exact bytes."""
    return name.decode("latin-1")


def as_name(text: str) -> bytes:
    """Return the name that ``as_text`` was given."""
    return text.encode("latin-1", "replace")


@dataclass(frozen=True, slots=True)
class FileChange:
    """The state of a name before and after; None if it does not exist."""

    old: FileState | None
    new: FileState | None


#: What the numbers of a ``SeenFile`` are, as ``array`` names it: inodes may have all 64 bits, and
#: times may be negative.
_NUMBERS: Final = "QQQqq"

#: Takes the content of a file that had to be read, with the file's name and the content's id.
Keep: TypeAlias = Callable[[bytes, str, bytes], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A work tree at one time.

    Attributes:
        kind: the hash that names contents.
        files: all covered files.
        folders, uncovered, repositories: as in ``Listing``.
        gits: the entries that make a folder a repository, as in ``Listing``.
        index: the gitlinks of the index, and what else it holds under such a name before or after.
    """

    kind: Hash
    files: dict[bytes, SeenFile]
    folders: dict[bytes, int]
    uncovered: frozenset[bytes]
    repositories: tuple[bytes, ...]
    gits: dict[bytes, FileState]
    index: dict[bytes, str]

    def dump(self) -> str:
        """Return the snapshot as JSON, but for the index."""
        *numbers, contents = zip(*self.files.values(), strict=True) if self.files else [()] * 6
        return json.dumps(
            {
                "kind": self.kind,
                "names": as_text(_BETWEEN.encode().join(self.files)),
                "columns": [_packed(*one) for one in zip(_NUMBERS, numbers, strict=True)],
                "contents": "".join(contents),
                "folders": {as_text(name): mode for name, mode in self.folders.items()},
                "uncovered": list(map(as_text, self.uncovered)),
                "repositories": list(map(as_text, self.repositories)),
                "gits": {
                    as_text(name): [one.mode, one.content, one.inode]
                    for name, one in self.gits.items()
                },
                "index": {
                    as_text(name): about
                    for name, about in self.index.items()
                    if about.startswith("160000")
                },
            }
        )

    @classmethod
    def load(cls, text: str) -> Snapshot:
        """Return the snapshot from what ``dump`` returned.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        document = json.loads(text)
        length = HASHES[document["kind"]]
        names = as_name(document["names"]).split(_BETWEEN.encode()) if document["names"] else []
        contents = document["contents"]
        ids = [contents[at : at + length] for at in range(0, len(contents), length)]
        columns = map(_unpacked, _NUMBERS, document["columns"])
        rows = zip(*columns, ids, strict=True)
        if set(map(type, document["folders"].values())) - {int}:
            raise ValueError("not all that should be numbers are")
        return cls(
            document["kind"],
            dict(zip(names, map(SeenFile._make, rows), strict=True)),
            {as_name(name): mode for name, mode in document["folders"].items()},
            frozenset(map(as_name, document["uncovered"])),
            tuple(map(as_name, document["repositories"])),
            {as_name(name): FileState(*one) for name, one in document["gits"].items()},
            {as_name(name): about for name, about in document["index"].items()},
        )


def _packed(kind: str, numbers: tuple[int, ...]) -> str | list[int]:
    try:
        return base64.b64encode(array(kind, numbers)).decode()
    except OverflowError:  # a time after the year 2262
        return list(numbers)


def _unpacked(kind: str, packed: str | list[int]) -> Sequence[int]:
    # Earlier versions wrote a list, and may have been ended while a command ran.
    if isinstance(packed, list):
        if set(map(type, packed)) - {int}:
            raise ValueError("not all that should be numbers are")
        return packed
    numbers: array[int] = array(kind)
    numbers.frombytes(base64.b64decode(packed))
    return numbers


def take(
    folder: WorkFolder,
    listing: Listing,
    kind: Hash,
    *,
    last: Snapshot | None = None,
    keep: Keep = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> Snapshot:
    """Return the snapshot of ``listing``.

    Args:
        folder: the work tree.
        listing: the files.
        kind: the hash that names contents.
        last: an earlier snapshot; what has not changed since then is not read again.
        keep: is given what is read.
        check: is called now and then, and may raise.
    """
    earlier = last.files if last is not None and last.kind == kind else {}
    files: dict[bytes, SeenFile] = {}
    unread: list[bytes] = []
    for name, status in listing.files.items():
        row = earlier.get(name)
        if row is not None and row.is_still(status):
            files[name] = row
        else:
            unread.append(name)
    uncovered = set(listing.uncovered)
    gits: dict[bytes, FileState] = {}
    for name, status in listing.gits.items():
        if stat.S_ISDIR(status.st_mode):
            gits[name] = FileState(stat.S_IFDIR, str(status.st_ino))
        else:
            unread.append(name)
    for name, row, content in folder.read(unread, kind):
        check()
        if row is None:
            uncovered.add(name)
            continue
        if name in listing.files:
            files[name] = row
        else:
            gits[name] = row.state
        keep(name, row.content, content)
    return Snapshot(
        kind,
        files,
        listing.folders,
        _condensed(uncovered),
        listing.repositories,
        gits,
        listing.index,
    )


def _condensed(names: set[bytes]) -> frozenset[bytes]:
    """Return ``names``, or their folders if there are too many names to record."""
    if len(names) <= _UNCOVERED:
        return frozenset(names)
    return frozenset(name[: name.rstrip(b"/").rfind(b"/") + 1] or name for name in names)


def difference(old: Snapshot, new: Snapshot) -> dict[bytes, FileChange]:
    """Return what differs from ``old`` to ``new``, by name."""
    changes = {}
    for name, row in old.files.items():
        now = new.files.get(name)
        if now is None:
            changes[name] = FileChange(row.state, NOT_COVERED if name in new.uncovered else None)
        elif row is not now and (row.mode, row.content) != (now.mode, now.content):
            changes[name] = FileChange(row.state, now.state)
    for name in new.files.keys() - old.files.keys():
        # A file that existed but was not covered may look as if the command had created it.
        if not left_out(name, old.uncovered):
            changes[name] = FileChange(None, new.files[name].state)
    for name in old.gits.keys() | new.gits.keys():
        was, now_git = old.gits.get(name), new.gits.get(name)
        if was != now_git and name not in old.folders:
            changes[name] = FileChange(was, now_git)
    return changes
