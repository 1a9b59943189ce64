"""Whatever ends a command, nothing of it is left: not of what forks, hides or will not end.

A few runs; with ``AISH_FULL=1`` two hundred.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from client import execute
from conversing import Place, yes
from figures import tell
from marked import Marked

pytestmark = [
    pytest.mark.real_start,
    pytest.mark.skipif(
        sys.platform != "linux", reason="what leaves its group is only found on Linux"
    ),
    pytest.mark.timeout(7200 if "TESTS_FULL" in os.environ else 300),
]

RUNS: Final = 200 if "TESTS_FULL" in os.environ else 8

#: The error of a request that was cancelled.
CANCELLED: Final = -32800

#: Servers at a time.
AT_ONCE: Final = 4

STORM: Final = """\
[ $1 -gt 0 ] && { sh storm.sh $(($1 - 1)) $2 & sh storm.sh $(($1 - 1)) $2 & }
while :; do sleep 1000.$2 & wait; done
"""
HYDRA: Final = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        os.setsid()
    else:
        time.sleep(0.005)
        os._exit(0)
"""

#: What is run, and how many processes it is at least, its shell and its supervisor included.
FAMILIES: Final = {
    "children of children": ("sh -c '{sleep}; :' & sh -c 'sh -c \"{sleep}; :\"'; :", 5),
    "a storm of forks": ("sh storm.sh 3 {number}", 16),
    "deaf to TERM": ("trap '' TERM; {sleep} & while :; do {sleep}; done", 4),
    "stopped": ("sh -c 'kill -STOP $$; {sleep}' & {sleep}; :", 4),
    "sessions of their own": ("setsid {sleep} & setsid sh -c '{sleep}; :'; :", 5),
    "a daemon": ("(setsid {sleep} <&- >&- 2>&- &) ; {sleep}; :", 3),
    "sessions without end": ("{python} -I -S hydra.py {number} & {sleep}; :", 3),
}

ENDS: Final = ("cancel", "shutdown", "editor gone", "SIGKILL")


@dataclass
class Tally:
    """What came of the runs."""

    ends: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    longest: tuple[float, str] = (0.0, "")


async def test_nothing_is_left_of_a_command(tmp_path: Path) -> None:
    chance = random.Random(7)
    tally = Tally()
    gate = asyncio.Semaphore(AT_ONCE)
    families = list(FAMILIES)

    async def one(number: int, ready: bool, pause: float) -> None:
        async with gate:
            root = tmp_path / str(number)
            root.mkdir()
            family = families[number % len(families)]
            await killed(root, family, ENDS[number % len(ENDS)], tally, ready=ready, pause=pause)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(RUNS):
            # Half of them are ended when all of the family is there, half while it comes to be.
            group.create_task(one(number, number // 4 % 2 == 0, chance.random() / 2))
    ends = " + ".join(f"{count} {end}" for end, count in sorted(tally.ends.items()))
    tell(
        "commands that were ended",
        runs=f"{RUNS} ({ends})",
        processes=tally.processes,
        left=0,
        longest=f"{tally.longest[0]} s ({tally.longest[1]})",
        seconds=round(time.monotonic() - began),
    )


async def killed(
    root: Path, family: str, end: str, tally: Tally, *, ready: bool, pause: float
) -> None:
    """Run a command in a server of its own, end the one or the other, and see that all is gone."""
    place = Place.make(root)
    (place.folder / "storm.sh").write_text(STORM)
    (place.folder / "hydra.py").write_text(HYDRA)
    marked = Marked()
    text, count = FAMILIES[family]
    text = text.format(sleep=marked.sleep, number=marked.number, python=sys.executable)
    client = place.client()
    client.answers["window/showMessageRequest"] = yes
    await client.start()
    try:
        await client.initialize(place.folder)
        request = execute(
            "aish.run", {"text": f": {marked.number}; {text}", "partialResultToken": "r"}
        )
        request_id, answer = await client.begin("workspace/executeCommand", request)
        if ready:
            await marked.until(count)
        await asyncio.sleep(pause)
        tally.processes += len(marked.alive())
        ended = time.monotonic()
        match end:
            case "cancel":
                await client.notify("$/cancelRequest", {"id": request_id})
                await client.within(asyncio.wait([answer]), "the answer")
                # Before the command was begun, the request is refused.
                assert getattr(answer.exception(), "code", CANCELLED) == CANCELLED
                # What is answered is over.
                assert marked.alive() == [], (family, end)
            case "shutdown":
                await client.shutdown()
            case "editor gone":
                assert client.process.stdin is not None
                client.process.stdin.close()
                await client.ended()
            case "SIGKILL":
                client.process.send_signal(signal.SIGKILL)
                await client.ended()
        await marked.until_gone()
        seconds = round(time.monotonic() - ended, 1)
        tally.longest = max(tally.longest, (seconds, f"{end} of {family}"))
        tally.ends[end] += 1
    except BaseException as error:
        error.add_note(f"{end} of {family}: {client.progress['r']}")
        raise
    finally:
        await client.stop()
        marked.kill()
