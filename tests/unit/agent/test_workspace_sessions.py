"""Sessions that are begun, resumed, saved and deleted in a workspace, damaged ones too."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from typed_chat import typed

from aish_lsp.agent import Workspace
from aish_lsp.agent.execution import run
from aish_lsp.agent.planning import RunRequest
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.chat.colon import completions_at
from aish_lsp.config.loading import Configuration
from aish_lsp.context.messages import ExecOutput, Message
from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.errors import (
    AishError,
    Busy,
    Denied,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
)
from aish_lsp.foundation.ports import Question
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.recorder import append_usage
from aish_lsp.sessions.records import Record

OUTPUT = {"command": "ls", "exit": 0, "output": "a\n"}
USER, REPLY = records.user("Old?"), records.assistant("Yes.", "offline", finish="stop")


class Place:
    """A workspace that can be opened again and again, as by one server after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.opened: list[Workspace] = []
        self.answer: bool | None = True
        self.asked: list[str] = []

    def open(self) -> Workspace:
        async def ask(question: Question) -> bool | None:
            self.asked.append(question.message)
            return self.answer

        services = Services(ask, environ={**os.environ, "AISH_DISCOVERY": "off"})
        configuration = Configuration(self.root, services.trust, services.environ)
        workspace = Workspace(self.root, services, configuration)
        self.opened.append(workspace)
        return workspace

    async def close(self) -> None:
        for workspace in self.opened:
            await workspace.aclose()
            await workspace.services.aclose()
        self.opened.clear()


@pytest.fixture
async def place(own_files: Path) -> AsyncIterator[Place]:
    (own_files / "config.toml").write_text(
        'default_model = "offline"\n[models.mine]\nprovider = "offline"\nmodel = "m"\n'
    )
    root = own_files / "workspace"
    root.mkdir()
    (root / "Makefile").write_text("test:\n\t@echo tests ran\n")
    place = Place(root)
    yield place
    await place.close()


async def ask(workspace: Workspace, prompt: str) -> Any:
    return await begin_turn(workspace.shown, Ask(prompt)).result()


def written(workspace: Workspace, *lines: Record, name: str | None = None) -> SessionLog:
    """Write a session as an earlier process has left it."""
    log = SessionLog.create(workspace.shown.recorder.session_path.parent, None)
    for line in lines:
        log.append(line)
    if name:
        log.set_name(name)
    log.close()
    return log


@pytest.mark.slow
async def test_a_session_goes_on_in_its_file_with_all_it_had(place: Place) -> None:
    first = place.open()
    asked = await ask(first, "How do I run the tests?")
    [command] = asked.commands
    await first.shown.use_model("mine")
    first.shown.conversation.summary = ""
    await place.close()

    second = place.open()
    resumed = await second.sessions.resume(asked.session_id)
    assert (resumed.session.id, resumed.messages, resumed.notices) == (asked.session_id, 2, ())
    messages = second.shown.conversation.messages
    assert [(message.role, message.n) for message in messages] == [("user", 1), ("assistant", 2)]
    assert messages[1].content == asked.text
    assert [one.info for one in second.shown.last_turn_suggestions] == [command]
    assert second.shown.preset.name == "mine"
    assert second.shown.meter.usage.total().calls == 1
    report = await run(second.shown, RunRequest(command_id=command.id, approval="given")).result()
    assert report.output == "tests ran\n"

    await place.close()
    third = place.open()
    await third.sessions.resume(asked.session_id)
    assert third.shown.conversation.pending == [ExecOutput("make test", 0, "tests ran\n")]
    assert third.shown.commands.all() == []
    again = await ask(third, "Did it work?")
    assert again.session_id == asked.session_id
    assert [message.n for message in third.shown.conversation.messages] == [1, 2, 5, 6]
    assert third.shown.conversation.messages[2].exec == (ExecOutput("make test", 0, "tests ran\n"),)
    assert len(list(third.shown.recorder.session_path.parent.iterdir())) == 1
    assert third.shown.meter.usage.total().calls == 2


async def test_an_evicted_range_a_summary_and_an_unanswered_question(place: Place) -> None:
    workspace = place.open()
    log = written(
        workspace,
        USER,
        REPLY,
        records.user("Second?"),
        records.assistant("Two.", "offline", finish="stop"),
        records.evicted(1, 2, "They talked."),
        records.user("Third?", [OUTPUT]),
    )
    resumed = await workspace.sessions.resume(log.id)
    assert resumed.messages == 2
    conversation = workspace.shown.conversation
    assert conversation.messages == [Message("user", "Second?", 3), Message("assistant", "Two.", 4)]
    assert conversation.summary == "They talked."
    assert conversation.pending == [ExecOutput("ls", 0, "a\n")]
    assert workspace.shown.next_request().context().compactions == 1
    shown = await workspace.sessions.history(workspace.shown.id)
    assert len([record for record in shown.records if "role" in record]) == 5
    page = await typed(workspace, ":session history")
    assert page.count("no longer sent") == 3
    assert "$ ls (exit 0)\na\n" in page


async def test_what_was_reset_does_not_come_back(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY, records.ran("c", OUTPUT), records.reset())
    assert (await workspace.sessions.resume(log.id)).messages == 0
    assert workspace.shown.conversation.pending == []
    assert workspace.shown.conversation.messages == []


async def test_the_session_before_leaves_nothing_in_the_next(place: Place) -> None:
    workspace = place.open()
    asked = await ask(workspace, "How do I run the tests?")
    workspace.shown.conversation.append_output(ExecOutput("ls", 0, ""))
    workspace.shown.conversation.summary = "old"
    fresh = (await workspace.sessions.new()).id
    assert fresh == workspace.shown.id != asked.session_id
    conversation = workspace.shown.conversation
    assert (conversation.messages, conversation.summary, conversation.pending) == ([], "", [])
    assert workspace.shown.commands.all() == []
    assert workspace.shown.meter.usage.total().calls == 0
    # Nothing was written yet, and the one before is free again.
    assert [info.id for info in await workspace.sessions.all()] == [asked.session_id]
    other = place.open()
    assert (await other.sessions.resume(asked.session_id)).messages == 2


async def test_a_session_is_not_replaced_while_something_runs(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    job = run(workspace.shown, RunRequest(text="sleep 60", approval="given"))
    for replace in (workspace.sessions.new, lambda: workspace.sessions.resume(log.id)):
        with pytest.raises(Busy, match="`sleep 60` is running in this session"):
            await replace()
    job.cancel()
    await job.result()
    before = workspace.shown.id
    message = begin_turn(workspace.shown, Ask("hello"))
    with pytest.raises(Busy, match="A question is being answered"):
        await workspace.sessions.resume(log.id)
    await message.result()
    assert workspace.shown.id == before
    await workspace.sessions.resume(log.id)


async def test_a_question_that_comes_while_the_session_is_replaced_goes_into_the_new_one(
    place: Place,
) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    switching = asyncio.create_task(workspace.sessions.resume(log.id))
    await asyncio.sleep(0)  # It has begun, and nothing more.
    before = workspace.shown
    meant = await workspace.sessions.named(None)
    assert meant is not before
    assert (await begin_turn(meant, Ask("hello")).result()).session_id == log.id
    await switching
    assert [message.content for message in meant.conversation.messages][:3] == [
        "Old?",
        "Yes.",
        "hello",
    ]


class Copying:
    """Holds the copy of a log back until it may be made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        self.logs: list[SessionLog] = []
        copy = SessionLog.copy

        def held(*of_what: Any) -> SessionLog:
            self.began.set()
            assert self.may_end.wait(30)
            self.logs.append(copy(*of_what))
            return self.logs[-1]

        monkeypatch.setattr(SessionLog, "copy", held)

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 30)


async def forkable(workspace: Workspace) -> str:
    """Ask two questions; return the second's exchange."""
    await ask(workspace, "First?")
    await ask(workspace, "Second?")
    return workspace.shown.conversation.messages[2].exchange


async def test_forks_beside_are_made_one_after_the_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one waits for ends with its cancel, the other gets its own."""
    workspace = place.open()
    sessions, shown = workspace.sessions, workspace.shown
    exchange = await forkable(workspace)
    copying = Copying(monkeypatch)
    first, second = (
        asyncio.create_task(sessions.fork(shown, exchange, show=False)) for _ in range(2)
    )
    async with asyncio.timeout(60):
        await copying.begun()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        # Nothing that is open already waits for it, and neither does a new session.
        assert await sessions.named(None) is shown
        begun = await sessions.new(show=False)
        copying.may_end.set()
        parted = await second
    assert [len(one.conversation.messages) for one in sessions.open] == [4, 0, 2, 2]
    assert begun is sessions.open[1]
    assert parted.session is sessions.open[3]
    assert workspace.shown is shown
    begun_on = await begin_turn(parted.session, Ask("Third?")).result()
    assert begun_on.session_id == parted.session.id
    assert len(shown.conversation.messages) == 4


async def test_a_fork_waits_for_what_is_being_resumed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = place.open()
    sessions, shown = workspace.sessions, workspace.shown
    exchange = await forkable(workspace)
    log = written(workspace, USER, REPLY)
    async with asyncio.timeout(60):
        resumed, parted = await asyncio.gather(
            sessions.resume(log.id), sessions.fork(shown, exchange, show=False)
        )
    assert workspace.shown is resumed.session
    assert sessions.open == [resumed.session, parted.session]
    assert parted.session.conversation.messages[0].content == "First?"


async def test_a_fork_that_nobody_waits_for_is_closed_with_its_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = place.open()
    exchange = await forkable(workspace)
    copying = Copying(monkeypatch)
    forking = asyncio.create_task(workspace.sessions.fork(workspace.shown, exchange, show=False))
    await copying.begun()
    forking.cancel()
    closing = asyncio.create_task(workspace.sessions.aclose())
    await asyncio.sleep(0)
    copying.may_end.set()
    async with asyncio.timeout(60):
        await closing
    [log] = copying.logs
    # Nobody has it open any more.
    assert (await place.open().sessions.resume(log.id)).messages == 2


async def test_a_session_that_another_editor_has_open_is_busy(place: Place) -> None:
    one, other = place.open(), place.open()
    asked = await ask(one, "hello")
    own = (await ask(other, "hello too")).session_id
    with pytest.raises(Busy, match="in another editor"):
        await other.sessions.resume(asked.session_id)
    with pytest.raises(Busy, match="in another editor"):
        await other.sessions.delete(asked.session_id)
    # It can be read, and nothing was replaced.
    assert (await other.sessions.history(asked.session_id)).records[0]["content"] == "hello"
    assert other.shown.id == own
    assert len(other.shown.conversation.messages) == 2


async def test_the_open_session_resumed_goes_on_as_it_is(place: Place) -> None:
    workspace = place.open()
    assert (await workspace.sessions.resume(workspace.shown.id)).messages == 0
    asked = await ask(workspace, "hello")
    resumed = await workspace.sessions.resume(asked.session_id)
    assert (resumed.messages, len(workspace.shown.conversation.messages)) == (2, 2)


TORN = b'{"n": 5, "ts": "2026-05-13T19:01:01Z", "role": "us'
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "half a line at the end": (lambda data: data + TORN, 4, "never finished"),
    "a bad line in the middle": (
        lambda data: data.replace(b'{"n": 2', b'\xff{"n": 2', 1),
        2,
        "line 3: it is not",
    ),
    "no header": (lambda data: data[data.index(b"\n") + 1 :], 4, "lost its header"),
    "an unreadable part of a turn": (
        lambda data: data.replace(b'"finish": "stop"', b'"tool_calls": [{"id": 1}]', 1),
        2,
        "tool_calls is not as it should be",
    ),
    "many bad lines": (lambda data: data + b"{]\n" * 9, 4, "6 more bad lines"),
    "all of it is noise": (lambda _: bytes(range(256)) * 3, 0, "has lost its header"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_log_goes_on_as_far_as_it_is_sound(place: Place, damage: str) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY, records.user("Second?"), REPLY)
    change, messages, notice = DAMAGES[damage]
    log.path.write_bytes(change(log.path.read_bytes()))
    before = log.path.read_bytes()
    resumed = await workspace.sessions.resume(log.id)
    assert (resumed.session.id, resumed.messages) == (log.id, messages)
    assert notice in "\n".join(resumed.notices)
    assert len(resumed.notices) <= 5
    # What is there is not touched, and what is added can be read.
    asked = await ask(workspace, "Third?")
    assert log.path.read_bytes().startswith(before)
    await place.close()
    later = place.open()
    await later.sessions.resume(log.id)
    assert later.shown.conversation.messages[-1].content == asked.text
    assert len(later.shown.conversation.messages) == messages + 2


async def test_a_newer_log_goes_on_in_a_copy(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY, {"event": "of the future"}, name="plans")
    log.path.write_text(log.path.read_text().replace('"version": 1', '"version": 2'))
    before = log.path.read_bytes()
    resumed = await workspace.sessions.resume("plans")
    assert resumed.session.id != log.id
    assert resumed.messages == 2
    assert "newer version" in resumed.notices[0]
    await ask(workspace, "More?")
    assert log.path.read_bytes() == before
    await place.close()
    later = place.open()
    again = await later.sessions.resume(resumed.session.id)
    assert (again.session.id, again.messages, again.notices) == (resumed.session.id, 4, ())
    assert {info.id: info.name for info in await later.sessions.all()} == {
        log.id: "plans",
        resumed.session.id: None,
    }


async def test_an_empty_or_a_deleted_session_is_not_there(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    (workspace.shown.recorder.session_path.parent / "empty.jsonl").touch()
    with pytest.raises(NotFound, match="no session 'empty'"):
        await workspace.sessions.resume("empty")
    with pytest.raises(NotFound, match=f"Did you mean {log.id}"):
        await workspace.sessions.resume(log.id[:-1])
    log.path.unlink()
    for use in (workspace.sessions.resume, workspace.sessions.delete, workspace.sessions.history):
        with pytest.raises(NotFound):
            await use(log.id)
    assert not log.path.exists()


async def test_a_session_deleted_between_the_look_and_the_lock(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    before = workspace.shown.id

    def hold_too_late(*arguments: Any) -> None:
        log.path.unlink(missing_ok=True)
        original(*arguments)

    from aish_lsp.sessions import log as module

    original = module.hold
    monkeypatch.setattr(module, "hold", hold_too_late)
    with pytest.raises(NotFound, match="any more"):
        await workspace.sessions.resume(log.id)
    assert workspace.shown.id == before
    assert not log.path.exists()


async def test_what_is_said_after_the_log_was_removed_is_written_down(place: Place) -> None:
    workspace = place.open()
    asked = await ask(workspace, "First?")
    workspace.shown.recorder.session_path.unlink()
    await ask(workspace, "Second?")
    await place.close()
    later = place.open()
    resumed = await later.sessions.resume(asked.session_id)
    assert resumed.notices == ()
    assert [message.n for message in later.shown.conversation.messages] == [3, 4]


async def test_a_model_that_is_gone_is_told(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY, records.model("gone"))
    resumed = await workspace.sessions.resume(log.id)
    [notice] = resumed.notices
    assert "no model 'gone'" in notice
    assert "offline answers in this session now" in notice


async def test_costs_come_back_and_the_cap_counts_them(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    usage = workspace.shown.recorder.session_path.parent.parent / "usage.jsonl"
    for session, cost in ((log.id, 0.5), ("other", 3.0), (log.id, 0.25)):
        call = UsageRecord(
            ts="t", session=session, model="m", provider="p", category="main",
            input=10, output=5, cost=cost,
        )  # fmt: skip
        append_usage(usage, call)
    assert [info.cost for info in await workspace.sessions.all()] == [0.75]
    await workspace.sessions.resume(log.id)
    assert workspace.shown.meter.usage.total().cost == 0.75
    assert workspace.shown.status().cost == 0.75


async def test_a_name_is_one_session_s(place: Place) -> None:
    workspace = place.open()
    other = written(workspace, USER, REPLY, name="taken")
    for name in ("", " ", "a\nb", "x" * 81, "\u202e"):
        with pytest.raises(InvalidArgument, match="visible characters"):
            await workspace.sessions.save(workspace.shown, name)
    for name in ("taken", other.id):
        with pytest.raises(InvalidArgument, match="has that name"):
            await workspace.sessions.save(workspace.shown, name)
    # Before the first question, too; and once more.
    assert await workspace.sessions.save(workspace.shown, " mine ") == "mine"
    assert await workspace.sessions.save(workspace.shown, "mine") == "mine"
    assert (await workspace.sessions.resume("mine")).session.id == workspace.shown.id
    assert "saved as other one" in await typed(workspace, ":save other one")


async def test_only_a_yes_deletes(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    place.answer = False
    assert await workspace.sessions.delete(log.id) is False
    place.answer = None
    with pytest.raises(Denied, match="nobody could be asked"):
        await workspace.sessions.delete(log.id)
    assert log.path.exists()
    place.answer = True
    assert await workspace.sessions.delete(log.id) is True
    assert not log.path.exists()
    assert "Old?" in place.asked[0]
    with pytest.raises(Busy, match=":session new"):
        await workspace.sessions.delete(workspace.shown.id)


async def test_a_suggestion_that_held_a_secret_does_not_come_back(place: Place) -> None:
    workspace = place.open()
    text = "Try:\nCMD: echo [redacted]\nCMD: ls\nCMD: ls -a"
    commands = [
        {"id": str(number), "text": line.removeprefix("CMD: ")}
        for number, line in enumerate(text.split("\n")[1:])
    ]
    reply = records.assistant(text, "offline", finish="stop", commands=commands)
    log = written(workspace, USER, reply, records.ran("2", OUTPUT))
    await workspace.sessions.resume(log.id)
    assert [
        (one.info.id, one.info.text, one.info.line) for one in workspace.shown.last_turn_suggestions
    ] == [("1", "ls", 2)]


async def test_reasoning_and_tool_calls_come_back(place: Place) -> None:
    workspace = place.open()
    reasoning = {"text": "hm", "provider": "anthropic", "metadata": {"signature": "s"}}
    call = {"id": "c", "name": "read", "arguments": "{}"}
    log = written(
        workspace,
        USER,
        records.assistant("", "m", finish="tool", reasoning=reasoning, tool_calls=[call]),
        records.assistant("Done.", "m", finish="stop"),
    )
    await workspace.sessions.resume(log.id)
    _, called, result, _ = workspace.shown.conversation.messages
    assert called.reasoning is not None
    assert called.reasoning.metadata == {"signature": "s"}
    assert called.tool_calls[0].name == "read"
    assert (result.content, result.tool_call_id) == ("cancelled", "c")


async def test_a_session_that_cannot_be_written_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY)
    before = workspace.shown.id

    def refuse(path: Path) -> int:
        raise StoreUnavailable(f"cannot open {path}: Permission denied.")

    monkeypatch.setattr("aish_lsp.sessions.log.open_append", refuse)
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        await workspace.sessions.resume(log.id)
    assert workspace.shown.id == before


async def test_the_chat_lists_and_resumes(place: Place) -> None:
    workspace = place.open()
    assert "Nothing has been asked" in await typed(workspace, ":session")
    log = written(workspace, USER, REPLY, name="plans")
    listed = await typed(workspace, ":sessions")
    assert listed.startswith("1. Old? *plans* (")
    assert f", {log.id})" in listed
    assert "1 question, offline" in listed
    assert await typed(workspace, ":sessions old") == await typed(workspace, ":session list OLD")
    assert "Old? *plans* (" in (found := await typed(workspace, ":sessions old"))
    assert "\n   > Old? plans\n" in found
    assert "mentions *elsewhere*" in await typed(workspace, ":sessions elsewhere")
    assert "with 2 messages" in await typed(workspace, ":resume 1")
    assert "with 2 messages" in await typed(workspace, ":resume plans")
    assert "1. **Old?** *plans*, open (" in await typed(workspace, ":session list")
    page = await typed(workspace, ":history")
    assert page.startswith(f"# Old?\n\nSession {log.id}, saved as plans.\n\n### You (")
    assert page.endswith("\n\nYes.")
    assert "A new session has begun" in await typed(workspace, ":session new")
    assert "continues, with" in await typed(workspace, ":resume")
    await typed(workspace, ":session new")
    assert await typed(workspace, ":session delete plans") == "Deleted."
    with pytest.raises(NotFound, match="no earlier session"):
        await typed(workspace, ":resume")
    for wrong in (":session nothing", ":session delete", ":session save"):
        with pytest.raises(InvalidArgument):
            await typed(workspace, wrong)


async def test_history_is_shown_a_page_at_a_time(place: Place) -> None:
    workspace = place.open()
    said = [
        message
        for number in range(1, 13)
        for message in (
            records.user(f"question {number}."),
            records.assistant(f"answer {number}.", "offline", finish="stop"),
        )
    ]
    much = {"command": "seq 1000", "exit": 0, "output": "".join(f"{n}\n" for n in range(1000))}
    log = written(workspace, *said[:-2], records.user("question 12.", [much]), said[-1], name="s")
    await workspace.sessions.resume(log.id)

    def numbers(page: str) -> list[int]:
        return [int(number) for number in re.findall(r"^question (\d+)\.", page, re.MULTILINE)]

    newest = await typed(workspace, ":history")
    assert numbers(newest) == [8, 9, 10, 11, 12]
    assert newest.endswith("Page 1 of 3, the newest. `:history 2` shows what was said before.")
    # What is long in it is short.
    assert "[aish: 941 lines left out]" in newest
    assert len(newest.split("\n")) < 150
    assert numbers(await typed(workspace, ":history 2")) == [3, 4, 5, 6, 7]
    oldest = await typed(workspace, ":history s 3")
    assert numbers(oldest) == [1, 2]
    assert "answer 2." in oldest
    assert oldest.endswith("Page 3 of 3.")
    assert numbers(await typed(workspace, f":history {log.id}")) == [8, 9, 10, 11, 12]
    for page in (0, 4):
        with pytest.raises(InvalidArgument, match=f"no page {page}: `:history 3` is the oldest"):
            await typed(workspace, f":history {page}")


@pytest.mark.parametrize(
    ("prefix", "takes"),
    [
        (":session resume ", True),
        (":session  delete pl", True),
        (":resume p", True),
        (":history ", True),
        (":session ", False),
        (":session save ", False),
        (":session resume a b", False),
        (":resume", False),
        ("resume ", False),
    ],
)
async def test_where_a_session_completes(place: Place, prefix: str, takes: bool) -> None:
    workspace = place.open()
    written(workspace, records.user("hi"), REPLY, name="play")
    proposed = await completions_at(workspace, prefix, "")
    assert any(one.insert == "play" for one in proposed.items) is takes


async def test_history_of_another_session_is_read_only(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, records.user("~~~ open fence"), REPLY)
    before = (log.path.read_bytes(), log.path.stat().st_mtime_ns)
    page = await typed(workspace, f":session history {log.id}")
    assert "~~~ open fence\n~~~\n" in page
    assert (log.path.read_bytes(), log.path.stat().st_mtime_ns) == before
    assert json.loads(before[0].splitlines()[0])["meta"]["id"] == log.id


async def test_the_last_session_is_the_one_that_nobody_has_open(place: Place) -> None:
    workspace = place.open()
    assert await workspace.sessions.last() is None
    with pytest.raises(NotFound, match="no earlier session"):
        await typed(workspace, ":resume")
    older, newer = (written(workspace, records.user(text), REPLY) for text in ("Old?", "New?"))
    set_time(older, "2026-01-01T00:00:00Z")
    last = await workspace.sessions.last()
    assert last is not None
    assert (last.id, last.title) == (newer.id, "New?")
    other = place.open()
    await other.sessions.resume(newer.id)
    assert "continues, with" in await typed(workspace, ":resume")
    # Both are open now.
    assert await other.sessions.last() is None


def set_time(log: SessionLog, time: str) -> None:
    """Have a log look as if it had been written at ``time``."""
    text = log.path.read_text()
    log.path.write_text(re.sub(r'"ts": "[^"]*"', f'"ts": "{time}"', text))


async def test_what_was_resumed_at_the_start_waits_for_the_settings(place: Place) -> None:
    workspace = place.open()
    log = written(workspace, USER, REPLY, records.model("mine"))
    settings = asyncio.Event()

    async def settled(_root: Path | None) -> None:
        await settings.wait()
        config = place.root.parent / "config.toml"
        config.write_text(f'{config.read_text()}[sessions]\nresume = "always"\n')
        await workspace.reload()

    workspace.services.settled = settled
    beginning = workspace.sessions.begin()
    meant = asyncio.create_task(workspace.sessions.named(None))
    await asyncio.sleep(0)
    assert not meant.done()
    settings.set()
    session = await meant
    assert session is workspace.shown
    assert (session.id, len(session.conversation.messages)) == (log.id, 2)
    # Whoever it was switched to answers, from the first question on.
    assert session.preset.name == "mine"
    resumed = await beginning
    assert resumed is not None
    assert (resumed.session, resumed.messages) == (session, 2)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (":run " + "1" * 5_000, "no command 1"),
        (":session fork 0000012", "before the last one"),
        (":session fork 1" + "0" * 5_000, "before the last one"),
    ],
)
async def test_a_number_of_any_length_is_answered(place: Place, line: str, told: str) -> None:
    workspace = place.open()
    await ask(workspace, "How do I run the tests?")
    with pytest.raises(AishError, match=told):
        await typed(workspace, line)
