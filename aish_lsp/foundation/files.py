"""Our files: where they lie; private, written whole, and synced before they are acknowledged.

All writing blocks. What the system refuses (disk full, read-only, no permission) becomes a
StoreUnavailable that names the path and the reason.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from aish_lsp.foundation.errors import Busy, StoreUnavailable
from aish_lsp.foundation.text import shown_path

#: Device, inode, bytes and time of a file as it was seen.
FileStamp: TypeAlias = tuple[int, int, int, int]

#: Seconds to wait for a lock that another process holds.
LOCK_TIMEOUT: Final = 5.0

#: What the system says of a socket that is opened; here also of pipes and devices.
_NO_FILE: Final = errno.ENXIO

#: What fsync of a folder reports on file systems that do not have it.
_CANNOT_SYNC: Final = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})

_ADVICE: Final[Mapping[int, str]] = {
    errno.ENOSPC: "Free some space and try again.",
    errno.EDQUOT: "Free some space and try again.",
    errno.EROFS: "Make it writable, or set AISH_DATA_DIR to a folder that is.",
    errno.EACCES: "Make it accessible, or set AISH_DATA_DIR to a folder that is.",
    errno.EPERM: "Make it accessible, or set AISH_DATA_DIR to a folder that is.",
    errno.EFBIG: "The system lets no file grow so large; see `ulimit -f`.",
    errno.EIO: "The disk may be failing: copy what is on it while it can be read.",
    errno.ENOENT: "If it is a symbolic link, it points to a folder that is missing.",
    errno.EEXIST: "Move it away and try again.",
    errno.ENOTDIR: "A file stands where a folder should. Move it away and try again.",
    errno.EISDIR: "Move it away and try again.",
    errno.ELOOP: "Move it away and try again.",
    _NO_FILE: "Move it away and try again.",
}


def data_dir() -> Path:
    """Return DATA: ``AISH_DATA_DIR``, or the platform's folder for a user's data."""
    moved = os.environ.get("AISH_DATA_DIR")
    if moved:
        return _expanded(moved)
    from platformdirs import user_data_path  # noqa: PLC0415 - not needed by every start

    return user_data_path("aish", appauthor=False)


def recent_log() -> Path:
    """Return the file that keeps what went wrong lately, for a bug report."""
    return data_dir() / "recent.log"


def config_file() -> Path:
    """Return the user's ``config.toml``: ``AISH_CONFIG``, or the platform's place for it."""
    moved = os.environ.get("AISH_CONFIG")
    if moved:
        return _expanded(moved)
    from platformdirs import user_config_path  # noqa: PLC0415 - as above

    return user_config_path("aish", appauthor=False) / "config.toml"


def _expanded(path: str) -> Path:
    """Return ``path`` with its ``~`` expanded as a shell does: an unknown user's stays."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError


def workspace_key(root: Path) -> str:
    """Return a workspace's key: a readable slug of its name, and a hash of its real path."""
    real = Path(os.path.realpath(root))
    slug = re.sub(r"[^a-z0-9]+", "-", real.name.lower()).strip("-")[:40].strip("-") or "root"
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return f"{slug}-{digest}"


def workspace_dir(root: Path) -> Path:
    """Return the folder under DATA that holds a workspace's memory, sessions and usage."""
    return data_dir() / "workspaces" / workspace_key(root)


@contextlib.contextmanager
def store_errors(path: Path, verb: str) -> Iterator[None]:
    """Turn an OSError of the block into StoreUnavailable: ``cannot VERB PATH: reason``.

    Raises:
        StoreUnavailable: instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        advice = _ADVICE.get(error.errno or 0, "")
        msg = f"cannot {verb} {shown_path(path)}: {reason}. {advice}".rstrip()
        raise StoreUnavailable(msg, path=str(path)) from error


def own_folder(path: Path) -> None:
    """Make ``path``, a folder of ours in a project, private.

    Raises:
        OSError: it cannot be made.
        StoreUnavailable: it is a link, which may lead anywhere.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink():
        raise StoreUnavailable(
            f"{shown_path(path)} is a symbolic link: nothing is written through it."
        )


def ignored_folder(path: Path) -> None:
    """Make ``path`` as ``own_folder`` does, and have git ignore all that is in it.

    Raises:
        OSError, StoreUnavailable: as there.
    """
    own_folder(path)
    with contextlib.suppress(FileExistsError), (path / ".gitignore").open("x") as file:
        file.write("*\n")


def private_dir(path: Path) -> Path:
    """Make ``path`` a folder; return it. It and each parent that was missing are made 0700.

    A folder that is there already keeps its mode: it may be one that the user chose.

    Raises:
        StoreUnavailable: it cannot be made, or something else has its name.
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
    """Open ``path`` to read it and to append to it; return the descriptor.

    A file that was missing is made, 0600, its name synced, in a folder made by ``private_dir``.

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
            # Of a symbolic link, the file that it points to was made.
            sync_dir(Path(os.path.realpath(path)).parent)
        except OSError:
            os.close(fd)
            raise
        return fd


def open_to_read(path: Path) -> int:
    """Open ``path`` to read it; return the descriptor.

    Raises:
        OSError: it cannot be opened, or is not a file.
    """
    return _open(path, os.O_RDONLY)


def _open(path: Path, flags: int) -> int:
    """Open a file without ever waiting, as for the other end of a pipe."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(_NO_FILE, "It is a pipe or a device, not a file")


def read_file(path: Path) -> bytes:
    """Return what a file holds; nothing of a missing one.

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
    r"""Append ``line`` (without its ``\n``; several may be joined by it) in one write.

    The caller is the file's only writer at the time: it holds the lock. A line before it that was
    never finished is closed first, so that it cannot spoil this one. What is not acknowledged is
    taken back as far as the system lets us: it could otherwise be read, and be gone after a crash.

    Args:
        fd: from ``open_append``.
        path: its path, for messages.
        line: JSON text, from ``json_line``.
        sync: return only when it is on the disk.

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
    """Write ``data``; the system may split it (a signal, a nearly full disk)."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(path: Path, text: str | bytes) -> None:
    """Replace ``path`` with ``text`` (0600): all of it or nothing, also when the power fails.

    Where ``path`` is a symbolic link, what it points to is replaced.

    Raises:
        StoreUnavailable: it cannot be written; what was there stays.
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
) -> None:
    """Make ``data`` all that the file ``path`` holds, by one rename. Blocks.

    Args:
        path: the file, which may be missing; its folder is there.
        data: what it is to hold.
        prefix: what the name of the file that is renamed begins with.
        mode: the permissions of a new file, less the process's mask.
        before: what the file is like that this takes the place of: its permissions are kept, and
            its owner where we may.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    temporary = path.with_name(f"{prefix}{os.urandom(6).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            _write_all(fd, data)
            if before is not None:
                _be_like(fd, before)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_dir(path.parent)


def _be_like(fd: int, before: os.stat_result) -> None:
    """Give an open file the permissions and, where we may, the owner of another."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        # Where we may not, the permissions alone are what we can keep.
        with contextlib.suppress(PermissionError):
            os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable, as fsync of a file does not.

    A folder that may not be read, or on a file system that cannot sync folders, is left as it is.

    Raises:
        OSError: it is missing, or the disk fails.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold ``PATH.lock`` during the block, against other processes and threads.

    The lock is a file beside, so that a rename of ``path`` cannot split it; it stays there. It is
    the system's: a process that dies lets go of it. All names of a file have one lock, that of the
    file which symbolic links point to.

    Raises:
        Busy: it was not to be had within ``timeout`` seconds; the message says who holds it.
        StoreUnavailable: the lock's file cannot be made.
    """
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    lock_path = path.with_name(path.name + ".lock")
    fd = _locked_fd(path, lock_path, timeout)
    # Who waited for one that somebody removed meanwhile has nothing: others lock its successor.
    while not is_at(fd, lock_path):
        os.close(fd)
        fd = _locked_fd(path, lock_path, timeout)
    try:
        yield
    finally:
        os.close(fd)


def _locked_fd(path: Path, lock_path: Path, timeout: float) -> int:
    fd = open_append(lock_path)
    with store_errors(lock_path, "lock"):
        had = _lock(fd, timeout)
    if not had:
        msg = (
            f"{shown_path(path)} is being written by {_holder(lock_path)} and stayed locked for"
            f" {timeout:g} s. Try again, or end that process if it hangs."
        )
        raise Busy(msg, path=str(path))
    return fd


def stamp_of(status: os.stat_result) -> FileStamp:
    """Return what changes when a file is written, or another takes its place."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def aside_of(path: Path, what: str) -> Path:
    """Return the name for what is put aside of a file: ``NAME.WHAT-TIME``."""
    return path.with_name(f"{path.name}.{what}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")


def put_aside(path: Path) -> None:
    """Rename a damaged file to ``NAME.damaged-TIME``.

    Raises:
        OSError: it cannot be renamed.
    """
    path.rename(aside_of(path, "damaged"))


def is_at(fd: int, path: Path) -> bool:
    """Return whether ``path`` is still the open file's; also where we may not know."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except PermissionError:
        return True
    except OSError:
        return False


def _lock(fd: int, timeout: float) -> bool:
    """Lock a file within ``timeout`` seconds; else close it and return False."""
    import fcntl  # noqa: PLC0415 - not on every platform that can import this

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _wait_for_lock(fd, timeout)
    except BaseException:
        os.close(fd)
        raise
    return True


def _wait_for_lock(fd: int, timeout: float) -> bool:
    """Do what ``_lock`` does, for a lock that is held.

    Who waits stands in the system's own queue, in a thread that can be left behind. To try again
    and again, as lock libraries do, is not fair: of eight busy writers, one starved for 5 s.
    """
    had: Future[None] = Future()
    threading.Thread(target=_stand_in_line, args=(fd, had), name="lock", daemon=True).start()
    try:
        had.result(timeout)
    except TimeoutError:
        # Where it was had in this very moment, there is nothing left to cancel.
        return not had.cancel()
    except BaseException:
        if not had.cancel():
            os.close(fd)
        raise
    return True


def _stand_in_line(fd: int, had: Future[None]) -> None:
    """Wait for a lock, however long; close the file where nobody waits for it any more."""
    import fcntl  # noqa: PLC0415 - as above

    error = None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as refusal:
        error = refusal
    if not had.set_running_or_notify_cancel():
        os.close(fd)
    elif error is not None:
        had.set_exception(error)
    else:
        had.set_result(None)


def _holder(lock_path: Path) -> str:
    """Return who holds a lock, as far as the system tells (Linux does)."""
    with contextlib.suppress(OSError, ValueError):
        inode = lock_path.stat().st_ino
        for entry in Path("/proc/locks").read_text().splitlines():
            # 1: FLOCK ADVISORY WRITE 4242 08:01:1234 0 EOF
            fields = entry.split()
            if fields[1] == "FLOCK" and int(fields[5].rsplit(":", 1)[1]) == inode:
                return f"process {fields[4]}"
    return "another process"
