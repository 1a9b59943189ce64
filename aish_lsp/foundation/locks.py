"""Locks on files, against other processes and threads: flocks, which end with the process.

Waiting for one blocks.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aish_lsp.foundation.errors import Busy, StoreUnavailable
from aish_lsp.foundation.files import open_append, store_errors
from aish_lsp.foundation.text import shown_path

#: Seconds to wait for a lock that another process holds.
LOCK_TIMEOUT: Final = 5.0


def lock_free(path: Path) -> int | None:
    """Lock the file ``path``, which is created if it is missing; None if another process has it.

    The lock ends when the descriptor is closed by ``unlock``, or with the process.

    Raises:
        StoreUnavailable: it cannot be created, or the file system has no locks.
    """
    fd = open_append(path)
    try:
        with store_errors(path, "lock"):
            if lock_now(fd):
                return fd
    except StoreUnavailable:
        os.close(fd)
        raise
    os.close(fd)
    return None


def lock_now(fd: int) -> bool:
    """Lock an open file; return False if another descriptor has it locked.

    Raises:
        OSError: the file system has no locks.
    """
    import fcntl  # noqa: PLC0415 - missing on some platforms that import this module

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Unlock a file, if it is locked, and close it.

    Closing alone is not enough: while another thread starts a process, that process shares our
    descriptors, and so our lock, until it executes its program.
    """
    import fcntl  # noqa: PLC0415 - as above

    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock ``PATH.lock`` during the block, against other processes and threads.

    The lock is a file of its own, which is never removed, so it survives a rename of ``path``. It
    is an flock, which ends with the process. Symbolic links share the lock of their target.

    Raises:
        Busy: it was not available within ``timeout`` seconds; the message says who holds it.
        StoreUnavailable: the lock file cannot be created.
    """
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    lock_path = path.with_name(path.name + ".lock")
    fd = _locked_fd(path, lock_path, timeout)
    # If the lock file was removed while we waited, others lock the new one.
    while not is_at(fd, lock_path):
        os.close(fd)
        fd = _locked_fd(path, lock_path, timeout)
    try:
        yield
    finally:
        os.close(fd)


def _locked_fd(path: Path, lock_path: Path, timeout: float) -> int:
    """Open and lock ``lock_path``.

    It is tried at odd moments: at even ones, one of several busy writers could be left out.
    """
    fd = open_append(lock_path)
    until = time.monotonic() + timeout
    try:
        with store_errors(lock_path, "lock"):
            while not (is_locked := lock_now(fd)) and time.monotonic() < until:
                time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - no secret
    except BaseException:
        os.close(fd)
        raise
    if is_locked:
        return fd
    os.close(fd)
    msg = (
        f"{shown_path(path)} is being written by {holder_of(lock_path)} and stayed locked for"
        f" {timeout:g} s. Try again, or end that process if it hangs."
    )
    raise Busy(msg, path=str(path))


def is_at(fd: int, path: Path) -> bool:
    """Return whether ``path`` still names the open file; True if we may not look."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except PermissionError:
        return True
    except OSError:
        return False


def holder_of(lock_path: Path) -> str:
    """Return who holds a lock, if the system says so (Linux does)."""
    with contextlib.suppress(OSError, ValueError):
        inode = lock_path.stat().st_ino
        for entry in Path("/proc/locks").read_text().splitlines():
            # 1: FLOCK ADVISORY WRITE 4242 08:01:1234 0 EOF
            fields = entry.split()
            if fields[1] == "FLOCK" and int(fields[5].rsplit(":", 1)[1]) == inode:
                return f"process {fields[4]}"
    return "another process"
