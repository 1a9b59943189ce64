"""Events of a Responses stream, in the dialects that servers speak."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.models.providers.responses import ResponseReader
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall

Json = dict[str, Any]

SPENT = {"input_tokens": 10, "output_tokens": 4}


def read(*events: Json, limit: Any = None) -> list[ModelEvent]:
    reply = ResponseReader("host.example", limit)
    return [told for event in events for told in reply.feed(event)] + reply.end()


def added(place: int | None, **item: Any) -> Json:
    return _placed(place, type="response.output_item.added", item=item)


def done(place: int | None, **item: Any) -> Json:
    return _placed(place, type="response.output_item.done", item=item)


def delta(kind: str, place: int | None, piece: Any, **more: Any) -> Json:
    return _placed(place, type=f"response.{kind}.delta", delta=piece, **more)


def _placed(place: int | None, **event: Any) -> Json:
    return event if place is None else {**event, "output_index": place}


def completed(*output: Json, **more: Any) -> Json:
    response = {"object": "response", "status": "completed", "output": list(output), **more}
    return {"type": f"response.{response['status']}", "response": response}


def message(text: str, **more: Any) -> Json:
    return {"type": "message", "content": [{"type": "output_text", "text": text}], **more}


def thought(name: str, encrypted: Any = "X", **more: Any) -> Json:
    item = {"type": "reasoning", "id": name, "summary": [], "encrypted_content": encrypted}
    return item | more


def call(call_id: str, name: str = "ls", arguments: Any = "{}") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def texts(events: list[ModelEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def thoughts(events: list[ModelEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Reasoning))


def outline(events: list[ModelEvent]) -> list[Json]:
    found = [event for event in events if isinstance(event, ReasoningMetadata)]
    return found[0].metadata["output"] if found else []


def test_text_in_pieces_and_no_empty_ones() -> None:
    assert read(
        {"type": "response.created", "response": {"status": "in_progress", "error": None}},
        added(0, type="message"),
        delta("output_text", 0, ""),
        delta("output_text", 0, "Hel"),
        delta("output_text", 0, "lo"),
        {"type": "response.output_text.done", "output_index": 0, "text": "Hello"},
        done(0, **message("Hello")),
        completed(message("Hello"), usage=SPENT),
    ) == [Text("Hel"), Text("lo"), Usage(10, 4), Finish("stop")]


def test_llama_cpp_names_items_by_their_ids() -> None:
    events = read(
        added(None, type="reasoning", id="rs", encrypted_content=""),
        delta("reasoning_text", None, "hm", item_id="rs"),
        added(None, type="message", id="msg"),
        delta("output_text", None, "a", item_id="msg"),
        added(None, type="function_call", call_id="fc", name="ls"),
        delta("function_call_arguments", None, '{"a"', item_id="fc"),
        delta("function_call_arguments", None, ": 1}", item_id="fc"),
        completed(usage=SPENT),
    )
    assert events == [
        Reasoning("hm"),
        Text("a"),
        ToolCall("fc", "ls", '{"a": 1}'),
        Usage(10, 4),
        Finish("tool"),
    ]


def test_a_proxy_that_gives_an_item_another_id_in_each_event() -> None:
    events = read(
        added(0, type="message", id="a"),
        delta("output_text", 0, "one", item_id="b"),
        done(0, **message("one", id="c")),
        completed(message("one", id="d")),
    )
    assert events == [Text("one"), Finish("stop")]


def test_a_proxy_that_gives_all_items_one_place() -> None:
    events = read(
        added(0, type="message", id="a"),
        delta("output_text", 0, "one"),
        done(0, **message("one", id="a")),
        added(0, type="function_call", id="b"),
        done(0, **call("c1")),
        completed(),
    )
    assert events == [Text("one"), ToolCall("c1", "ls", "{}"), Finish("tool")]


def test_deltas_that_have_no_place_although_their_item_has() -> None:
    events = read(
        added(1, type="function_call", id="fc", call_id="c1", name="ls"),
        delta("function_call_arguments", None, "{}", item_id="fc"),
        completed(),
    )
    assert events == [ToolCall("c1", "ls", "{}"), Finish("tool")]


def test_items_that_were_never_announced() -> None:
    events = read(
        delta("reasoning_summary_text", None, "hm"),
        delta("output_text", None, "Hel"),
        delta("output_text", None, "lo"),
        completed(),
    )
    assert events == [Reasoning("hm"), Text("Hel"), Text("lo"), Finish("stop")]


def test_what_was_not_streamed_is_told_when_its_item_is_done() -> None:
    events = read(
        done(0, **thought("rs", summary=[{"text": "one"}, {"text": "two"}])),
        done(1, **message("Hello")),
        done(2, **call("c1", arguments='{"a": 1}')),
        completed(),
    )
    assert thoughts(events) == "one\n\ntwo"
    assert texts(events) == "Hello"
    assert ToolCall("c1", "ls", '{"a": 1}') in events


def test_a_server_that_does_not_stream() -> None:
    whole = completed(thought("rs"), message("all"), call("c1"), usage=SPENT)["response"]
    assert read(whole) == [
        Text("all"),
        ToolCall("c1", "ls", "{}"),
        ReasoningMetadata(
            {
                "output": [
                    thought("rs"),
                    {"type": "message", "length": 3},
                    {"type": "function_call", "call_id": "c1"},
                ]
            },
        ),
        Usage(10, 4),
        Finish("tool"),
    ]


def test_messages_and_parts_of_the_reasoning_are_paragraphs() -> None:
    events = read(
        delta("reasoning_summary_text", 0, "a", summary_index=0),
        delta("reasoning_summary_text", 0, "b", summary_index=0),
        delta("reasoning_summary_text", 0, "c", summary_index=1),
        delta("reasoning_summary_text", 1, "d", summary_index=1),
        delta("output_text", 2, "I look."),
        delta("output_text", 3, "Found "),
        delta("output_text", 3, "it."),
        completed(),
    )
    assert thoughts(events) == "ab\n\nc\n\nd"
    assert texts(events) == "I look.\n\nFound it."


def test_reasoning_and_its_summary_are_not_both_told() -> None:
    events = read(
        delta("reasoning_text", 0, "long thought"),
        delta("reasoning_summary_text", 0, "thought", summary_index=0),
        done(0, **thought("rs", summary=[{"text": "thought"}])),
        completed(),
    )
    assert thoughts(events) == "long thought"


def test_calls_have_ids_of_their_own() -> None:
    events = read(
        done(0, **call("c")), done(1, **call("c")), done(2, **call("")), done(3, **call("", "", ""))
    )
    ids = [event.id for event in events if isinstance(event, ToolCall)]
    assert len(set(ids)) == len(ids) == 3
    assert ids[0] == "c"
    assert all(ids)


@pytest.mark.parametrize(
    "kind",
    ["web_search_call", "custom_tool_call", "mcp_approval_request", "shell_call", "compaction"],
)
def test_what_is_no_call_of_a_function_is_none(kind: str) -> None:
    item = {"type": kind, "call_id": "c", "name": "n", "input": "x", "arguments": "{}"}
    assert read(added(0, **item), done(0, **item), completed(item)) == [Finish("stop")]


def test_unknown_events_are_passed_over() -> None:
    assert read(
        {},
        {"type": "keepalive"},
        {"type": 5},
        {"type": "response.output_text.annotation.added", "annotation": {}, "output_index": 0},
        {"type": "response.web_search_call.searching", "output_index": 1},
        completed(),
    ) == [Finish("stop")]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "refusal"), (None, "length")],
)
def test_incomplete(reason: str | None, finish: FinishReason) -> None:
    last = completed(status="incomplete", incomplete_details={"reason": reason})
    assert read(delta("output_text", 0, "part"), last) == [Text("part"), Finish(finish)]


def test_an_end_that_is_told_by_its_event_alone() -> None:
    assert read({"type": "response.incomplete", "response": {}}) == [Finish("length")]
    assert read({"type": "response.completed"}) == [Finish("stop")]


def test_refusals_are_text_that_ends_as_one() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "I won't."}]}
    wanted = [Text("I won't."), Finish("refusal")]
    assert read(delta("refusal", 0, "I won't."), done(0, **refusal), completed()) == wanted
    assert read(done(0, **refusal), completed()) == wanted


def test_a_reply_of_as_many_tokens_as_were_asked_for_was_cut() -> None:
    last = completed(message("a"), usage=SPENT)
    assert read(last, limit=4)[-1] == Finish("length")
    assert read(last, limit=5)[-1] == Finish("stop")
    assert read(last, limit="4")[-1] == Finish("stop")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "error", "code": "server_error", "message": "up"}, "up"),
        ({"type": "error", "error": {"code": "server_error", "message": "up"}}, "up"),
        ({"error": {"code": 502, "message": "up"}}, "up"),
        (completed(status="failed", error={"code": "server_error", "message": "up"}), "up"),
        ({"type": "response.failed", "error": {"message": "up"}}, "up"),
        (completed(status="failed"), None),
    ],
)
def test_errors(event: Json, words: str | None) -> None:
    reply = ResponseReader("host.example")
    reply.feed(event)
    assert reply.error is not None
    assert reply.error.get("message") == words


def test_a_last_event_that_is_the_response_itself() -> None:
    last = {**completed(message("Yes."))["response"], "type": "response.completed"}
    assert texts(read(last)) == "Yes."


@pytest.mark.parametrize("status", ["cancelled", "in_progress", "queued"])
def test_a_status_that_is_no_end(status: str) -> None:
    reply = ResponseReader("host.example")
    reply.feed({"object": "response", "status": status})
    assert reply.gave_up == status


def test_an_emoji_whose_halves_came_apart() -> None:
    events = read(
        delta("output_text", 0, "a\ud83d"), delta("output_text", 0, "\ude00b"), completed()
    )
    assert texts(events) == "a\U0001f600b"


class TestOutline:
    """What goes back with the next request."""

    def test_reasoning_stands_before_what_it_led_to(self) -> None:
        events = read(
            done(0, **thought("r1", status="completed")),
            done(1, **message("I look.", phase="commentary")),
            done(2, **thought("r2", "Y", summary=[{"type": "summary_text", "text": "s"}])),
            done(3, **call("c1")),
            completed(),
        )
        assert outline(events) == [
            thought("r1"),
            {"type": "message", "length": 7, "phase": "commentary"},
            thought("r2", "Y", summary=[{"type": "summary_text", "text": "s"}]),
            {"type": "function_call", "call_id": "c1"},
        ]

    def test_nothing_for_a_plain_reply(self) -> None:
        assert outline(read(done(0, **message("a")), done(1, **call("c")), completed())) == []

    @pytest.mark.parametrize("encrypted", ["", None, 5])
    def test_reasoning_without_encrypted_content_stays_behind(self, encrypted: Any) -> None:
        events = read(done(0, **thought("r1", encrypted)), done(1, **message("a")), completed())
        assert outline(events) == []

    def test_reasoning_that_led_to_a_search_of_the_servers_stays_behind(self) -> None:
        events = read(
            done(0, **thought("r1")),
            done(1, type="web_search_call"),
            done(2, **thought("r2")),
            done(3, **message("")),
            done(4, **message("a")),
            completed(),
        )
        assert outline(events) == [thought("r2"), {"type": "message", "length": 1}]

    def test_reasoning_that_led_to_nothing_stays_behind(self) -> None:
        last = completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
        assert outline(read(done(0, **thought("r1")), last)) == []

    def test_encrypted_content_that_comes_only_with_the_end(self) -> None:
        events = read(
            added(0, **thought("r1", None)),
            done(0, **thought("r1", None)),
            done(1, **message("a")),
            completed(thought("r1", "late"), message("a")),
        )
        assert outline(events)[0] == thought("r1", "late")

    def test_openrouters_fields_are_kept(self) -> None:
        item = thought("r1", format="openai-responses-v1", signature="s")
        assert outline(read(done(0, **item), done(1, **message("a")), completed()))[0] == item


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, Usage(5, 2)),
        (
            {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 6},
                "total_tokens": 16,
            },
            Usage(9, 7, 6, 4, 3),
        ),
        ({"input_tokens": 5, "output_tokens": 2, "cost": 0.5}, Usage(5, 2, cost=0.5)),
        ({"input_tokens": 5, "output_tokens": 2, "cost_in_usd_ticks": 5 * 10**9},
         Usage(5, 2, cost=0.5)),
        ({"input_tokens": 5, "output_tokens": 2, "cost_in_usd_ticks": 10**400}, Usage(5, 2)),
        ({"input_tokens": 0, "output_tokens": 2}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_usage(raw: Any, usage: Usage | None) -> None:
    wanted = [] if usage is None else [usage]
    assert read(completed(usage=raw)) == [*wanted, Finish("stop")]


NAMES = st.sampled_from(
    ["type", "item", "delta", "output_index", "item_id", "response", "output", "content", "text",
     "summary", "encrypted_content", "call_id", "name", "arguments", "usage", "status", "error"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["response.output_text.delta", "response.reasoning_text.delta", "response.output_item.added",
     "response.output_item.done", "response.function_call_arguments.delta", "response.completed",
     "response.incomplete", "response.failed", "error", "message", "reasoning", "function_call",
     "incomplete", "completed"]
)  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.just("\ud800") | KINDS
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=8))
def test_anything_may_come_in_any_place(events: list[Json]) -> None:
    told = read(*events, limit=3)
    assert sum(isinstance(event, Finish) for event in told) == 1
    assert isinstance(told[-1], Finish)
    assert all(event.delta for event in told if isinstance(event, Text | Reasoning))
    (texts(told) + thoughts(told)).encode()
    json.dumps(outline(told))


REPLY: list[Json] = [
    {"type": "response.created", "response": {"status": "in_progress"}},
    added(0, **thought("rs")),
    delta("reasoning_summary_text", 0, "hm", summary_index=0, item_id="rs"),
    done(0, **thought("rs", summary=[{"type": "summary_text", "text": "hm"}])),
    added(1, type="message", id="msg", role="assistant", content=[]),
    delta("output_text", 1, "Hello", content_index=0, item_id="msg"),
    done(1, **message("Hello", id="msg", role="assistant", phase="commentary")),
    added(2, **call("c1", arguments="")),
    delta("function_call_arguments", 2, "{}", item_id="fc"),
    done(2, **call("c1")),
    completed(
        thought("rs"),
        message("Hello"),
        call("c1"),
        usage={**SPENT, "output_tokens_details": {"reasoning_tokens": 1}},
        incomplete_details=None,
        error=None,
    ),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where in a JSON value something stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in inner:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places(item, (*path, key))
    return found


@given(st.lists(st.tuples(st.sampled_from(places(REPLY)), VALUES), min_size=1, max_size=4))
def test_a_reply_with_something_odd_in_it(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    events = json.loads(json.dumps(REPLY))
    for (*path, last), value in changes:
        target = events
        try:
            for key in path:
                target = target[key]
            target[last] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    told = read(*(event for event in events if isinstance(event, dict)))
    assert isinstance(told[-1], Finish)
    json.dumps(outline(told))


def test_what_was_not_streamed_counts_when_it_is_done_or_at_the_end() -> None:
    text = {"type": "response.output_text.done", "output_index": 0, "text": "Yes."}
    arguments = {
        "type": "response.function_call_arguments.done",
        "output_index": 1,
        "arguments": '{"a": 1}',
    }
    announced = added(1, type="function_call", call_id="c1", name="ls")
    events = read(added(0, type="message"), text, announced, arguments, completed())
    assert texts(events) == "Yes."
    assert ToolCall("c1", "ls", '{"a": 1}') in events
    # All of it once, whatever is repeated at the end.
    again = read(
        added(0, type="message"),
        delta("output_text", 0, "Yes."),
        text,
        completed(message("Yes."), call("c2", arguments='{"a": 2}')),
    )
    assert texts(again) == "Yes."
    assert [event for event in again if isinstance(event, ToolCall)] == [
        ToolCall("c2", "ls", '{"a": 2}')
    ]
    only_at_the_end = read(announced, completed(message("Yes."), call("c1")))
    assert texts(only_at_the_end) == "Yes."
