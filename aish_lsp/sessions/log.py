"""The log of one session: a header, then a line for each message and event; never rewritten.

All methods block. Only one process at a time has a log open: it holds a lock on the file itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.errors import Busy, StoreUnavailable
from aish_lsp.foundation.files import FileStamp, append_line, open_append, stamp_of, store_errors
from aish_lsp.foundation.jsonl import TIMESTAMP, json_line, now
from aish_lsp.foundation.locks import is_at, lock_now, unlock
from aish_lsp.sessions import records
from aish_lsp.sessions.records import (
    MAX_NUMBER,
    SUFFIX,
    VERSION,
    LoadedSession,
    gone,
    is_question,
    load,
    title_of,
)

#: Marks a question without a reply, and the space that a question's line reserves for the mark.
_MARK: Final = b', "meta": "unanswered"'
_RESERVED: Final = b" " * len(_MARK)

#: Fields that are sent back to a provider unchanged: a redacted signature would not be valid.
_OPAQUE: Final = frozenset({"metadata"})


class SessionLog:
    """A log that is being written. Its methods may be called from any thread."""

    def __init__(self, path: Path, meta: Mapping[str, Any], redact: Callable[[str], str]) -> None:
        self.path = path
        self.id: str = path.name.removesuffix(SUFFIX)
        self._meta = dict(meta)
        self._redact = redact
        self._mutex = threading.Lock()
        self._fd: int | None = None
        self._last = 0
        # The file's state after our last read or write: device, inode, size, mtime in ns.
        self._stamp: FileStamp | None = None
        # The offsets of the space that questions reserve, by their numbers.
        self._reserved: dict[int, int] = {}

    @classmethod
    def create(
        cls,
        directory: Path,
        workspace_uri: str | None,
        redact: Callable[[str], str] = str,
    ) -> SessionLog:
        """Return the log of a new session; the file is created with the first line.

        Args:
            directory: the folder of the workspace's sessions.
            workspace_uri: the workspace's folder; None for the user's own context.
            redact: removes keys and other secrets from every text that is written.
        """
        return cls(*_fresh(directory, workspace_uri), redact)

    @classmethod
    def resume(
        cls, path: Path, redact: Callable[[str], str] = str
    ) -> tuple[SessionLog, LoadedSession]:
        """Open a log to continue it; return it and what it holds.

        Raises:
            Busy: another editor has this session open.
            NotFound: it is gone, or is just being deleted.
            StoreUnavailable: it cannot be read or written, or is from a newer version.
        """
        loaded = load(path)
        log = cls(path, loaded.meta, redact)
        fd = log._open()
        try:
            _refuse_empty(fd, path)
            log._stamp = stamp_of(os.fstat(fd))
            # Loaded again: its last owner may have written more before we had the lock.
            loaded = load(path)
        except BaseException:
            log.close()
            raise
        log._meta = dict(loaded.meta)
        log._last = _last_number(loaded)
        return log, loaded

    @classmethod
    def copy(
        cls, loaded: LoadedSession, path: Path, redact: Callable[[str], str] = str
    ) -> SessionLog:
        """Return the log of a new session, next to ``path``, that begins with what was ``loaded``.

        The lines keep their numbers and times; only the session at ``path`` keeps the name.

        Raises:
            StoreUnavailable: it cannot be written.
        """
        fresh, meta = _fresh(path.parent, loaded.meta.get("workspace"))
        log = cls(fresh, meta | {"title": loaded.meta.get("title")}, redact)
        # Its title is in the header now.
        records = (record for record in loaded.records if record.get("event") != "meta")
        lines = map(json_line, ({"meta": log._meta}, *records))
        try:
            fd = log._open()
            append_line(fd, log.path, "\n".join(lines), sync=True)
            log._stamp = stamp_of(os.fstat(fd))
        except BaseException:
            log.close()
            raise
        log._last = _last_number(loaded)
        return log

    @property
    def title(self) -> str | None:
        """The first question's first line, or what replaced it."""
        title: str | None = self._meta.get("title")
        return title

    @property
    def name(self) -> str | None:
        """The name under which the session was saved."""
        name: str | None = self._meta.get("name")
        return name

    def append(self, record: Mapping[str, Any], *, sync: bool = False) -> int:
        """Write a line (see ``records``); return its number.

        Args:
            record: the line without ``n`` and ``ts``.
            sync: return only when it is on disk.

        Raises:
            Busy: another process has opened the file.
            StoreUnavailable: it could not be written, and its number goes to the next line; or a
                log of a newer version has taken its place.
        """
        with self._mutex:
            clean = self._redacted(record)
            if self.title is None and is_question(clean):
                self._meta["title"] = title_of(clean["content"])
            fd = self._open()
            self._catch_up(fd)
            number = self._last + 1
            if number > MAX_NUMBER:
                msg = f"{self.path} has no numbers left for its lines. Begin a new session."
                raise StoreUnavailable(msg, path=str(self.path))
            line = _line({"n": number, "ts": now(), **clean})
            markable = is_question(clean) and "meta" not in clean
            if markable:
                line = f"{line[:-1]}{_RESERVED.decode()}}}"
            if os.fstat(fd).st_size == 0:
                line = f"{json_line({'meta': self._meta})}\n{line}"
            append_line(fd, self.path, line, sync=sync)
            self._last = number
            self._stamp = stamp_of(os.fstat(fd))
            if markable:
                # The brace and the line feed follow the space.
                self._reserved[number] = os.fstat(fd).st_size - 2 - len(_RESERVED)
            return number

    def mark_unanswered(self, n: int) -> None:
        """Write that the question ``n`` got no reply, as ``meta`` of its own line.

        Its line reserves space for that, so that no line is ever moved or cut. If that cannot be
        used any more (the log was opened again, or the file changed), an event is appended.

        Raises:
            StoreUnavailable: as ``append``.
        """
        with self._mutex:
            offset = self._reserved.pop(n, None)
            if offset is not None and self._mark(offset):
                return
        self.append(records.unanswered(n), sync=True)

    def _mark(self, offset: int) -> bool:
        """Write the mark at this offset; return False if there is no reserved space."""
        with contextlib.suppress(OSError):
            # A file that is opened for appending would append at any offset.
            fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                same = self._fd is not None and os.path.samestat(os.fstat(fd), os.fstat(self._fd))
                same = same and stamp_of(os.fstat(fd)) == self._stamp
                if same and os.pread(fd, len(_RESERVED) + 2, offset) == _RESERVED + b"}\n":
                    os.pwrite(fd, _MARK, offset)
                    os.fsync(fd)
                    self._stamp = stamp_of(os.fstat(fd))
                    return True
            finally:
                os.close(fd)
        return False

    def set_name(self, name: str | None) -> None:
        """Save the session under a name; None removes the name.

        Raises:
            StoreUnavailable: as ``append``.
        """
        self.append(records.described(name=name), sync=True)
        self._meta["name"] = name

    def close(self) -> None:
        """Close the file; a later ``append`` opens it again."""
        with self._mutex:
            self._release()

    def _release(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._reserved.clear()
            unlock(fd)

    def _open(self) -> int:
        """Return the descriptor; open and lock the file if it is not open.

        A file that was deleted, moved or replaced is closed, since nobody would ever see what is
        added to it. The file that now has its name is continued, or else a new one is begun.
        """
        if self._fd is not None and not is_at(self._fd, self.path):
            self._release()
        if self._fd is None:
            fd = open_append(self.path)
            try:
                hold(fd, self.path)
            except BaseException:
                os.close(fd)
                raise
            self._fd = fd
        return self._fd

    def _catch_up(self, fd: int) -> None:
        """Let the next line's number follow all those in the file, whoever wrote them.

        A line whose number does not rise counts as damaged when the log is read.
        """
        if stamp_of(os.fstat(fd)) == self._stamp:
            return
        self._reserved.clear()
        if os.fstat(fd).st_size:
            self._last = max(self._last, _last_number(load(self.path)))

    def _redacted(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``value`` with every text in it redacted."""
        return {
            key: item if key in _OPAQUE else self._redacted_value(item)
            for key, item in value.items()
        }

    def _redacted_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            return self._redacted(value)
        if isinstance(value, list | tuple):
            return [self._redacted_value(item) for item in value]
        return value


def hold(fd: int, path: Path) -> None:
    """Lock an open log until ``unlock``. Logs are never renamed: the file is its own lock.

    Raises:
        Busy: another editor has it open.
        NotFound: it was deleted before it was locked.
        StoreUnavailable: the file system has no locks.
    """
    with store_errors(path, "lock"):
        if not lock_now(fd):
            msg = (
                f"The session {path.name.removesuffix(SUFFIX)} is in use, here or in another"
                " editor. Close it there, or start a new one here."
            )
            raise Busy(msg, path=str(path))
        if os.fstat(fd).st_nlink == 0:
            raise gone(path)


def _fresh(directory: Path, workspace_uri: str | None) -> tuple[Path, dict[str, Any]]:
    """Return the path and the header of a new session's log."""
    moment = datetime.now(UTC)
    session_id = f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    meta = {
        "version": VERSION,
        "id": session_id,
        "workspace": workspace_uri,
        "created": moment.strftime(TIMESTAMP),
        "title": None,
        "name": None,
    }
    return directory / f"{session_id}{SUFFIX}", meta


def _refuse_empty(fd: int, path: Path) -> None:
    """Raise NotFound if the log was deleted, and a new file was opened in its place."""
    if os.fstat(fd).st_size == 0:
        path.unlink(missing_ok=True)
        raise gone(path)


def _line(record: Mapping[str, Any]) -> str:
    """Return a line's text, without the reasoning's metadata if that cannot be written as JSON."""
    try:
        return json_line(record)
    except ValueError:
        if "reasoning" not in record:
            raise
        reasoning = {key: item for key, item in record["reasoning"].items() if key not in _OPAQUE}
        return json_line({**record, "reasoning": reasoning})


def _last_number(loaded: LoadedSession) -> int:
    return max((record["n"] for record in loaded.records), default=0)
