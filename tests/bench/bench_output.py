"""How long 23 MB of a command's output take through ``aish.run``, against a pipe through ``cat``.

    python tests/bench/bench_output.py [ROUNDS]

The environment has a few secrets, which the output is searched for. Meanwhile ``aish.status`` is
asked for again and again: its slowest answer counts.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time

from measuring import Row, main
from stage import AISH, stage

# isort: split
from client import Client

PRINTS = "seq 1 3000000"


def piped() -> float:
    """Return the seconds that a pipe through ``cat`` takes."""
    start = time.perf_counter()
    subprocess.run(f"{PRINTS} | cat >/dev/null", shell=True, check=True)
    return time.perf_counter() - start


async def run(client: Client, number: int) -> tuple[float, float]:
    """Return the seconds that ``aish.run`` takes, and the longest that another request waited."""
    start = time.perf_counter()
    argument = {"text": PRINTS, "partialResultToken": f"run{number}"}
    task = asyncio.create_task(client.command_result("aish.run", argument, timeout=600))
    slowest = 0.0
    while not task.done():
        asked = time.perf_counter()
        await client.command_result("aish.status", {})
        slowest = max(slowest, time.perf_counter() - asked)
        await asyncio.sleep(0.05)
    assert (await task)["exitCode"] == 0
    return time.perf_counter() - start, slowest


async def rows(rounds: int) -> list[Row]:
    """Measure in turns."""
    secrets = {"SHOP_TOKEN": "known-by-its-value-1", "DB_PASSWORD": "known-by-its-value-2"}
    with stage() as made:
        async with Client(command=AISH, env={**os.environ, **secrets}) as client:
            await client.initialize(made.workspace)
            await run(client, 0)
            pairs = [(piped(), *await run(client, number + 1)) for number in range(rounds)]
    cat, ran, slowest = ([*column] for column in zip(*pairs, strict=True))
    beyond = [max(0.0, seconds - 1) for seconds in ran]
    waited = [1000 * seconds for seconds in slowest]
    return [
        Row("23 MB of output, without a second", "a pipe through `cat`", beyond, cat, 3, unit="s"),
        Row("another request meanwhile", "the command", waited, [1000 * s for s in ran], 0.1),
    ]


if __name__ == "__main__":
    main(rows, 3)
