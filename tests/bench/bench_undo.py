"""How long a snapshot takes, against ``git status`` and ``git stash create`` of the same tree.

    python tests/bench/bench_undo.py [ROUNDS] [FILES ...]

Repositories of FILES files, of which 10 are changed and 10 new: the first snapshot of a workspace,
which reads every file; one before a command and one after it, of which a few files were changed
since the last; an undo; and git's own commands. With few files it is the starts of processes that
count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from measuring import Row, main
from stage import AISH, stage

from aish_lsp.undo.git import Git
from aish_lsp.undo.work import Worker

# isort: split
from client import Client

T = TypeVar("T")
READS: Final = ("ls", "git status", "grep -c line folder0/file20.py")
WHEN: Final = ("before a command", "after it")
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


async def rows(rounds: int, *sizes: int) -> list[Row]:
    """Measure each size."""
    result = []
    for files in sizes:
        result += measured(rounds, files)
    return result + await reads_only()


def measured(rounds: int, files: int) -> list[Row]:
    """Measure snapshots and an undo in a repository of so many files."""
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary, "data")
        os.environ["AISH_DATA_DIR"] = str(data)
        root = Path(temporary).resolve() / "work"
        root.mkdir()
        make(root, files)
        worker = Worker(root, lambda top: Git(top, 600, threading.Event()))
        taken: dict[str, list[float]] = {}

        def measure(what: str, work: Callable[[], T]) -> T:
            begun = time.perf_counter()
            result = work()
            taken.setdefault(what, []).append(1000 * (time.perf_counter() - begun))
            return result

        for number in range(rounds):
            shutil.rmtree(data, ignore_errors=True)
            measure("the first snapshot", lambda: worker.finish(worker.begin("first", "x")))
            (root / "changed.py").write_text(f"{number}\n")
            begun = measure("a snapshot before a command", lambda: worker.begin("one", "x"))
            for other in range(5):
                (root / "folder0" / f"file{other}.py").write_text(f"again {number}\n")
            measure("a snapshot after it", partial(worker.finish, begun))
            measure("git status", lambda: git(root, "status", "--porcelain"))
            measure("git stash create", lambda: git(root, "stash", "create"))
            measure("an undo", lambda: worker.revert(frozenset(), decided=False))
    status, stash = taken.pop("git status"), taken.pop("git stash create")
    targets = {"the first snapshot": 20.0, "an undo": 4.0}
    return [
        *(
            Row(f"{files:,} files: {what}", "`git status`", each, status, targets.get(what, 1.5))
            for what, each in taken.items()
        ),
        Row(f"{files:,} files: both snapshots", "`git stash create`",
            [sum(both) for both in zip(*[taken[f"a snapshot {w}"] for w in WHEN], strict=True)],
            stash, 1.5),
    ]  # fmt: skip


async def reads_only() -> list[Row]:
    """Count the snapshots that are taken for commands that only read."""
    with stage() as made:
        make(made.workspace, 100)
        seen = [last_snapshot()]
        async with Client(command=AISH) as client:
            await client.initialize(made.workspace)
            for text in (*READS, "touch new"):
                argument = {"text": text, "partialResultToken": text}
                ran = await client.command_result("aish.run", argument)
                assert ran["exitCode"] == 0, ran
                seen.append(last_snapshot())
    taken = [int(one != other) for one, other in pairwise(seen)]
    writes = taken.pop()
    assert writes
    what = "snapshots for three commands that only read"
    return [Row(what, "for one that writes", [sum(taken)], [writes], 0, "value", "snapshots")]


def last_snapshot() -> int:
    """Return when the last snapshot was written."""
    times = [
        path.stat().st_mtime_ns
        for path in Path(os.environ["AISH_DATA_DIR"]).glob("workspaces/*/undo/last")
    ]
    return max(times, default=0)


if __name__ == "__main__":
    main(rows, 5, 50_000)
