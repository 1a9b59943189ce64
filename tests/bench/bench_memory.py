"""What memory costs, against the least that it could cost in the same run.

    python tests/bench/bench_memory.py [ROUNDS]

Prints ratios:

- loading 100,000 items, to ``json.loads`` of each line: of the least seconds of all rounds, since
  machines are noisy, of the processor;
- an add (to a memory of 1,000 items that is open), to a locked write and an fsync: of the medians,
  in turns. It says what each of them takes without its fsync, too: what a sync takes depends on the
  disk, from 0.1 ms where it is none to 10 ms.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aish_lsp.memory.store import MemoryStore

ITEMS = 100_000
ADDS = 200


def write(path: Path, items: int, *, full: bool) -> None:
    """Write a memory; ``full``: with tags and sources."""
    more = {"tags": ["ops"], "source": {"session": "20261121-1", "how": "user"}} if full else {}
    with path.open("w") as file:
        file.write('{"meta": {"version": 1}}\n')
        for number in range(1, items + 1):
            item = {"id": number, "ts": "2026-05-13T19:01:01Z", "kind": "fact"}
            file.write(json.dumps(item | {"content": f"We keep note {number}"} | more) + "\n")


def parse(path: Path) -> None:
    """Read and parse each line, and keep nothing."""
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def load(path: Path) -> None:
    """Open a memory and list its items."""
    assert len(MemoryStore(path).items()) == ITEMS


def bare_add(path: Path, line: bytes) -> None:
    """Append a line under the lock of a file beside, and sync it."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(file, line)
    os.fsync(file)
    os.close(file)
    os.close(lock)


def adds(path: Path, bare: Path, count: int) -> dict[str, float]:
    """Return the median seconds of an add and of a bare one, to files that are alike."""
    store = MemoryStore(path)
    store.add("fact", "The first one reads what is there")
    line = path.read_bytes().splitlines(keepends=True)[-1]
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for number in range(count):
        begun = time.perf_counter()
        bare_add(bare, line)
        middle = time.perf_counter()
        store.add("fact", f"It is the {number}th note that we keep")
        seconds["bare"].append(middle - begun)
        seconds["ours"].append(time.perf_counter() - middle)
    return {case: statistics.median(each) for case, each in seconds.items()}


def least(rounds: int, clock: Callable[[], float], **cases: Callable[[], None]) -> dict[str, float]:
    """Return the least seconds of each case; they take turns, so that noise hits all alike."""
    seconds = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, case in cases.items():
            gc.collect()
            begun = clock()
            case()
            seconds[name] = min(seconds[name], clock() - begun)
    return seconds


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.jsonl")
        for full in (False, True):
            write(path, ITEMS, full=full)
            found = least(
                rounds, time.process_time, bare=lambda: parse(path), ours=lambda: load(path)
            )
            show(f"load of {ITEMS:,} items{', with tags and source' * full}", found)
        bare = Path(folder, "bare.jsonl")
        for synced in (True, False):
            write(path, 1000, full=True)
            write(bare, 1000, full=True)
            if not synced:
                os.fsync = lambda fd: None
            show(f"an add{', without its fsync' * (not synced)}", adds(path, bare, rounds * ADDS))


def show(name: str, seconds: dict[str, float]) -> None:
    """Print a line."""
    ratio = seconds["ours"] / seconds["bare"]
    times = ", ".join(f"{case} {1000 * value:.3g} ms" for case, value in seconds.items())
    sys.stdout.write(f"{name:<48} {ratio:.2f} ({times})\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
