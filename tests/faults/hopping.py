"""Processes that clone and exit all the time, and start each other again: a script.

    python -I -S hopping.py BEATS COUNT

Each of COUNT processes leaves its session, ignores TERM, and soon goes on as a child of its own.
Whoever gives no sign of life for a while is started again by the others. BEATS is the file in which
each gives it: the time. After half a minute they end by themselves, in case nothing else ends them.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time

#: Seconds without a sign of life after which a process is started again.
_SILENCE = 0.3
_LIFETIME = 30.0


def main(path: str, count: int) -> None:
    """Start the processes, and be one of them."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(path, "w+b") as file:  # noqa: PTH123 - pathlib takes long to import
        file.truncate(8 * count)
        beats = memoryview(mmap.mmap(file.fileno(), 8 * count)).cast("d")
    # Which start of each counts: who was only slow to give a sign leaves its place to the new one.
    starts = memoryview(mmap.mmap(-1, 8 * count)).cast("q")
    end = time.monotonic() + _LIFETIME
    own, start = 0, 0
    for other in range(1, count):
        beats[other] = time.monotonic()
        if os.fork() == 0:
            own = other
            break
    while starts[own] == start and (now := time.monotonic()) < end:
        beats[own] = now
        for other in range(count):
            if now - beats[other] > _SILENCE:
                beats[other] = now
                starts[other] += 1
                if os.fork() == 0:
                    own, start = other, starts[other]
                    break
        if os.fork():
            os._exit(0)
        os.setsid()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
