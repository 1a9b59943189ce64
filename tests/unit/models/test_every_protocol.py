"""What holds for the adapters of all protocols alike."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.models.providers import anthropic, gemini, responses
from aish_lsp.models.providers.anthropic import MessageReader
from aish_lsp.models.providers.gemini import CandidateReader
from aish_lsp.models.providers.ollama import LineReader
from aish_lsp.models.providers.openai import ChatReader
from aish_lsp.models.providers.reply import ReplyReader
from aish_lsp.models.providers.responses import ResponseReader
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    Text,
    ToolCall,
)

READERS: Final[dict[str, Callable[[], ReplyReader]]] = {
    "openai": lambda: ChatReader("host.example"),
    "responses": lambda: ResponseReader("host.example", 100),
    "anthropic": lambda: MessageReader("host.example"),
    "gemini": lambda: CandidateReader("host.example"),
    "ollama": lambda: LineReader("host.example"),
}


def _chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"type": "content_block_start", "index": index, "content_block": block}
    return [start, *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)]


def _item(place: int, item: dict[str, Any], kind: str, **event: Any) -> list[dict[str, Any]]:
    at = {"output_index": place}
    return [
        {"type": "response.output_item.added", "item": item, **at},
        {"type": f"response.{kind}.delta", **event, **at},
        {"type": "response.output_item.done", "item": item, **at},
    ]


def _candidate(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **more}]}


# A reply with all that each protocol has: reasoning, text, a call, usage, an end, an error.
REPLIES: Final[dict[str, list[dict[str, Any]]]] = {
    "openai": [
        _chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "so"}]),
        _chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": " it is"}]),
        _chunk(reasoning="so", content=[{"type": "thinking", "thinking": [{"text": "so"}]}]),
        _chunk(content="Yes.", refusal="No.", reasoning_opaque="X", extra_content={"a": "X"}),
        _chunk(tool_calls=[{"index": 0, "id": "1", "function": {"name": "ls", "arguments": "{}"}}]),
        _chunk(tool_calls=[{"index": 0, "x": {"a": "X"}, "function": {"y": "X"}}]),
        _chunk(tool_calls=[{"index": 0, "x": ["X"], "function": {"y": {"a": 1}}}]),
        _chunk(function_call={"name": "ls", "arguments": {"all": True}}),
        {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]},
        {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}, "cost": 1}},
        {"error": {"message": "it is down"}},
    ],
    "responses": [
        *_item(
            0,
            {"type": "reasoning", "id": "rs", "encrypted_content": "X", "summary": [{"text": "s"}]},
            "reasoning_text",
            delta="so",
        ),
        *_item(
            1,
            {"type": "message", "phase": "p", "content": [{"type": "refusal", "refusal": "No."}]},
            "output_text",
            delta="Yes.",
        ),
        *_item(
            2,
            {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}", "x": "X"},
            "function_call_arguments",
            delta="{}",
        ),
        {"type": "response.completed", "response": {"usage": {"input_tokens": 9}}},
        {"object": "response", "status": "incomplete", "incomplete_details": {"reason": "x"}},
        {"type": "error", "message": "it is down"},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 9}}},
        *_block(
            0,
            {"type": "thinking", "thinking": "so"},
            {"type": "thinking_delta", "thinking": " it is"},
            {"type": "signature_delta", "signature": "X"},
        ),
        *_block(1, {"type": "text", "text": "Yes"}, {"type": "text_delta", "text": "."}),
        *_block(
            2,
            {"type": "tool_use", "id": "1", "name": "ls", "input": {"all": True}, "x": {"a": 1}},
            {"type": "input_json_delta", "partial_json": "{}"},
        ),
        *_block(3, {"type": "redacted_thinking", "data": "X"}),
        {"type": "message_delta", "delta": {"stop_reason": "x"}, "usage": {"output_tokens": 9}},
        {"type": "message", "content": [{"type": "text", "text": "Yes."}]},
        {"type": "error", "error": {"message": "it is down"}},
    ],
    "gemini": [
        _candidate({"text": "so", "thought": True}, {"text": "Yes.", "thoughtSignature": "X"}),
        _candidate({"functionCall": {"name": "ls", "args": {"all": True}, "id": "1", "x": "X"}}),
        _candidate({"executableCode": {"code": "x"}}, {"thoughtSignature": "X"}),
        _candidate(finishReason="STOP", finishMessage="done"),
        {"usageMetadata": {"promptTokenCount": 9}},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"error": {"message": "it is down"}},
    ],
    "ollama": [
        {"message": {"role": "assistant", "content": "Yes.", "thinking": "so"}, "done": False},
        {"message": {"tool_calls": [{"id": "1", "x": 1, "function": {"name": "ls", "y": 1}}]}},
        {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 3},
        {"done": True, "prompt_eval_count": 9},
        {"error": "it is down"},
    ],
}

#: What a server puts into a place that has another type, or cuts in two.
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1.5, 10**400, math.nan, math.inf, "", "x", "\ud83d"),
    *([], [5], [{}], {}, {"a": 1}),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place within a JSON value: what it is in, and its key."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield value, key
        yield from places(value[key])


def read(protocol: str, events: list[dict[str, Any]]) -> list[ModelEvent]:
    reader = READERS[protocol]()
    told = [event for chunk in events for event in reader.feed(chunk)]
    assert reader.gave_up is None or isinstance(reader.gave_up, str)
    return told + reader.end()


@pytest.mark.parametrize("protocol", READERS)
@given(st.randoms(use_true_random=False))
def test_what_has_a_wrong_type_is_ignored(protocol: str, rng: random.Random) -> None:
    events = deepcopy(rng.choices(REPLIES[protocol], k=rng.randint(1, 9)))
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice([place for event in events for place in places(event)])
        holder[key] = deepcopy(rng.choice(ODD))
    told = read(protocol, events)
    assert isinstance(told[-1], Finish)
    for event in told:
        match event:
            case Text(said) | Reasoning(said):
                said.encode()
            case ToolCall():
                (event.id + event.name + event.arguments).encode()
                json.dumps(event.extra, ensure_ascii=False, allow_nan=False).encode()
            case ReasoningMetadata():
                # It goes back with the next request.
                json.dumps(event.metadata, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("text", [5, ["a"], {"a": 1}])
def test_a_detail_of_reasoning_that_is_no_text_is_ignored(text: Any) -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": part} for part in (text, "so")]
    told = read("openai", [_chunk(reasoning_details=[detail]) for detail in details])
    assert told[1] == ReasoningMetadata({"reasoning_details": [details[1]]})


def _sent(protocol: str, messages: tuple[RequestMessage, ...]) -> Any:
    """Return the conversation as a request of ``protocol`` holds it."""
    preset = Preset(provider="gemini", endpoint="http://host.example", model="m")
    request = ModelRequest(preset, messages)
    match protocol:
        case "anthropic":
            return anthropic.request_body(request, "m")["messages"]
        case "gemini":
            return gemini.request_body(request)["contents"]
    return responses.request_body(request, "m")["input"]


@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "responses"])
def test_a_late_result_goes_with_its_call(protocol: str) -> None:
    """Nothing may come between a call and its result; and a call that ran was not cancelled."""
    question, more = RequestMessage("user", "Which files?"), RequestMessage("user", "And now?")
    calls = (ToolCall("1", "ls", "{}"), ToolCall("2", "pwd", "{}"))
    reply = RequestMessage("assistant", "I will look.", calls)
    first, second = (RequestMessage("tool", f"r{n}", tool_call_id=n) for n in "12")
    in_order = _sent(protocol, (question, reply, first, second, more))
    assert "r2" in json.dumps(in_order)
    assert _sent(protocol, (question, reply, first, more, second)) == in_order
    assert _sent(protocol, (question, reply, more, first, second)) == in_order


@pytest.mark.parametrize(
    ("protocol", "events"),
    [
        ("openai", [_chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}])]),
        (
            "anthropic",
            _block(
                0,
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": "{"},
            ),
        ),
        (
            "responses",
            _item(
                0,
                {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""},
                "function_call_arguments",
                delta="{",
            )[:2],
        ),
    ],
)
def test_a_call_that_arrives_in_pieces_is_known_before_it_is_whole(
    protocol: str, events: list[dict[str, Any]]
) -> None:
    reader = READERS[protocol]()
    assert not reader.is_calling
    assert [one for event in events for one in reader.feed(event)] == []
    assert reader.is_calling
