"""Sessions found by what was said in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.sessions import records
from aish_lsp.sessions.listing import list_sessions, search
from aish_lsp.sessions.log import SessionLog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def session(folder: Path, question: str, reply: str = "Yes.", **exec_: str) -> str:
    log = SessionLog.create(folder, "file:///w")
    log.append(records.user(question, [{"exit": 0, **exec_}] if exec_ else ()))
    log.append(records.assistant(reply, "m", finish="stop"))
    log.close()
    return log.id


def found(folder: Path, query: str) -> dict[str, str]:
    return {one.session.id: one.snippet for one in search(folder, list_sessions(folder), query)}


def test_a_session_is_found_by_its_title_its_name_its_messages_and_its_outputs(
    folder: Path,
) -> None:
    ids = [
        session(folder, "How do I deploy?"),
        session(folder, "Hello", "To DEPLOY it: make ship"),
        session(folder, "Why?", command="make deploy", output="refused"),
        session(folder, "Something else"),
    ]
    log, _ = SessionLog.resume(folder / f"{ids[3]}.jsonl")
    log.set_name("deployment")
    log.close()
    assert found(folder, "deploy").keys() == set(ids)
    assert found(folder, "deploy ship").keys() == {ids[1]}
    assert found(folder, "refused")[ids[2]] == "$ make deploy refused"
    assert found(folder, "deploy hello") == {}, "words of two messages are not of one"
    assert found(folder, '"role"') == {}, "the log's own words are not said by anybody"


def test_the_snippet_shows_the_surroundings_of_the_word(folder: Path) -> None:
    log_id = session(folder, "x", f"{'before ' * 30}needle{' after' * 60}")
    snippet = found(folder, "NEEDLE")[log_id]
    assert snippet.startswith("…before")
    assert snippet.endswith("…")
    assert "before needle after" in snippet
    assert len(snippet) <= 122
    assert found(folder, "x")[log_id] == "x"


def test_words_with_letters_of_all_kinds_are_found_whatever_their_case(folder: Path) -> None:
    log_id = session(folder, "Größe der Straße", 'a "quoted" word\\')
    assert found(folder, "GRÖSSE strasse").keys() == {log_id}
    assert found(folder, '"QUOTED"').keys() == {log_id}
    assert found(folder, "word\\").keys() == {log_id}


def test_what_a_summarizer_was_asked_is_not_searched_and_a_lost_log_is_no_error(
    folder: Path,
) -> None:
    log_id = session(folder, "q")
    log, _ = SessionLog.resume(folder / f"{log_id}.jsonl")
    log.append(records.user(":memory summarize", meta=records.SUMMARIZE))
    log.close()
    assert found(folder, "summarize") == {}
    infos = list_sessions(folder)
    (folder / f"{log_id}.jsonl").unlink()
    assert search(folder, infos, "anything") == []
    assert [one.snippet for one in search(folder, infos, "Q")] == ["q"]
