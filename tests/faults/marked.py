"""Processes that are known by a number on their command line, to see whether any is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Marked:
    """Processes that carry a number of their own on their command line."""

    def __init__(self) -> None:
        self.number = f"{random.randint(10**8, 10**9)}"
        self.sleep = f"sleep 1000.{self.number}"

    def alive(self) -> list[int]:
        """Return the process ids of those that run; what has ended and is not reaped does not."""
        if Path("/proc/self/cmdline").exists():
            return [int(p.name) for p in Path("/proc").glob("[0-9]*") if self._marks(p)]
        listing = subprocess.run(
            ["ps", "-axo", "pid=,command="], capture_output=True, text=True, check=True
        )
        lines = (line.split(None, 1) for line in listing.stdout.splitlines())
        return [int(pid) for pid, command in lines if self.number in command]

    def kill(self) -> None:
        """Kill what a failed test has left."""
        for pid in self.alive():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def until(self, count: int) -> None:
        """Wait until ``count`` of them run."""
        await self._poll(lambda: len(self.alive()) >= count, f"{count} processes")

    async def until_gone(self) -> None:
        """Wait until none runs."""
        await self._poll(lambda: not self.alive(), "the end")

    def _marks(self, process: Path) -> bool:
        try:
            return self.number.encode() in (process / "cmdline").read_bytes()
        except OSError:
            return False

    async def _poll(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}: {self.alive()}"
            await asyncio.sleep(0.05)
