"""How the process ends: on a signal, when the client is gone, and even if something hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

#: Seconds that running work has to save what it has.
GRACE = 3.0
#: Seconds from when the process begins to end until it is killed, whatever hangs.
LAST_RESORT = GRACE + 1.5
#: Seconds between two checks of the parent.
PARENT_INTERVAL = 2.0
#: The signals that end the process; a second one ends it at once.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Lifecycle:
    """Decides once that the process ends, and with which exit code.

    A guard thread handles the signals, watches the client's process, and ends ours if the event
    loop is stuck. Signals go through Python's wakeup descriptor. Nothing else may use it, so
    ``loop.add_signal_handler``, which does, must not be called.
    """

    def __init__(self) -> None:
        self.watches_parent = False
        self._code: int | None = None
        self._parent: Parent | None = None
        self._signals = 0
        self._wakeup: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle signals and start the guard; call this in the main thread."""
        self._loop = loop
        self._ended = asyncio.Event()
        source, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        # Not a Python handler: that runs only in the main thread, which may be stuck, and which is
        # not woken by a signal that another thread caught.
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for number in SIGNALS:
            # nohup ignores SIGHUP; leave it so.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        guard = threading.Thread(target=self._guard, args=(source,), name="aish guard", daemon=True)
        guard.start()

    def end(self, reason: str, code: int) -> None:
        """Begin ending the process; only the first call counts. Thread-safe."""
        if self._code is not None:
            return
        self._code = code
        logger.log(logging.WARNING if code else logging.INFO, "ending: %s", reason)
        if self._wakeup is not None:
            os.write(self._wakeup, b"\0")
        if self._loop is not None and self._ended is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)

    async def ended(self) -> int:
        """Wait until the process is to end; return its exit code."""
        assert self._ended is not None, "the life cycle was not started"
        await self._ended.wait()
        assert self._code is not None
        return self._code

    def watch_parent(self, pid: int | None) -> None:
        """End when the client's process is gone, if ``pid`` is certainly that process."""
        if self.watches_parent and pid is not None:
            self._parent = Parent.find(pid)

    def _guard(self, source: int) -> None:
        while self._code is None:
            self._take_signals(source, PARENT_INTERVAL)
            if self._parent is not None and self._parent.gone():
                self.end("the client's process is gone", 1)
        deadline = time.monotonic() + LAST_RESORT
        while (left := deadline - time.monotonic()) > 0:
            self._take_signals(source, left)
        os._exit(self._code)

    def _take_signals(self, source: int, timeout: float) -> None:
        """Handle the signals that arrive within ``timeout`` seconds, or the first few of them."""
        if not select.select([source], [], [], timeout)[0]:
            return
        for number in os.read(source, 64):
            if number not in SIGNALS:
                continue
            self._signals += 1
            if self._signals > 1:
                os._exit(128 + number)
            self.end(signal.Signals(number).name, 0)


class Parent:
    """The client's process; its start time distinguishes it from a later one with the same id."""

    def __init__(self, pid: int, started: str | None) -> None:
        self.pid = pid
        self._started = started

    @classmethod
    def find(cls, pid: int) -> Parent | None:
        """Return the process ``pid`` if it is an ancestor of ours, else None.

        An id from another namespace (a container) or another machine means no process here, or a
        different one. Process 1 adopts orphans, so it proves nothing.
        """
        if pid <= 1:
            return None
        if pid == os.getppid():
            return cls(pid, None)
        ancestor = os.getppid()
        while ancestor > 1:
            status = _status(ancestor)
            if status is None:
                return None
            if ancestor == pid:
                return cls(pid, status[1])
            ancestor = status[0]
        return None

    def gone(self) -> bool:
        """Return whether the process has ended."""
        if self._started is None:
            # A process that loses its parent gets a new one at once.
            return os.getppid() != self.pid
        status = _status(self.pid)
        return status is None or status[1] != self._started


def _status(pid: int) -> tuple[int, str] | None:
    """Return the parent and the start time of a process; None if /proc does not show it running."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name before the last parenthesis may contain anything.
    fields = text.rpartition(")")[2].split()
    state, parent, started = fields[0], fields[1], fields[19]
    return None if state in {"Z", "X"} else (int(parent), started)
