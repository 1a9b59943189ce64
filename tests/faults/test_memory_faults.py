"""Memory whose file is lost, damaged or in the way while it is open; disks that are full."""

from __future__ import annotations

import codecs
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mounts import run_on_a_small_disk

from aish_lsp.cli.memory import exported, import_items
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.memory.scopes import MemoryScopes, background_text, select
from aish_lsp.memory.store import MemoryStore

FULL_DISK = """
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.cli.memory import import_items

path = disk / "memory.jsonl"
memory = MemoryScopes.open(disk / "user.jsonl", path)
store = memory.store("workspace")
for number in range(20):
    store.add("fact", f"note {number} " + "x" * 500)
for number in range(1, 20, 3):
    store.forget(number)
kept = {item.id: item.content for item in store.items()}
full = "No space left on device. Free some space"
fill()

# A small line may find room in what the file has of its last block.
while not refused(lambda: store.add("pref", f"late {len(kept)}"), str(path), full):
    kept = {item.id: item.content for item in store.items()}
before = path.read_bytes()
lines = "".join(f'{{"kind": "fact", "content": "line {n}"}}\\n' for n in range(500)).encode()
for work in (
    lambda: store.add("fact", "y" * 65536),
    lambda: store.edit(2, "z" * 5000),
    lambda: store.clear(),
    lambda: import_items(memory, lines),
    lambda: store.compact(),
):
    assert refused(work, full), work
    assert path.read_bytes() == before
    assert {item.id: item.content for item in store.items()} == kept
assert refused(lambda: memory.add("fact", "of the user", scope="user"), full)

make_room()
assert store.add("fact", "y" * 65536).id > max(kept)
kept = {item.id: item.content for item in store.items()}
assert store.compact()
again = MemoryScopes.open(disk / "user.jsonl", path).store("workspace")
assert {item.id: item.content for item in again.items()} == kept
assert again.notices == ()
assert memory.add("fact", "of the user", scope="user").id == 1
assert sorted(entry.name for entry in disk.iterdir()) == [
    "memory.jsonl", "memory.jsonl.lock", "user.jsonl", "user.jsonl.lock"]
"""

DENIED_DISK = """
from aish_lsp.memory.store import MemoryStore

path = disk / "memory.jsonl"
store = MemoryStore(path)
store.add("fact", "one")
with path.open("a") as file:
    file.write('{"torn')
deny()
for each in (store, MemoryStore(path)):
    each.refresh()
    for work in (
        lambda: each.add("fact", "two"), lambda: each.edit(1, "two"), lambda: each.forget(1),
        each.clear, each.compact,
    ):
        assert refused(work, advice), work
    assert [item.content for item in each.items()] == ["one"]
    (notice,) = each.notices
    assert "never finished" in notice and advice in notice
other = MemoryStore(disk / "below" / "memory.jsonl")
assert refused(lambda: other.add("fact", "x"), advice)
assert other.items() == ()
allow()
assert store.add("fact", "two").id == 2
assert other.add("fact", "x").id == 1
assert len(list(disk.glob("*.torn-*"))) == 1
"""


def test_a_full_disk_refuses_and_works_again_later(tmp_path: Path) -> None:
    run_on_a_small_disk(FULL_DISK, tmp_path / "disk")


@pytest.mark.parametrize("denied", ["read-only", "forbidden"])
def test_a_disk_that_must_not_be_written_is_read_and_works_again_later(
    tmp_path: Path, denied: str
) -> None:
    run_on_a_small_disk(DENIED_DISK, tmp_path / "disk", denied)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.jsonl"


def opened(path: Path) -> MemoryStore:
    """Return a store that is in use: items 1 and 3, and the tombstone of 2."""
    store = MemoryStore(path)
    for content in ("one", "two", "three"):
        store.add("fact", content)
    store.forget(2)
    return store


def shown(store: MemoryStore) -> dict[int, str]:
    store.refresh()
    return {item.id: item.content for item in reversed(store.items())}


def works(store: MemoryStore, above: int) -> None:
    """Do all that can be done with a store; ids are ``above`` all that were ever given."""
    before = shown(store)
    added = store.add("fact", "a new one").id
    assert added > above
    edited = store.edit(added, "a newer one")
    assert store.forget(edited)
    store.compact()
    assert shown(store) == shown(MemoryStore(store.path)) == before
    assert store.add("fact", f"the last one, after {edited}").id > edited


def by_hand(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return what writes the file anew, into it, as many an editor does."""

    def changed(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return changed


def replaced(path: Path) -> None:
    other = path.with_name("other")
    opened(other)
    MemoryStore(other).edit(3, "of another file")
    other.rename(path)


ALL = {1: "one", 3: "three"}


@pytest.mark.parametrize(
    ("fault", "left", "notice"),
    [
        (lambda path: path.unlink(), {}, ""),
        (lambda path: os.truncate(path, 0), {}, ""),
        (by_hand(lambda data: data[:-10]), {1: "one", 2: "two", 3: "three"}, "never finished"),
        (by_hand(lambda data: data[:-1]), ALL, ""),
        (replaced, {1: "one", 5: "of another file"}, ""),
        (by_hand(lambda data: data.replace(b"one", b"1")), {1: "1", 3: "three"}, ""),
        (by_hand(lambda data: data.replace(b"\n", b"\r\n")), ALL, ""),
        (by_hand(lambda data: codecs.BOM_UTF8 + data), ALL, ""),
        (by_hand(lambda data: codecs.BOM_UTF8 + data.replace(b"\n", b"\r\n")[:-2]), ALL, ""),
        (by_hand(lambda data: b"\n\n  \n" + data.replace(b"\n", b"\n\n")), ALL, ""),
        (by_hand(lambda data: data + bytes(4096)), ALL, "never finished"),
        (by_hand(lambda data: data + bytes(4096) + b"\n"), ALL, "line 6: it is not JSON"),
        (by_hand(lambda data: data.replace(b"one", b"\xff\xfe")), {3: "three"}, "not UTF-8"),
        (by_hand(lambda data: data.decode().encode("utf-16")), {}, "line 2: it is not JSON"),
        (by_hand(lambda data: data.replace(b"one", "\u2028\x85".encode())), None, ""),
        (by_hand(lambda data: data.replace(b"one", rb"\ud83d")), None, ""),
        (by_hand(lambda data: data.replace(b'"one"', b'"one", "x": NaN')), {3: "three"}, "NaN"),
        (by_hand(lambda data: data.replace(b'"one"', b'"one", "x": 1e999')), {3: "three"}, "large"),
        (by_hand(lambda data: b"".join(reversed(data.splitlines(True)))), ALL, ""),
        (by_hand(lambda data: data + data), ALL, "line 7: the id 1 is on an earlier line"),
        (by_hand(lambda data: data.split(b"\n", 1)[1]), ALL, ""),
    ],
)
def test_a_file_that_is_changed_by_hand_while_it_is_open(
    path: Path, fault: Callable[[Path], None], left: dict[int, str] | None, notice: str
) -> None:
    store = opened(path)
    fault(path)
    found = shown(store)
    assert left is None or found == left
    assert len(store.notices) >= bool(notice)
    assert notice in "".join(store.notices)
    for told in store.notices:
        assert str(path) in told
        ways = ("The line is skipped; it stays in the file", "put aside as", "more bad lines")
        assert any(way in told for way in ways)
    works(store, above=4)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    "stand",
    [Path.mkdir, a_pipe, a_socket, lambda path: path.symlink_to(path)],
    ids=["folder", "pipe", "socket", "loop of links"],
)
@pytest.mark.parametrize("name", ["memory.jsonl", "memory.jsonl.lock"])
def test_what_is_no_file_in_its_place_is_told_and_waited_for_never(
    path: Path, stand: Callable[[Path], None], name: str
) -> None:
    store = opened(path)
    place, away = path.with_name(name), path.with_name("away")
    place.rename(away)
    stand(place)
    for each in (store, MemoryStore(path)):
        if place == path:
            with pytest.raises(StoreUnavailable, match=rf"cannot .*{place}.*Move it away"):
                each.refresh()
        else:
            assert shown(each) == ALL
        for call in (
            lambda each=each: each.add("fact", "new"),
            lambda each=each: each.edit(1, "new"),
            lambda each=each: each.forget(1),
            each.clear,
            each.compact,
        ):
            with pytest.raises(StoreUnavailable, match=rf"cannot .*{place}.*Move it away"):
                call()
    place.rmdir() if place.is_dir() else place.unlink()
    away.rename(place)
    assert shown(store) == ALL
    works(store, above=4)


def test_a_folder_that_goes_or_becomes_a_file(path: Path) -> None:
    store = opened(path)
    away = path.parent.with_name("away")
    path.parent.rename(away)
    path.parent.write_text("")
    with pytest.raises(StoreUnavailable, match=r"Not a directory.*Move it away"):
        store.refresh()
    with pytest.raises(StoreUnavailable, match=r"Not a directory.*Move it away"):
        store.add("fact", "x")
    path.parent.unlink()
    assert shown(store) == {}
    works(store, above=4)


def test_a_link_is_followed_and_stays_one(path: Path) -> None:
    store = opened(path)
    real = path.parent.with_name("dotfiles") / "memory"
    real.parent.mkdir()
    path.rename(real)
    path.symlink_to(real)
    assert shown(store) == ALL
    works(store, above=4)
    works(MemoryStore(real), above=4)
    assert path.is_symlink()
    assert shown(store) == shown(MemoryStore(real))


# What reads a file while another process compacts it, or edits it by rename, again and again.
RESTLESS = """
import os, sys
from pathlib import Path
from aish_lsp.memory.store import MemoryStore

path = Path(sys.argv[1])
store = MemoryStore(path)
print("begun", flush=True)
while True:
    kept = store.add("fact", "restless").id
    store.forget(kept)
    store.compact()
"""


def test_a_file_that_is_replaced_again_and_again_is_always_whole(path: Path) -> None:
    opened(path)
    command = [sys.executable, "-c", RESTLESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        store = MemoryStore(path)
        added = [store.add("fact", f"among it all {number}").id for number in range(100)]
        for number in range(200):
            found = shown(store if number % 2 else MemoryStore(path))
            assert found.keys() >= {1, 3, *added}
        process.kill()
    assert added == sorted(set(added))
    assert store.notices == ()


def test_a_clock_that_jumps_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No test may set the clock of the machine.
    times = ["2030-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]
    store = MemoryStore(path)
    ids = []
    for number, now in enumerate(times):
        monkeypatch.setattr("aish_lsp.memory.store.now", lambda now=now: now)
        ids += [store.add("fact", f"{number} {part}").id for part in ("first", "second")]
    assert ids == [1, 2, 3, 4, 5, 6]
    assert [item.id for item in store.items()] == [2, 1, 4, 3, 6, 5]
    assert store.edit(2, "edited") == 7
    assert store.forget(1)
    assert store.compact()
    assert [item.id for item in MemoryStore(path).items()] == [4, 3, 7, 6, 5]
    memory = MemoryScopes(MemoryStore(path.with_name("user.jsonl")), store, lambda _: False)
    memory.prune_older_than_days = 30
    assert memory.items() == ()
    assert store.add("fact", "next").id == 10


PLANES = "".join(
    chr(plane * 0x10000 + 0x1F6) + chr(plane * 0x10000 + 0xFFFD) for plane in range(17)
)
CONTROLS = "".join(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, 0x202E)))


@pytest.mark.parametrize(
    "content",
    [
        "x" * 65536,
        "\U0001f680" * 65536,
        PLANES,
        CONTROLS + "end",
        "\x00",
        "\ufeff{}\r\n",
        '"\\' * 9,
    ],
)
def test_any_content_passes_through_all_there_is(path: Path, content: str, tmp_path: Path) -> None:
    memory = MemoryScopes.open(path.with_name("user.jsonl"), path)
    store = memory.store("workspace")
    store.add("fact", "draft")
    store.edit(1, content)
    store.add("fact", "next")
    store.compact()
    assert {item.content for item in MemoryStore(path).items()} == {content, "next"}
    assert len(background_text(select(store.items(), 10**6).items).split("\n")) == 3
    other = MemoryScopes.open(tmp_path / "user.jsonl", tmp_path / "memory.jsonl")
    data = "\n".join(exported(memory)).encode()
    assert {result.outcome for result in import_items(other, data)} == {"added"}
    assert {item.content for item in other.items()} == {content, "next"}
    assert {result.outcome for result in import_items(other, data)} == {"duplicate"}
    assert all(json.loads(line) for line in path.read_bytes().splitlines() if line)
