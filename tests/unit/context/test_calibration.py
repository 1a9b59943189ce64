from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.context import calibration
from aish_lsp.context.calibration import MOST_MODELS, Calibration
from aish_lsp.foundation import files, jsonl, locks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "calibration.json"


def put(path: Path, document: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def entries(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(path.read_text())["models"]
    return found


def entry(ratio: object = 1.5, calls: object = 4, at: object = "2026-05-01T00:00:00Z") -> Any:
    return {"ratio": ratio, "calls": calls, "at": at}


def learn(store: Calibration, *ratios: float, key: str = "m") -> float:
    for ratio in ratios:
        store.learn(key, 10_000, round(ratio * 10_000))
    return store.ratio(key)


# How it learns


def test_where_nothing_was_learned_it_is_one_and_no_file_is_made(path: Path) -> None:
    store = Calibration(path)
    assert store.ratio("m") == 1.0
    assert store.drain_warnings() == []
    assert not path.parent.exists()


async def test_nothing_learned_writes_nothing(path: Path) -> None:
    await Calibration(path).save()
    assert not path.parent.exists()


def test_the_first_call_counts_at_once_and_for_its_model_alone(path: Path) -> None:
    store = Calibration(path)
    assert learn(store, 1.3) == pytest.approx(1.3)
    assert store.ratio("other") == 1.0
    assert not path.exists()


@pytest.mark.parametrize("truth", [0.6, 0.9, 1.25, 2.0])
def test_three_calls_settle_it(path: Path, truth: float) -> None:
    noisy = (truth * 1.05, truth * 0.95, truth * 1.02)
    assert learn(Calibration(path), *noisy) == pytest.approx(truth, rel=0.03)


def test_a_change_is_followed_after_many_calls(path: Path) -> None:
    store = Calibration(path)
    learn(store, *[1.0] * 50)
    assert learn(store, 1.4, 1.4, 1.4) == pytest.approx(1.4, rel=0.08)
    assert learn(store, 1.4, 1.4, 1.4) == pytest.approx(1.4, rel=0.02)


@pytest.mark.parametrize(("estimated", "actual"), [(1000, 10**9), (1000, 10**400), (1000, 50)])
def test_one_lie_is_bounded_and_forgotten(path: Path, estimated: int, actual: int) -> None:
    store = Calibration(path)
    learn(store, *[1.2] * 3)
    store.learn("m", estimated, actual)
    assert 0.9 <= store.ratio("m") <= 1.95
    assert learn(store, *[1.2] * 5) == pytest.approx(1.2, rel=0.06)


@pytest.mark.parametrize(
    ("estimated", "actual"),
    [(0, 500), (500, 0), (-500, 500), (500, -1), (-500, -500), (0, 0), (49, 140), (140, 49)],
)
def test_what_makes_no_sense_and_what_is_tiny_does_not_count(
    path: Path, estimated: int, actual: int
) -> None:
    store = Calibration(path)
    store.learn("m", estimated, actual)
    assert store.ratio("m") == 1.0


calls = st.tuples(st.sampled_from("abc"), st.integers(), st.integers())


@given(st.lists(calls, max_size=30))
def test_a_ratio_is_always_within_its_bounds(observed: list[tuple[str, int, int]]) -> None:
    store = Calibration(Path("/nowhere/calibration.json"))
    for key, estimated, actual in observed:
        store.learn(key, estimated, actual)
        assert 0.5 <= store.ratio(key) <= 3
    assert store.drain_warnings() == []


# The file


async def test_the_file_is_as_the_format_says(path: Path) -> None:
    store = Calibration(path)
    learn(store, 1.25, 1.25, key="http://127.0.0.1:8080 qwen\ud800é")
    await store.save()
    document = json.loads(path.read_text())
    assert document.keys() == {"version", "models"}
    assert document["version"] == 1
    (key, saved), *others = document["models"].items()
    assert not others
    assert key == "http://127.0.0.1:8080 qwen\ud800é"
    assert (saved["ratio"], saved["calls"]) == (1.25, 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", saved["at"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_it_is_kept_across_sessions(path: Path) -> None:
    store = Calibration(path)
    before = learn(store, 1.1, 1.3, 0.9)
    await store.save()
    later = Calibration(path)
    assert later.ratio("m") == store.ratio("m") == pytest.approx(before)
    # What a session learns goes on from there.
    assert learn(later, 0.9) == pytest.approx(before + 0.4 * (0.9 - before), abs=1e-3)


async def test_what_is_saved_is_not_saved_again(path: Path) -> None:
    store = Calibration(path)
    learn(store, 1.2)
    await store.save()
    written = path.stat()
    await store.save()
    assert path.stat().st_ino == written.st_ino
    assert entries(path)["m"]["calls"] == 1


async def test_two_processes_that_learn_the_same_lose_nothing(path: Path) -> None:
    one, two = Calibration(path), Calibration(path)
    assert one.ratio("m") == two.ratio("m") == 1.0
    learn(one, 1.2, 1.2)
    learn(two, 1.4)
    learn(two, 2.0, key="two's own")
    await one.save()
    await two.save()
    assert entries(path)["m"]["calls"] == 3
    assert one.ratio("m") == two.ratio("m") == pytest.approx(1.28)
    assert one.ratio("two's own") == 2.0


async def test_what_waits_goes_on_from_what_another_process_wrote(path: Path) -> None:
    one, two = Calibration(path), Calibration(path)
    learn(one, 1.1)
    learn(two, 1.3)
    assert one.ratio("m") == pytest.approx(1.1)
    await two.save()
    assert one.ratio("m") == pytest.approx(1.2)


async def test_many_writers_at_once(path: Path) -> None:
    stores = [Calibration(path) for _ in range(6)]
    for number, store in enumerate(stores):
        learn(store, 1.5)
        learn(store, 1.5, key=str(number))
    await asyncio.gather(*(store.save() for store in stores for _ in range(2)))
    assert {key: saved["calls"] for key, saved in entries(path).items()} == {
        "m": 6,
        **{str(number): 1 for number in range(6)},
    }
    assert all(store.drain_warnings() == [] for store in stores)


async def test_what_is_learned_while_it_is_written_is_written_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, write, begun, go_on = Calibration(path), files.write_atomic, *_events()

    def slow(path: Path, text: str) -> None:
        begun.set()
        assert go_on.wait(30)
        write(path, text)

    monkeypatch.setattr(jsonl, "write_atomic", slow)
    learn(store, 1.2)
    saving = asyncio.create_task(store.save())
    await asyncio.to_thread(begun.wait, 30)
    learn(store, 1.2, 1.2)
    # Whoever stops waiting for it does not stop it, nor does what it wrote count twice.
    saving.cancel()
    go_on.set()
    await store.save()
    assert entries(path)["m"]["calls"] == 3
    assert store.ratio("m") == pytest.approx(1.2)


def _events() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


async def test_the_file_is_read_only_where_it_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, {"version": 1, "models": {"m": entry(1.5)}})
    reads = []
    read = jsonl.SharedFile.read

    def counted(self: jsonl.SharedFile) -> dict[str, Any]:
        reads.append(self)
        return read(self)

    monkeypatch.setattr(jsonl.SharedFile, "read", counted)
    store = Calibration(path)
    assert {store.ratio("m") for _ in range(5000)} == {1.5}
    assert len(reads) == 1
    put(path, {"version": 1, "models": {"m": entry(0.75)}})
    assert {store.ratio("m") for _ in range(5000)} == {0.75}
    assert len(reads) == 2


async def test_a_file_that_was_deleted_is_begun_anew(path: Path) -> None:
    store = Calibration(path)
    learn(store, 2.0)
    await store.save()
    path.unlink()
    assert store.ratio("m") == 1.0
    learn(store, 1.4)
    await store.save()
    assert (entries(path)["m"]["ratio"], entries(path)["m"]["calls"]) == (1.4, 1)


async def test_unknown_fields_and_entries_are_kept(path: Path) -> None:
    strange = {"future": ["x"], "text": "y", "none": None, "mine": {"ratio": 9, "more": 1}}
    put(
        path,
        {"version": 1, "models": {**strange, "m": {**entry(1.5, 1), "p99": 7}}, "more": {"a": 1}},
    )
    store = Calibration(path)
    assert learn(store, 1.7) == pytest.approx(1.6)
    learn(store, 0.8, key="mine")
    await store.save()
    document = json.loads(path.read_text())
    at = document["models"]["m"]["at"]
    mine = {**entry(0.8, 1, document["models"]["mine"]["at"]), "more": 1}
    assert document == {
        "version": 1,
        "models": {**strange, "mine": mine, "m": {**entry(1.6, 2, at), "p99": 7}},
        "more": {"a": 1},
    }


async def test_the_oldest_models_go(path: Path) -> None:
    old = {str(n): entry() for n in range(MOST_MODELS)}
    put(path, {"version": 1, "models": {**old, "last": entry()}})
    store = Calibration(path)
    learn(store, 1.2, key="1")
    learn(store, 1.2)
    await store.save()
    kept = entries(path)
    assert len(kept) == MOST_MODELS
    assert {"m", "1", "3", "499", "last"} <= kept.keys()
    assert not {"0", "2"} & kept.keys()


async def test_a_model_just_learned_stays_whatever_other_clocks_say(path: Path) -> None:
    put(path, {"version": 1, "models": {str(n): entry(at="9999") for n in range(MOST_MODELS + 9)}})
    store = Calibration(path)
    assert learn(store, 1.2) == pytest.approx(1.2)
    await store.save()
    assert store.ratio("m") == pytest.approx(1.2)
    assert len(entries(path)) == MOST_MODELS


# What is wrong with it


@pytest.mark.parametrize(
    "saved",
    [
        entry(ratio=0.49),
        entry(ratio=3.01),
        entry(ratio=10**400),
        entry(ratio=-1.0),
        entry(ratio=True),
        entry(ratio="1.5"),
        entry(ratio=None),
        entry(calls=0),
        entry(calls=True),
        entry(calls=1.0),
        entry(calls=10**300),
        {"ratio": 1.5},
        {},
        [],
        1.5,
        None,
    ],
)
async def test_a_bad_entry_does_not_count_and_spoils_no_other(path: Path, saved: object) -> None:
    put(path, {"version": 1, "models": {"bad": saved, "good": entry(2)}})
    store = Calibration(path)
    assert store.ratio("bad") == 1.0
    assert store.ratio("good") == 2.0
    assert learn(store, 1.2, key="bad") == pytest.approx(1.2)
    await store.save()
    assert Calibration(path).ratio("bad") == pytest.approx(1.2)
    assert store.drain_warnings() == []


DAMAGED = [
    "",
    "{",
    "[]",
    "null",
    "{}",
    '{"models": {}}',
    '{"version": 1}',
    '{"version": 1, "models": []}',
    '{"version": true, "models": {}}',
    '{"version": 0, "models": {}}',
    '{"version": "2", "models": {}}',
    '{"version": 1, "models": {"m": {"ratio": NaN, "calls": 1}}}',
    '{"version": 1, "models": {"m": {"ratio": 1e999, "calls": 1}}}',
    '{"version": 1, "models": {"m": {"ratio": 1.5, "calls": ' + "9" * 5000 + "}}}",
    "[" * 100_000,
    "\udcff",
    " " * (1 << 20) + "{}",
]


@pytest.mark.parametrize("text", DAMAGED)
async def test_a_damaged_file_is_put_aside_when_it_is_next_written(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, errors="surrogateescape")
    store = Calibration(path)
    assert store.ratio("m") == 1.0
    assert path.read_text(errors="surrogateescape") == text
    (trouble,) = store.drain_warnings()
    assert f"{path}: it is damaged" in trouble
    learn(store, 1.3)
    await store.save()
    assert entries(path)["m"]["ratio"] == 1.3
    (aside,) = path.parent.glob("calibration.json.damaged-*")
    assert aside.read_text(errors="surrogateescape") == text
    assert store.drain_warnings() == []


async def test_what_can_be_read_and_not_written_is_put_aside_too(path: Path) -> None:
    for depth in range(200, 1001, 100):
        deep = '{"version": 1, "models": {"m": ' + "[" * depth + "]" * depth + "}}"
        put(path, deep)
        store = Calibration(path)
        learn(store, 1.3)
        await store.save()
        assert entries(path)["m"]["ratio"] == 1.3


async def test_what_was_known_takes_the_place_of_what_was_damaged(path: Path) -> None:
    put(path, {"version": 1, "models": {"a": entry(1.5), "b": entry(2.5)}})
    store = Calibration(path)
    assert store.ratio("a") == 1.5
    put(path, "{")
    assert store.ratio("a") == 1.5
    learn(store, 1.2)
    await store.save()
    assert {key: saved["ratio"] for key, saved in entries(path).items()} == {
        "a": 1.5,
        "b": 2.5,
        "m": 1.2,
    }


async def test_a_newer_file_is_not_touched(path: Path) -> None:
    put(path, {"version": 2, "models": {"m": entry(2.5)}})
    text = path.read_text()
    store = Calibration(path)
    assert store.ratio("m") == 1.0
    for _ in range(3):
        learn(store, 1.3)
        await store.save()
    assert store.ratio("m") == pytest.approx(1.3)
    (trouble,) = store.drain_warnings()
    assert "newer version (2)" in trouble
    assert path.read_text() == text
    assert list(path.parent.glob("*damaged*")) == []


def make_directory(path: Path) -> None:
    path.mkdir(parents=True)


def make_pipe(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)


def make_parent_a_file(path: Path) -> None:
    path.parent.write_text("")


def make_loop(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_directory, make_pipe, make_parent_a_file, make_loop])
async def test_what_is_no_file_is_told_once_and_stays(path: Path, make: Any) -> None:
    make(path)
    store = Calibration(path)
    for _ in range(3):
        store.ratio("m")
        learn(store, 1.3)
        await store.save()
    assert store.ratio("m") == pytest.approx(1.3)
    troubles = store.drain_warnings()
    assert 1 <= len(troubles) <= 2
    assert all("is not being saved: cannot" in trouble for trouble in troubles)
    await store.save()
    assert store.drain_warnings() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes every file")
async def test_permissions_that_lack_and_come_back(path: Path) -> None:
    put(path, {"version": 1, "models": {"m": entry(1.5)}})
    path.chmod(0)
    store = Calibration(path)
    assert store.ratio("m") == 1.0
    (trouble,) = store.drain_warnings()
    assert "Permission denied" in trouble
    path.chmod(0o600)
    assert store.ratio("m") == 1.5
    path.parent.chmod(0o500)
    learn(store, 1.5, key="other")
    await store.save()
    assert len(store.drain_warnings()) == 1
    path.parent.chmod(0o700)
    await store.save()
    assert entries(path)["other"]["calls"] == 1


async def test_a_full_disk_is_told_once_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, {"version": 1, "models": {"a": entry(1.5)}})
    before = path.read_text()
    store = Calibration(path)

    def full(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(files, "_write_all", full)
        for _ in range(3):
            learn(store, 1.25)
            await store.save()
        (trouble,) = store.drain_warnings()
        assert "No space left" in trouble
        assert path.read_text() == before
        assert store.ratio("m") == pytest.approx(1.25)
    await store.save()
    assert entries(path)["m"]["calls"] == 3
    # It went well meanwhile, so the next time it is told again.
    with monkeypatch.context() as patched:
        patched.setattr(files, "_write_all", full)
        learn(store, 1.25)
        await store.save()
    assert len(store.drain_warnings()) == 1


async def test_what_cannot_be_written_does_not_grow_without_end(path: Path) -> None:
    path.mkdir(parents=True)
    store = Calibration(path)
    for number in range(1200):
        store.learn("m", 1000, 1000 + number)
    assert store.ratio("m") == pytest.approx(2.2, rel=0.01)
    assert len(store._waiting) <= 1000


async def test_a_file_that_another_process_holds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "locked", lambda path: locks.locked(path, 0.05))
    store = Calibration(path)
    learn(store, 1.2)
    with locks.locked(path):
        await store.save()
    (trouble,) = store.drain_warnings()
    assert "stayed locked" in trouble
    await store.save()
    assert entries(path)["m"]["calls"] == 1


FIELDS = ("version", "models", "m", "ratio", "calls", "at")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, inner))
    ),
)


@settings(max_examples=60)
@given(document=anything, one=anything)
@pytest.mark.slow
def test_whatever_the_file_holds_the_server_goes_on(
    tmp_path_factory: pytest.TempPathFactory, document: object, one: object
) -> None:
    path = tmp_path_factory.mktemp("any") / "calibration.json"
    for content in (document, {"version": 1, "models": {"m": one}}, {"version": 1, "models": one}):
        put(path, content if isinstance(content, str) else json.dumps(content))
        store = Calibration(path)
        assert 0.5 <= store.ratio("m") <= 3
        learn(store, 1.2)
        learn(store, 1.2, key="new")
        asyncio.run(store.save())
        if not any("newer" in trouble for trouble in store.drain_warnings()):
            assert Calibration(path).ratio("new") == store.ratio("new") == 1.2
        path.unlink()
