from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from histories import conversations, evict_oldest, outputs, steps, take
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.context.conversation import Conversation
from aish_lsp.context.messages import ExecOutput
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.request import StoredReasoning, ToolCall

LS = ExecOutput("ls", 0, "a b")
PWD = ExecOutput("pwd", 0, "/")
READ, GREP = ToolCall("1", "read", "{}"), ToolCall("2", "grep", "{}")


def roles(conversation: Conversation) -> str:
    return "".join(message.role[0] for message in conversation.messages)


def test_output_waits_for_the_next_question_and_is_no_turn() -> None:
    conversation = Conversation()
    conversation.append_output(LS)
    conversation.append_output(PWD)
    assert conversation.messages == []
    message = conversation.append_user("what is this?", n=4)
    assert (message.exec, message.content, message.n) == ((LS, PWD), "what is this?", 4)
    assert conversation.pending == []
    conversation.append_assistant("a folder")
    assert conversation.append_user("thanks").exec == ()


def test_a_withdrawn_question_gives_its_output_back_in_order() -> None:
    conversation = Conversation()
    conversation.append_output(LS)
    conversation.append_user("lost")
    conversation.append_output(PWD)
    conversation.withdraw_user()
    assert conversation.messages == []
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
    assert [message.content for message in conversation.messages] == ["again"]
    assert conversation.messages[0].exec == (LS,)


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
    message = conversation.append_assistant("", n=2, tool_calls=[READ], reasoning=reasoning)
    assert (message.tool_calls, message.reasoning, message.n) == ((READ,), reasoning, 2)


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
    assert conversation.messages[2].n == 3
    conversation.append_assistant("done")
    with pytest.raises(InvalidArgument):
        conversation.append_tool("1", "too late")


def test_the_same_id_may_come_again_in_a_later_round() -> None:
    conversation = Conversation()
    conversation.append_user("q")
    for result in ("first", "second"):
        conversation.append_assistant("", tool_calls=[READ])
        conversation.append_tool("1", result)
    assert [message.content for message in conversation.messages if message.role == "tool"] == [
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
    last = conversation.messages[-1]
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
    assert conversation.messages[2].content == "cancelled"


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
    assert [message.content for message in conversation.evict(2)] == ["q1", "a1"]
    assert [message.content for message in conversation.messages] == ["q2"]
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
        messages = conversation.messages
        assert not messages or messages[0].role == "user"
        for before, message in pairwise(messages):
            if message.role == "user":
                assert before.role != "user"
            elif message.role == "assistant":
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
            evicted += [out for message in evict_oldest(conversation) for out in message.exec]
        else:
            take(conversation, step)
    kept = [out for message in conversation.messages for out in message.exec]
    assert evicted + kept + conversation.pending == added


@given(conversations(asked=False))
def test_exchanges_cover_the_turns_without_gap(conversation: Conversation) -> None:
    edge = 0
    for start, end in conversation.exchanges():
        assert start == edge < end
        assert [message.role == "user" for message in conversation.messages[start:end]].index(
            True
        ) == 0
        assert sum(message.role == "user" for message in conversation.messages[start:end]) == 1
        edge = end
    assert edge == len(conversation.messages)
