"""The log, on stderr or in a file: what happened and where, never what was said.

Neither payloads nor keys may get there. So an exception is logged with its stack and its type but
without its text, and the libraries below are heard from warnings on only. What others wrote all the
same, a stranger's first bytes for one, is cut, masked and escaped.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO, TypeAlias

from aish_lsp.masking import MASK, Mask, withheld
from aish_lsp.redaction import redact
from aish_lsp.shell.environment import secret_values
from aish_lsp.text import escaped

LEVELS: Final = ("debug", "info", "warning", "error")
#: Records that wait for a reader of stderr; more are dropped.
PENDING_RECORDS = 1_000
#: Characters of a record that are written.
LONGEST: Final = 4_000

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

logger = logging.getLogger("aish_lsp")


class _Formatter(logging.Formatter):
    """Writes a record on one line, without secrets and without what is not seen.

    Of an exception it shows where it came from; its text may quote a payload and is left out.
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
    """Writes in a thread of its own: an editor that never reads our stderr must not stall us."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="aish log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() < PENDING_RECORDS:
            self._lines.put(self.format(record))

    def wait(self, timeout: float) -> None:
        """Wait until what was logged so far is written, at most ``timeout`` seconds."""
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
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                return  # nobody can be told


_handlers: list[_BackgroundHandler] = []


def configure(level: str = "info", file: Path | None = None) -> None:
    """Log our own records from ``level`` on, and those of libraries from warnings on.

    Raises:
        OSError: ``file`` cannot be written.
    """
    handler = _BackgroundHandler(sys.stderr if file is None else _opened(file))
    handler.setFormatter(_Formatter())
    _handlers[:] = [handler]
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logger.setLevel(level.upper())
    # Its warnings quote messages.
    logging.getLogger("pygls").setLevel(logging.ERROR)


def flush(timeout: float = 0.5) -> None:
    """Wait until what was logged is written, at most ``timeout`` seconds."""
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
