"""What waits to be sent to a client that may be slow, or may have stopped reading."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

#: Bytes that may wait before who produces more of them should wait too.
HIGH_WATER = 1 << 20
#: Bytes after which the client is taken to be gone.
HARD_LIMIT = 64 << 20
#: Bytes that a sender takes at once.
BATCH = 256 << 10


class Outbox:
    """A queue of bytes between whoever sends, in any thread, and one sender.

    ``wake`` is called, in the thread of ``put``, when there is something to take; ``overflow``
    once, when more than HARD_LIMIT waits.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wake: Callable[[], None],
        overflow: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._wake = wake
        self._overflow = overflow
        self._lock = threading.Lock()
        self._parts: deque[bytes] = deque()
        self._queued = 0
        self._closed = False
        self._waiting: dict[asyncio.Future[None], int] = {}

    @property
    def queued(self) -> int:
        """Bytes that have been put and not yet sent."""
        return self._queued

    @property
    def closed(self) -> bool:
        """Whether nothing will be sent any more."""
        return self._closed

    def put(self, part: bytes) -> None:
        """Queue ``part``; after ``close`` it is dropped."""
        with self._lock:
            if self._closed:
                return
            too_much = self._queued > HARD_LIMIT
            if not too_much:
                self._parts.append(part)
                self._queued += len(part)
        if too_much:
            self.close()
            self._overflow()
        else:
            self._wake()

    def take(self) -> list[bytes]:
        """Return the next parts, BATCH bytes or one part; empty where nothing waits."""
        taken: list[bytes] = []
        size = 0
        with self._lock:
            while self._parts and (not taken or size + len(self._parts[0]) <= BATCH):
                taken.append(self._parts.popleft())
                size += len(taken[-1])
        return taken

    def sent(self, size: int) -> None:
        """Take note that ``size`` bytes, taken before, are with the client."""
        with self._lock:
            self._queued = max(0, self._queued - size)
            wake = any(self._queued <= limit for limit in self._waiting.values())
        if wake:
            self._call_in_loop(self._wake_waiting)

    def close(self) -> None:
        """Drop what waits, and all that follows; who waits goes on."""
        with self._lock:
            self._closed = True
            self._parts.clear()
            self._queued = 0
        self._wake()
        self._call_in_loop(self._wake_waiting)

    async def drained(self, limit: int = HIGH_WATER) -> None:
        """Wait while more than ``limit`` bytes are queued."""
        if self._queued <= limit:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        with self._lock:
            self._waiting[waiter] = limit
        try:
            # The sender may have been done before it could see the waiter.
            self._wake_waiting()
            await waiter
        finally:
            with self._lock:
                self._waiting.pop(waiter, None)

    def _wake_waiting(self) -> None:
        for waiter, limit in list(self._waiting.items()):
            if self._queued <= limit and not waiter.done():
                waiter.set_result(None)

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(callback)
