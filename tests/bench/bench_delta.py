"""How much later a client sees a reply than from a bare loop over the same stream.

    python tests/bench/bench_delta.py [ROUNDS]

The bare loop is httpx and httpx-sse in a process of its own, which writes the same notifications as
aish-lsp. One client reads both, so that what is left between the two is aish-lsp. Both have their
data in memory; one row is on a disk, where a question is synced before it is sent. A round is one
reply of 400 deltas, 5 ms apart, from each; and 40 first deltas of each.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench_sessions import write_session
from measuring import Row, main, percentile
from stage import AISH, Reply, Stage, Timed, bare, in_memory, served, stage

from aish_lsp.foundation.files import workspace_dir

QUESTIONS: Final = 40
#: Some 4,000 tokens.
LONG: Final = "The quick brown fox jumps over the lazy dog by the river bank. " * 290
TURNS: Final = 10_000


async def rows(rounds: int) -> list[Row]:
    """Measure in turns."""
    with stage(in_memory()) as made:
        async with Timed(command=AISH) as server, Timed(command=made.bare) as plain:
            await server.initialize(made.workspace)
            result = await streams(server, plain, rounds)
            result += await firsts(server, plain, rounds, "")
            ask = {"prompt": f"{LONG} Send 1 words every 1 ms."}
            await server.command_result("aish.ask", ask)
            result += await firsts(server, plain, rounds, ", 4,000 tokens of context", reset=False)
            session = long_history(made)
            await server.command_result("aish.session.resume", {"id": session}, timeout=120)
            await served(server, 3, 1, reset=False)
            result += await firsts(server, plain, rounds, f", {TURNS:,} turns before", reset=False)
            plain.process.kill()
    return result + await on_disk(rounds)


async def streams(server: Timed, plain: Timed, rounds: int) -> list[Row]:
    """Measure how late the deltas of whole replies are, and what of the processor they take."""
    # The first question imports what is used.
    await served(server)
    await bare(plain)
    ours: list[Reply] = []
    theirs: list[Reply] = []
    for _ in range(rounds):
        theirs.append(await bare(plain))
        ours.append(await served(server))

    def each(replies: Sequence[Reply], percent: int) -> list[float]:
        return [percentile(reply.late, percent) for reply in replies]

    used = [statistics.median(reply.cpu for reply in replies) for replies in (ours, theirs)]
    cpu = used[0] / used[1] if used[1] else None
    name, loop = "delay of a delta, 200 a second", "bare loop"
    return [
        Row(f"{name}, median", loop, each(ours, 50), each(theirs, 50), 0.15, "more", cpu=cpu),
        Row(f"{name}, p99", loop, each(ours, 99), each(theirs, 99), 0.4, "more", cpu=cpu),
    ]


async def firsts(
    server: Timed, plain: Timed, rounds: int, name: str, *, reset: bool = True, synced: str = ""
) -> list[Row]:
    """Measure the time from a question to its first delta."""
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    cpu = [0.0, 0.0]
    for _ in range(rounds):
        ours.append([])
        theirs.append([])
        for _ in range(QUESTIONS):
            more = fsync(Path(synced)) if synced else 0.0
            of_loop = await bare(plain, 3, 1)
            of_aish = await served(server, 3, 1, reset=reset)
            theirs[-1].append(of_loop.first + more)
            ours[-1].append(of_aish.first)
            cpu = [cpu[0] + of_aish.cpu, cpu[1] + of_loop.cpu]
    loop = "bare loop, warm" + " and an fsync" * bool(synced)
    what = f"first delta{name}"

    def row(percent: int, target: float) -> Row:
        return Row(
            f"{what}, {'median' if percent == 50 else f'p{percent}'}",
            loop,
            [percentile(each, percent) for each in ours],
            [percentile(each, percent) for each in theirs],
            target,
            "more",
            cpu=cpu[0] / cpu[1] if cpu[1] else None,
        )

    return [row(50, 4), row(99, 10)]


def fsync(folder: Path) -> float:
    """Return the milliseconds that the sync of a line takes on a disk."""
    with (folder / "synced").open("ab") as file:
        file.write(b"a line\n")
        file.flush()
        begun = time.perf_counter()
        os.fsync(file.fileno())
        return (time.perf_counter() - begun) * 1000


def long_history(made: Stage) -> str:
    """Write a session of ``TURNS`` messages for the workspace; return its id."""
    folder = workspace_dir(made.workspace) / "sessions"
    name = "20260513T000000Z-abcdef"
    write_session(folder / f"{name}.jsonl", made.workspace.as_uri(), TURNS)
    return name


async def on_disk(rounds: int) -> list[Row]:
    """Measure where the data are on a disk."""
    # Not in /tmp, which may be memory.
    with stage(Path("/var/tmp") if Path("/var/tmp").is_dir() else None) as made:
        async with Timed(command=AISH) as server, Timed(command=made.bare) as plain:
            await server.initialize(made.workspace)
            await served(server, 3, 1)
            await bare(plain, 3, 1)
            result = await firsts(server, plain, rounds, ", on a disk", synced=str(made.root))
            plain.process.kill()
    return result


if __name__ == "__main__":
    main(rows, 5)
