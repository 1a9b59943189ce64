"""How the process ends: on signals, when the client goes, and even when something hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

#: Seconds that running work has to record what it has.
GRACE = 3.0
#: Seconds after the beginning of the end at which the process is ended, whatever hangs.
LAST_RESORT = GRACE + 1.5
#: Seconds between two looks at the parent.
PARENT_INTERVAL = 2.0


class Lifecycle:
    """Decides once that the process ends, and with which exit code.

    A guard thread watches the client's process, and ends ours where the event loop is stuck.
    """

    def __init__(self) -> None:
        self.watches_parent = False
        self._code: int | None = None
        self._ending = threading.Event()
        self._parent: Parent | None = None
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle signals and start the guard; to be called in the main thread."""
        self._loop = loop
        self._ended = asyncio.Event()
        threading.Thread(target=self._guard, name="aish guard", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        # nohup ignores it, and means it.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)

    def end(self, reason: str, code: int) -> None:
        """Begin to end the process; the first reason counts. Safe in any thread or signal."""
        if self._code is not None:
            return
        self._code = code
        logger.info("ending: %s", reason)
        self._ending.set()
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
        """End when the client's process is gone, where ``pid`` is surely that process."""
        if self.watches_parent and pid is not None:
            self._parent = Parent.find(pid)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        self.end(signal.Signals(number).name, 0)

    def _guard(self) -> None:
        while not self._ending.wait(PARENT_INTERVAL):
            if self._parent is not None and self._parent.gone():
                self.end("the client's process is gone", 1)
        time.sleep(LAST_RESORT)
        os._exit(self._code or 1)


class Parent:
    """The client's process, told from another one that has its number by when it started."""

    def __init__(self, pid: int, started: str | None) -> None:
        self.pid = pid
        self._started = started

    @classmethod
    def find(cls, pid: int) -> Parent | None:
        """Return the process ``pid`` if it is an ancestor of ours, else None.

        A number from another namespace (a container) or of another machine is none of ours, or
        belongs to somebody else. Process 1 adopts orphans: it proves nothing.
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
            # Who loses its parent gets another one, at once.
            return os.getppid() != self.pid
        status = _status(self.pid)
        return status is None or status[1] != self._started


def _status(pid: int) -> tuple[int, str] | None:
    """Return the parent and the start time of a process that runs; None where /proc has none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name before the last parenthesis may hold anything.
    fields = text.rpartition(")")[2].split()
    state, parent, started = fields[0], fields[1], fields[19]
    return None if state in {"Z", "X"} else (int(parent), started)
