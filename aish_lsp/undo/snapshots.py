"""Snapshots: a work tree as a git tree, byte for byte, with the permissions that git does not keep.

This module also puts files back from a snapshot.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.undo.git import Git, GitFailed, NoUndo, TooSlow
from aish_lsp.undo.listing import Listing, is_plain

#: How many files git may refuse (because of their names, or a change meanwhile) until we give up.
_REFUSALS: Final = 20
#: How many names of uncovered files are recorded one by one.
_UNCOVERED: Final = 5000
_REFUSED: Final = re.compile(rb"^fatal: Unable to process path (.+)\n\Z", re.MULTILINE | re.DOTALL)

LINK: Final = "120000"
PROGRAM: Final = "100755"


def as_text(name: bytes) -> str:
    """Return a file's name as it is recorded; ``as_name`` restores its exact bytes."""
    return name.decode("latin-1")


def as_name(text: str) -> bytes:
    """Return the name that ``as_text`` was given."""
    return text.encode("latin-1", "replace")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file or a link of a snapshot.

    Attributes:
        mode: git's mode of it.
        content: git's id of its content; empty if nothing but the permission differs.
        permission: its permission.
    """

    mode: str
    content: str
    permission: int


@dataclass(frozen=True, slots=True)
class Change:
    """The state of a name in two snapshots; None if it does not exist."""

    old: FileState | None
    new: FileState | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A work tree at one time, as it is recorded.

    Attributes:
        tree: the id of git's tree.
        umask: the permissions that most files and folders lack.
        modes: the permissions that differ from what ``umask`` gives; a folder's name ends in ``/``.
        uncovered, repositories: as in ``Listing``.
    """

    tree: str
    umask: int
    modes: dict[str, int]
    uncovered: list[str]
    repositories: list[str]

    def permission(self, name: bytes, mode: str) -> int:
        """Return the permission of a file, or of a folder (``name`` ends in ``/``)."""
        if mode == LINK:
            return 0
        usual = 0o666 if mode and mode != PROGRAM else 0o777
        return self.modes.get(as_text(name), usual & ~self.umask)

    @property
    def left_out(self) -> frozenset[bytes]:
        """The names of the files and folders that exist but are not covered."""
        return frozenset(map(as_name, self.uncovered))


def take(git: Git, listing: Listing) -> Snapshot:
    """Write the files of ``listing`` into git's store; return the snapshot of them.

    Raises:
        NoUndo: git cannot store them: the disk is full, or not writable.
    """
    refused: set[bytes] = set()
    try:
        tree = _write(git, listing, refused)
    except TooSlow:
        raise
    except NoUndo:
        # The index of the last snapshot may refer to contents that are missing or damaged.
        with suppress(OSError):
            (git.private / "index").unlink()
        tree = _write(git, listing, refused)
    umask = _umask(listing)
    return Snapshot(
        tree=tree,
        umask=umask,
        modes=dict(_unusual_permissions(listing, umask)),
        uncovered=sorted(map(as_text, _condensed(listing.uncovered | refused))),
        repositories=sorted(map(as_text, listing.repositories)),
    )


def _write(git: Git, listing: Listing, refused: set[bytes]) -> str:
    """Update our index, and return the id of its tree."""
    names = listing.files.keys() - refused
    known = set(git.own("ls-files", "-z").split(b"\0")[:-1])
    if gone := known - names:
        feed = b"".join(b"%b\0" % name for name in gone)
        git.own("update-index", "-z", "--force-remove", "--stdin", feed=feed)
    while True:
        feed = b"".join(b"%b\0" % name for name in sorted(names))
        try:
            git.own("update-index", "-z", "--add", "--remove", "--replace", "--stdin", feed=feed)
        except GitFailed as error:
            match = _REFUSED.search(error.stderr)
            if match is None or match[1] not in names or len(refused) >= _REFUSALS:
                raise
            refused.add(match[1])
            names = names - {match[1]}
        else:
            return git.own("write-tree").decode().strip()


def _condensed(names: frozenset[bytes]) -> frozenset[bytes]:
    """Return ``names``, or their folders if there are too many names to record."""
    if len(names) <= _UNCOVERED:
        return names
    return frozenset(name[: name.rstrip(b"/").rfind(b"/") + 1] or name for name in names)


def _umask(listing: Listing) -> int:
    """Return the permissions that most files lack, as a umask."""
    counts = Counter(found.st_mode & 0o666 for found in listing.files.values())
    # The highest of equally common modes, since the order of the files may change.
    common = max(counts, key=lambda mode: (counts[mode], mode), default=0o644)
    missing = 0o666 & ~common
    # Whoever may not read a program or a folder may not execute it either.
    return missing | (missing & 0o444) >> 2


def _unusual_permissions(listing: Listing, umask: int) -> Iterator[tuple[str, int]]:
    for name, found in listing.files.items():
        if stat.S_ISLNK(found.st_mode):
            continue
        permission = stat.S_IMODE(found.st_mode)
        if permission != (0o777 if permission & 0o100 else 0o666) & ~umask:
            yield as_text(name), permission
    for name, permission in listing.folders.items():
        if permission != 0o777 & ~umask:
            yield f"{as_text(name)}/", permission


def difference(git: Git, old: Snapshot, new: Snapshot) -> dict[bytes, Change]:
    """Return what differs from ``old`` to ``new``, by name.

    Raises:
        NoUndo: one of them is gone.
    """
    raw = git.own(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old.tree, new.tree
    )
    parts = raw.split(b"\0")[:-1]
    changes = {}
    for about, name in zip(parts[::2], parts[1::2], strict=True):
        was, now, content, later, _ = about.decode().lstrip(":").split(" ")
        changes[name] = Change(_state(old, name, was, content), _state(new, name, now, later))
    for name, mode in _permission_candidates(git, old, new):
        was_permitted, permitted = old.permission(name, mode), new.permission(name, mode)
        if name not in changes and was_permitted != permitted:
            changes[name] = Change(
                FileState(mode, "", was_permitted), FileState(mode, "", permitted)
            )
    return changes


def _state(snapshot: Snapshot, name: bytes, mode: str, content: str) -> FileState | None:
    if mode == "000000":
        return None
    return FileState(mode, content, snapshot.permission(name, mode))


def _permission_candidates(git: Git, old: Snapshot, new: Snapshot) -> Iterator[tuple[bytes, str]]:
    """Yield the files, with git's modes, that may differ in permissions that git does not keep."""
    if old.umask != new.umask:
        # It may be any of them.
        for entry in git.own("ls-tree", "-r", "-z", old.tree).split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            yield name, about.partition(b" ")[0].decode()
    elif old.modes != new.modes:
        for text, permission in (old.modes | new.modes).items():
            if not text.endswith("/"):
                yield as_name(text), PROGRAM if permission & 0o100 else "100644"


# Putting files of a work tree back, whole or not at all, and never through a link.

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Changed(OSError):
    """A file is not the one that was there a moment ago."""

    def __init__(self) -> None:
        super().__init__(errno.EBUSY, "It is being changed just now")


class WorkFolder:
    """A work tree that files are taken from and put into.

    Each folder of a path is opened separately: one that is, or becomes, a link is an OSError, so
    nothing outside is ever touched.
    """

    def __init__(
        self, top: Path, seen: Mapping[bytes, os.stat_result], wanted: Snapshot, keep: bytes
    ) -> None:
        """Prepare for the tree at ``top``.

        Args:
            top: its root.
            seen: the status of its files when it was decided what to do.
            wanted: the snapshot with the permissions of the folders.
            keep: a folder that is not removed, nor are those that it is in.
        """
        self._top = top
        self._seen = seen
        self._wanted = wanted
        self._keep = keep + b"/"

    def remove(self, name: bytes) -> None:
        """Remove a file or a link.

        Raises:
            OSError: it cannot be removed, or it is no longer the same file.
        """
        with self._folder_of(name, make=False) as (folder, own):
            self._check(name, folder, own)
            os.unlink(own, dir_fd=folder)

    def tidy(self, names: Iterable[bytes]) -> None:
        """Remove the folders of files that were removed, if they are empty now."""
        folders = {name[:at] for name in names for at in _slashes(name)}
        for name in sorted(folders, key=len, reverse=True):
            if not self._keep.startswith(name + b"/"):
                with suppress(OSError), self._folder_of(name, make=False) as (folder, own):
                    os.rmdir(own, dir_fd=folder)

    def write(self, name: bytes, entry: FileState, content: bytes) -> None:
        """Put a file or a link in its place; missing folders are created.

        Raises:
            OSError: it cannot be written, or the file there is no longer the same.
        """
        with self._folder_of(name, make=True) as (folder, own):
            self._check(name, folder, own)
            temporary = b".aish-undo-" + secrets.token_hex(8).encode()
            try:
                _create(temporary, folder, entry, content)
                if name not in self._seen:
                    with suppress(OSError):  # an empty folder is replaced
                        os.rmdir(own, dir_fd=folder)
                os.rename(temporary, own, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def set_permission(self, name: bytes, permission: int) -> None:
        """Give a file the permission that it had.

        Raises:
            OSError: it cannot be done, or it is no longer the same file.
        """
        with self._folder_of(name, make=False) as (folder, own):
            self._check(name, folder, own)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(own, flags, dir_fd=folder)
            try:
                os.fchmod(fd, permission)
            finally:
                os.close(fd)

    def _check(self, name: bytes, folder: int, own: bytes) -> None:
        """Check that the file is still as it was seen; raise ``Changed`` if not."""
        seen = self._seen.get(name)
        try:
            found = os.lstat(own, dir_fd=folder)
        except FileNotFoundError:
            if seen is None:
                return
            raise Changed from None
        if seen is None and stat.S_ISDIR(found.st_mode):
            return
        if seen is None or _signature(found) != _signature(seen):
            raise Changed

    @contextmanager
    def _folder_of(self, name: bytes, *, make: bool) -> Iterator[tuple[int, bytes]]:
        """Open the folder that ``name`` is in; yield it with the last part of the name."""
        if not is_plain(name):
            raise OSError(errno.EINVAL, "That is not the name of a file in the work tree")
        *folders, own = name.split(b"/")
        fd = os.open(self._top, _FOLDER)
        try:
            for depth, part in enumerate(folders, 1):
                path = b"/".join(folders[:depth]) + b"/"
                below = self._open(fd, part, path, make=make)
                os.close(fd)
                fd = below
            yield fd, own
        finally:
            os.close(fd)

    def _open(self, fd: int, part: bytes, path: bytes, *, make: bool) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=fd)
        except FileNotFoundError:
            if not make:
                raise
        os.mkdir(part, 0o700, dir_fd=fd)
        made = os.open(part, _FOLDER, dir_fd=fd)
        # The owner needs access in any case: more files are put there.
        os.fchmod(made, self._wanted.permission(path, "") | 0o700)
        return made


def _slashes(name: bytes) -> Iterator[int]:
    at = name.find(b"/")
    while at >= 0:
        yield at
        at = name.find(b"/", at + 1)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


def _create(name: bytes, folder: int, entry: FileState, content: bytes) -> None:
    """Make a new file or link."""
    if entry.mode == LINK:
        os.symlink(content, name, dir_fd=folder)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), entry.permission)
