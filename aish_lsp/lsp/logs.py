"""The log, on stderr or in a file: what happened and where, never what was said.

Only warnings and errors go to stderr, unless more is asked for: editors show all of it as errors.
They are also kept in a file in our data folder, for ``aish-lsp doctor --report``.

Neither payloads nor keys may be logged. So an exception is logged with its stack and its type but
without its text, and libraries log only warnings and errors. Other people's text that is logged
nevertheless, such as the first bytes from an unknown client, is cut, masked and escaped.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import traceback
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO, TypeAlias

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.masking import MASK, Mask, withheld
from aish_lsp.foundation.redaction import redact
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.environment import secret_values

LEVELS: Final = ("debug", "info", "warning", "error")
#: Records that may wait to be written; more are dropped.
PENDING_RECORDS = 1_000
#: Bytes of the file of recent records; once full, it becomes the one previous file that is kept.
RECENT_BYTES = 1 << 16
#: The most characters of a record that are written.
LONGEST: Final = 4_000

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

logger = logging.getLogger("aish_lsp")


class _Formatter(logging.Formatter):
    """Writes a record on one line, with secrets masked and invisible characters escaped.

    It shows where an exception came from, but not its text, which may quote a payload.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._environment: frozenset[str] | None = None
        self._secrets: frozenset[str] = frozenset()
        self._mask = Mask(())

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        if len(line) > LONGEST:
            line = f"{line[:LONGEST]}…"
        return escaped(self._without_secrets(line))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        kind, _, trace = ei
        name = kind.__name__ if kind is not None else "no exception"
        lines = "".join(traceback.format_tb(trace)).split("\n")
        return "\n".join([*map(escaped, lines[:-1]), name])

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - as above
        return "(a stack)"

    def _without_secrets(self, line: str) -> str:
        if self._environment is None:
            self._environment = secret_values(os.environ, ())
        secrets = withheld() | self._environment
        if secrets != self._secrets:
            self._secrets, self._mask = secrets, Mask(secrets)
        return redact(self._mask.parts(line, MASK))


class _BackgroundHandler(logging.Handler):
    """Writes in its own thread: an editor that never reads our stderr must not stall us."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="aish log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() >= PENDING_RECORDS:
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a bad call must not stop its caller
            line = f"a record of {record.name} at line {record.lineno} cannot be formatted"
        self._lines.put(line)

    def wait(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds until what was logged so far is written."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(timeout)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            try:
                self._write_line(line)
            except (OSError, ValueError):
                return  # there is no other place to report it

    def _write_line(self, line: str) -> None:
        assert self._stream is not None
        self._stream.write(line + "\n")
        self._stream.flush()


_handlers: list[_BackgroundHandler] = []


class _RecentHandler(_BackgroundHandler):
    """Keeps recent warnings and errors in ``DATA/recent.log``, which its first line creates.

    If the file cannot be written, nothing is kept or reported.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.setLevel(logging.WARNING)

    def keep(self, line: str) -> None:
        """Keep a line that is not a log record."""
        if self._lines.qsize() < PENDING_RECORDS:
            self._lines.put(line)

    def _write_line(self, line: str) -> None:
        from aish_lsp.foundation.files import (  # noqa: PLC0415 - not at each start
            append_line,
            open_append,
            recent_log,
        )

        path = recent_log()
        try:
            if path.exists() and path.stat().st_size > RECENT_BYTES:
                path.replace(path.with_name(f"{path.name}.1"))
            descriptor = open_append(path)
            try:
                append_line(descriptor, path, line, sync=False)
            finally:
                os.close(descriptor)
        except (OSError, AishError):
            return


def keep(line: str) -> None:
    """Keep a line for ``aish-lsp doctor --report``, if logging is configured."""
    for handler in _handlers:
        if isinstance(handler, _RecentHandler):
            handler.keep(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")


def configure(level: str | None = None, file: Path | None = None) -> None:
    """Log our own records of ``level`` and above, and the warnings and errors of libraries.

    The default ``level`` is info for a file and warning for stderr.

    Raises:
        OSError: ``file`` cannot be written.
    """
    handler = _BackgroundHandler(sys.stderr if file is None else _opened(file))
    _handlers[:] = [handler, _RecentHandler()]
    for each in _handlers:
        each.setFormatter(_Formatter())
    logging.basicConfig(handlers=_handlers, level=logging.WARNING, force=True)
    logger.setLevel((level or ("info" if file else "warning")).upper())
    # The records of pygls quote messages, at each level.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)


def flush(timeout: float = 0.5) -> None:
    """Wait at most ``timeout`` seconds until what was logged is written."""
    for handler in _handlers:
        handler.wait(timeout)


def log_loop_error(_loop: object, context: dict[str, Any]) -> None:
    """Log what an event loop reports, without the objects that it would print."""
    error = context.get("exception")
    message = context.get("message", "an error in the event loop")
    logger.error("%s", message, exc_info=error)


def _opened(file: Path) -> TextIO:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
