"""How long 23 MB of a command's output take through ``aish.run``, against a pipe through ``cat``.

    python tests/bench/bench_output.py [ROUNDS]

Both are measured in turns, in one run, and the least of each counts, since machines are noisy. The
environment has a few secrets, which the output is searched for. Meanwhile ``aish.status`` is asked
for again and again: its slowest answer counts. Exits 1 if ``aish.run`` takes more than MOST times
as long as ``cat``, plus a second.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for folder in ("kit", "servers", "lsp"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
os.environ["AISH_REAL_START"] = "1"

from client import Client  # noqa: E402 - once it can be found

MOST = 3.0
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


async def main(rounds: int) -> int:
    """Measure, print a table, and return the exit status."""
    secrets = {"SHOP_TOKEN": "known-by-its-value-1", "DB_PASSWORD": "known-by-its-value-2"}
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        env = {"HOME": home, "AISH_DISCOVERY": "off", **secrets}
        async with Client(env=env) as client:
            await client.initialize(Path(folder))
            await run(client, 0)
            pairs = [(piped(), *await run(client, number + 1)) for number in range(rounds)]
    cat, ran, slowest = (min(column) for column in zip(*pairs, strict=True))
    sys.stdout.write(f"cat {cat:.2f} s, aish.run {ran:.2f} s, {ran / cat:.1f} times\n")
    sys.stdout.write(f"another request waited {slowest * 1000:.0f} ms at most\n")
    return int(ran > MOST * cat + 1)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
