"""The list of sessions, and finding and deleting one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aish_lsp.foundation.errors import Busy, NotFound
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session, find_session, list_sessions
from aish_lsp.sessions.log import SessionLog

TS = "2026-05-13T19:01:01Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def session(folder: Path, question: str, name: str | None = None, turns: int = 1) -> SessionLog:
    log = SessionLog.create(folder, "file:///w")
    for number in range(turns):
        log.append(records.user(question))
        log.append(records.assistant("a", f"model {number}", finish="stop"))
    if name:
        log.set_name(name)
    log.close()
    return log


def later(path: Path, ts: str) -> None:
    """Give the last line of a log another time."""
    *rest, last = path.read_text().splitlines()
    record = json.loads(last) | {"ts": ts}
    path.write_text("\n".join([*rest, json.dumps(record), ""]))


def test_no_folder_no_sessions(folder: Path) -> None:
    assert list_sessions(folder) == []


def test_each_session_with_what_its_log_says(folder: Path) -> None:
    log = session(folder, 'Why "role": "user"\nin text?', "why", turns=2)
    later(log.path, "2027-01-01T00:00:00Z")
    (info,) = list_sessions(folder, {log.id: 0.25})
    header = json.loads(log.path.read_text().splitlines()[0])["meta"]
    assert (info.id, info.name, info.title) == (log.id, "why", 'Why "role": "user"')
    assert (info.created, info.updated) == (header["created"], "2027-01-01T00:00:00Z")
    assert (info.questions, info.turns, info.model, info.cost) == (2, 4, "model 1", 0.25)
    assert list_sessions(folder)[0].cost is None


def test_a_summarizers_own_turns_are_not_counted_and_its_model_did_not_answer(
    folder: Path,
) -> None:
    log, _ = SessionLog.resume(session(folder, "q").path)
    log.append(records.user(":memory summarize", meta=records.SUMMARIZE))
    log.append(records.assistant("none", "finder", finish="stop", meta=records.SUMMARIZE))
    log.close()
    (info,) = list_sessions(folder)
    assert (info.title, info.questions, info.turns, info.model) == ("q", 1, 2, "model 0")


def test_the_one_last_written_to_comes_first(folder: Path) -> None:
    logs = [session(folder, question) for question in "abc"]
    for log, ts in zip(logs, ["2026-02-01", "2026-03-01", "2026-01-01"], strict=True):
        later(log.path, f"{ts}T00:00:00Z")
    assert [info.title for info in list_sessions(folder)] == ["b", "a", "c"]


def test_of_one_second_too(folder: Path) -> None:
    for number, log in enumerate([session(folder, question) for question in "abcd"]):
        later(log.path, TS)
        os.utime(log.path, ns=(0, (number % 2 * 10 + number) * 1000))
    assert [info.title for info in list_sessions(folder)] == ["d", "b", "c", "a"]


@pytest.mark.parametrize(
    "damage",
    [
        b"{broken\n",
        b'{"n": 9, "role": "us',
        b'{"role": "assistant", "n": 3, "model": "other", "content": "x", "ts": "z"}\n',
        b"\n\n",
    ],
)
def test_a_line_that_looks_unlike_ours_is_counted_as_the_loader_does(
    folder: Path, damage: bytes
) -> None:
    log = session(folder, "q")
    log.path.write_bytes(log.path.read_bytes() + damage)
    (info,) = list_sessions(folder)
    foreign = b"assistant" in damage
    assert (info.title, info.turns) == ("q", 3 if foreign else 2)
    assert info.model == ("other" if foreign else "model 0")


def test_a_title_of_a_log_that_did_not_begin_with_a_question(folder: Path) -> None:
    log = SessionLog.create(folder, "file:///w")
    log.append(records.model("deep"))
    log.append(records.user("Read", meta=records.SUMMARIZE))
    log.append(records.user("mine"))
    log.close()
    (info,) = list_sessions(folder)
    assert (info.title, info.turns, info.model) == ("mine", 1, None)


def test_newer_empty_and_unreadable_logs_do_not_hide_the_others(folder: Path) -> None:
    log = session(folder, "q")
    (folder / "empty.jsonl").write_text("")
    (folder / "newer.jsonl").write_text('{"meta": {"version": 2, "title": "t"}}\n{"other": 1}\n')
    (folder / "folder.jsonl").mkdir()
    (folder / "other.txt").write_text("")
    infos = {info.id: info for info in list_sessions(folder)}
    assert infos.keys() == {log.id, "newer", "folder"}
    assert (infos["newer"].turns, infos["folder"].title) == (0, None)


def test_find_by_id_and_by_name(folder: Path) -> None:
    first = session(folder, "q", "deploy")
    second = session(folder, "r", first.id)
    assert find_session(folder, first.id) == first.path
    assert find_session(folder, "deploy") == first.path
    assert find_session(folder, second.id) == second.path
    with pytest.raises(NotFound, match="Did you mean deploy"):
        find_session(folder, "deplyo")
    with pytest.raises(NotFound, match="no session"):
        find_session(folder, f"../sessions/{first.id}")


def test_delete(folder: Path) -> None:
    log, other = session(folder, "q", "old"), session(folder, "r")
    assert delete_session(folder, "old") == log.id
    assert [info.id for info in list_sessions(folder)] == [other.id]
    with pytest.raises(NotFound):
        delete_session(folder, log.id)


def test_a_session_in_use_is_not_deleted(folder: Path) -> None:
    log = session(folder, "q")
    resumed, _ = SessionLog.resume(log.path)
    with pytest.raises(Busy, match="in use"):
        delete_session(folder, log.id)
    resumed.close()
    assert delete_session(folder, log.id) == log.id
