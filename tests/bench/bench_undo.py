"""How long a snapshot takes, against ``git status`` and ``git stash create`` of the same tree.

    python tests/bench/bench_undo.py [FILES [ROUNDS]]

A repository of FILES files (1,000 without), of which 10 are changed and 10 new. Measured in turns,
in one run: the first snapshot of a workspace, which reads every file; one before a command and one
after it, of which a few files were changed since the last; both of git's. The least of each counts,
since machines are noisy. Exits 1 where a later snapshot takes more than MOST times as long as
``git status``; with few files it is the starts of six processes that count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from aish_lsp.undo.git import Git
from aish_lsp.undo.work import Worker

MOST = 15.0
A_FOLDER = 100


def git(root: Path, *arguments: str) -> None:
    """Run git, as it is configured for everybody."""
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "gc.auto=0")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def make(root: Path, files: int) -> None:
    """Make a repository of so many files, some kilobytes each."""
    for number in range(files):
        folder = root / f"folder{number // A_FOLDER}"
        if number % A_FOLDER == 0:
            folder.mkdir()
        (folder / f"file{number}.py").write_text(f"line {number}\n" * (20 + number % 300))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    git(root, "gc", "-q")
    for number in range(10):
        (root / "folder0" / f"file{number}.py").write_text("changed\n")
        (root / f"new{number}.py").write_text("new\n")


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and judge."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary, "data")
        os.environ["AISH_DATA_DIR"] = str(data)
        root = Path(temporary).resolve() / "work"
        root.mkdir()
        make(root, files)

        worker = Worker(root, lambda top: Git(top, 600, threading.Event()))
        times: dict[str, list[float]] = {}

        def measure(what: str, work: Callable[[], object]) -> None:
            times.setdefault(what, []).append(timed(work))

        for number in range(rounds):
            shutil.rmtree(data, ignore_errors=True)
            measure("the first snapshot", lambda: worker.finish(worker.begin("first", "x")))
            (root / "changed.py").write_text(f"{number}\n")
            begun = None

            def before() -> None:
                nonlocal begun
                begun = worker.begin("one", "x")

            measure("a snapshot before a command", before)
            for other in range(5):
                (root / "folder0" / f"file{other}.py").write_text(f"again {number}\n")
            assert begun is not None
            measure("a snapshot after it", lambda begun=begun: worker.finish(begun))  # type: ignore[misc]
            measure("git status", lambda: git(root, "status", "--porcelain"))
            measure("git stash create", lambda: git(root, "stash", "create"))
            measure("an undo", lambda: worker.revert(frozenset(), decided=False))
    status = min(times["git status"])
    print(f"{files:,} files, {rounds} rounds, seconds (times git status)")  # noqa: T201
    for what, seconds in times.items():
        print(f"{what:30} {min(seconds):8.3f} ({min(seconds) / status:.1f})")  # noqa: T201
    slowest = max(min(times[f"a snapshot {when}"]) for when in ("before a command", "after it"))
    return int(slowest > status * MOST)


if __name__ == "__main__":
    sys.exit(main())
