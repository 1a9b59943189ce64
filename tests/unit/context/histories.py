"""Conversations of every shape, for the property tests of this folder."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from aish_lsp.context.conversation import Conversation
from aish_lsp.context.messages import Attached, ExecOutput, Message
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.request import RequestMessage, StoredReasoning, ToolCall

HEADINGS = (
    "[background] (memory; manage with :memory)",
    "[project]",
    "[earlier conversation summary]",
    "[exec output]",
    "[tool: shell]",
    "[result]",
    "[aish] ls: skipped by user",
    "[NORRIS MODE] You are",
    "[norris] goal: remove all",
    "[selection] a.py, line 1",
    "[definition] a.py, lines 1-9",
    "[problems] a.py",
    "[file] a.py",
)

words = st.text(st.sampled_from("ab `\n\r\t[]é的😀\u200b\u2028\x07"), max_size=40)
texts = st.one_of(words, st.sampled_from(HEADINGS), st.integers(1, 3000).map(lambda n: "w " * n))
outputs = st.builds(ExecOutput, words, st.integers(0, 255), texts)
attachments = st.lists(
    st.builds(Attached, st.sampled_from(["selection", "problems", "file"]), words, texts, words),
    max_size=2,
)
calls = st.lists(
    st.builds(ToolCall, st.sampled_from("abc"), st.sampled_from(["read", "grep"]), words),
    max_size=3,
)
reasonings = st.none() | st.builds(
    StoredReasoning, words, st.sampled_from(["127.0.0.1", "anthropic"]), st.just({})
)
steps = st.one_of(
    st.tuples(st.just("output"), outputs),
    st.tuples(st.just("user"), texts, attachments),
    st.tuples(st.just("reply"), texts, calls, reasonings),
    st.tuples(st.just("tool"), st.sampled_from("abc"), texts),
    st.tuples(st.just("withdraw")),
    st.tuples(st.just("evict")),
)


def take(conversation: Conversation, step: tuple[Any, ...]) -> None:
    """Do one step; what the conversation refuses is left out."""
    with suppress(InvalidArgument):
        match step:
            case ("output", output):
                conversation.append_output(output)
            case ("user", text, attached):
                conversation.append_user(text, attached)
            case ("reply", text, tool_calls, reasoning):
                conversation.append_assistant(text, tool_calls=tool_calls, reasoning=reasoning)
            case ("tool", call_id, text):
                conversation.append_tool(call_id, text)
            case ("withdraw",):
                _withdraw(conversation)
            case ("evict",):
                evict_oldest(conversation)


def _withdraw(conversation: Conversation) -> None:
    if conversation.messages and conversation.messages[-1].role == "user":
        conversation.withdraw_user()


def evict_oldest(conversation: Conversation) -> list[Message]:
    """Evict the oldest exchange that is not the last one; return its messages."""
    exchanges = list(conversation.exchanges())
    return conversation.evict(exchanges[0][1]) if len(exchanges) > 1 else []


@st.composite
def conversations(draw: st.DrawFn, *, asked: bool = True) -> Conversation:
    """Return a conversation; ``asked``: its last message is a question."""
    conversation = Conversation()
    for step in draw(st.lists(steps, max_size=25)):
        take(conversation, step)
    if asked:
        conversation.append_user(draw(texts))
    return conversation


def assert_acceptable(sent: tuple[RequestMessage, ...], *, tool_role: bool) -> None:
    """Check that the strictest chat template takes these messages."""
    assert sent[0].role == "system"
    assert all(message.role != "system" for message in sent[1:])
    messages = [message for message in sent[1:] if message.role != "tool"]
    assert not sent[1:] or sent[1].role == "user"
    waiting: set[str | None] = set()
    previous = None
    for message in sent[1:]:
        if message.role == "tool":
            assert tool_role
            assert message.tool_call_id in waiting
            waiting.discard(message.tool_call_id)
            previous = "tool"
            continue
        assert message.role != previous, "two in a row"
        previous = message.role
        if message.role == "assistant":
            assert message.content or message.tool_calls
        assert not waiting, "a call got no result"
        waiting = {call.id for call in message.tool_calls}
    if not tool_role:
        assert all(not message.tool_calls for message in messages)
