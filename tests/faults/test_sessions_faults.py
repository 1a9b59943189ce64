"""Sessions whose files are lost, damaged or in the way while open; disks that are full."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest
from mounts import run_on_a_small_disk

from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.errors import AishError, StoreUnavailable
from aish_lsp.foundation.jsonl import now
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session, find_session, list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.rebuild import history, resumption
from aish_lsp.sessions.recorder import append_usage, read_costs, read_usage
from aish_lsp.sessions.records import load

TALK = """
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session, list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import load
from aish_lsp.context.usage import UsageRecord
from aish_lsp.sessions.recorder import append_usage, read_usage
from aish_lsp.foundation.jsonl import now

folder, usage = disk / "sessions", disk / "usage.jsonl"
call = UsageRecord(ts=now(), session="s", model="m", provider="openai", category="main", input=1,
    output=1)
log = SessionLog.create(folder, "file:///w")
log.append(records.user("q"), sync=True)
log.append(records.assistant("a", "m", finish="stop"), sync=True)
old = SessionLog.create(folder, "file:///w")
old.append(records.user("an old one"), sync=True)
old.close()
append_usage(usage, call)

def kept():
    loaded = load(log.path)
    assert loaded.notices == ()
    return [record["n"] for record in loaded.records]
"""

FULL_DISK = """
full = "No space left on device. Free some space"
fill()
numbers = [1, 2]
while not refused(lambda: numbers.append(log.append(records.user("r" * 99), sync=True)), full):
    pass
before = log.path.read_bytes()
for work in (
    lambda: log.append(records.user("x" * 65536), sync=True),
    lambda: log.append(records.assistant("x" * 9999, "m", finish="stop"), sync=True),
    lambda: log.append(records.described(title="t" * 80), sync=True),
    lambda: SessionLog.copy(load(log.path), old.path),
    lambda: SessionLog.create(folder, "file:///w").append(records.user("x" * 9999), sync=True),
):
    assert refused(work, full)
    assert log.path.read_bytes() == before
assert kept() == numbers
while not refused(lambda: append_usage(usage, call), full):
    pass
assert len(read_usage(usage)) * len(usage.read_bytes().splitlines()[0]) < usage.stat().st_size
# What was never written is no session.
assert {info.id for info in list_sessions(folder)} == {log.id, old.id}
make_room()
assert log.append(records.user("x" * 65536), sync=True) == numbers[-1] + 1
assert kept() == [*numbers, numbers[-1] + 1]
log.set_name("kept")
append_usage(usage, call)
assert SessionLog.create(folder, "file:///w").append(records.user("x" * 9999), sync=True) == 1
"""

DENIED_DISK = """
deny()
# What is open stays open.
assert log.append(records.user("r"), sync=True) == 3
log.close()
for work in (
    lambda: log.append(records.user("s"), sync=True),
    lambda: log.set_name("n"),
    lambda: SessionLog.resume(old.path),
    lambda: SessionLog.create(folder, "file:///w").append(records.user("q"), sync=True),
    lambda: SessionLog.create(disk / "new", "file:///w").append(records.user("q"), sync=True),
    lambda: SessionLog.copy(load(log.path), old.path),
    lambda: delete_session(folder, old.id),
    lambda: append_usage(usage, call),
):
    assert refused(work, advice)
assert {info.id for info in list_sessions(folder)} == {log.id, old.id}
assert kept() == [1, 2, 3]
assert len(read_usage(usage)) == 1
allow()
assert log.append(records.user("s"), sync=True) == 4
assert kept() == [1, 2, 3, 4]
log.close()
SessionLog.resume(old.path)[0].close()
delete_session(folder, old.id)
append_usage(usage, call)
assert len(read_usage(usage)) == 2
"""


def test_a_full_disk_refuses_and_works_again_later(tmp_path: Path) -> None:
    run_on_a_small_disk(TALK + FULL_DISK, tmp_path / "disk")


@pytest.mark.parametrize("denied", ["read-only", "forbidden"])
def test_a_disk_that_must_not_be_written_is_read_and_works_again_later(
    tmp_path: Path, denied: str
) -> None:
    run_on_a_small_disk(TALK + DENIED_DISK, tmp_path / "disk", denied)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "sessions"


def asked(folder: Path) -> SessionLog:
    """Return a log that is open: a question, its reply, what a command printed."""
    log = SessionLog.create(folder, "file:///w")
    log.append(records.user("one"))
    log.append(records.assistant("two", "m", finish="stop"))
    log.append(records.ran("c", {"command": "ls", "exit": 0, "output": "three"}))
    return log


def by_hand(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return what writes the file anew, into it, as many an editor does."""

    def changed(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return changed


def reversed_lines(data: bytes) -> bytes:
    return b"".join(reversed(data.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("fault", "left", "notice"),
    [
        (by_hand(lambda data: data[:-10]), [1, 2], "line 4: it is not JSON"),
        (by_hand(lambda data: data[:-1]), [1, 2, 3], ""),
        (by_hand(lambda data: data.replace(b"\n", b"\r\n")), [1, 2, 3], ""),
        (by_hand(lambda data: codecs.BOM_UTF8 + data), [1, 2, 3], ""),
        (by_hand(lambda data: data.replace(b"\n", b"\r\n\r\n")[:-4]), [1, 2, 3], ""),
        (by_hand(lambda data: data + bytes(4096)), [1, 2, 3], "line 5: it is not JSON"),
        (by_hand(lambda data: data.replace(b"two", b"\xff")), [1, 3], "line 3: it is not UTF-8"),
        (by_hand(lambda data: data.replace(b"two", "\u2028".encode())), [1, 2, 3], ""),
        (by_hand(lambda data: data.replace(b'"two"', b'"two", "x": NaN')), [1, 3], "NaN"),
        (by_hand(lambda data: data.replace(b'"two"', b"2")), [1, 3], "its content is not a text"),
        (by_hand(lambda data: data.replace(b'"n": 2', b'"n": 1e3')), [1, 3], "its number n"),
        (by_hand(lambda data: data.decode().encode("utf-16")), [], "line 1: it is not UTF-8"),
        (by_hand(lambda data: data.split(b"\n", 1)[1]), [1, 2, 3], "has lost its header"),
        (by_hand(lambda data: data + data), [1, 2, 3], "line 6: its number n does not follow"),
        (by_hand(reversed_lines), [3], "line 2: its number n does not follow"),
    ],
)
def test_a_log_that_is_changed_by_hand_while_it_is_open(
    folder: Path, fault: Callable[[Path], None], left: list[int], notice: str
) -> None:
    log = asked(folder)
    fault(log.path)
    number = log.append(records.user("next"), sync=True)
    assert number == 4
    log.mark_unanswered(number)
    log.close()
    loaded = load(log.path)
    assert [record["n"] for record in loaded.records] == [*left, 4]
    assert notice in "".join(loaded.notices)
    assert bool(loaded.notices) == bool(notice)
    for told in loaded.notices:
        assert str(log.path) in told
    resumption(loaded)
    assert len(history(loaded)) == sum("role" in record for record in loaded.records)
    (info,) = list_sessions(folder)
    assert info.id == log.id
    # The list does not look into each line: it may count one that is damaged.
    assert loaded.notices or info.turns == len(history(loaded))
    resumed, again = SessionLog.resume(log.path)
    assert again == loaded
    assert resumed.append(records.user("and so on"), sync=True) == 5
    resumed.close()
    assert delete_session(folder, log.id) == log.id


@pytest.mark.parametrize("what", ["folder", "pipe", "loop of links"])
def test_what_is_no_session_among_sessions_is_waited_for_never(folder: Path, what: str) -> None:
    log = asked(folder)
    log.close()
    odd = folder / "odd.jsonl"
    if what == "folder":
        odd.mkdir()
    elif what == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(odd)
    infos = {info.id: info for info in list_sessions(folder)}
    assert infos.keys() - {"odd"} == {log.id}
    assert find_session(folder, log.id) == log.path
    for call in (lambda: load(odd), lambda: SessionLog.resume(odd)):
        with pytest.raises(AishError):
            call()


@pytest.mark.parametrize("what", ["folder", "pipe", "loop of links"])
def test_usage_that_is_no_file_is_told_and_works_again_later(folder: Path, what: str) -> None:
    path = folder.parent / "usage.jsonl"
    call = UsageRecord(
        ts=now(), session="s", model="m", provider="p", category="main", input=1, output=1, cost=1.0
    )
    append_usage(path, call)
    away = path.with_name("away")
    path.rename(away)
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    works: list[Callable[[], object]] = [
        lambda: append_usage(path, call),
        lambda: read_usage(path),
        lambda: read_costs(path),
    ]
    for work in works:
        with pytest.raises(StoreUnavailable, match=f"{path}.*Move it away"):
            work()
    path.rmdir() if what == "folder" else path.unlink()
    away.rename(path)
    append_usage(path, call)
    assert read_costs(path) == {"s": 2.0}


def test_a_clock_that_jumps_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    years = iter(range(2030, 2010, -1))

    class Clock(datetime):
        """The year before, with each look."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(next(years), 1, 1, tzinfo=UTC)

    # No test may set the clock of the machine.
    for module in ("sessions.log", "foundation.jsonl"):
        monkeypatch.setattr(f"aish_lsp.{module}.datetime", Clock)
    first, second = SessionLog.create(folder, None), SessionLog.create(folder, None)
    for log in (first, second):
        numbers = [log.append(records.user("q")), log.append(records.model("m"))]
        numbers.append(log.append(records.user("r")))
        assert numbers == [1, 2, 3]
        log.close()
        resumed, loaded = SessionLog.resume(log.path)
        assert loaded.notices == ()
        assert resumed.append(records.reset()) == 4
        resumed.close()
    infos = list_sessions(folder)
    assert [(info.id, info.updated) for info in infos] == [
        (first.id, "2025-01-01T00:00:00Z"),
        (second.id, "2021-01-01T00:00:00Z"),
    ]
    assert infos[0].created == "2030-01-01T00:00:00Z"


PLANES = "".join(
    chr(plane * 0x10000 + 0x1F6) + chr(plane * 0x10000 + 0xFFFD) for plane in range(17)
)
CONTROLS = "".join(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, 0x202E)))


@pytest.mark.parametrize(
    "text", ["x" * 65536, "\U0001f680" * 65536, PLANES, CONTROLS, "\x00", "a\ud83d\x00", '"\\\r\n']
)
def test_any_text_passes_through_all_there_is(folder: Path, text: str) -> None:
    log = SessionLog.create(folder, "file:///w")
    output = {"command": text, "exit": 0, "output": text}
    question = records.user(text, [output])
    reply = records.assistant(
        text, "m", finish="stop", tool_calls=[{"id": "c", "name": text, "arguments": text}]
    )
    written = [question, reply, records.tool("c", text), records.ran("k", output)]
    for record in written:
        log.append(record, sync=True)
    log.mark_unanswered(1)
    log.append(records.described(title=records.title_of(f"t {text}")))
    log.close()
    log, loaded = SessionLog.resume(log.path)
    log.close()
    copy = SessionLog.copy(loaded, log.path)
    copy.close()
    for path in (log.path, copy.path):
        again = load(path)
        assert again.notices == ()
        for record, found in zip(written, again.records, strict=False):
            assert record.items() <= found.items()
        assert len(path.read_bytes().splitlines()) == len(path.read_bytes().split(b"\n")) - 1
    assert {info.title for info in list_sessions(folder)} == {log.title}
    assert all(isinstance(json.loads(line), dict) for line in path.read_bytes().splitlines())
