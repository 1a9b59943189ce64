"""The records of undo, which survive a restart: a folder of files for each workspace.

A record is ``NUMBER.record``, and the contents that it needs are ``NUMBER.contents``. Until its
command has ended, ``NUMBER.before`` is the snapshot before it, and ``NUMBER.git`` has the objects
of git that it may need. ``pool`` has what git does not hold of the current files, and ``last`` is
the last snapshot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, field
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.files import (
    data_dir,
    private_dir,
    store_errors,
    workspace_dir,
    write_atomic,
)
from aish_lsp.foundation.locks import lock_now
from aish_lsp.foundation.text import escaped
from aish_lsp.foundation.validate import structure
from aish_lsp.undo.folder import object_id
from aish_lsp.undo.git import Hash, NoUndo
from aish_lsp.undo.listing import is_plain
from aish_lsp.undo.snapshots import FileChange, Snapshot, as_name

#: The most commands that are kept for a workspace, the days for which one is kept, and the most
#: bytes that all of them take on the disk, but for the last.
KEPT: Final = 50
KEPT_DAYS: Final = 14
KEPT_BYTES: Final = 1 << 30

_VERSION: Final = 2
_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: An id, the inode of a folder, or nothing.
_STATE: Final = re.compile(rf"{_ID.pattern}|\d*")
_INDEX: Final = re.compile(r"[0-7]{6} ([0-9a-f]{40}|[0-9a-f]{64})|")
_PARTS: Final = ("record", "before", "contents", "git", "aside", "new")
_OURS: Final = re.compile(rf"(\d{{8,}})\.({'|'.join(_PARTS)})")

Kind: TypeAlias = Literal["command", "undo", "redo"]


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD was: its branch and its commit, each empty if there was none."""

    branch: str = ""
    commit: str = ""

    def __str__(self) -> str:
        commit = self.commit[:10] or "no commit yet"
        return f"{escaped(self.branch)} ({commit})" if self.branch else commit


@dataclass(frozen=True, slots=True)
class ReplacedText:
    """A text that replaced another, both with LF line ends.

    ``name`` is the file's name, relative to the work tree, as it is recorded.
    """

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Record:
    """A command that can be undone, or an undo or redo.

    Attributes:
        group: what is undone together: the id of a command, a run, an undo or a redo.
        label: the command, on one line and without secrets.
        session: the session in which it was run.
        top: the root of the work tree, to which names are relative.
        hash: the hash that names contents.
        kind: whether it is a command, an undo or a redo.
        of: the group that an undo or redo reverted.
        head: where HEAD was before it.
        begun, ended: when, in ns since 1970; ``ended`` is 0 until it has ended.
        unseen: whether its end was not seen: what changed may not be its doing.
        changes: the files that it changed.
        index: the gitlinks that it changed: what the index held, as ``MODE ID``; empty for nothing.
        folders: the permissions of the folders of ``changes``.
        saved: names of files that the user saved while it ran.
        edits: what it changed in the editor, in order.
        contents: the place of each content in the file of contents: its start and its length.
    """

    group: str
    label: str
    session: str
    top: str
    hash: Hash
    head: Head
    kind: Kind = "command"
    of: str = ""
    begun: int = field(default_factory=time.time_ns)
    ended: int = 0
    unseen: bool = False
    changes: dict[str, FileChange] = field(default_factory=dict)
    index: dict[str, list[str]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    saved: list[str] = field(default_factory=list)
    edits: list[ReplacedText] = field(default_factory=list)
    contents: dict[str, list[int]] = field(default_factory=dict)
    version: int = _VERSION

    def is_sound(self, folder: Path) -> bool:
        """Return whether it may be one of the workspace ``folder``, and names nothing outside."""
        states = (one for change in self.changes.values() for one in (change.old, change.new))
        names = [*self.folders, *self.saved, *self.index, *(edit.name for edit in self.edits)]
        gits = (name.removesuffix("/.git") for name in self.changes if name != ".git")
        return (
            self.version == _VERSION
            and Path(os.path.realpath(folder)).is_relative_to(self.top)
            and all(is_plain(as_name(name)) and "\0" not in name for name in (*names, *gits))
            and all(map(_ID.fullmatch, self.contents))
            and all(_STATE.fullmatch(one.content) for one in states if one is not None)
            and all(len(pair) == 2 for pair in self.index.values())
            and all(_INDEX.fullmatch(about) for pair in self.index.values() for about in pair)
            and all(len(span) == 2 and min(span) >= 0 for span in self.contents.values())
        )


#: What is undone together, the oldest first: the numbers of records with the records.
Group: TypeAlias = list[tuple[int, Record]]


def undo_folder(folder: Path) -> Path:
    """Return the folder of the records of a workspace."""
    return workspace_dir(folder) / "undo"


class Records:
    """The records of the workspace ``folder``, whose place is ``place``. The caller locks it.

    Attributes:
        last: the file of the last snapshot.
        pool: the contents of the current files.
        dropped: how many records were dropped since they were damaged or not ours.
    """

    def __init__(self, folder: Path, place: Path) -> None:
        self._folder = folder
        self.last = place / "last"
        self._place = place
        self.pool = Pool(place / "pool")
        self.dropped = 0

    def path(self, number: int, what: str) -> Path:
        """Return the path of a file or folder of a record."""
        return self._place / f"{number:08d}.{what}"

    def next_number(self) -> int:
        """Return the number of the next record."""
        return max(self._numbers(), default=0) + 1

    def last_group(self) -> Group:
        """Return the group that was begun last; empty if there is none."""
        return next(reversed(self._groups()), [])

    def next_group(self, kind: Literal["undo", "redo"], session: str) -> Group:
        """Return the group that the next undo or redo reverts; empty if there is none.

        It is the last one of ``session``. If that has none left, an undo reverts the last one of
        any session.
        """
        undoable: list[Group] = []
        redoable: list[Group] = []
        for group in self._groups():
            record = group[-1][1]
            match record.kind:
                case "command":
                    # No redo goes past a command: it would conflict with what the command did.
                    redoable = [one for one in redoable if one[-1][1].session != record.session]
                    undoable.append(group)
                case "undo":
                    _take(undoable, record.of)
                    redoable.append(group)
                case "redo":
                    _take(redoable, record.of)
                    undoable.append(group)
        stack = undoable if kind == "undo" else redoable
        stack = [group for group in stack if group[-1][1].ended]  # others are still running
        own = [group for group in stack if group[-1][1].session == session]
        others = stack if kind == "undo" else []
        return next(reversed(own or others), [])

    def is_last(self, group: Group, name: str) -> bool:
        """Return whether ``group`` is the last of all, and called ``name`` or a redo of that."""
        last = ""
        reverted: dict[str, str] = {}
        for one in self._groups():
            last = one[-1][1].group
            reverted[last] = one[-1][1].of
        called = group[-1][1].group if group else ""
        if called != last:
            return False
        # A redo reverted an undo, which reverted the command or an earlier redo of it.
        # Each is taken out, so that damaged records that lead back to themselves come to an end.
        while undo := reverted.pop(called, ""):
            called = reverted.get(undo, "")
        return called == name

    def _groups(self) -> list[Group]:
        """Return all groups, the oldest first."""
        groups: list[Group] = []
        for number in self._numbers()[-KEPT:]:
            record = self.read(number)
            if record is None:
                continue
            if groups and groups[-1][-1][1].group == record.group:
                groups[-1].append((number, record))
            else:
                groups.append([(number, record)])
        return groups

    def unfinished(self) -> list[int]:
        """Return the numbers of records whose command has not ended, or whose end was not seen."""
        return [number for number in self._numbers() if self.path(number, "before").exists()]

    def drop_unwritten(self) -> None:
        """Delete what a crash has left of records that were never written."""
        self.drop(one for one in self._numbers() if not self.path(one, "record").exists())

    def read(self, number: int) -> Record | None:
        """Return a record; None if it is damaged or not ours, and thus dropped."""
        try:
            data = json.loads(_unsealed(self.path(number, "record").read_bytes()))
            record = structure(data, Record, camel_case=False)
        except FileNotFoundError:
            return None  # its command is about to begin, or never did
        except (InvalidArgument, ValueError, RecursionError, IsADirectoryError):
            record = None
        if record is None or not record.is_sound(self._folder):
            self.drop([number])
            self.dropped += 1
            return None
        return record

    def write(self, number: int, record: Record) -> None:
        """Write a record.

        Raises:
            StoreUnavailable: it cannot be written.
        """
        write_atomic(self.path(number, "record"), _sealed(json.dumps(asdict(record))))

    def settled(self, number: int) -> None:
        """Delete what is needed only while the command of a record runs."""
        for what in ("before", "git"):
            remove(self.path(number, what))

    def hold(self, number: int) -> int | None:
        """Return a descriptor that shows that a command runs, until it is closed.

        None if it is known to run, here or in another process.
        """
        fd = os.open(self.path(number, "before"), os.O_RDONLY | os.O_CLOEXEC)
        if lock_now(fd):
            return fd
        os.close(fd)
        return None

    def write_snapshot(self, path: Path, snapshot: Snapshot) -> None:
        """Write a snapshot.

        Raises:
            StoreUnavailable: it cannot be written.
        """
        _write(path, _sealed(snapshot.dump()))

    def read_snapshot(self, path: Path) -> Snapshot | None:
        """Return a snapshot; None if it is missing or damaged."""
        try:
            return Snapshot.load(_unsealed(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(
        self, number: int, *contents: Iterable[tuple[str, bytes | None]]
    ) -> dict[str, list[int]]:
        """Write the contents of a record, given with their ids; return their places.

        A content of None is taken from the pool, or left out if it is not there.

        Raises:
            StoreUnavailable: they cannot be written.
        """
        path = self.path(number, "contents")
        places: dict[str, list[int]] = {}
        with store_errors(path, "write"), open(path, "wb", opener=_private) as file:
            for name, content in chain(*contents):
                packed = self.pool.packed(name) if content is None else zlib.compress(content, 1)
                if packed is not None and name not in places:
                    places[name] = [file.tell(), len(packed)]
                    file.write(packed)
        return places

    def content(self, number: int, record: Record, name: str) -> bytes:
        """Return a content of a record.

        Raises:
            NoUndo: it is gone or damaged.
        """
        try:
            start, length = record.contents[name]
            with self.path(number, "contents").open("rb") as file:
                file.seek(start)
                content = zlib.decompress(file.read(length))
        except (OSError, KeyError, zlib.error) as error:
            raise NoUndo("what it held is gone") from error
        if object_id(record.hash, content) != name:
            raise NoUndo("what it held is damaged")
        return content

    def drop(self, numbers: Iterable[int]) -> None:
        """Delete records with all that is theirs."""
        for number in numbers:
            # The record goes first: the rest is of no use without it.
            for what in _PARTS:
                remove(self.path(number, what))

    def drop_old(self, now: float | None = None) -> None:
        """Delete what exceeds KEPT, and what is too old in any workspace."""
        oldest = (time.time() if now is None else now) - KEPT_DAYS * 86_400
        files = self._files()
        total = 0
        for at, number in enumerate(sorted(files, reverse=True)):
            total += sum(map(_size, files[number]))
            written = max(path.lstat().st_mtime for path in files[number])
            if at >= KEPT or (at and total > KEPT_BYTES) or written < oldest:
                self.drop([number])
        for last in data_dir().glob("workspaces/*/undo/last"):
            with suppress(OSError):
                if last.stat().st_mtime < oldest:
                    remove(last.parent)

    def _numbers(self) -> list[int]:
        """Return the numbers of all records, the oldest first."""
        return sorted(self._files())

    def _files(self) -> dict[int, list[Path]]:
        """Return the files and folders of all records by their numbers."""
        files: dict[int, list[Path]] = {}
        for path in self._place.iterdir():
            if match := _OURS.fullmatch(path.name):
                files.setdefault(int(match[1]), []).append(path)
        return files


def usage(folder: Path) -> tuple[int, int]:
    """Return how many commands are kept for a workspace, and how many bytes all of undo takes."""
    undo_dir = undo_folder(folder)
    return len(list(undo_dir.glob("*.record"))), _size(undo_dir)


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if there is neither."""
    files = path.rglob("*") if path.is_dir() else [path] if path.exists() else []
    return sum(file.lstat().st_size for file in files if not file.is_dir())


class Pool:
    """Contents by their ids, in a folder: those of the current files that git does not hold.

    Attributes:
        size: how many bytes it takes.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self.size = 0
        self._sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(place) as entries:
            self._sizes = {entry.name: entry.stat().st_size for entry in entries}
        self.size = sum(self._sizes.values())

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def add(self, name: str, content: bytes) -> None:
        """Add a content.

        Raises:
            StoreUnavailable: it cannot be written.
            NoUndo: there would be more than KEPT_BYTES.
        """
        if name in self._sizes:
            return
        packed = zlib.compress(content, 1)
        if self.size + len(packed) > KEPT_BYTES:
            raise NoUndo(f"what git does not hold here is more than {KEPT_BYTES >> 20:,} MiB")
        private_dir(self._place)
        _write(self._place / name, packed)
        self._sizes[name] = len(packed)
        self.size += len(packed)

    def packed(self, name: str) -> bytes | None:
        """Return a content as it is stored; None if it is not there."""
        try:
            return (self._place / name).read_bytes() if name in self._sizes else None
        except OSError:
            return None

    def keep_only(self, names: Iterable[str]) -> None:
        """Delete all others."""
        for name in self._sizes.keys() - set(names):
            remove(self._place / name)
            self.size -= self._sizes.pop(name)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it; what cannot be removed is left for the next."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. It need not survive a failure of power.

    Raises:
        StoreUnavailable: it cannot be written.
    """
    temporary = path.with_suffix(".new")
    try:
        with store_errors(path, "write"):
            with open(temporary, "wb", opener=_private) as file:
                file.write(data)
            temporary.replace(path)
    except BaseException:
        remove(temporary)  # On a full disk it would keep it full.
        raise


def _sealed(text: str) -> bytes:
    """Return a text as it is written, so that a change of it is noticed."""
    data = text.encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _unsealed(data: bytes) -> str:
    """Return the text of what ``_sealed`` returned.

    Raises:
        ValueError: it is cut or was changed.
    """
    seal, _, rest = data.partition(b"\n")
    if seal != hashlib.sha256(rest).hexdigest().encode():
        raise ValueError("the seal does not fit")
    return rest.decode()


def _take(stack: list[Group], of: str) -> None:
    """Remove the group called ``of`` from ``stack``, or the last one if ``of`` is empty."""
    numbers = [number for number, group in enumerate(stack) if of in ("", group[-1][1].group)]
    if numbers:
        del stack[numbers[-1]]


def backwards(group: Group) -> list[ReplacedText]:
    """Return the edits that revert those of a group."""
    edits = [edit for _, record in group for edit in record.edits]
    return [ReplacedText(edit.name, old=edit.new, new=edit.old) for edit in reversed(edits)]
