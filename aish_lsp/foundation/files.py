"""Our files: where they are; private, written atomically, and synced before acknowledgment.

Writing blocks. An error from the system (disk full, read-only, no permission)
becomes a StoreUnavailable that names the path and the reason.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.text import shown_path

#: Device, inode, size in bytes and modification time of a file.
FileStamp: TypeAlias = tuple[int, int, int, int]

#: What the system reports when a socket is opened; used here for pipes and devices too.
_NOT_A_FILE: Final = errno.ENXIO

#: What fsync of a folder reports if the file system does not support it.
_CANNOT_SYNC: Final = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})

#: Advice for files in DATA alone.
_OR_MOVE_DATA: Final = ", or set AISH_DATA_DIR to a folder that is"

_ADVICE: Final[Mapping[int, str]] = {
    errno.ENOSPC: "Free some space and try again.",
    errno.EDQUOT: "Free some space and try again.",
    errno.EROFS: f"Make it writable{_OR_MOVE_DATA}.",
    errno.EACCES: f"Make it accessible{_OR_MOVE_DATA}.",
    errno.EPERM: f"Make it accessible{_OR_MOVE_DATA}.",
    errno.EFBIG: "The system does not let files grow this large; see `ulimit -f`.",
    errno.EIO: "The disk may be failing: copy your data while it can still be read.",
    errno.ENOENT: "If it is a symbolic link, it points to a folder that is missing.",
    errno.EEXIST: "Move it away and try again.",
    errno.ENOTDIR: "There is a file where a folder should be. Move it away and try again.",
    errno.EISDIR: "Move it away and try again.",
    errno.ELOOP: "Move it away and try again.",
    _NOT_A_FILE: "Move it away and try again.",
}


def data_dir() -> Path:
    """Return DATA: ``AISH_DATA_DIR``, or the platform's folder for user data."""
    moved = os.environ.get("AISH_DATA_DIR")
    if moved:
        return expanded(moved)
    from platformdirs import user_data_path  # noqa: PLC0415 - not needed by every start

    return user_data_path("aish", appauthor=False)


def recent_log() -> Path:
    """Return the log of recent warnings and errors, for bug reports."""
    return data_dir() / "recent.log"


def config_file() -> Path:
    """Return the path of ``config.toml``: ``AISH_CONFIG``, or the platform's default."""
    moved = os.environ.get("AISH_CONFIG")
    if moved:
        return expanded(moved)
    from platformdirs import user_config_path  # noqa: PLC0415 - as above

    return user_config_path("aish", appauthor=False) / "config.toml"


def keys_file() -> Path:
    """Return the path of ``keys.env``, beside ``config.toml``."""
    return config_file().with_name("keys.env")


def expanded(path: str) -> Path:
    """Return ``path`` with ``~`` expanded as by a shell: an unknown user's is left as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError


def workspace_key(root: Path) -> str:
    """Return a workspace's key: a readable slug of its name and a hash of its real path."""
    real = Path(os.path.realpath(root))
    slug = re.sub(r"[^a-z0-9]+", "-", real.name.lower()).strip("-")[:40].strip("-") or "root"
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return f"{slug}-{digest}"


def workspace_dir(root: Path) -> Path:
    """Return the folder under DATA that holds a workspace's memory, sessions and usage."""
    return data_dir() / "workspaces" / workspace_key(root)


@contextlib.contextmanager
def store_errors(path: Path, verb: str) -> Iterator[None]:
    """Turn an OSError in the block into StoreUnavailable: ``cannot VERB PATH: reason``.

    Raises:
        StoreUnavailable: instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        advice = _ADVICE.get(error.errno or 0, "")
        if not path.is_relative_to(data_dir()):
            advice = advice.replace(_OR_MOVE_DATA, "")
        msg = f"cannot {verb} {shown_path(path)}: {reason}. {advice}".rstrip()
        raise StoreUnavailable(msg, path=str(path)) from error


def private_dir(path: Path) -> Path:
    """Create the folder ``path`` and its missing parents, all 0700; return ``path``.

    An existing folder keeps its mode: the user may have chosen it.

    Raises:
        StoreUnavailable: it cannot be created, or is something else.
    """
    with store_errors(path, "make the folder"):
        missing = []
        for folder in (path, *path.parents):
            if folder.is_dir():
                break
            missing.append(folder)
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_dir(folder.parent)
    return path


def open_append(path: Path) -> int:
    """Open ``path`` for reading and appending; return the descriptor.

    A missing file is created, 0600, with its name synced, in a folder from ``private_dir``.

    Raises:
        StoreUnavailable: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_APPEND
    with store_errors(path, "open"):
        try:
            return _open(path, flags)
        except FileNotFoundError:
            private_dir(path.parent)
        fd = _open(path, flags | os.O_CREAT)
        try:
            # If it is a symbolic link, its target was created.
            sync_dir(Path(os.path.realpath(path)).parent)
        except OSError:
            os.close(fd)
            raise
        return fd


def open_to_read(path: Path) -> int:
    """Open ``path`` for reading; return the descriptor.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    return _open(path, os.O_RDONLY)


def _open(path: Path, flags: int) -> int:
    """Open a regular file, without blocking if it turns out to be a pipe."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(_NOT_A_FILE, "It is a pipe or a device, not a file")


def read_file(path: Path) -> bytes:
    """Return the contents of a file; empty if it is missing.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    with store_errors(path, "read"):
        try:
            fd = open_to_read(path)
        except FileNotFoundError:
            return b""
        with os.fdopen(fd, "rb") as file:
            return file.read()


def append_line(fd: int, path: Path, line: str | bytes, *, sync: bool) -> None:
    r"""Append ``line`` (without its ``\n``; or several lines, joined by it) in one write.

    The caller holds the lock, so nobody else writes. If the last line in the file is unfinished,
    it is ended first, so that it does not corrupt this one. A failed write is undone if possible:
    otherwise it could be read now and be gone after a crash.

    Args:
        fd: from ``open_append``.
        path: its path, for messages.
        line: JSON text from ``json_line``.
        sync: return only when the line is on the disk.

    Raises:
        StoreUnavailable: the disk is full, or another write error.
    """
    data = (line.encode() if isinstance(line, str) else line) + b"\n"
    with store_errors(path, "write to"):
        start = os.fstat(fd).st_size
        if start and os.pread(fd, 1, start - 1) != b"\n":
            data = b"\n" + data
        try:
            _write_all(fd, data)
            if sync:
                os.fsync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, start)
            raise


def _write_all(fd: int, data: bytes) -> None:
    """Write ``data``, in several writes if the system splits it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(path: Path, text: str | bytes) -> None:
    """Replace the file ``path`` (0600) with ``text`` atomically, even if the power fails.

    If ``path`` is a symbolic link, its target is replaced.

    Raises:
        StoreUnavailable: it cannot be written; the old contents stay.
    """
    data = text.encode() if isinstance(text, str) else text
    with store_errors(path, "write"):
        path = Path(os.path.realpath(path))
        private_dir(path.parent)
        put_in_place(path, data, prefix=f".{path.name}.")


def put_in_place(
    path: Path,
    data: bytes,
    *,
    prefix: str,
    mode: int = 0o600,
    before: os.stat_result | None = None,
    folder: int | None = None,
) -> None:
    """Replace the contents of the file ``path`` with ``data`` by a rename. Blocks.

    Args:
        path: the file, which may be missing; its folder exists.
        data: the new contents.
        prefix: how the name of the temporary file begins.
        mode: the permissions of a new file, before the umask.
        before: the status of the file that is replaced: its permissions are kept, and its owner
            if that is permitted.
        folder: the descriptor of the folder that ``path`` is relative to, if it is.

    Raises:
        OSError: it cannot be written; the old contents stay, unless only the folder's sync failed.
    """
    temporary = path.with_name(f"{prefix}{os.urandom(6).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        try:
            _write_all(fd, data)
            if before is not None:
                _copy_owner_and_mode(fd, before)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    sync_dir(path.parent, folder)


def _copy_owner_and_mode(fd: int, before: os.stat_result) -> None:
    """Give an open file the permissions and, if permitted, the owner of another."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))


def sync_dir(path: Path, folder: int | None = None) -> None:
    """Make the names in a folder durable, which fsync of a file does not do.

    ``path`` may be relative to the open ``folder``.

    This does nothing if the folder may not be read or the file system cannot sync folders.

    Raises:
        OSError: it is missing, or the disk fails.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(fd)


def stamp_of(status: os.stat_result) -> FileStamp:
    """Return a value that changes when the file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def aside_of(path: Path, what: str) -> Path:
    """Return the name for a copy of a file that is set aside: ``NAME.WHAT-TIME``."""
    return path.with_name(f"{path.name}.{what}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")


def put_aside(path: Path) -> None:
    """Rename a damaged file to ``NAME.damaged-TIME``.

    Raises:
        OSError: it cannot be renamed.
    """
    path.rename(aside_of(path, "damaged"))
