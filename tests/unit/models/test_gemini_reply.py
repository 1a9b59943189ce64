"""How the chunks of a Gemini reply become events."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.events import Usage
from aish_lsp.models.providers.gemini import CandidateReader, read_usage
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}


def chunk(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk that holds ``parts``; a text stands for a part of text."""
    spelled = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate = {"content": {"parts": spelled, "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **more}


def read(*chunks: Any) -> list[ModelEvent]:
    reply = CandidateReader("host")
    events = [event for item in chunks for event in reply.feed(item)]
    assert reply.error is None
    return events + reply.end()


def parts_of(events: list[ModelEvent]) -> list[Any]:
    """Return what goes back of a reply; nothing where there is no metadata."""
    kept = [event for event in events if isinstance(event, ReasoningMetadata)]
    assert all(item.metadata["server"] == "host" for item in kept)
    return [part for item in kept for part in item.metadata["parts"]]


def calls_of(events: list[ModelEvent]) -> list[ToolCall]:
    return [event for event in events if isinstance(event, ToolCall)]


def calling(name: str, *, more: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **fields}, **(more or {})}


def test_text_in_pieces_and_nothing_to_keep() -> None:
    events = read(chunk("a"), chunk(""), chunk("b", "c"), chunk("", finish="STOP"))
    assert events == [Text("a"), Text("b"), Text("c"), Finish("stop")]


def test_thoughts_are_reasoning_and_go_back_as_they_came() -> None:
    thought = {"text": "Hm", "thought": True}
    events = read(
        chunk(thought), chunk({**thought, "text": "."}), chunk("yes"), chunk("!", finish="STOP")
    )
    assert events[:4] == [Reasoning("Hm"), Reasoning("."), Text("yes"), Text("!")]
    assert parts_of(events) == [{"text": "Hm.", "thought": True}, {"text": "yes!"}]


def test_each_signature_stays_with_its_part() -> None:
    events = read(
        chunk("a"),
        chunk({"text": "b", "thoughtSignature": "S1"}),
        chunk("c"),
        chunk({"text": "", "thoughtSignature": "S2"}, finish="STOP"),
    )
    assert events[:3] == [Text("a"), Text("b"), Text("c")]
    assert parts_of(events) == [
        {"text": "a"},
        {"text": "b", "thoughtSignature": "S1"},
        {"text": "c"},
        {"text": "", "thoughtSignature": "S2"},
    ]


def test_a_signature_alone_gets_a_part_to_stand_in() -> None:
    events = read(chunk("a"), chunk({"thoughtSignature": "S"}, finish="STOP"))
    assert parts_of(events)[1] == {"text": "", "thoughtSignature": "S"}


def test_what_the_server_ran_is_kept_and_no_call_of_ours() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}
    gave = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "A" * 1000}}
    events = read(chunk(ran), chunk(gave, image), chunk("1", finish="STOP"))
    assert calls_of(events) == []
    assert events[-1] == Finish("stop")
    assert parts_of(events) == [ran, gave, {"text": "1"}]


def test_a_call_with_its_signature_and_id() -> None:
    part = calling("ls", args={"p": "ä"}, id="x1", more={"thoughtSignature": "S"})
    events = read(chunk(part), chunk("", finish="STOP", usageMetadata=USAGE))
    assert events[0] == ToolCall("x1", "ls", '{"p": "ä"}')
    assert parts_of(events) == [part]
    assert events[-2:] == [Usage(10, 2), Finish("tool")]


def test_calls_without_ids_get_ids_of_their_own() -> None:
    part = calling("ls", args={})
    events = read(chunk(part, part, calling("ls", id="a"), calling("ls", id="a"), finish="STOP"))
    ids = [call.id for call in calls_of(events)]
    assert len(set(ids)) == 4
    assert ids[2] == "a"
    assert all(ids)
    # Ours are not the server's: they do not go back.
    assert [part["functionCall"].get("id") for part in parts_of(events)] == [None, None, "a", "a"]


def test_a_call_without_anything_to_keep_keeps_nothing() -> None:
    assert parts_of(read(chunk(calling("ls", args={}), finish="STOP"))) == []


@pytest.mark.parametrize("args", [None, [], "x", 1])
def test_arguments_that_are_no_object_are_empty(args: Any) -> None:
    [call] = calls_of(read(chunk(calling("ls", args=args), finish="STOP")))
    assert call.arguments == "{}"


def test_arguments_in_pieces_are_refused() -> None:
    # They only come so where that is asked for, and half a call must not pass for a whole one.
    reply = CandidateReader("host")
    reply.feed(chunk(calling("run", willContinue=True)))
    piece = {"partialArgs": [{"jsonPath": "$.command", "stringValue": "a"}]}
    reply.feed(chunk({"functionCall": piece}))
    assert "streamFunctionCallArguments" in reply.error["message"]
    assert reply.end() == [Finish("stop")]


def test_a_character_cut_in_two_is_joined_and_a_half_one_is_in_no_file() -> None:
    events = read(
        chunk("\ud83d"), chunk("\ude00"), chunk(calling("ls", args={"a": "\ud83d"}, id="1"))
    )
    assert events[0] == Text("\U0001f600")
    assert calls_of(events)[0].arguments == '{"a": "\ufffd"}'
    json.dumps(parts_of(events), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("FINISH_REASON_UNSPECIFIED", "stop"),
        ("SOMETHING_NEW", "stop"),
    ],
)
def test_finish_reasons(theirs: str, ours: str) -> None:
    assert read(chunk("a", finish=theirs))[-1] == Finish(ours)  # type: ignore[arg-type]
    with_call = read(chunk("a", calling("ls"), finish=theirs))[-1]
    assert with_call == Finish("tool" if ours == "stop" else ours)  # type: ignore[arg-type]


def test_a_reply_that_the_server_broke_off_says_why() -> None:
    reply = CandidateReader("host")
    broken = chunk("a", finish="MALFORMED_FUNCTION_CALL")
    broken["candidates"][0]["finishMessage"] = "Malformed function call: ls("
    reply.feed(broken)
    assert reply.is_whole
    assert reply.gave_up == "MALFORMED_FUNCTION_CALL: Malformed function call: ls("


@pytest.mark.parametrize(
    "blocked",
    [
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE},
        chunk(finish="PROHIBITED_CONTENT"),
        {"candidates": [{"finishReason": "PROHIBITED_CONTENT", "index": 0}]},
        chunk({"text": "Hm", "thought": True}, finish="PROHIBITED_CONTENT"),
    ],
)
def test_a_refusal_without_a_word_is_an_error_that_names_the_reason(blocked: Any) -> None:
    reply = CandidateReader("host")
    assert not any(isinstance(event, Text) for event in reply.feed(blocked))
    assert "PROHIBITED_CONTENT" in reply.error["message"]


def test_feedback_without_a_reason_blocks_nothing() -> None:
    feedback: dict[str, Any] = {"promptFeedback": {"safetyRatings": []}}
    assert read(feedback, chunk("a", finish="STOP")) == [Text("a"), Finish("stop")]


def test_other_candidates_are_not_mixed_in() -> None:
    both = chunk("a", finish="STOP")
    both["candidates"].append({**copy.deepcopy(both["candidates"][0]), "index": 1})
    assert read(both) == [Text("a"), Finish("stop")]


def test_a_running_total_is_reported_once_and_what_holds_none_is_passed_over() -> None:
    events = read(
        chunk("a", usageMetadata={"promptTokenCount": 99}),
        chunk("b", finish="STOP", usageMetadata=USAGE),
        {"usageMetadata": {"trafficType": "ON_DEMAND"}},
    )
    assert [event for event in events if isinstance(event, Usage)] == [Usage(10, 2)]


def test_usage_in_full() -> None:
    raw = {
        "promptTokenCount": 147,
        "candidatesTokenCount": 108,
        "thoughtsTokenCount": 168,
        "toolUsePromptTokenCount": 360,
        "cachedContentTokenCount": 100,
        "totalTokenCount": 783,
    }
    assert read_usage(raw) == Usage(
        input_tokens=507, output_tokens=276, reasoning_tokens=168, cache_read_tokens=100
    )


@pytest.mark.parametrize(
    "raw", [{}, {"promptTokenCount": 0}, {"promptTokenCount": "9"}, {"promptTokenCount": -1}]
)
def test_no_usage(raw: dict[str, Any]) -> None:
    assert read_usage(raw) is None


def test_zeros_after_real_counts_are_passed_over() -> None:
    reply = CandidateReader("h")
    reply.feed(chunk("a", usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 2}))
    reply.feed(chunk("b", usageMetadata={"promptTokenCount": 0, "candidatesTokenCount": 3}))
    assert reply.usage() == Usage(9, 3)


VALID: list[dict[str, Any]] = [
    chunk({"text": "Hm", "thought": True}, usageMetadata=USAGE, promptFeedback={"blockReason": ""}),
    chunk("a", calling("ls", args={"a": 1}, id="1", more={"thoughtSignature": "S"})),
    chunk({"functionCall": {"name": "f", "willContinue": True}}),
    chunk({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "b"}]}}),
    chunk({"executableCode": {"code": "1"}}, finish="STOP", usageMetadata=USAGE),
]
ODD = st.sampled_from([None, True, 1, -1.5, 1e400, "", "x", [], {}, [None], {"a": None}, [[1]]])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all that lies in a value."""
    found = [path] if path else []
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        found += places(item, (*path, key))
    return found


@given(st.data())
def test_anything_anywhere_is_tolerated(data: st.DataObject) -> None:
    chunks = copy.deepcopy(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        *way, last = data.draw(st.sampled_from(places(chunks)))
        inner: Any = chunks
        for step in way:
            inner = inner[step]
        inner[last] = copy.deepcopy(data.draw(ODD))
    reply = CandidateReader("host")
    events: list[ModelEvent] = []
    for item in chunks:
        if isinstance(item, dict):
            events += reply.feed(item)
    events += reply.end()
    assert isinstance(events[-1], Finish)
    for call in calls_of(events):
        assert call.id
        assert isinstance(json.loads(call.arguments), dict)
    json.loads(json.dumps(parts_of(events), allow_nan=False))
