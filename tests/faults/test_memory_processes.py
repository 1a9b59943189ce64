"""Memory under real processes: many writers, death at each step, power loss, a full disk.

The short form runs with all tests; ``AISH_FULL=1`` has thousands of adds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest
from figures import tell
from power import traced

from aish_lsp.foundation.locks import locked
from aish_lsp.memory.store import MemoryStore

FULL = os.environ.get("TESTS_FULL") == "1"
WRITERS = 8
ADDS = 2000 if FULL else 20

# Each line it prints is something that the store has acknowledged.
WRITER = """
import os, sys
from pathlib import Path
from aish_lsp.memory.store import MemoryStore

if "SPLIT" in os.environ:
    whole = os.write
    os.write = lambda fd, data: whole(fd, bytes(data[:30]))

path, name, count, compact_every = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
store = MemoryStore(path)
for n in range(count):
    kept = store.add("fact", f"{name} keeps {n}").id
    print(f"{kept} {name} keeps {n}", flush=True)
    if n % 5 == 1:
        scrap = store.add("context", f"{name} drops {n}").id
        assert store.forget(scrap)
    if n % 5 == 2:
        draft = store.add("pref", f"{name} drafts {n}").id
        edited = store.edit(draft, f"{name} keeps the edited {n}")
        print(f"{edited} {name} keeps the edited {n}", flush=True)
    if n % compact_every == compact_every - 1:
        store.compact()
"""


def writer(
    path: Path,
    name: str,
    count: int,
    compact_every: int,
    stdout: int | IO[str] = subprocess.PIPE,
    *,
    split: bool = False,
) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count), str(compact_every)]
    environment = {**os.environ, **({"SPLIT": "1"} if split else {})}
    return subprocess.Popen(command, stdout=stdout, text=True, env=environment)


def acknowledged(output: str) -> dict[int, str]:
    pairs = (line.split(" ", 1) for line in output.splitlines(keepends=True))
    return {int(pair[0]): pair[1].rstrip("\n") for pair in pairs if pair[-1].endswith("\n")}


def ids_in_file(path: Path) -> list[int]:
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert "meta" in records[0]
    return [record["id"] for record in records[1:]]


def check(path: Path, expected: dict[int, str]) -> None:
    store = MemoryStore(path)
    store.refresh()
    shown = {item.id: item.content for item in store.items()}
    assert {item_id: shown.get(item_id) for item_id in expected} == expected
    ids = ids_in_file(path)
    assert ids == sorted(set(ids))
    with locked(path, timeout=1):
        pass


@pytest.mark.parametrize("split", [False, True], ids=["whole writes", "split writes"])
def test_many_writers_lose_nothing_and_give_no_id_twice(tmp_path: Path, *, split: bool) -> None:
    began = time.monotonic()
    path = tmp_path / "memory.jsonl"
    told = [tmp_path / f"told {number}" for number in range(WRITERS)]
    with contextlib.ExitStack() as files:
        writers = [
            # One of them compacts in the middle of it all.
            writer(
                path,
                f"writer {number}",
                ADDS,
                ADDS + 1 if number else ADDS // 2,
                files.enter_context(told[number].open("w")),
                split=split,
            )
            for number in range(WRITERS)
        ]
        assert [process.wait() for process in writers] == [0] * WRITERS
    expected: dict[int, str] = {}
    for output in told:
        mine = acknowledged(output.read_text())
        assert list(mine) == sorted(mine)
        assert not mine.keys() & expected.keys()
        expected |= mine
    assert len(expected) == WRITERS * ADDS * 6 // 5
    check(path, expected)
    shown = MemoryStore(path).items()
    assert len(shown) == len(expected)
    assert not list(tmp_path.glob("*.torn-*"))
    tell(
        f"many writers, {'split' if split else 'whole'} writes",
        processes=WRITERS,
        acknowledged=len(expected),
        lost=0,
        lines=len(ids_in_file(path)),
        seconds=round(time.monotonic() - began),
    )


# For each file, a process dies in mid-compaction: the first at its first call of the system, the
# next at its second, and so on. Prints how each ended.
DYING = """
import os, signal, sys
from pathlib import Path
from aish_lsp.memory.store import MemoryStore

def dying(call):
    def counted(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return call(*args, **kwargs)
    return counted

for left, path in enumerate(sys.argv[1:]):
    child = os.fork()
    if child == 0:
        for name in ("open", "write", "fsync", "replace", "close"):
            setattr(os, name, dying(getattr(os, name)))
        MemoryStore(Path(path)).compact()
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


def test_death_at_any_step_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    sound = tmp_path / "sound.jsonl"
    store = MemoryStore(sound)
    for number in range(20):
        store.add("fact", f"item {number}")
    for number in range(1, 20, 2):
        store.forget(number)
    expected = {item.id: item.content for item in store.items()}
    paths = [tmp_path / f"{step}" / "memory.jsonl" for step in range(30)]
    for path in paths:
        path.parent.mkdir()
        shutil.copy(sound, path)
    command = [sys.executable, "-c", DYING, *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    ends = [int(end) for end in done.stdout.split()]
    died = ends.count(signal.SIGKILL)
    assert ends == [signal.SIGKILL] * died + [0] * (len(paths) - died)
    # Reading, locking, writing, syncing, renaming, syncing the folder.
    assert 10 <= died < len(paths)
    for path in paths:
        check(path, expected)
        after = MemoryStore(path)
        assert len(after.items()) == len(expected)
        assert after.add("fact", "still works").id == 31
        assert after.forget(31)
        assert after.compact()
        assert not list(path.parent.glob(".*"))


POWER = """
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.memory.store import MemoryStore
from aish_lsp.cli.memory import import_items

path = Path(sys.argv[1], "memory.jsonl")
store = MemoryStore(path)
step("first add", lambda: store.add("fact", "one"))
step("add", lambda: store.add("fact", "two"))
step("edit", lambda: store.edit(1, "one more"))
step("forget", lambda: store.forget(2))
step("compact", store.compact)
memory = MemoryScopes(MemoryStore(path.with_name("user.jsonl")), store, lambda _: False)
step("import", lambda: import_items(memory, b'{"kind": "fact", "content": "x"}'))
def by_hand(text):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, text)
    os.close(fd)

by_hand(b'{"torn')
step("put aside", lambda: store.add("fact", "three"))
by_hand(b'{"id": 99, "ts": "", "kind": "fact", "content": "of one who died"}\\n')
step("duplicate", lambda: store.add("fact", "of one who died"))
step("clear", store.clear)
"""


def test_what_is_acknowledged_outlasts_the_power(tmp_path: Path) -> None:
    """By the order of the system's calls: nothing is told, or renamed, that is not on the disk."""
    steps = traced(POWER, tmp_path / "data")
    assert len(steps) == 9
    for step in steps:
        assert step.unsynced == set(), step.name
        assert step.written or step.name == "duplicate", step.name
    (compact,) = (step for step in steps if step.name == "compact")
    assert not any(path.endswith("memory.jsonl") for path in compact.written)


def test_a_disk_that_takes_no_more_refuses_and_works_again_later(tmp_path: Path) -> None:
    # A limit on the size of files: the system takes a part of a line and refuses the rest.
    script = """
import resource, signal, sys
from pathlib import Path
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.memory.store import MemoryStore

path = Path(sys.argv[1])
store = MemoryStore(path)
store.add("fact", "before")
size = path.stat().st_size
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for spare in (0, 1, 30, 60):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + spare, hard))
    for call in (lambda: store.add("fact", "x" * 100), lambda: store.edit(1, "y" * 100)):
        try:
            call()
        except StoreUnavailable as error:
            assert str(path) in error.message, error.message
        else:
            sys.exit("it was taken")
        assert path.stat().st_size == size
        assert [item.content for item in store.items()] == ["before"]
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert store.add("fact", "after").id == 2
"""
    path = tmp_path / "memory.jsonl"
    subprocess.run([sys.executable, "-c", script, path], check=True)
    check(path, {1: "before", 2: "after"})


def test_ten_thousand_items_load(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    with path.open("w") as file:
        file.write('{"meta": {"version": 1}}\n')
        for number in range(1, 10_001):
            item = {"id": number, "ts": "2026-05-13T19:01:01Z", "kind": "fact"}
            file.write(json.dumps(item | {"content": f"item {number}"}) + "\n")
    store = MemoryStore(path)
    assert len(store.items()) == 10_000
    assert store.items()[0].id == 10_000
    assert store.add("fact", "ITEM 5000.") == store.add("fact", "item 5000")
    assert store.add("fact", "one more").id == 10_001


@pytest.mark.parametrize("content", ["x" * 65536, "\x00" * 20 + "x", "\U0010ffff" * 1000])
def test_contents_that_the_system_may_split(tmp_path: Path, content: str) -> None:
    path = tmp_path / "memory.jsonl"
    script = (
        "import os, sys, json; from pathlib import Path\n"
        "from aish_lsp.memory.store import MemoryStore\n"
        "whole = os.write\n"
        "os.write = lambda fd, data: whole(fd, bytes(data[:1000]))\n"
        "MemoryStore(Path(sys.argv[1])).add('fact', json.load(sys.stdin))\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, path], input=json.dumps(content), text=True, check=True
    )
    assert [item.content for item in MemoryStore(path).items()] == [content]
