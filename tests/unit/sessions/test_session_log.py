"""The session log: its lines, its file, and what is read back from damaged ones."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.foundation.errors import Busy, NotFound, StoreUnavailable
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import load, title_of

URI = "file:///home/me/project"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "sessions"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_ts(record: dict[str, Any]) -> dict[str, Any]:
    ts = record.pop("ts")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", ts)
    return record


def test_an_idle_session_leaves_no_file(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.close()
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", log.id)
    assert not folder.exists()
    assert SessionLog.create(folder, URI).id != log.id


def test_the_lines_are_those_of_the_contract(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    output = {"command": "ls", "exit": 0, "output": "a\n"}
    reasoning = {"text": "hm", "provider": "anthropic", "metadata": {"signature": "s"}}
    call = {"id": "c1", "name": "read", "arguments": "{}"}
    usage = {"inputTokens": 5, "outputTokens": 2}
    numbers = [
        log.append(records.user("What is here?\nSecond line", [output]), sync=True),
        log.append(
            records.assistant(
                "Files.",
                "local",
                finish="stop",
                reasoning=reasoning,
                tool_calls=[call],
                usage=usage,
                commands=[{"id": "k1", "text": "ls -a"}],
            )
        ),
        log.append(records.tool("c1", "result")),
        log.append(records.evicted(1, 3, "they listed files")),
        log.append(records.reset()),
        log.append(records.model("deep")),
        log.append(records.norris("start", goal="g")),
    ]
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    header, *rest = lines(log.path)
    created = header["meta"].pop("created")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created)
    assert header == {
        "meta": {
            "version": 1,
            "id": log.id,
            "workspace": URI,
            "title": "What is here?",
            "name": None,
        }
    }
    assert [without_ts(record) for record in rest] == [
        {"n": 1, "role": "user", "content": "What is here?\nSecond line", "exec": [output]},
        {
            "n": 2,
            "role": "assistant",
            "content": "Files.",
            "model": "local",
            "reasoning": reasoning,
            "tool_calls": [call],
            "usage": usage,
            "finish": "stop",
            "commands": [{"id": "k1", "text": "ls -a"}],
        },
        {"n": 3, "role": "tool", "tool_call_id": "c1", "content": "result"},
        {"n": 4, "event": "evicted", "from": 1, "to": 3, "summary": "they listed files"},
        {"n": 5, "event": "reset"},
        {"n": 6, "event": "model", "model": "deep"},
        {"n": 7, "event": "norris", "status": "start", "goal": "g"},
    ]
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    log.close()


def test_what_a_turn_does_not_have_is_left_out() -> None:
    assert records.user("q") == {"role": "user", "content": "q"}
    assert records.assistant("a", "m", finish="stop") == {
        "role": "assistant",
        "content": "a",
        "model": "m",
        "finish": "stop",
    }
    assert records.assistant("a", "m", finish="stop", meta=records.SUMMARIZE)["meta"] == "summarize"
    assert "summary" not in records.evicted(1, 2, None)


def test_secrets_go_from_every_text_but_a_providers_own_data(folder: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2", "[redacted]")

    log = SessionLog.create(folder, URI, redact)
    log.append(records.user("it is hunter2", [{"command": "x", "exit": 0, "output": "hunter2"}]))
    log.append(
        records.assistant(
            "hunter2",
            "m",
            finish="stop",
            reasoning={"text": "hunter2", "provider": "p", "metadata": {"signature": "hunter2"}},
            tool_calls=[{"id": "1", "name": "n", "arguments": '{"p": "hunter2"}'}],
        )
    )
    log.close()
    assert log.title == "it is [redacted]"
    assert log.path.read_text().count("hunter2") == 1
    reasoning = lines(log.path)[2]["reasoning"]
    assert reasoning["metadata"] == {"signature": "hunter2"}


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("How do I run the tests?", "How do I run the tests?"),
        ("\n\n  second\tline  \nthird", "second line"),
        ("@src/app.py @README.md\nWhy?", "Why?"),
        ("@src/app.py", "@src/app.py"),
        ("[norris] goal: make it pass\n[aish] Go on.", "make it pass"),
        ("x" * 100, "x" * 79 + "…"),
        ("words " * 20, "words " * 12 + "words…"),
        ("x" * 80, "x" * 80),
        ("a " + "x" * 100, "a " + "x" * 77 + "…"),
        ("  ", ""),
    ],
)
def test_the_title_is_the_question_cut_at_a_word(content: str, title: str) -> None:
    assert title_of(content) == title


def test_the_summarizers_question_gives_no_title(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("Read the following", meta=records.SUMMARIZE))
    log.append(records.user("mine"))
    log.close()
    assert log.title == "mine"
    assert load(log.path).meta["title"] == "mine"


def test_name_and_title_are_lines_too(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    log.set_name("deploy")
    assert log.name == "deploy"
    log.append(records.described(title="How we deploy"))
    log.set_name(None)
    log.close()
    loaded = load(log.path)
    assert (loaded.meta["name"], loaded.meta["title"]) == (None, "How we deploy")
    assert lines(log.path)[0]["meta"]["name"] is None


def test_resume_goes_on_in_the_old_file(folder: Path) -> None:
    first = SessionLog.create(folder, URI)
    first.append(records.user("q"))
    first.append(records.assistant("a", "m", finish="stop"))
    first.close()
    log, loaded = SessionLog.resume(first.path)
    assert loaded.notices == ()
    assert [record["content"] for record in loaded.records] == ["q", "a"]
    assert (log.id, log.title) == (first.id, "q")
    assert log.append(records.user("r")) == 3
    log.close()
    assert len(list(folder.iterdir())) == 1
    assert [line.get("n") for line in lines(log.path)] == [None, 1, 2, 3]


def test_a_session_is_open_in_one_place_at_a_time(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    with pytest.raises(Busy, match=rf"{log.id} is in use.*new one"):
        SessionLog.resume(log.path)
    assert log.append(records.user("r")) == 2
    log.close()
    resumed, _ = SessionLog.resume(log.path)
    resumed.close()
    assert log.append(records.user("s")) == 3
    log.close()


def test_a_closed_log_is_free_while_another_thread_starts_processes(folder: Path) -> None:
    log = asked(folder)
    is_over = threading.Event()

    def start_processes() -> None:
        while not is_over.is_set():
            subprocess.run(["true"], check=True)

    threads = [threading.Thread(target=start_processes) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            log.close()
            log, _ = SessionLog.resume(log.path)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        log.close()


def test_a_log_that_a_crash_cut_off_resumes_with_what_was_written(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    log.append(records.assistant("a", "m", finish="stop"))
    log.close()
    log.path.write_bytes(log.path.read_bytes() + b'{"n": 3, "role": "us\xc3')
    resumed, loaded = SessionLog.resume(log.path)
    assert [record["n"] for record in loaded.records] == [1, 2]
    (notice,) = loaded.notices
    assert "never finished" in notice
    assert resumed.append(records.user("again")) == 3
    resumed.close()
    after = load(log.path)
    assert [record.get("content") for record in after.records] == ["q", "a", "again"]
    assert "line 4" in after.notices[0]


def test_damaged_lines_are_named_and_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aish_lsp.foundation.jsonl.MOST_REPORTED", 100)
    folder.mkdir(parents=True)
    path = folder / "x.jsonl"
    texts = [
        '{"meta": {"version": 1, "title": "t"}}',
        '{"n": 1, "role": "user", "content": "q"}',
        "{broken",
        '{"n": 1, "role": "user", "content": "twice"}',
        '{"n": "2", "role": "user", "content": "x"}',
        '{"n": 2, "role": "system", "content": "x"}',
        '{"n": 2, "role": "user"}',
        '{"n": 3, "event": "reset", "role": "user"}',
        '{"n": 3, "event": "exec", "id": ["c"]}',
        '{"n": 3, "role": ["user"], "content": "x"}',
        '{"n": 3, "event": "of a later version", "future": 1}',
        '{"n": 4, "role": "assistant", "content": "a", "future": 1}',
    ]
    path.write_text("".join(f"{text}\n" for text in texts))
    loaded = load(path)
    assert [record["n"] for record in loaded.records] == [1, 3, 4]
    assert loaded.records[-1]["future"] == 1
    named = [re.findall(r"line (\d+)", notice) for notice in loaded.notices]
    assert named == [[f"{number}"] for number in range(3, 11)]


def test_a_log_without_its_header_still_loads(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = folder / "x.jsonl"
    path.write_text('{"n": 1, "role": "user", "content": "q"}\n')
    loaded = load(path)
    assert (loaded.id, loaded.meta["title"], len(loaded.records)) == ("x", "q", 1)
    assert "header" in loaded.notices[0]


def test_a_title_or_a_name_that_is_not_a_text_counts_as_none(folder: Path) -> None:
    log = asked(folder)
    log.close()
    header = lines(log.path)[0]
    header["meta"] |= {"title": 5, "name": ["x"]}
    rest = log.path.read_text().partition("\n")[2]
    log.path.write_text(f"{json.dumps(header)}\n{rest}")
    resumed, _ = SessionLog.resume(log.path)
    [listed] = list_sessions(folder)
    assert (resumed.title, resumed.name) == (listed.title, listed.name) == ("q", None)
    resumed.close()


def test_a_newer_or_missing_log_is_refused_and_not_touched(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = folder / "x.jsonl"
    path.write_text('{"meta": {"version": 2}}\n')
    for call in (load, SessionLog.resume):
        with pytest.raises(StoreUnavailable, match="newer version"):
            call(path)
        with pytest.raises(NotFound, match="no session none any more"):
            call(folder / "none.jsonl")
    assert path.read_text() == '{"meta": {"version": 2}}\n'
    assert len(list(folder.iterdir())) == 1


def test_a_line_that_could_not_be_written_leaves_no_gap(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StoreUnavailable, match="No space left"):
            log.append(records.user("r"), sync=True)
    assert log.append(records.user("s"), sync=True) == 2
    log.close()
    assert [record["content"] for record in load(log.path).records] == ["q", "s"]


def test_the_header_comes_first_also_after_a_first_line_that_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog.create(folder, URI)

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(StoreUnavailable, match="No space left"):
            log.append(records.user("q"))
    log.append(records.user("q"))
    log.close()
    assert load(log.path).notices == ()
    assert len(lines(log.path)) == 2


def test_every_text_survives(folder: Path) -> None:
    content = "\x00 \x1b \u2028 \U0001f680 \ud83d \r\n"
    log = SessionLog.create(folder, URI)
    log.append(records.user(content))
    log.close()
    assert load(log.path).records[0]["content"] == content


def test_a_question_without_a_reply_is_marked_in_its_own_line(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("first"), sync=True)
    log.append(records.assistant("a", "m", finish="stop"))
    log.append(records.user("second }"), sync=True)
    before = log.path.stat()
    log.mark_unanswered(3)
    log.append(records.user("third"))
    after = log.path.stat()
    assert (before.st_ino, before.st_nlink) == (after.st_ino, after.st_nlink)
    _, first, _, second, third = lines(log.path)
    assert "meta" not in first
    assert without_ts(second) == {
        "n": 3,
        "role": "user",
        "content": "second }",
        "meta": "unanswered",
    }
    assert "meta" not in third
    log.close()


def test_where_there_is_no_room_for_the_mark_it_is_a_line_of_its_own(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    log.close()
    log.mark_unanswered(1)
    assert without_ts(lines(log.path)[-1]) == {"n": 2, "event": "unanswered", "turn": 1}
    log.append(records.user("r"))
    text = log.path.read_bytes()
    log.path.write_bytes(text.replace(b"             ", b""))
    log.mark_unanswered(3)
    assert without_ts(lines(log.path)[-1]) == {"n": 4, "event": "unanswered", "turn": 3}
    log.close()


# What others do to the file while it is open


def asked(folder: Path) -> SessionLog:
    """Return a log with a question and its reply."""
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    log.append(records.assistant("a", "m", finish="stop"))
    return log


def said(path: Path) -> list[str | None]:
    loaded = load(path)
    assert loaded.notices == ()
    return [record.get("content") for record in loaded.records]


@pytest.mark.parametrize("how", ["in place", "by a rename"])
def test_lines_that_were_added_by_hand_are_gone_on_behind(folder: Path, how: str) -> None:
    log = asked(folder)
    mine = b'{"n": 7, "ts": "2026-05-13T19:01:01Z", "role": "user", "content": "by hand"}\r\n'
    data = log.path.read_bytes() + mine
    if how == "in place":
        log.path.write_bytes(data)
    else:
        log.path.with_name("new").write_bytes(data)
        log.path.with_name("new").rename(log.path)
    assert log.append(records.user("r")) == 8
    log.close()
    assert said(log.path) == ["q", "a", "by hand", "r"]


@pytest.mark.parametrize("how", ["deleted", "moved", "emptied"])
def test_a_log_that_went_is_begun_anew(folder: Path, how: str) -> None:
    log = asked(folder)
    moved = log.path.with_name("moved")
    if how == "deleted":
        log.path.unlink()
    elif how == "moved":
        log.path.rename(moved)
    else:
        os.truncate(log.path, 0)
    assert log.append(records.user("r"), sync=True) == 3
    log.close()
    assert said(log.path) == ["r"]
    assert load(log.path).meta["title"] == "q"
    assert not moved.exists() or len(lines(moved)) == 3


def test_a_log_that_was_cut_goes_on_behind_what_is_left(folder: Path) -> None:
    log = asked(folder)
    whole = log.path.read_bytes()
    os.truncate(log.path, len(whole) - 20)
    assert log.append(records.user("r"), sync=True) == 3
    log.close()
    loaded = load(log.path)
    assert [record["content"] for record in loaded.records] == ["q", "r"]
    assert "line 3" in loaded.notices[0]


def test_a_log_that_another_editor_went_on_with_is_gone_on_behind_it(folder: Path) -> None:
    log = asked(folder)
    log.close()
    other, _ = SessionLog.resume(log.path)
    other.append(records.user("theirs"))
    other.close()
    assert log.append(records.user("mine")) == 4
    log.close()
    assert said(log.path) == ["q", "a", "theirs", "mine"]


@pytest.mark.parametrize("what", ["folder", "pipe", "loop"])
def test_what_is_no_file_is_refused_and_the_log_works_again_later(folder: Path, what: str) -> None:
    log = asked(folder)
    away = log.path.with_name("away")
    log.path.rename(away)
    if what == "folder":
        log.path.mkdir()
    elif what == "pipe":
        os.mkfifo(log.path)
    else:
        log.path.symlink_to(log.path)
    with pytest.raises(StoreUnavailable, match=f"{log.path}.*Move it away"):
        log.append(records.user("r"), sync=True)
    with pytest.raises(StoreUnavailable if what != "loop" else NotFound):
        load(log.path)
    log.path.rmdir() if what == "folder" else log.path.unlink()
    away.rename(log.path)
    assert log.append(records.user("s"), sync=True) == 3
    log.close()
    assert said(log.path) == ["q", "a", "s"]


def test_a_link_to_the_log_is_followed(folder: Path) -> None:
    log = asked(folder)
    real = log.path.with_name("real")
    log.path.rename(real)
    log.path.symlink_to(real)
    assert log.append(records.user("r")) == 3
    log.mark_unanswered(3)
    log.close()
    assert said(log.path) == ["q", "a", "r", None]


def test_a_newer_log_in_its_place_is_not_touched(folder: Path) -> None:
    log = asked(folder)
    log.path.write_text('{"meta": {"version": 2}}\n')
    with pytest.raises(StoreUnavailable, match="newer version"):
        log.append(records.user("r"))
    log.close()
    assert log.path.read_text() == '{"meta": {"version": 2}}\n'


def test_a_mark_goes_nowhere_but_into_the_line_that_it_was_meant_for(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("first"))
    log.append(records.user("other"))
    head, one, two = log.path.read_bytes().splitlines(keepends=True)
    # The two are of one length: the room of the second is now where that of the first was.
    log.path.write_bytes(head + two.replace(b'"n": 2', b'"n": 1') + one.replace(b": 1,", b": 2,"))
    log.mark_unanswered(1)
    log.close()
    assert [record.get("meta") for record in load(log.path).records] == [None, None, None]
    assert lines(log.path)[-1]["turn"] == 1


# Numbers and depths without sense


@pytest.mark.parametrize(
    "line",
    [
        '{"n": 2, "role": "user", "content": "x", "more": NaN}',
        '{"n": 2, "role": "user", "content": "x", "more": -1e999}',
        f'{{"n": {"9" * 5000}, "role": "user", "content": "x"}}',
        f'{{"n": {2**53}, "role": "user", "content": "x"}}',
        f'{{"n": 2, "role": "user", "content": "x", "more": {"[" * 5000}{"]" * 5000}}}',
    ],
)
def test_a_line_with_a_number_or_a_depth_without_sense_is_skipped(folder: Path, line: str) -> None:
    log = asked(folder)
    log.path.write_text(f"{log.path.read_text()}{line}\n")
    assert log.append(records.user("r"), sync=True) == 3
    log.close()
    loaded = load(log.path)
    assert [record["content"] for record in loaded.records] == ["q", "a", "r"]
    assert "line 4" in loaded.notices[0]
    copy = SessionLog.copy(loaded, log.path)
    copy.close()
    assert len(load(copy.path).records) == 3


def test_a_log_whose_numbers_are_used_up_says_so(folder: Path) -> None:
    log = asked(folder)
    last = f'{{"n": {2**53 - 1}, "role": "user", "content": "x"}}'
    log.path.write_text(f"{log.path.read_text()}{last}\n")
    with pytest.raises(StoreUnavailable, match=r"no numbers left.*Begin a new session"):
        log.append(records.user("r"))
    log.close()


def test_metadata_that_json_has_no_form_for_is_left_out_and_the_reply_is_kept(folder: Path) -> None:
    log = SessionLog.create(folder, URI)
    log.append(records.user("q"))
    ring: dict[str, Any] = {}
    ring["x"] = ring
    for metadata in ({"x": float("nan")}, ring):
        reasoning = {"text": "hm", "provider": "p", "metadata": metadata}
        log.append(records.assistant("a", "m", finish="stop", reasoning=reasoning))
    log.close()
    _, one, two = load(log.path).records
    assert one["reasoning"] == two["reasoning"] == {"text": "hm", "provider": "p"}
