from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from histories import conversations, evict_oldest, outputs, steps, take
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.context.turns import Conversation, ExecOutput
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.events import ToolCall
from aish_lsp.models.request import StoredReasoning

LS = ExecOutput("ls", 0, "a b")
PWD = ExecOutput("pwd", 0, "/")
READ, GREP = ToolCall("1", "read", "{}"), ToolCall("2", "grep", "{}")


def roles(conversation: Conversation) -> str:
    return "".join(turn.role[0] for turn in conversation.turns)


def test_output_waits_for_the_next_question_and_is_no_turn() -> None:
    conversation = Conversation()
    conversation.append_output(LS)
    conversation.append_output(PWD)
    assert conversation.turns == []
    turn = conversation.append_user("what is this?", n=4)
    assert (turn.exec, turn.content, turn.n) == ((LS, PWD), "what is this?", 4)
    assert conversation.pending == []
    conversation.append_assistant("a folder")
    assert conversation.append_user("thanks").exec == ()


def test_a_withdrawn_question_gives_its_output_back_in_order() -> None:
    conversation = Conversation()
    conversation.append_output(LS)
    conversation.append_user("lost")
    conversation.append_output(PWD)
    conversation.withdraw_user()
    assert conversation.turns == []
    assert conversation.append_user("again").exec == (LS, PWD)


def test_only_a_question_is_withdrawn_and_a_refusal_changes_nothing() -> None:
    conversation = Conversation()
    with pytest.raises(AssertionError):
        conversation.withdraw_user()
    conversation.append_user("q")
    conversation.append_assistant("a")
    with pytest.raises(AssertionError):
        conversation.withdraw_user()
    assert roles(conversation) == "ua"


def test_a_question_after_an_unanswered_one_takes_its_place_and_its_output() -> None:
    conversation = Conversation()
    conversation.append_output(LS)
    conversation.append_user("no connection")
    conversation.append_user("again")
    assert [turn.content for turn in conversation.turns] == ["again"]
    assert conversation.turns[0].exec == (LS,)


@pytest.mark.parametrize("text", ["", "late"])
def test_a_reply_needs_a_question_and_something_to_say(text: str) -> None:
    conversation = Conversation()
    with pytest.raises(InvalidArgument) as refused:
        conversation.append_assistant(text)
    assert refused.value.data["path"] == ("role" if text else "content")
    conversation.append_user("q")
    conversation.append_assistant("a")
    with pytest.raises(InvalidArgument):
        conversation.append_assistant(text)
    assert roles(conversation) == "ua"


def test_a_reply_may_be_calls_alone_and_keeps_its_reasoning() -> None:
    conversation = Conversation()
    conversation.append_user("q")
    reasoning = StoredReasoning("hm", "127.0.0.1", {"id": "r"})
    turn = conversation.append_assistant("", n=2, tool_calls=[READ], reasoning=reasoning)
    assert (turn.tool_calls, turn.reasoning, turn.n) == ((READ,), reasoning, 2)


def test_results_follow_their_calls_in_any_order_once_each() -> None:
    conversation = Conversation()
    conversation.append_user("q")
    with pytest.raises(InvalidArgument):
        conversation.append_tool("1", "too early")
    conversation.append_assistant("", tool_calls=[READ, GREP])
    conversation.append_tool("2", "found", n=3)
    with pytest.raises(InvalidArgument):
        conversation.append_tool("2", "twice")
    with pytest.raises(InvalidArgument) as refused:
        conversation.append_tool("3", "nobody asked")
    assert refused.value.data["path"] == "tool_call_id"
    conversation.append_tool("1", "content")
    assert roles(conversation) == "uatt"
    assert conversation.turns[2].n == 3
    conversation.append_assistant("done")
    with pytest.raises(InvalidArgument):
        conversation.append_tool("1", "too late")


def test_the_same_id_may_come_again_in_a_later_round() -> None:
    conversation = Conversation()
    conversation.append_user("q")
    for result in ("first", "second"):
        conversation.append_assistant("", tool_calls=[READ])
        conversation.append_tool("1", result)
    assert [turn.content for turn in conversation.turns if turn.role == "tool"] == [
        "first",
        "second",
    ]


def test_calls_that_got_no_result_are_cancelled() -> None:
    conversation = Conversation()
    conversation.append_user("q")
    conversation.append_assistant("", tool_calls=[READ, GREP, READ])
    conversation.append_tool("1", "content")
    assert conversation.open_calls() == [GREP]
    conversation.cancel_calls()
    last = conversation.turns[-1]
    assert (last.tool_call_id, last.content) == ("2", "cancelled")
    assert conversation.open_calls() == []


@pytest.mark.parametrize("after", ["question", "reply"])
def test_what_follows_open_calls_cancels_them_first(after: str) -> None:
    conversation = Conversation()
    conversation.append_user("q")
    conversation.append_assistant("", tool_calls=[READ])
    if after == "question":
        conversation.append_user("never mind")
    else:
        conversation.append_assistant("no need")
    assert roles(conversation) == ("uatu" if after == "question" else "uata")
    assert conversation.turns[2].content == "cancelled"


def test_exchanges_begin_with_their_question() -> None:
    conversation = Conversation()
    assert list(conversation.exchanges()) == []
    for _ in range(2):
        conversation.append_user("q")
        conversation.append_assistant("", tool_calls=[READ])
        conversation.append_tool("1", "r")
        conversation.append_assistant("a")
    conversation.append_user("q")
    assert list(conversation.exchanges()) == [(0, 4), (4, 8), (8, 9)]


def test_evicting_returns_what_went() -> None:
    conversation = Conversation()
    conversation.append_user("q1")
    conversation.append_assistant("a1")
    conversation.append_user("q2")
    assert [turn.content for turn in conversation.evict(2)] == ["q1", "a1"]
    assert [turn.content for turn in conversation.turns] == ["q2"]
    assert conversation.evict(0) == []


def test_reset_forgets_turns_summary_and_output() -> None:
    conversation = Conversation(summary="we talked")
    conversation.append_user("q")
    conversation.append_output(LS)
    conversation.reset()
    assert conversation == Conversation()


@given(st.lists(steps, max_size=40))
def test_roles_alternate_whatever_happens(taken: list[tuple[Any, ...]]) -> None:
    conversation = Conversation()
    for step in taken:
        take(conversation, step)
        turns = conversation.turns
        assert not turns or turns[0].role == "user"
        for before, turn in pairwise(turns):
            if turn.role == "user":
                assert before.role != "user"
            elif turn.role == "assistant":
                assert before.role != "assistant"
            else:
                assert before.role != "user"


@given(st.lists(st.one_of(st.tuples(st.just("output"), outputs), steps), max_size=40))
def test_no_output_is_lost_or_told_twice(taken: list[tuple[Any, ...]]) -> None:
    conversation = Conversation()
    added, evicted = [], []
    for step in taken:
        if step[0] == "output":
            added.append(step[1])
        if step[0] == "evict":
            evicted += [out for turn in evict_oldest(conversation) for out in turn.exec]
        else:
            take(conversation, step)
    kept = [out for turn in conversation.turns for out in turn.exec]
    assert evicted + kept + conversation.pending == added


@given(conversations(asked=False))
def test_exchanges_cover_the_turns_without_gap(conversation: Conversation) -> None:
    edge = 0
    for start, end in conversation.exchanges():
        assert start == edge < end
        assert [turn.role == "user" for turn in conversation.turns[start:end]].index(True) == 0
        assert sum(turn.role == "user" for turn in conversation.turns[start:end]) == 1
        edge = end
    assert edge == len(conversation.turns)
