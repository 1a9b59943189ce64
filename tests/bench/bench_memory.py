"""What memory costs, against the least that it could cost in the same run.

    python tests/bench/bench_memory.py [ROUNDS]

Loading 100,000 items is held against ``json.loads`` of each line; an add (to a memory of 1,000
items that is open) against a locked write and an fsync. What a sync takes depends on the disk, from
0.1 ms where it is none to 10 ms, so an add is measured without its fsync, too.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measuring import Row, Sample, in_turns, main, timed

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


def adds(path: Path, bare: Path, count: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of adds, and of bare ones, to files that are alike."""
    store = MemoryStore(path)
    store.add("fact", "The first one reads what is there")
    line = path.read_bytes().splitlines(keepends=True)[-1]
    ours, theirs = [], []
    for number in range(count):
        begun = time.perf_counter()
        bare_add(bare, line)
        middle = time.perf_counter()
        store.add("fact", f"It is the {number}th note that we keep")
        theirs.append(1000 * (middle - begun))
        ours.append(1000 * (time.perf_counter() - middle))
    return ours, theirs


async def loads(path: Path, rounds: int, *, full: bool) -> Row:
    """Measure what it takes of the processor to load a memory."""
    write(path, ITEMS, full=full)

    async def used(work: Callable[[Path], None]) -> Sample:
        gc.collect()
        return timed(lambda: work(path))

    ours, theirs = await in_turns(rounds, partial(used, load), partial(used, parse))
    return Row(
        f"load of {ITEMS:,} items{', with tags and source' * full}",
        "`json.loads` of each line",
        [1000 * sample.cpu for sample in ours],
        [1000 * sample.cpu for sample in theirs],
        1.5,
        unit="ms of CPU",
    )


async def rows(rounds: int) -> list[Row]:
    """Measure loads and adds."""
    with tempfile.TemporaryDirectory() as folder:
        path, bare = Path(folder, "memory.jsonl"), Path(folder, "bare.jsonl")
        result = [await loads(path, rounds, full=full) for full in (False, True)]
        for synced in (True, False):
            write(path, 1000, full=True)
            write(bare, 1000, full=True)
            if not synced:
                os.fsync = lambda fd: None
            ours, theirs = adds(path, bare, ADDS)
            name = f"an add{', without its fsync' * (not synced)}"
            result.append(Row(name, "locked write and an fsync", ours, theirs, 3 if synced else 12))
    return result


if __name__ == "__main__":
    main(rows, 10)
