"""Chunks of chat completions, in the dialects that servers speak."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.foundation.events import Usage
from aish_lsp.models.loose_json import ABSURD
from aish_lsp.models.providers.openai import ChatReader, read_usage
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall


def read(*chunks: dict[str, Any]) -> list[ModelEvent]:
    reply = ChatReader("host.example")
    return [event for chunk in chunks for event in reply.feed(chunk)] + reply.end()


def delta(finish: str | None = None, /, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(index: int | None = None, call_id: Any = None, **function: Any) -> dict[str, Any]:
    piece: dict[str, Any] = {"function": function}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece["id"] = call_id
    return delta(tool_calls=[piece])


def calls(*chunks: dict[str, Any]) -> list[ToolCall]:
    return [event for event in read(*chunks) if isinstance(event, ToolCall)]


def test_text_in_pieces_and_no_empty_ones() -> None:
    assert read(
        delta(role="assistant", content=None),
        delta(content=""),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
    ) == [Text("Hel"), Text("lo"), Finish("stop")]


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None, 1]},
        {"choices": [{}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": 5, "reasoning": []}}]},
        {"choices": [{"delta": {"tool_calls": [None, {"function": None}]}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [{"delta": {"reasoning_details": [None, {"type": "x", "text": 5}]}}]},
        {"usage": None, "x_groq": None},
        {"usage": [], "x_groq": {"usage": 5}},
    ],
)
def test_odd_chunks_are_no_text(chunk: dict[str, Any]) -> None:
    events = read(chunk, delta(content="a"))
    assert [event for event in events if not isinstance(event, ReasoningMetadata)] == [
        Text("a"),
        Finish("stop"),
    ]


def test_think_tags_are_left_as_the_server_sends_them() -> None:
    assert read(delta(content="<think>x</think>y"))[0] == Text("<think>x</think>y")


@pytest.mark.parametrize("spelling", ["reasoning_content", "reasoning"])
def test_reasoning_comes_before_the_text_of_its_chunk(spelling: str) -> None:
    events = read(delta(**{spelling: "hm", "content": "so"}), delta(**{spelling: ""}))
    assert events == [Reasoning("hm"), Text("so"), Finish("stop")]


@pytest.mark.parametrize("spelling", ["reasoning_content", "reasoning"])
def test_reasoning_that_led_to_a_call_is_to_go_back_as_it_was_called(spelling: str) -> None:
    events = read(delta(**{spelling: "hm"}), call(0, "a", name="ls", arguments="{}"))
    assert events[2] == ReasoningMetadata({"reasoning_field": spelling})


def test_reasoning_in_several_spellings_is_read_once() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    both = delta(reasoning="hm", reasoning_content="hm", reasoning_details=details)
    assert read(both) == [
        Reasoning("hm"),
        ReasoningMetadata({"reasoning_details": details}),
        Finish("stop"),
    ]


def test_reasoning_details_are_joined_and_kept() -> None:
    events = read(
        delta(reasoning_details=[{"type": "reasoning.text", "text": "a", "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.text", "text": "b", "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.text", "signature": "s", "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.summary", "summary": "c", "index": 1}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "X", "index": 1}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "Y", "index": 1}]),
    )
    assert events[:3] == [Reasoning("a"), Reasoning("b"), Reasoning("c")]
    assert events[3] == ReasoningMetadata(
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"},
                {"type": "reasoning.summary", "summary": "c", "index": 1},
                {"type": "reasoning.encrypted", "data": "X", "index": 1},
                {"type": "reasoning.encrypted", "data": "Y", "index": 1},
            ]
        },
    )


def test_content_as_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "thinking", "thinking": "more"},
        None,
    ]
    assert read(delta(content=parts)) == [
        Reasoning("hm"), Text("so"), Reasoning("more"), Finish("stop")
    ]  # fmt: skip


def test_a_character_cut_in_two_is_joined() -> None:
    events = read(delta(content="a\ud83d"), delta(content="\ude00b"), delta(content="\ud83dc"))
    assert events == [Text("a"), Text("\U0001f600b"), Text("\ufffdc"), Finish("stop")]
    assert read(delta(reasoning="\ud83d"), delta(content="x"), delta(reasoning="\ude00")) == [
        Text("x"), Reasoning("\U0001f600"), Finish("stop")
    ]  # fmt: skip
    [only] = calls(call(0, "a", name="ls", arguments="\ud83d"), call(0, arguments="\ude00\ud800"))
    assert only.arguments == "\U0001f600\ufffd"


def test_a_refusal_is_text_and_ends_as_one() -> None:
    assert read(delta(refusal="I will not."), delta("stop")) == [
        Text("I will not."),
        Finish("refusal"),
    ]


def test_a_whole_message_instead_of_deltas() -> None:
    message = {"choices": [{"message": {"content": "all"}, "finish_reason": "stop"}]}
    assert read(message) == [Text("all"), Finish("stop")]


def test_a_message_beside_the_delta_is_not_read_twice() -> None:
    chunk = {"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}}]}
    assert read(chunk)[0] == Text("b")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool"),
        ("function_call", "tool"),
        ("content_filter", "refusal"),
        ("eos", "stop"),
        ("MAX_TOKENS", "length"),
        ("model_context_window_exceeded", "length"),
        ("SAFETY", "refusal"),
        ("sensitive", "refusal"),
        ("", "stop"),
        (None, "stop"),
    ],
)
def test_finish_reasons(theirs: str | None, ours: str) -> None:
    reply = ChatReader("h")
    reply.feed(delta(theirs, content="x"))
    assert reply.is_whole == bool(theirs)
    assert reply.end() == [Finish(ours)]  # type: ignore[arg-type]


def test_the_first_finish_reason_counts() -> None:
    assert read(delta("length"), delta("stop"))[-1] == Finish("length")


@pytest.mark.parametrize(
    "chunk",
    [
        {"error": {"message": "busy"}},
        {"object": "error", "message": "busy", "code": 429},
        {"message": "busy", "type": "rate_limit_error", "code": 429},
        {"detail": "busy"},
    ],
)
def test_an_error_in_place_of_a_chunk(chunk: dict[str, Any]) -> None:
    reply = ChatReader("host.example")
    assert reply.feed(delta(content="Hel")) == [Text("Hel")]
    assert reply.error is None
    assert reply.feed(chunk) == []
    assert reply.error == chunk.get("error", chunk)


def test_a_call_in_pieces() -> None:
    assert read(
        call(0, "call_1", name="ls", arguments=""),
        call(0, arguments='{"path"'),
        call(0, arguments=': "."}'),
        delta("tool_calls"),
    ) == [ToolCall("call_1", "ls", '{"path": "."}'), Finish("tool")]


def test_calls_side_by_side_by_index() -> None:
    assert calls(
        call(0, "a", name="one", arguments="1"),
        call(1, "b", name="two", arguments="2"),
        call(0, arguments="1"),
        call(1, arguments="2"),
    ) == [ToolCall("a", "one", "11"), ToolCall("b", "two", "22")]


def test_the_name_in_every_piece() -> None:
    assert calls(
        call(0, "0", name="ls", arguments=""), call(0, "0", name="ls", arguments="{}")
    ) == [ToolCall("0", "ls", "{}")]


def test_the_name_in_pieces() -> None:
    assert calls(call(0, "a", name="get_"), call(0, name="it"), call(0, arguments="{}")) == [
        ToolCall("a", "get_it", "{}")
    ]


def test_the_name_that_comes_late() -> None:
    assert calls(call(0, "a"), call(0, name="ls"), call(0, arguments="{}")) == [
        ToolCall("a", "ls", "{}")
    ]


def test_another_id_in_every_piece_without_a_name_is_the_same_call() -> None:
    assert calls(call(0, "a", name="ls", arguments="{"), call(0, "b", arguments="}")) == [
        ToolCall("a", "ls", "{}")
    ]


def test_whole_calls_that_all_have_the_index_0() -> None:
    assert calls(
        call(0, "a", name="ls", arguments="{}"), call(0, "b", name="ls", arguments="[]")
    ) == [ToolCall("a", "ls", "{}"), ToolCall("b", "ls", "[]")]


def test_whole_calls_that_all_have_the_index_0_and_no_id() -> None:
    found = calls(
        call(0, name="ls", arguments='{"a": 1}'), call(0, name="ls", arguments='{"a": 2}')
    )
    assert [(one.name, one.arguments) for one in found] == [("ls", '{"a": 1}'), ("ls", '{"a": 2}')]


def test_a_name_that_is_repeated_without_an_id_begins_no_other_call() -> None:
    pieces = ['{"a"', ": {}", "}", ""]
    [found] = calls(*(call(0, name="ls", arguments=piece) for piece in pieces))
    assert (found.name, found.arguments) == ("ls", '{"a": {}}')


def test_half_a_character_in_a_name_can_be_written_down() -> None:
    [found] = calls(call(0, "\ud83d", name="l\ud83d", arguments="{}"))
    assert f"{found.id} {found.name}".encode()


def test_calls_without_index() -> None:
    assert calls(
        call(None, "a", name="one", arguments="1"),
        call(None, "b", name="two", arguments="2"),
        call(None, "a", arguments="1"),
        call(None, arguments="2"),
    ) == [ToolCall("a", "one", "11"), ToolCall("b", "two", "22")]


def test_calls_without_index_and_id_get_ids_of_their_own() -> None:
    one, two = calls(call(name="ls", arguments="{}"), call(name="ls", arguments="[]"))
    assert (one.name, one.arguments, two.name, two.arguments) == ("ls", "{}", "ls", "[]")
    assert one.id
    assert two.id
    assert one.id != two.id


def test_an_id_that_is_used_twice_is_replaced() -> None:
    one, two = calls(call(0, "0", name="a"), call(1, "0", name="b"))
    assert one.id == "0"
    assert two.id not in {"", "0"}


def test_arguments_as_an_object_and_as_nothing() -> None:
    assert calls(call(0, "a", name="ls", arguments={"x": 1})) == [ToolCall("a", "ls", '{"x": 1}')]
    assert calls(call(0, 7, name="ls", arguments=None)) == [ToolCall("7", "ls", "")]


def test_the_old_function_call() -> None:
    [only] = calls(
        delta(function_call={"name": "ls", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
    )
    assert (only.name, only.arguments) == ("ls", "{}")


def test_calls_make_a_stop_a_tool_finish_but_not_a_length() -> None:
    assert read(call(0, "a", name="ls"), delta("stop"))[-1] == Finish("tool")
    assert read(call(0, "a", name="ls"), delta("length"))[-1] == Finish("length")


USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": USAGE},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE},
        {"choices": [{"delta": {}}], "x_groq": {"id": "x", "usage": USAGE}},
        {"choices": [{"delta": {}, "usage": USAGE}]},
    ],
)
def test_usage_wherever_it_comes(chunk: dict[str, Any]) -> None:
    assert read(delta(content="a"), chunk) == [Text("a"), Usage(10, 4), Finish("stop")]


def test_a_running_total_is_reported_once() -> None:
    running = [{"usage": {"prompt_tokens": 10, "completion_tokens": n}} for n in (1, 2, 3)]
    assert read(*running, {"usage": None}) == [Usage(10, 3), Finish("stop")]


def test_usage_in_full() -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 40},
        "cost": 0.25,
    }
    assert read_usage(raw) == Usage(100, 50, 40, 60, 30, 0.25)


def test_deepseeks_cache() -> None:
    usage = read_usage({**USAGE, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2})
    assert usage is not None
    assert usage.cache_read_tokens == 8


def test_reasoning_that_is_left_out_of_the_completion_is_output() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 90}}
    assert read_usage({**USAGE, "total_tokens": 104, **details}) == Usage(10, 94, 90)
    assert read_usage({**USAGE, "total_tokens": 104}) == Usage(10, 94, 90)


def test_a_total_that_does_not_add_up_is_ignored() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 3}}
    assert read_usage({**USAGE, "total_tokens": 999, **details}) == Usage(10, 4, 3)


def test_cost_with_a_key_of_ones_own_includes_what_the_provider_takes() -> None:
    raw = {**USAGE, "cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}
    usage = read_usage(raw)
    assert usage is not None
    assert usage.cost == pytest.approx(0.21)


@pytest.mark.parametrize("raw", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_no_usage(raw: Any) -> None:
    assert read_usage(raw) is None


def test_a_free_reply_costs_nothing_which_is_not_unknown() -> None:
    usage = read_usage({**USAGE, "cost": 0})
    assert usage is not None
    assert usage.cost == 0.0


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["cached_tokens", "reasoning_tokens"]), st.integers()),
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "prompt_tokens",
                "completion_tokens",
                "total_tokens",
                "prompt_tokens_details",
                "completion_tokens_details",
                "prompt_cache_hit_tokens",
                "cost",
                "is_byok",
                "cost_details",
            ]
        ),
        anything,
    )
)
@example({"prompt_tokens": 10**400})
def test_absurd_usage_is_tolerated(raw: dict[str, Any]) -> None:
    usage = read_usage(raw)
    if usage is not None:
        assert 0 <= usage.cache_read_tokens <= usage.input_tokens <= ABSURD
        assert 0 <= usage.reasoning_tokens <= usage.output_tokens <= 2 * ABSURD
        assert usage.cost is None or 0 <= usage.cost <= 2 * ABSURD


# --- what servers send without meaning harm -------------------------------------------------------


def test_a_piece_with_a_new_index_and_nothing_else_goes_on_with_the_open_call() -> None:
    assert calls(
        call(0, "a", name="ls", arguments='{"pa'), call(1, arguments='th": "."}'), delta("stop")
    ) == [ToolCall("a", "ls", '{"path": "."}')]


@pytest.mark.parametrize("index", [0, None])
def test_a_whole_call_that_is_repeated_replaces_what_came(index: int | None) -> None:
    whole = call(index, "a", name="ls", arguments='{"path": "."}')
    assert calls(whole, whole) == [ToolCall("a", "ls", '{"path": "."}')]
    started = call(index, "a", name="ls", arguments="{}")
    pieces = [call(index, "a", arguments=piece) for piece in ('{"path"', ': "."}')]
    assert calls(started, *pieces) == [ToolCall("a", "ls", '{"path": "."}')]
    assert calls(started, *pieces, whole) == [ToolCall("a", "ls", '{"path": "."}')]


def test_a_call_in_another_choice_is_one_and_its_text_is_not() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{}"}}
    second = {"index": 1, "delta": {"content": "no", "tool_calls": [piece]}}
    events = read(delta(content="Yes"), {"choices": [second]}, delta("tool_calls"))
    assert events == [Text("Yes"), ToolCall("a", "ls", "{}"), Finish("tool")]


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        (json.dumps('{"path": "."}'), '{"path": "."}'),
        ("null", "{}"),
        ("", ""),
        ('"text"', '"text"'),
    ],
)
def test_arguments_that_are_encoded_twice_or_null(arguments: str, read_as: str) -> None:
    assert calls(call(0, "a", name="ls", arguments=arguments)) == [ToolCall("a", "ls", read_as)]


def test_what_is_not_known_of_a_call_is_kept_for_its_server() -> None:
    signature = {"google": {"thought_signature": "X"}}
    first, second = call(0, "a", name="ls", arguments="{}"), call(0, "a")
    second["choices"][0]["delta"]["tool_calls"][0] |= {"extra_content": signature, "other": None}
    [found] = calls(first, second)
    assert found.extra == {"host.example": {"extra_content": signature}}


def test_signed_blocks_of_thinking_are_joined_and_kept() -> None:
    def block(**fields: Any) -> dict[str, Any]:
        return delta(reasoning_content="h", thinking_blocks=[{"type": "thinking", **fields}])

    events = read(block(thinking="h"), block(thinking="m", signature="X"), delta(content="Yes"))
    kept = {"type": "thinking", "thinking": "hm", "signature": "X"}
    assert ReasoningMetadata({"thinking_blocks": [kept]}) in events
    assert events[:2] == [Reasoning("h"), Reasoning("h")]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 9, "cached_tokens": 80}, (100, 80, 0)),
        # Anthropic's fields, within the prompt or beside it.
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 9,
                "total_tokens": 109,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 20,
            },
            (100, 60, 20),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 9,
                "total_tokens": 189,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 20,
            },
            (180, 60, 20),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 900}},
            (10, 10, 0),
        ),
    ],
)
def test_what_was_cached_is_part_of_the_input(
    reported: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    usage = read_usage(reported)
    assert usage is not None
    found = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert found == expected
    assert usage.reasoning_tokens == 0


def test_zeros_after_real_counts_are_none() -> None:
    real = {"prompt_tokens": 100, "completion_tokens": 9}
    zeros = {"prompt_tokens": 0, "completion_tokens": 0}
    events = read({"usage": real}, delta(content="Yes"), {"usage": zeros}, delta("stop"))
    assert Usage(100, 9) in events


@pytest.mark.parametrize("said", ["network_error", "MALFORMED_FUNCTION_CALL"])
def test_a_reply_that_the_provider_behind_gave_up_is_no_whole_one(said: str) -> None:
    reply = ChatReader("h")
    reply.feed(delta(said, content="x"))
    assert reply.gave_up == said


def test_pieces_of_several_calls_together_without_an_index() -> None:
    pieces = [[call(None, i, name="ls", arguments="{") for i in "ab"]]
    pieces += [[call(arguments=f'"x": {n}') for n in "12"], [call(arguments="}") for _ in "ab"]]
    chunks = []
    for together in pieces:
        found = [one["choices"][0]["delta"]["tool_calls"][0] for one in together]
        chunks.append(delta(tool_calls=found))
    assert [(one.id, one.arguments) for one in calls(*chunks)] == [
        ("a", '{"x": 1}'), ("b", '{"x": 2}')
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        # Of a proxy that passes on Anthropic's counts, and of one that adds its own names.
        ({"prompt_tokens": 7, "total_tokens": 1010, "cache_read_input_tokens": 900,
          "cache_creation_input_tokens": 100}, (1007, 900, 100)),
        ({"prompt_tokens": 1000, "cache_read_tokens": 900, "cache_write_tokens": 7},
          (1000, 900, 7)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0,
          "cache_write_tokens": None}}, (9, 0, 0)),
        ({"input_tokens": 70, "input_tokens_details": {"cached_tokens": 60}}, (70, 60, 0)),
    ],
)  # fmt: skip
def test_what_was_cached_under_whatever_name(
    raw: dict[str, Any], counts: tuple[int, int, int]
) -> None:
    usage = read_usage({"completion_tokens": 3, **raw})
    assert usage is not None
    assert usage.output_tokens == 3
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == counts


@pytest.mark.parametrize("index", [None, 0, "0", "1"])
def test_the_first_choice_is_the_one_that_is_shown(index: Any) -> None:
    reply = ChatReader("h")
    events = reply.feed({"choices": [{"index": index, "delta": {"content": "x"}}]})
    assert events == ([] if index == "1" else [Text("x")])


def test_usage_zeros_in_details_do_not_replace_a_count() -> None:
    reply = ChatReader("h")
    for cached in (80, 0):
        counts = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": cached}}
        reply.feed({"choices": [], "usage": counts})
    usage = reply.usage()
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens) == (100, 80)
