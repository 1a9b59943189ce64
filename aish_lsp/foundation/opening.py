"""Opening what a model, a tool or a question names: files in a folder, and nothing outside it.

A path that was checked may lead elsewhere when it is used, if a program swaps a folder with a link
meanwhile. So a name is first resolved; then each folder of the real path is opened by itself, from
the one above it, without following a link. What was opened is in the folder, and is what counts.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import put_in_place
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import with_line_feeds

#: A folder on the way. With ``O_PATH`` (Linux) it need not be readable.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_NO_FOLDER: Final = "A folder on the way to it is a symbolic link, or a file"

#: How often a name is resolved anew, if a folder became a link after it was resolved.
_TRIES: Final = 8


class Outside(OSError):
    """A name leads out of the folder that it is for."""


class NotRegular(OSError):
    """What was opened is a pipe, a device or a socket."""


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file or folder.

    Those that exist are compared by device and inode, so that links, hard links and other
    spellings count; those that do not by their names and the real paths of their folders.
    """
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        pass
    try:
        return one.name == other.name and os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


def real_name(root: Path, named: str) -> str:
    """Return the real path of what is ``named``, relative to ``root``, whether it exists or not.

    It is ``/``-separated, and empty for ``root`` itself. An absolute name is fine if it leads into
    ``root``, under whatever other name of that folder.

    Raises:
        Outside: it leads out of ``root``.
        OSError: it cannot be told.
        ValueError: no file can have that name.
    """
    top = os.path.realpath(root)
    real = _real_path(os.path.join(top, named))  # noqa: PTH118 - may be absolute
    if real.is_relative_to(top):
        return "/".join(real.parts[len(Path(top).parts) :])
    for above in (real, *real.parents):
        if is_same_file(above, Path(top)):
            return "/".join(real.parts[len(above.parts) :])
    raise Outside(errno.EXDEV, "It is outside of the folder")


def name_in(folder: Path, path: Path) -> str:
    """Return ``path`` relative to ``folder``, by its own name or else its real one.

    It is empty if it is outside, or ``folder`` itself.
    """
    if path.is_relative_to(folder):
        return "/".join(path.parts[len(folder.parts) :])
    try:
        return real_name(folder, str(path))
    except (OSError, ValueError):
        return ""


def _real_path(path: str) -> Path:
    for left in reversed(range(_TRIES)):
        try:
            return Path(os.path.realpath(path))
        except OSError:
            # A link is not one any more when it is read: it is being swapped.
            if not left:
                raise
    raise AssertionError


@contextmanager
def folder_of(root: Path, name: str, *, make: int = 0) -> Iterator[tuple[int, str]]:
    """Open the folder that holds ``name``, a real path; yield it with the last part of the name.

    Args:
        root: the folder that ``name`` is relative to.
        name: as from ``real_name``.
        make: the permissions of missing folders, which are then made.

    Raises:
        OSError: a folder is missing, or is (or has become) a link or a file.
    """
    *folders, own = name.split("/")
    if name and not {"", ".", ".."}.isdisjoint((*folders, own)):
        raise OSError(errno.EINVAL, "That is not the real path of a file")
    fd = os.open(os.path.realpath(root), _FOLDER)
    try:
        for part in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, make, dir_fd=fd)
            try:
                below = os.open(part, _FOLDER, dir_fd=fd)
            except NotADirectoryError as error:
                raise NotADirectoryError(error.errno, _NO_FOLDER) from error
            os.close(fd)
            fd = below
        yield fd, own or "."
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file: its descriptor, its real path relative to the folder, and its status."""

    fd: int
    name: str
    status: os.stat_result

    def read(self, limit: int) -> bytes:
        """Return up to ``limit`` bytes from where the descriptor is.

        Raises:
            OSError: it cannot be read.
        """
        content = bytearray()
        while len(content) < limit and (piece := os.read(self.fd, limit - len(content))):
            content += piece
        return bytes(content)


@contextmanager
def opened(root: Path, named: str) -> Iterator[Opened]:
    """Open the regular file that is ``named``, in ``root``, for reading.

    Raises:
        Outside, NotRegular, IsADirectoryError: it leads out of ``root``, or is no regular file.
        OSError: it is missing or cannot be opened.
        ValueError: no file can have that name.
    """
    fd, name = _open(root, named)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(errno.ENXIO, "It is not a regular file")
        yield Opened(fd, name, status)
    finally:
        os.close(fd)


def _open(root: Path, named: str) -> tuple[int, str]:
    """Open what is ``named``; return its descriptor and its real path."""
    for left in reversed(range(_TRIES)):
        name = real_name(root, named)
        try:
            with folder_of(root, name) as (folder, own):
                return os.open(own, _READ, dir_fd=folder), name
        except OSError as error:
            # A link where the real path had none: it is being swapped.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not left:
                raise
    raise AssertionError


def existing(root: Path, names: Iterable[str]) -> set[str]:
    """Return those of ``names``, real paths of files in ``root``, that are there now."""
    present = set()
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    for inside in by_folder.values():
        try:
            with folder_of(root, inside[0]) as (folder, _):
                present |= {name for name in inside if _is_in(folder, name.rpartition("/")[2])}
        except (OSError, ValueError):
            continue
    return present


def _is_in(folder: int, own: str) -> bool:
    try:
        os.stat(own, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError):
        return False
    return True


def replace_file(root: Path, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Put ``data`` in the place of a file, by a rename, or make the file with its folders. Blocks.

    A file that has other names (hard links) keeps its contents under those. The mode stays.

    Args:
        root: the folder that ``name`` is relative to.
        name: its real path, as from ``real_name``.
        data: the new contents.
        before: the status of the file that is replaced; None if there was none.

    Raises:
        FileExistsError: what is there is not what ``before`` says.
        OSError: it cannot be written; the old contents stay.
    """
    with folder_of(root, name, make=0 if before else 0o777) as (folder, own):
        try:
            now: os.stat_result | None = os.stat(own, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if (now and _state(now)) != (before and _state(before)):
            raise FileExistsError(errno.EEXIST, "It has changed meanwhile")
        mode = 0o600 if before else 0o666
        put_in_place(Path(own), data, prefix=".aish-", mode=mode, before=before, folder=folder)


def _state(status: os.stat_result) -> tuple[int, ...]:
    """Return what differs if it is another file, or its contents were changed."""
    return status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class FileText:
    """A text file as it was read.

    Attributes:
        name: its real path, relative to the folder that it was opened in.
        status: its status when it was opened.
        raw: its text with its own line ends; U+FFFD stands for bytes that are not UTF-8.
        mark: the byte order mark before it, if it has one.
        is_utf8: whether all of it is UTF-8.
        problem: why there is no text: ``is binary``, ``is UTF-16, not UTF-8``, ``is larger ...``.
    """

    name: str
    status: os.stat_result
    raw: str = ""
    mark: str = ""
    is_utf8: bool = True
    problem: str = ""

    @property
    def text(self) -> str:
        """Its text with LF for each line end."""
        return with_line_feeds(self.raw)


#: The byte order mark of UTF-8, decoded.
BOM: Final = "\ufeff"

#: How texts begin that are not UTF-8. UTF-32's mark begins as that of UTF-16 does.
_OTHER_MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_text(root: Path, named: str, limit: int) -> FileText:
    """Return the text of what is ``named``, in ``root``, if it has at most ``limit`` bytes.

    Raises:
        OSError, ValueError: as ``opened``, or it cannot be read.
    """
    with opened(root, named) as file:
        content = file.read(limit + 1)
    name, status = file.name, file.status
    other = next((name for mark, name in _OTHER_MARKS.items() if content.startswith(mark)), "")
    if other:
        return FileText(name, status, problem=f"is {other}, not UTF-8")
    if b"\0" in content:
        return FileText(name, status, problem="is binary")
    if len(content) > limit:
        return FileText(name, status, problem=f"is larger than {limit >> 20} MiB")
    try:
        raw, is_utf8 = content.decode(), True
    except UnicodeDecodeError:
        raw, is_utf8 = content.decode(errors="replace"), False
    text = raw.removeprefix(BOM)
    return FileText(name, status, text, raw[: len(raw) - len(text)], is_utf8)


#: What the ``.gitignore`` of such a folder holds.
IGNORES_ALL: Final = "*\n"


def ignored_folder(path: Path) -> None:
    """Create ``path``, a private folder of ours in a project, which git ignores, if it is missing.

    Raises:
        OSError: it cannot be created, or is a symbolic link, which may lead anywhere.
    """
    with suppress(FileExistsError), folder_of(path.parent, f"{path.name}/x", make=0o700) as at:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(".gitignore", flags, 0o666, dir_fd=at[0]), "w") as file:
            file.write(IGNORES_ALL)


def read_head(
    root: Path, name: str, limit: int, *, secret: bool = False
) -> tuple[str, bool] | None:
    """Return up to ``limit`` bytes of the file ``name`` under ``root``, and whether that is all.

    None if the file does not exist, cannot be read, is not a regular file, is binary, or is outside
    ``root`` once links are followed. Also None if its name or a link's target is that of a file
    with secrets, unless ``secret`` says that the caller asks the user. Bytes that are not UTF-8 are
    replaced.
    """
    try:
        with opened(root, name) as file:
            if not secret and any(map(is_secret_file, (name, file.name))):
                return None
            content = file.read(limit + 1)
    except (OSError, ValueError):
        return None
    if b"\0" in content:
        return None
    text = content[:limit].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text, len(content) <= limit


def read_regular(path: Path, limit: int) -> bytes | None:
    """Return up to ``limit`` bytes of ``path``, or None if it is not a readable regular file.

    It does not follow a link as the last part of ``path``, or wait for the other end of a pipe.
    """
    try:
        fd = os.open(path, _READ)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(fd)
        return Opened(fd, path.name, status).read(limit) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)
