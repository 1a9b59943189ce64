"""What a server says that is not understood here goes back to it, over every protocol."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from aish_lsp.config.schema import Preset, Provider
from aish_lsp.models.address import server_name
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import goes_back, protocol, reasoning_source
from aish_lsp.models.request import (
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    StoredReasoning,
    Text,
    ToolCall,
)

Json = dict[str, Any]

HERE, ELSEWHERE = "http://127.0.0.1:8080", "http://127.0.0.1:8081"

#: An id as LiteLLM makes it, with a signature inside.
LONG_ID: Final = "call_0__thought__" + "Ci4+/=" * 20


def chunk(**delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def completed(*items: Json) -> list[Json]:
    response = {"status": "completed", "output": list(items)}
    return [{"type": "response.completed", "response": response}]


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    return [begin, *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)]


def candidate(*parts: Json) -> list[Json]:
    return [{"candidates": [{"content": {"parts": list(parts)}}]}]


#: A reply with a call, and what of it must be in the next request.
CASES: Final[dict[str, tuple[Provider, list[Json], list[Json]]]] = {
    "chat: fields of a call and of its function": (
        "openai",
        [
            chunk(
                tool_calls=[
                    {
                        "index": 0,
                        "id": "a",
                        "extra_content": {"google": {"thought_signature": "X1"}},
                        "function": {"name": "ls", "arguments": "{}", "sig": {"v": "X2"}},
                    }
                ]
            )
        ],
        [{"google": {"thought_signature": "X1"}}, {"v": "X2"}],
    ),
    "chat: fields of the reasoning": (
        "openai",
        [
            chunk(reasoning_text="hm ", reasoning_opaque="X1"),
            chunk(reasoning_text="hm", extra_content={"google": {"thought_signature": "X2"}}),
            chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "ls"}}]),
        ],
        [
            {"reasoning_text": "hm hm", "reasoning_opaque": "X1"},
            {"extra_content": {"google": {"thought_signature": "X2"}}},
        ],
    ),
    "chat: an id that other servers refuse": (
        "openai",
        [chunk(tool_calls=[{"index": 0, "id": LONG_ID, "function": {"name": "ls"}}])],
        [{"id": LONG_ID}, {"tool_call_id": LONG_ID}],
    ),
    "responses: fields of a call": (
        "openai-responses",
        completed(
            {"type": "function_call", "call_id": LONG_ID, "name": "ls", "arguments": "{}", "x": "X"}
        ),
        [{"x": "X", "call_id": LONG_ID}, {"type": "function_call_output", "call_id": LONG_ID}],
    ),
    "responses: reasoning with a signature": (
        "openai-responses",
        completed(
            {"type": "reasoning", "id": "r", "format": "f", "signature": "X1", "new": {"a": "X2"}},
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"},
        ),
        [{"id": "r", "format": "f", "signature": "X1", "new": {"a": "X2"}}],
    ),
    "responses: plain reasoning before a call": (
        "openai-responses",
        completed(
            {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"},
        ),
        [{"type": "reasoning_text", "text": "hm"}],
    ),
    "messages: fields of a call and of thinking": (
        "anthropic",
        [
            *block(
                0,
                {"type": "thinking", "thinking": "hm", "new": "X1"},
                {"type": "signature_delta", "signature": "X2"},
            ),
            *block(
                1,
                {"type": "tool_use", "id": LONG_ID, "name": "ls", "input": {}, "caller": {"t": 1}},
                {"type": "signature_delta", "signature": "X3"},
            ),
        ],
        [
            {"thinking": "hm", "new": "X1", "signature": "X2"},
            {"id": LONG_ID, "caller": {"t": 1}, "signature": "X3"},
            {"type": "tool_result", "tool_use_id": LONG_ID},
        ],
    ),
    "messages: thinking of a kind of its own": (
        "anthropic",
        [
            *block(0, {"type": "redacted_thinking", "data": "X1", "new": "X2"}),
            *block(1, {"type": "tool_use", "id": "a", "name": "ls", "input": {}}),
        ],
        [{"type": "redacted_thinking", "data": "X1", "new": "X2"}],
    ),
    "gemini: fields of a part and of its call": (
        "gemini",
        candidate({"functionCall": {"name": "ls", "args": {}, "new": "X1"}, "other": "X2"}),
        [{"new": "X1"}, {"other": "X2"}],
    ),
    "ollama: fields of a call and of its function": (
        "ollama",
        [
            {
                "message": {
                    "thinking": "hm",
                    "tool_calls": [
                        {
                            "id": "a",
                            "x": "X1",
                            "function": {"name": "ls", "arguments": {}, "y": "X2"},
                        }
                    ],
                }
            }
        ],
        [{"x": "X1"}, {"y": "X2"}, {"thinking": "hm"}],
    ),
}


def next_request(provider: Provider, reply: list[Json], endpoint: str) -> Json:
    """Return the body of the request to ``endpoint`` that follows a reply from ``HERE``."""
    here, preset = (
        Preset(name="m", provider=provider, endpoint=url, model="m") for url in (HERE, endpoint)
    )
    model = protocol(provider)(HttpClient(), {})
    reader = model._reader(f"{HERE}/v1", {})
    events = [event for chunk in reply for event in reader.feed(chunk)] + reader.end()
    calls = tuple(event for event in events if isinstance(event, ToolCall))
    text = "".join(event.delta for event in events if isinstance(event, Text))
    metadata = [event.metadata for event in events if isinstance(event, ReasoningMetadata)]
    said = "".join(event.delta for event in events if isinstance(event, Reasoning))
    # As the session's log has it.
    kept = json.loads(json.dumps(metadata[0] if metadata else {}))
    reasoning = StoredReasoning(said, reasoning_source(here), kept)
    message = RequestMessage(
        "assistant",
        text,
        calls,
        reasoning=reasoning if goes_back(reasoning, preset) else None,
    )
    results = [RequestMessage("tool", "a.py", tool_call_id=call.id) for call in calls]
    question = RequestMessage("user", "Which files?")
    return model._formed_body(ModelRequest(preset, (question, message, *results)), "m")


def holds(value: Any, part: Json) -> bool:
    """Return whether an object within ``value`` has all that ``part`` has."""
    if isinstance(value, dict) and part.items() <= value.items():
        return True
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(holds(one, part) for one in inside)


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_understood_goes_back_to_the_same_server_and_to_no_other(case: str) -> None:
    provider, reply, expected = CASES[case]
    body = next_request(provider, reply, HERE)
    for part in expected:
        assert holds(body, part), (part, body)
    other = next_request(provider, reply, ELSEWHERE)
    assert server_name(HERE) != server_name(ELSEWHERE)
    assert not any(holds(other, part) for part in expected), other
    assert holds(other, {"name": "ls"})


#: A call over each protocol, with arguments in the type that the protocol does not have there.
OTHERWISE: Final[dict[Provider, list[Json]]] = {
    "openai": [
        chunk(
            tool_calls=[{"index": 0, "id": "a", "function": {"name": "ls", "arguments": {"x": 1}}}]
        )
    ],
    "openai-responses": completed(
        {"type": "function_call", "call_id": "a", "name": "ls", "arguments": {"x": 1}}
    ),
    "anthropic": block(0, {"type": "tool_use", "id": "a", "name": "ls", "input": '{"x": 1}'}),
    "gemini": candidate({"functionCall": {"name": "ls", "args": '{"x": 1}'}}),
    "ollama": [
        {"message": {"tool_calls": [{"function": {"name": "ls", "arguments": '{"x": 1}'}}]}}
    ],
}


@pytest.mark.parametrize("provider", OTHERWISE)
def test_arguments_are_read_as_an_object_and_as_its_text(provider: Provider) -> None:
    reader = protocol(provider)(HttpClient(), {})._reader(f"{HERE}/v1", {})
    events = [event for chunk in OTHERWISE[provider] for event in reader.feed(chunk)]
    [call] = [event for event in events + reader.end() if isinstance(event, ToolCall)]
    assert json.loads(call.arguments) == {"x": 1}


def test_a_whole_message_beside_a_delta_of_nothing() -> None:
    reader = protocol("openai")(HttpClient(), {})._reader(f"{HERE}/v1", {})
    [text] = reader.feed({"choices": [{"delta": None, "message": {"content": "all"}}]})
    assert text == Text("all")
