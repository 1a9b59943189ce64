"""How much longer a command takes that runs confined, against the same command run free.

    python tests/bench/bench_confinement.py [ROUNDS]

In turns, in one run: `:` free; confined; confined where a home holds 2,000 entries beside its
secret places; the same where that home has changed since the last command, so that the rules are
made anew; and in the profile `work`, with its namespaces. The least of each counts, since machines
are noisy. Exits 1 where confinement adds more than MOST milliseconds; `work` is only shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.process import Sandbox
from aish_lsp.shell.runner import run_command

MOST = 5.0
ENTRIES = 2000
WORK = "in `work`"


async def ignore(_stream: str, _delta: str) -> None:
    """Take whatever comes."""


async def run(sandboxed: Callable[[Path], Awaitable[Sandbox]] | None, cwd: Path) -> float:
    """Return the milliseconds of one command, from the request to its end."""
    start = time.perf_counter()
    sandbox = await sandboxed(cwd) if sandboxed else None
    try:
        await run_command(
            ":", cwd=cwd, shell="sh", timeout=60, env=os.environ, on_output=ignore, sandbox=sandbox
        )
    finally:
        if sandbox:
            sandbox.__exit__(None, None, None)
    return (time.perf_counter() - start) * 1000


def home_with(folder: Path, entries: int) -> Path:
    """Return a home with so many entries beside its secret places."""
    (folder / ".ssh").mkdir(parents=True)
    for number in range(entries):
        (folder / f"file{number}").touch()
    return folder


async def main() -> int:
    """Measure, print, and judge."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory(dir=Path.home()) as temporary:
        root = Path(temporary)
        os.environ["AISH_DATA_DIR"] = str(root / "data")
        (root / "work").mkdir()
        small = Confinement({**os.environ, "HOME": str(home_with(root / "small", 5))})
        large = Confinement({**os.environ, "HOME": str(home_with(root / "large", ENTRIES))})
        support = await small.support()
        print(f"confinement: {support.detail}")  # noqa: T201 - its result
        least: dict[str, float] = {}
        for number in range(rounds):
            cases = {
                "free": None,
                "confined": small.sandbox,
                f"beside {ENTRIES} entries": large.sandbox,
                "and they have changed": large.sandbox,
                WORK: small.work_sandbox,
            }
            for what, sandboxed in cases.items():
                if what == "and they have changed":
                    (root / "large" / f"new{number}").touch()
                least[what] = min(least.get(what, 1e9), await run(sandboxed, root / "work"))
        for what, milliseconds in least.items():
            print(f"{what}: {milliseconds:.1f} ms, {milliseconds - least['free']:+.1f} ms")  # noqa: T201
        await small.aclose()
        await large.aclose()
    del least[WORK]
    return int(max(least.values()) - least["free"] > MOST)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
