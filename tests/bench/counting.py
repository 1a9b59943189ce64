"""Count the functions that a Python program's main thread calls.

    CALLS=FOLDER python tests/bench/counting.py (-m MODULE | -c CODE) [ARGUMENT ...]

A count says whether more is done than before, and a busy machine does not change it. On SIGUSR1 the
program writes what it has called so far to a file in FOLDER that is named after its process.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any


def counted(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs ``python ...`` and counts its calls."""
    return (command[0], __file__, *command[1:])


async def calls_of(pid: int, work: Callable[[], Awaitable[object]]) -> int:
    """Return how many calls a process makes for ``work``, and for what that leaves to be done."""
    # Not in the program that is counted.
    from measuring import idle

    before = await _told(pid)
    await work()
    await idle(pid, 0.2)
    return await _told(pid) - before


async def _told(pid: int) -> int:
    path = Path(os.environ["CALLS"], str(pid))
    os.kill(pid, signal.SIGUSR1)
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.01)
    count = int(path.read_text(encoding="ascii"))
    path.unlink()
    return count


def _run(kind: str, program: str, *arguments: str) -> None:
    calls = 0
    path = Path(os.environ["CALLS"], str(os.getpid()))

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def tell(*_: object) -> None:
        sys.setprofile(None)
        written = path.with_suffix(".new")
        written.write_text(str(calls), encoding="ascii")
        written.replace(path)
        sys.setprofile(count)

    signal.signal(signal.SIGUSR1, tell)
    sys.argv = [program, *arguments]
    # As Python does: no folder of the tests is on the program's path.
    sys.path[0] = ""
    sys.setprofile(count)
    with suppress(KeyboardInterrupt):
        if kind == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.argv[0] = kind
            exec(program, {"__name__": "__main__"})


if __name__ == "__main__":
    _run(*sys.argv[1:])
