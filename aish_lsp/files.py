"""Files that must survive: private, written whole, synced before they are acknowledged.

All of it blocks. What the system refuses (disk full, read-only, no permission) becomes a
StoreUnavailable that names the path and the reason.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aish_lsp.errors import Busy, StoreUnavailable

#: Seconds to wait for a lock that another process holds.
LOCK_TIMEOUT: Final = 5.0

_parse_first: Final = json.JSONDecoder().raw_decode

_ADVICE: Final[Mapping[int, str]] = {
    errno.ENOSPC: "Free some space and try again.",
    errno.EDQUOT: "Free some space and try again.",
    errno.EROFS: "Make it writable, or set AISH_DATA_DIR to a folder that is.",
    errno.EACCES: "Make it accessible, or set AISH_DATA_DIR to a folder that is.",
    errno.EPERM: "Make it accessible, or set AISH_DATA_DIR to a folder that is.",
}


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
        msg = f"cannot {verb} {path}: {reason}. {advice}".rstrip()
        raise StoreUnavailable(msg, path=str(path)) from error


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
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    with store_errors(path, "open"):
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            private_dir(path.parent)
        fd = os.open(path, flags | os.O_CREAT, 0o600)
        try:
            sync_dir(path.parent)
        except OSError:
            os.close(fd)
            raise
        return fd


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
        # mkstemp makes it 0600.
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            try:
                _write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_dir(path.parent)


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable, as fsync of a file does not."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold ``PATH.lock`` during the block, against other processes and threads.

    The lock is a file beside, so that a rename of ``path`` cannot split it; it stays there. It is
    the system's: a process that dies lets go of it.

    Raises:
        Busy: it was not to be had within ``timeout`` seconds; the message says who holds it.
        StoreUnavailable: the lock's file cannot be made.
    """
    lock_path = path.with_name(path.name + ".lock")
    fd = open_append(lock_path)
    with store_errors(lock_path, "lock"):
        had = _lock(fd, timeout)
    if not had:
        msg = (
            f"{path} is being written by {_holder(lock_path)} and stayed locked for {timeout:g} s."
            " Try again, or end that process if it hangs."
        )
        raise Busy(msg, path=str(path))
    try:
        yield
    finally:
        os.close(fd)


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


def json_line(record: Mapping[str, Any]) -> str:
    r"""Return ``record`` as one line of JSON, without its ``\n``, that UTF-8 can encode.

    Raises:
        TypeError: it holds what JSON has no form for.
        ValueError: it holds a number that is not finite, or itself.
    """
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8; its escape is valid JSON and survives.
        return json.dumps(record, allow_nan=False)
    return line


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no JSON object, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TornLine:
    r"""A last line that was never finished, and the offset in bytes where it begins.

    One that lacks only its ``\n`` is none of those: it is a whole object.
    """

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class JsonLines:
    """What a file of JSON lines holds: the objects with the numbers of their lines, from 1."""

    records: tuple[tuple[int, dict[str, Any]], ...]
    bad: tuple[BadLine, ...]
    torn: TornLine | None


def read_jsonl(path: Path) -> JsonLines:
    """Read a file of JSON lines; a missing one is empty. Blank lines are skipped.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    with store_errors(path, "read"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
    records: list[tuple[int, dict[str, Any]]] = []
    bad: list[BadLine] = []
    torn = None
    for number, line in iter_jsonl(data):
        match line:
            case BadLine():
                bad.append(line)
            case TornLine():
                torn = line
            case _:
                records.append((number, line))
    return JsonLines(tuple(records), tuple(bad), torn)


def iter_jsonl(
    data: bytes, first_number: int = 1
) -> Iterator[tuple[int, dict[str, Any] | BadLine | TornLine]]:
    """Yield each line of ``data``, a file of JSON lines or its rest from a line's start on."""
    content = data.removeprefix(codecs.BOM_UTF8)
    try:
        text, all_utf8 = content.decode(), True
    except UnicodeDecodeError:
        text, all_utf8 = content.decode(errors="surrogateescape"), False
    # Not splitlines(): U+2028 and its kin may stand inside a line.
    pieces = text.split("\n")
    last = first_number + len(pieces) - 1
    for number, piece in enumerate(pieces, start=first_number):
        if not piece or piece.isspace():
            continue
        try:
            if not all_utf8:
                piece.encode()
            record = _parsed(piece)
            if type(record) is not dict:
                raise ValueError("it is not an object")  # noqa: TRY301 - one place reports all
        except (ValueError, RecursionError) as error:
            if number == last:
                yield number, TornLine(number, data.rfind(b"\n") + 1)
            else:
                yield number, BadLine(number, _reason(error))
        else:
            yield number, record


def _parsed(line: str) -> Any:
    """Do what ``json.loads`` does, in half the time where nothing stands around the value."""
    try:
        value, end = _parse_first(line)
    except json.JSONDecodeError:
        end = -1
    return value if end == len(line) else json.loads(line)


def _reason(error: ValueError | RecursionError) -> str:
    """Return why a line is bad, in words that do not depend on where it stands."""
    if isinstance(error, UnicodeEncodeError):
        return "it is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)
