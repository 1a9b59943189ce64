"""Puts files of a work tree back, whole or not at all, and never through a link."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from aish_lsp.undo.listing import is_plain
from aish_lsp.undo.snapshots import LINK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from aish_lsp.undo.snapshots import Entry, Snapshot

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Changed(OSError):
    """What is there is not what was there a moment ago."""

    def __init__(self) -> None:
        super().__init__(errno.EBUSY, "It is being changed just now")


class WorkFolder:
    """A work tree that files are taken from and put into.

    Each folder on the way is opened by itself: one that is, or becomes, a link is an OSError, and
    so nothing outside is ever touched.
    """

    def __init__(
        self, top: Path, seen: Mapping[bytes, os.stat_result], wanted: Snapshot, keep: bytes
    ) -> None:
        """Prepare for the tree at ``top``.

        Args:
            top: its root.
            seen: how its files were when it was decided what to do.
            wanted: it says what the folders' permissions were.
            keep: a folder that stays, and so do those that it lies in.
        """
        self._top = top
        self._seen = seen
        self._wanted = wanted
        self._keep = keep + b"/"

    def remove(self, name: bytes) -> None:
        """Remove a file or a link.

        Raises:
            OSError: it cannot be, or it is another one by now.
        """
        with self._folder_of(name, make=False) as (folder, own):
            self._check(name, folder, own)
            os.unlink(own, dir_fd=folder)

    def tidy(self, names: Iterable[bytes]) -> None:
        """Remove the folders of files that were removed, where they are empty by that."""
        folders = {name[:at] for name in names for at in _slashes(name)}
        for name in sorted(folders, key=len, reverse=True):
            if not self._keep.startswith(name + b"/"):
                with suppress(OSError), self._folder_of(name, make=False) as (folder, own):
                    os.rmdir(own, dir_fd=folder)

    def write(self, name: bytes, entry: Entry, content: bytes) -> None:
        """Put a file or a link in its place; the folders that it lies in are made.

        Raises:
            OSError: it cannot be written, or what is there is another one by now.
        """
        with self._folder_of(name, make=True) as (folder, own):
            self._check(name, folder, own)
            temporary = b".aish-undo-" + secrets.token_hex(8).encode()
            try:
                _make(temporary, folder, entry, content)
                if name not in self._seen:
                    with suppress(OSError):  # an empty folder gives way
                        os.rmdir(own, dir_fd=folder)
                os.rename(temporary, own, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def set_permission(self, name: bytes, permission: int) -> None:
        """Give a file the permission that it had.

        Raises:
            OSError: it cannot be done, or it is another file by now.
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
        """Hold what is there against what was seen."""
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
        """Open the folder that ``name`` lies in; also give its last part."""
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
        # Its owner has to get in, whatever it was: there is more to be put there.
        os.fchmod(made, self._wanted.permission(path, "") | 0o700)
        return made


def _slashes(name: bytes) -> Iterator[int]:
    at = name.find(b"/")
    while at >= 0:
        yield at
        at = name.find(b"/", at + 1)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


def _make(name: bytes, folder: int, entry: Entry, content: bytes) -> None:
    """Make a new file or link."""
    if entry.mode == LINK:
        os.symlink(content, name, dir_fd=folder)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), entry.permission)
