"""From a log to the conversation that goes on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.context.messages import Attached, AttachedKind, ExecOutput
from aish_lsp.sessions import records
from aish_lsp.sessions.rebuild import Resumption, message_of, resumption
from aish_lsp.sessions.records import LoadedSession

OUTPUT = {"command": "ls", "exit": 0, "output": "a"}
RAN = ExecOutput("ls", 0, "a")
SUGGESTING = "CMD: ls\nCMD: pwd"


def reply(content: str, *calls: str, **fields: Any) -> records.Record:
    tool_calls = [{"id": call, "name": "t", "arguments": "{}"} for call in calls]
    return records.assistant(content, "m", finish="stop", tool_calls=tool_calls, **fields)


def rebuilt(*lines: records.Record) -> Resumption:
    numbered = tuple({"n": n, **line} for n, line in enumerate(lines, start=1))
    return resumption(LoadedSession("x", {}, numbered))


def texts(result: Resumption) -> list[str]:
    return [message.content for message in result.messages]


def test_turns_come_back_as_they_stand() -> None:
    lines = [records.user("q", [OUTPUT]), reply("", "c1"), records.tool("c1", "r"), reply("a")]
    result = rebuilt(*lines)
    assert result.messages == tuple(
        message_of({"n": n, **line}) for n, line in enumerate(lines, start=1)
    )
    assert (result.summary, result.pending, result.model) == ("", (), None)


@pytest.mark.parametrize("kind", get_args(AttachedKind))
def test_what_a_question_is_about_comes_back(kind: AttachedKind) -> None:
    about = Attached(kind, "make test", "1 failed\n", "console")
    unknown = {**asdict(about), "kind": "of a newer version"}
    asked = records.user("q", attached=[asdict(about), unknown])
    question, _ = rebuilt(asked, reply("a")).messages
    assert question.attached == (about,)


def test_a_question_keeps_the_id_of_its_exchange_or_gets_one() -> None:
    lines = [records.user("q", turn_id="t1"), reply("a"), records.user("r"), reply("b")]
    known, _, other, _ = rebuilt(*lines).messages
    assert known.exchange == "t1"
    assert other.exchange not in ("", "t1")


def test_a_reset_leaves_nothing_of_what_was_before() -> None:
    result = rebuilt(
        records.user("q"),
        reply("a"),
        records.evicted(1, 2, "sum"),
        records.user("r", [OUTPUT]),
        records.unanswered(4),
        records.reset(),
        records.user("s"),
        reply("b"),
    )
    assert texts(result) == ["s", "b"]
    assert (result.summary, result.pending) == ("", ())
    assert rebuilt(records.user("q", [OUTPUT]), records.reset()) == Resumption()


def test_an_exchange_that_was_asked_again_goes_once_there_is_an_answer() -> None:
    before = [records.user("q", [OUTPUT]), reply("a"), records.ran("c", OUTPUT)]
    again = records.user("q", [OUTPUT], again=1)
    assert texts(rebuilt(*before, again)) == ["q", "a"], "a crash before the answer"
    failed = rebuilt(*before, again, records.unanswered(4))
    assert (texts(failed), failed.pending) == (["q", "a"], (RAN,))
    answered = rebuilt(*before, again, reply("b"))
    assert [message.n for message in answered.messages] == [4, 5]
    assert answered.pending == (RAN,), "what was run since waits for the next question"
    evicted = rebuilt(*before, again, reply("b"), records.user("r"), reply("c"),
                      records.evicted(4, 5, "sum"))  # fmt: skip
    assert texts(evicted) == ["r", "c"], "the old answer does not come back"
    middle = rebuilt(*before, records.user("r"), reply("c"), again, reply("b"))
    assert [message.n for message in middle.messages] == [4, 5, 6, 7]


def test_evicted_turns_give_way_to_the_summary() -> None:
    result = rebuilt(
        records.user("1"),
        reply("2"),
        records.user("3"),
        reply("4"),
        records.evicted(1, 2, "first"),
        records.user("6"),
        reply("7"),
        records.evicted(3, 4, None),
    )
    assert texts(result) == ["6", "7"]
    assert result.summary == "first"


def test_a_question_without_a_reply_goes_and_its_output_is_pending() -> None:
    for lines in (
        [records.user("q", [OUTPUT])],
        [records.user("q", [OUTPUT]), records.unanswered(1)],
        [records.user("q", [OUTPUT], meta=records.UNANSWERED)],
    ):
        result = rebuilt(*lines)
        assert result.messages == ()
        assert result.pending == (RAN,)


def test_output_that_the_next_question_carried_is_not_pending_again() -> None:
    result = rebuilt(
        records.user("q", [OUTPUT]),
        records.unanswered(1),
        records.user("r", [OUTPUT]),
        reply("a"),
    )
    assert texts(result) == ["r", "a"]
    assert result.pending == ()


def test_what_ran_after_the_last_question_is_pending_and_is_suggested_no_more() -> None:
    other = OUTPUT | {"command": "pwd"}
    also = ExecOutput("pwd", 0, "a")
    commands = [{"id": "c", "text": "ls"}, {"id": "d", "text": "pwd"}]
    lines = [records.user("q"), reply(SUGGESTING, commands=commands), records.ran("c", OUTPUT)]
    result = rebuilt(*lines)
    assert result.pending == (RAN,)
    assert [(one, found.text, n) for one, found, n in result.commands] == [("d", "pwd", 2)]
    # A question carries it, and gives it back where nothing answers; what ran later follows.
    assert rebuilt(*lines, records.user("r", [OUTPUT]), reply("b")).pending == ()
    unanswered = records.user("r", [OUTPUT], meta=records.UNANSWERED)
    assert rebuilt(*lines, unanswered, records.ran("d", other)).pending == (RAN, also)
    assert rebuilt(*lines, records.reset()).pending == ()
    # One that ended while a question was on its way was not carried by that.
    assert rebuilt(*lines, records.user("r"), reply("b")).pending == (RAN,)


def test_what_was_dropped_is_suggested_no_more() -> None:
    commands = [{"id": "c", "text": "ls"}, {"id": "d", "text": "pwd"}]
    lines = [records.user("q"), reply(SUGGESTING, commands=commands), records.dismissed("d")]
    assert [(one, found.text, n) for one, found, n in rebuilt(*lines).commands] == [("c", "ls", 1)]


def test_of_a_command_suggested_twice_the_other_one_keeps_its_place() -> None:
    commands = [{"id": "c", "text": "ls"}, {"id": "d", "text": "ls"}]
    lines = [records.user("q"), reply("CMD: ls\nCMD: ls", commands=commands)]
    result = rebuilt(*lines, records.dismissed("c"))
    assert [(one, found.text, n) for one, found, n in result.commands] == [("d", "ls", 2)]


def test_costs_count_from_where_they_were_last_reset() -> None:
    assert rebuilt(records.user("q"), reply("a")).calls_before == 0
    resets = [records.costs_reset(3), records.costs_reset(5)]
    assert rebuilt(*resets).calls_before == 5
    for damaged in (-1, "5", None, True, [1]):
        assert rebuilt({"event": "costsReset", "calls": damaged}).calls_before == 0


def test_evictions_are_counted() -> None:
    lines = [records.user("q"), reply("a"), records.evicted(1, 2, None)]
    assert rebuilt(*lines, *lines).evictions == 2


def test_the_summarizers_turns_are_no_part_of_the_conversation() -> None:
    result = rebuilt(
        records.user("q"),
        reply("a"),
        records.user("Read", meta=records.SUMMARIZE),
        reply("fact: x", meta=records.SUMMARIZE),
    )
    assert texts(result) == ["q", "a"]


def test_a_call_without_a_result_is_cancelled() -> None:
    result = rebuilt(
        records.user("q"), reply("", "c1", "c2"), records.tool("c2", "r"), records.user("next")
    )
    assert texts(result) == ["q", "", "r", "cancelled"]
    assert result.messages[-1].tool_call_id == "c1"


def test_the_model_last_switched_to() -> None:
    assert rebuilt(records.model("a"), records.model("b")).model == "b"


def test_turns_whose_question_or_call_was_lost_go() -> None:
    result = rebuilt(
        reply("to a lost question"),
        records.tool("c9", "of a lost call"),
        records.user("q"),
        reply("a"),
        reply("to another lost question", "c1"),
        records.tool("c1", "r"),
        records.user("s"),
        reply("b"),
    )
    assert texts(result) == ["q", "a", "s", "b"]


LINES = st.sampled_from(
    [
        records.user("u"),
        records.user("w", meta=records.UNANSWERED),
        reply("a"),
        reply("c", "c1", "c2"),
        records.tool("c1", "r"),
        records.tool("c2", "r"),
        records.reset(),
        records.evicted(1, 3, None),
        records.unanswered(2),
        {"event": "evicted"},
        records.ran("c", OUTPUT),
        records.dismissed("c"),
        records.costs_reset(1),
        {"event": "exec", "id": ["c"], "command": "ls"},
        {"event": "model", "model": 1},
        {"event": "unanswered", "turn": [1]},
        {"event": "of a later version"},
    ]
)


@given(st.lists(LINES, max_size=15))
def test_whatever_was_lost_the_turns_make_a_conversation(lines: list[records.Record]) -> None:
    messages = rebuilt(*lines).messages
    waiting: list[str] = []
    before = "assistant"
    for message in messages:
        role = message.role
        if role == "tool":
            assert message.tool_call_id is not None
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            assert (before, role) not in {("user", "user"), ("assistant", "assistant")}
            waiting = [call.id for call in message.tool_calls]
        before = role
    assert not waiting
    assert not messages or (messages[0].role == "user" and messages[-1].role != "user")
