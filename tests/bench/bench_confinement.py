"""How much longer a command takes that runs confined, against the same command run free.

    python tests/bench/bench_confinement.py [ROUNDS]

In turns, in one run: `:` free; confined; confined where a home holds 2,000 entries beside its
secret places; and the same where that home has changed since the last command, so that the rules
are made anew. The least of each counts, since machines are noisy. Exits 1 where confinement adds
more than MOST milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

MOST = 5.0
ENTRIES = 2000


async def ignore(_stream: str, _delta: str) -> None:
    """Take whatever comes."""


async def run(confinement: Confinement | None, cwd: Path) -> float:
    """Return the milliseconds of one command, from the request to its end."""
    start = time.perf_counter()
    sandbox = await confinement.sandbox(cwd) if confinement else None
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
            cases = {"free": None, "confined": small, f"beside {ENTRIES} entries": large}
            for what, confinement in cases.items():
                least[what] = min(least.get(what, 1e9), await run(confinement, root / "work"))
            (root / "large" / f"new{number}").touch()
            what = "and they have changed"
            least[what] = min(least.get(what, 1e9), await run(large, root / "work"))
        for what, milliseconds in least.items():
            print(f"{what}: {milliseconds:.1f} ms, {milliseconds - least['free']:+.1f} ms")  # noqa: T201
        await small.aclose()
        await large.aclose()
    return int(max(least.values()) - least["free"] > MOST)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
