"""The log, on stderr or in a file: what happened and where, never what was said.

Neither payloads nor keys may get there. So an exception is logged with its stack and its type but
without its text, and the libraries below are heard from warnings on only.
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

LEVELS: Final = ("debug", "info", "warning", "error")
#: Records that wait for a reader of stderr; more are dropped.
PENDING_RECORDS = 1_000

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

logger = logging.getLogger("aish_lsp")


class _Formatter(logging.Formatter):
    """Shows where an exception came from; its text may quote a payload and is left out."""

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        kind, _, trace = ei
        name = kind.__name__ if kind is not None else "no exception"
        return "".join(traceback.format_tb(trace)) + name


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
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
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
