"""What the picture of a project costs, against git's own list of its files in the same run.

    python tests/bench/bench_project.py [ROUNDS] [FILES ...]

For each number of FILES (10, 1,000, 100,000 and 1,000,000 where none is given), in a repository in
which half of them are tracked, prints

- the first picture, to ``git ls-files -z -co --exclude-standard``: of the least seconds of all
  rounds, which take turns, and of their medians;
- the picture after one file came, and after it went: the median, and the most;
- the longest time for which the event loop stood still while a scan ran, against the same time
  without one; and what the scan added to the process's memory.

A process of its own measures each size.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aish_lsp.config.schema import ProjectSettings
from aish_lsp.lsp.server import SWITCH_INTERVAL
from aish_lsp.project.picture import ProjectPicture

SIZES = (10, 1_000, 100_000, 1_000_000)
#: Files of a folder, and folders of a folder.
PER_FOLDER, FOLDERS = 20, 25
CONFIG = ProjectSettings()
LIST = ("git", "ls-files", "-z", "-co", "--exclude-standard")


def make(root: Path, files: int) -> None:
    """Make a repository; its second half is new to git."""
    git(root, "init", "-q")
    for number in range(files):
        if number == files // 2:
            git(root, "add", ".")
        folder = root / place(number // PER_FOLDER)
        if number % PER_FOLDER == 0 or number == files // 2:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module_{number % PER_FOLDER:02}.py").touch()
    (root / ".gitignore").write_text("*.log\n__pycache__/\n")


def place(folder: int) -> str:
    """Return the path of the folder with this number, some levels deep."""
    parts = []
    while folder:
        folder, part = divmod(folder, FOLDERS)
        parts.append(f"part_{part:02}")
    return "/".join(["src", *reversed(parts)])


def git(root: Path, *arguments: str) -> None:
    """Run git."""
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


async def first(root: Path) -> float:
    """Return the seconds to the first picture."""
    picture = ProjectPicture(root)
    gc.collect()
    begun = time.perf_counter()
    await picture.refresh(CONFIG, patience=None)
    took = time.perf_counter() - begun
    await picture.aclose()
    return took


async def listed(root: Path) -> float:
    """Return the seconds that git takes for its list."""
    gc.collect()
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*LIST, cwd=root, stdout=asyncio.subprocess.PIPE)
    await process.communicate()
    return time.perf_counter() - begun


async def changes(root: Path, rounds: int) -> list[float]:
    """Return the seconds to the picture after each of some changes that a client tells of."""
    picture = ProjectPicture(root)
    assert picture.files is not None
    await picture.refresh(CONFIG, patience=None)
    picture.files.watch()
    # The files are younger than the list: it is made once more. Then it is held against the disk.
    for _ in range(3):
        await picture.refresh(CONFIG, patience=None)
    seconds = []
    name = f"{place(0)}/came.py"
    for number in range(rounds):
        if number % 2:
            (root / name).unlink()
        else:
            (root / name).touch()
        before = picture.block.files
        begun = time.perf_counter()
        picture.files.changed([name])
        await picture.refresh(CONFIG, patience=None)
        seconds.append(time.perf_counter() - begun)
        assert picture.block.files != before
    await picture.aclose()
    return seconds


async def longest_stall(work: asyncio.Task[None]) -> float:
    """Return the most seconds for which the loop did not come round while ``work`` was done."""
    longest = 0.0
    last = time.perf_counter()
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest = max(longest, now - last - 0.001)
        last = now
    return longest


async def measured(root: Path, files: int, rounds: int) -> None:
    """Measure one size, and print."""
    picture = ProjectPicture(root)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    scan = asyncio.create_task(picture.refresh(CONFIG, patience=None))
    stall = await longest_stall(scan)
    took = time.perf_counter() - begun
    block = picture.block
    await picture.aclose()
    idle = await longest_stall(asyncio.create_task(asyncio.sleep(took)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory

    bare, ours = [], []
    for _ in range(rounds):
        bare.append(await listed(root))
        ours.append(await first(root))
    changed = await changes(root, 2 * rounds)
    least, middle = min(ours) / min(bare), statistics.median(ours) / statistics.median(bare)
    show(f"{files:,} files: {block.files:,} told of, truncated: {block.truncated}")
    times = f"({1000 * min(ours):.0f} ms, {1000 * min(bare):.0f} ms)"
    show(
        "  first picture, to git's list",
        f"{least:.2f} of the least, {middle:.2f} of medians",
        times,
    )
    most = f"{1000 * max(changed):.1f} ms at most"
    show("  after one change", f"{1000 * statistics.median(changed):.1f} ms,", most)
    without = f"{1000 * idle:.1f} ms without a scan"
    show("  the loop stood still for", f"{1000 * stall:.1f} ms in {took:.1f} s,", without)
    show("  memory", f"{memory / 1024:.0f} MB more")


def show(name: str, *values: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{name:<32}{' '.join(values)}\n")
    sys.stdout.flush()


def measure(files: int, rounds: int) -> None:
    """Make a repository and measure it."""
    sys.setswitchinterval(SWITCH_INTERVAL)  # as the server does
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), files)
        asyncio.run(measured(Path(folder), files, rounds if files < 500_000 else 3))


if __name__ == "__main__":
    numbers = [int(number.replace(",", "")) for number in sys.argv[1:]]
    for size in numbers[1:] or SIZES:
        process = multiprocessing.get_context("spawn").Process(
            target=measure, args=(size, numbers[0] if numbers else 10)
        )
        process.start()
        process.join()
