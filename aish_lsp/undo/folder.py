"""The files of a work tree: reading them, and putting them back.

A file is put back whole or not at all, and never through a link.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.undo.git import Hash
from aish_lsp.undo.listing import SIZE_LIMIT, is_plain

#: A file that was changed so shortly before it was read, in ns, is read again the next time: a
#: further change might not show in its times.
_RECENT: Final = 2_000_000_000
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def object_id(kind: Hash, content: bytes) -> str:
    """Return git's name for ``content``, with the hash ``kind``."""
    made = hashlib.new(kind, b"blob %d\0" % len(content), usedforsecurity=False)
    made.update(content)
    return made.hexdigest()


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, a link, or the folder of a repository.

    Attributes:
        mode: its type and permissions (a link's permissions count as 0777); 0 if it is not covered.
        content: the id of its content or of a link's target; the inode of a folder.
        inode: its inode, which does not count when states are compared.
    """

    mode: int
    content: str
    inode: int = field(default=0, compare=False)


#: The state of what exists, but is in no snapshot.
NOT_COVERED: Final = FileState(0, "")


class SeenFile(NamedTuple):
    """A file as it was seen, with the id of its content."""

    mode: int
    inode: int
    size: int
    modified: int
    changed: int
    content: str

    @property
    def state(self) -> FileState:
        """The state of the file."""
        return FileState(self.mode, self.content, self.inode)

    def is_still(self, found: os.stat_result) -> bool:
        """Return whether a file with the status ``found`` is the one that was seen, unchanged."""
        # Called for each file of a work tree: what a change of a file changes comes first.
        return (
            self.changed == found.st_ctime_ns
            and self.modified == found.st_mtime_ns
            and self.inode == found.st_ino
            and self.size == found.st_size
            and self.mode == _mode(found)
        )


def _mode(found: os.stat_result) -> int:
    return found.st_mode | 0o777 if stat.S_ISLNK(found.st_mode) else found.st_mode


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
        self,
        top: Path,
        seen: Mapping[bytes, os.stat_result] | None = None,
        permissions: Mapping[bytes, int] | None = None,
        keep: bytes = b".",
    ) -> None:
        """Prepare for the tree at ``top``.

        Args:
            top: its root.
            seen: the status of its files when it was decided what to do.
            permissions: those of folders that may have to be made.
            keep: a folder that is not removed, nor are those that it is in.
        """
        self._top = top
        self._seen = dict(seen or {})
        self._permissions = permissions or {}
        self._keep = keep + b"/"
        self._rewritten: set[int] = set()

    def read(
        self, names: Iterable[bytes], kind: Hash
    ) -> Iterator[tuple[bytes, SeenFile | None, bytes]]:
        """Yield those of ``names`` that exist, each with its row and its content.

        The row is None if it cannot be read, is too large, or is neither a file nor a link.
        """
        parts = sorted((*name.rpartition(b"/")[::2], name) for name in names)
        for _, group in groupby(parts, itemgetter(0)):
            inside = list(group)
            try:
                with self._folder_of(inside[0][2]) as (folder, _):
                    for _, own, name in inside:
                        try:
                            status = _read(folder, own, kind)
                        except FileNotFoundError:
                            continue
                        except OSError:
                            status = None, b""
                        yield name, *status
            except FileNotFoundError:
                continue
            except OSError:
                yield from ((name, None, b"") for _, _, name in inside)

    def remove(self, name: bytes) -> None:
        """Remove a file or a link.

        Raises:
            OSError: it cannot be removed, or it is no longer the same file.
        """
        with self._folder_of(name) as (folder, own):
            self._check(name, folder, own)
            os.unlink(own, dir_fd=folder)

    def tidy(self, names: Iterable[bytes]) -> None:
        """Remove the folders of files that were removed, if they are empty now."""
        folders = {name[:at] for name in names for at in _slashes(name)}
        for name in sorted(folders, key=len, reverse=True):
            if not self._keep.startswith(name + b"/"):
                with suppress(OSError), self._folder_of(name) as (folder, own):
                    os.rmdir(own, dir_fd=folder)

    def put_aside(self, name: bytes, place: Path) -> str:
        """Move a ``.git``, or the folder of a repository, to ``place``; return where it is now.

        On another disk it stays where it was, as ``NAME.undone-...``.

        Raises:
            OSError: it cannot be moved.
        """
        with self._folder_of(name) as (folder, own):
            self._check(name, folder, own)
            del self._seen[name]
            try:
                os.rename(own, place, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return str(place)
            new = own + b".undone-" + secrets.token_hex(4).encode()
            os.rename(own, new, src_dir_fd=folder, dst_dir_fd=folder)
            return os.fsdecode(name[: len(name) - len(own)] + new)

    def take_back(self, name: bytes, place: Path) -> None:
        """Move what was put aside to where it was.

        Raises:
            OSError: it cannot be moved, or something else is there.
        """
        with self._folder_of(name, make=True) as (folder, own):
            with suppress(FileNotFoundError):
                os.lstat(own, dir_fd=folder)
                raise FileExistsError(errno.EEXIST, "Something else is there")
            os.rename(place, own, dst_dir_fd=folder)

    def write(self, name: bytes, entry: FileState, content: bytes) -> None:
        """Put a file or a link in its place; missing folders are created.

        If it is the same file as then and has other names (hard links), it is written in place, so
        that those get the content back, too.

        Raises:
            OSError: it cannot be written, or the file there is no longer the same.
        """
        with self._folder_of(name, make=True) as (folder, own):
            seen = self._seen.get(name)
            if (
                seen is not None
                and seen.st_nlink > 1
                and seen.st_ino == entry.inode
                and stat.S_ISREG(seen.st_mode)
                and stat.S_ISREG(entry.mode)
            ):
                if entry.inode not in self._rewritten:
                    self._check(name, folder, own)
                    _rewrite(own, folder, seen, entry, content)
                    self._rewritten.add(entry.inode)
                return
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
        with self._folder_of(name) as (folder, own):
            self._check(name, folder, own)
            fd = os.open(own, os.O_RDONLY | _FILE, dir_fd=folder)
            try:
                os.fchmod(fd, permission)
            finally:
                os.close(fd)

    def _check(self, name: bytes, folder: int, own: bytes) -> None:
        """Check that the file is still as it was seen; raise ``Changed`` if not."""
        seen = self._seen.get(name)
        try:
            status = os.lstat(own, dir_fd=folder)
        except FileNotFoundError:
            if seen is None:
                return
            raise Changed from None
        if seen is None and stat.S_ISDIR(status.st_mode):
            return
        if seen is None or _signature(status) != _signature(seen):
            raise Changed

    @contextmanager
    def _folder_of(self, name: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """Open the folder that ``name`` is in; yield it with the last part of the name."""
        if not is_plain(name.removesuffix(b"/.git")) and name != b".git":
            raise OSError(errno.EINVAL, "That is not the name of a file in the work tree")
        *folders, own = name.split(b"/")
        fd = os.open(self._top, _FOLDER)
        try:
            for depth, part in enumerate(folders, 1):
                below = self._open(fd, part, b"/".join(folders[:depth]), make=make)
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
        os.fchmod(made, self._permissions.get(path, 0o777) | 0o700)
        return made


def _read(folder: int, own: bytes, kind: Hash) -> tuple[SeenFile | None, bytes]:
    """Return a file or a link in the open ``folder``, with its content."""
    try:
        fd = os.open(own, os.O_RDONLY | _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        status = os.lstat(own, dir_fd=folder)
        content = os.readlink(own, dir_fd=folder)
    else:
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_LIMIT:
                return None, b""
            content = os.read(fd, status.st_size + 1)
        finally:
            os.close(fd)
    size, modified, changed = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    if changed > time.time_ns() - _RECENT or len(content) != size:
        changed = 0
    named = object_id(kind, content)
    return SeenFile(_mode(status), status.st_ino, size, modified, changed, named), content


def _slashes(name: bytes) -> Iterator[int]:
    at = name.find(b"/")
    while at >= 0:
        yield at
        at = name.find(b"/", at + 1)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


def _create(name: bytes, folder: int, entry: FileState, content: bytes) -> None:
    """Make a new file or link."""
    if stat.S_ISLNK(entry.mode):
        os.symlink(content, name, dir_fd=folder)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), stat.S_IMODE(entry.mode))


def _rewrite(
    own: bytes, folder: int, seen: os.stat_result, entry: FileState, content: bytes
) -> None:
    """Write to a file that stays the same inode."""
    fd = os.open(own, os.O_RDONLY | _FILE, dir_fd=folder)
    try:
        if _signature(os.fstat(fd)) != _signature(seen):
            raise Changed
        os.fchmod(fd, stat.S_IMODE(entry.mode) | stat.S_IWUSR)
        writing = os.open(own, os.O_WRONLY | _FILE, dir_fd=folder)
        with os.fdopen(writing, "wb") as file:
            if os.fstat(writing).st_ino != seen.st_ino:
                raise Changed
            file.write(content)
            file.truncate()
            os.fchmod(writing, stat.S_IMODE(entry.mode))
    finally:
        os.close(fd)
