"""What the picture of a project costs, against git's own list of its files in the same run.

    python tests/bench/bench_project.py [ROUNDS] [FILES ...]

For each number of FILES, in a repository in which half of them are tracked: the first picture, and
the one after one file came or went; and for how long the event loop stood still while a scan ran,
against the same time without one.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Row, main

from aish_lsp.config.schema import ProjectSettings
from aish_lsp.lsp.server import SWITCH_INTERVAL
from aish_lsp.project.picture import ProjectPicture

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


async def measured(root: Path, files: int, rounds: int) -> list[Row]:
    """Measure one size."""
    picture = ProjectPicture(root)
    begun = time.perf_counter()
    stall = await longest_stall(asyncio.create_task(picture.refresh(CONFIG, patience=None)))
    took = time.perf_counter() - begun
    assert picture.block.files
    await picture.aclose()
    idle = await longest_stall(asyncio.create_task(asyncio.sleep(took)))
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(1000 * await listed(root))
        ours.append(1000 * await first(root))
    changed = [1000 * seconds for seconds in await changes(root, rounds)]
    name, git_list = f"project of {files:,} files", "`git ls-files -co`"
    return [
        Row(f"{name}: the first picture", git_list, ours, bare, 1.5),
        Row(f"{name}: one file changed", git_list, changed, bare, 3, "value"),
        Row(f"{name}: the loop stands still", "no scan", [1000 * stall], [1000 * idle], 50, "more"),
    ]


async def rows(rounds: int, *sizes: int) -> list[Row]:
    """Make a repository of each size and measure it."""
    sys.setswitchinterval(SWITCH_INTERVAL)  # as the server does
    result = []
    for files in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), files)
            result += await measured(Path(folder), files, rounds)
    return result


if __name__ == "__main__":
    main(rows, 10, 100_000)
