"""The adapter for Anthropic's Messages against servers that do what they should not."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import text_of
from reply_parts import collect, saying

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.anthropic import AnthropicModel, MessageReader, request_body
from aish_lsp.models.providers.base import NotACountError
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    StoredReasoning,
    Text,
    ToolCall,
    ToolSchema,
)

Json = dict[str, Any]


def start(index: int, kind: str, **more: Any) -> Json:
    block = {"type": kind, **more}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **more: Any) -> Json:
    piece = {"type": kind, **more}
    return {"type": "content_block_delta", "index": index, "delta": piece}


def stop(reason: str, **usage: Any) -> Json:
    change = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": change, "usage": usage}


BEGIN = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
OVER = {"type": "message_stop"}
THINKS = [
    start(0, "thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Let me"),
    delta(0, "thinking_delta", thinking=" see."),
    delta(0, "signature_delta", signature="c2ln"),
    {"type": "content_block_stop", "index": 0},
]
SAYS = [
    start(1, "text", text=""),
    {"type": "ping"},
    delta(1, "text_delta", text="CMD: "),
    delta(1, "text_delta", text="ls"),
    {"type": "content_block_stop", "index": 1},
]
CALLS = [
    start(2, "tool_use", id="toolu_1", name="read", input={}),
    delta(2, "input_json_delta", partial_json=""),
    delta(2, "input_json_delta", partial_json='{"path": '),
    delta(2, "input_json_delta", partial_json='"x"}'),
    {"type": "content_block_stop", "index": 2},
]
SEARCHES = [
    start(3, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
    delta(3, "input_json_delta", partial_json='{"query": "x"}'),
    start(4, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[{"title": "x"}]),
    {"type": "message_limit", "limit": 1},
]
WHOLE = [BEGIN, *THINKS, *SAYS, *CALLS, *SEARCHES, stop("tool_use", output_tokens=30), OVER]


def read(*events: Json) -> list[ModelEvent]:
    """Read a reply without a connection."""
    reply = MessageReader("host")
    came = [event for item in events for event in reply.feed(item)]
    return [*came, *reply.end()]


def test_a_whole_reply() -> None:
    assert read(*WHOLE) == [
        Reasoning("Let me"),
        Reasoning(" see."),
        Text("CMD: "),
        Text("ls"),
        ToolCall("toolu_1", "read", '{"path": "x"}'),
        ReasoningMetadata(
            {
                "server": "host",
                "content": [
                    {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
                    {"type": "text", "length": 7},
                    {"type": "tool_use"},
                ],
            },
        ),
        Usage(9, 30),
        Finish("tool"),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "refusal"),
        ("something_new", "stop"),
    ],
)
def test_why_it_stopped(reason: str, finish: str) -> None:
    assert read(BEGIN, *SAYS, stop(reason), OVER)[-1] == Finish(finish)  # type: ignore[arg-type]


def test_thinking_that_is_not_shown_goes_back_too() -> None:
    events = read(
        BEGIN,
        start(0, "thinking", thinking="", signature="c2ln"),
        start(1, "redacted_thinking", data="xyz"),
        start(2, "text", text="Yes."),
        stop("end_turn"),
    )
    assert events[:2] == [
        Text("Yes."),
        ReasoningMetadata(
            {
                "server": "host",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "xyz"},
                    {"type": "text", "length": 4},
                ],
            },
        ),
    ]


def test_without_thinking_there_is_nothing_to_return() -> None:
    assert not [e for e in read(BEGIN, *SAYS, *CALLS, OVER) if isinstance(e, ReasoningMetadata)]


def test_blocks_side_by_side() -> None:
    """llama.cpp ends the thinking when all is over."""
    events = read(BEGIN, *THINKS[:3], *SAYS, *THINKS[3:], stop("end_turn"), OVER)
    assert text_of(events) == "CMD: ls"
    [metadata] = [event.metadata for event in events if isinstance(event, ReasoningMetadata)]
    assert metadata["content"][0]["signature"] == "c2ln"


@pytest.mark.parametrize(
    ("blocks", "calls"),
    [
        ([start(0, "tool_use", id="a", name="f", input={})], [("a", "{}")]),
        ([start(0, "tool_use", id="a", name="f", input={"x": 1})], [("a", '{"x": 1}')]),
        ([start(0, "tool_use", id="a", name="f", input="x")], [("a", "{}")]),
        (
            [
                start(0, "tool_use", id="a", name="f"),
                start(1, "tool_use", id="b", name="f"),
                delta(1, "input_json_delta", partial_json='{"y":'),
                delta(0, "input_json_delta", partial_json='{"x"'),
                delta(1, "input_json_delta", partial_json="2}"),
                delta(0, "input_json_delta", partial_json=":1}"),
            ],
            [("a", '{"x":1}'), ("b", '{"y":2}')],
        ),
        ([start(0, "server_tool_use", id="a", name="f"), start(1, "mcp_tool_use", id="b")], []),
    ],
)
def test_calls(blocks: list[Json], calls: list[tuple[str, str]]) -> None:
    events = read(BEGIN, *blocks, stop("end_turn"))
    assert [(e.id, e.arguments) for e in events if isinstance(e, ToolCall)] == calls
    assert events[-1] == Finish("tool" if calls else "stop")


def test_calls_have_ids_of_their_own() -> None:
    blocks = [start(i, "tool_use", id=given, name="f") for i, given in enumerate(["a", "a", "", 5])]
    ids = [event.id for event in read(*blocks) if isinstance(event, ToolCall)]
    assert ids[0] == "a"
    assert len(set(ids)) == 4
    assert all(ids)


@pytest.mark.parametrize(
    ("first", "last", "usage"),
    [
        ({"input_tokens": 9, "output_tokens": 1}, {"output_tokens": 5}, Usage(9, 5)),
        # What was read from the cache, or written to it, is counted beside the rest.
        (
            {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20},
            {"output_tokens": 5},
            Usage(129, 5, cache_read_tokens=100, cache_write_tokens=20),
        ),
        # A tool of the provider's own made the input grow; some say 0 for "as before".
        ({"input_tokens": 9}, {"input_tokens": 70, "output_tokens": 5}, Usage(70, 5)),
        ({"input_tokens": 9}, {"input_tokens": 0, "output_tokens": 5}, Usage(9, 5)),
        ({"input_tokens": 0}, {"input_tokens": 8, "output_tokens": 5}, Usage(8, 5)),
        ({"input_tokens": 9, "output_tokens": 3}, {"output_tokens": 0}, Usage(9, 0)),
        (
            {"input_tokens": 9},
            {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 4}},
            Usage(9, 5, reasoning_tokens=4),
        ),
        ({"input_tokens": 0, "output_tokens": 0}, {"output_tokens": 5}, None),
        (None, None, None),
        ({"input_tokens": -3, "output_tokens": "7"}, {"output_tokens": True}, None),
    ],
)
def test_usage(first: Any, last: Any, usage: Usage | None) -> None:
    begin = {"type": "message_start", "message": {"usage": first}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}
    assert [e for e in read(begin, end) if isinstance(e, Usage)] == [usage] * (usage is not None)


Script = Callable[[Request, Peer], Awaitable[None]]


def sending(*events: Any) -> Script:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for event in events:
            await peer.event(event)
        await peer.chunk(b"")

    return script


async def ask(
    http: HttpClient, script: Script, **more: Any
) -> tuple[list[ModelEvent], BackendRejected | BackendUnavailable | None]:
    """Return what came of a reply, and the error that ended it."""
    events: list[ModelEvent] = []
    async with FaultServer(script) as server:
        preset = Preset(provider="anthropic", endpoint=server.url, model="m", **more)
        request = ModelRequest(preset, (RequestMessage("user", "hi"),))
        try:
            async for event in AnthropicModel(http).stream(request):
                events.append(event)  # noqa: PERF401 - what came before an error counts
        except (BackendRejected, BackendUnavailable) as error:
            return events, error
    return events, None


@pytest.mark.parametrize(
    ("kind", "words", "error_type"),
    [
        ("overloaded_error", "Overloaded", BackendUnavailable),
        ("rate_limit_error", "Too many tokens a minute", BackendUnavailable),
        ("api_error", "Internal server error", BackendUnavailable),
        ("invalid_request_error", "prompt is too long", BackendRejected),
        ("authentication_error", "invalid x-api-key", BackendRejected),
    ],
)
async def test_an_error_in_mid_stream_keeps_the_part(
    http: HttpClient, kind: str, words: str, error_type: type[Exception]
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}
    events, raised = await ask(http, sending(BEGIN, *SAYS, error))
    assert text_of(events) == "CMD: ls"
    assert type(raised) is error_type
    assert raised.data["type"] == kind
    assert raised.data["provider_message"] == words
    assert not any(isinstance(event, Finish) for event in events)


async def test_a_stream_that_is_cut_keeps_the_part(http: HttpClient) -> None:
    events, raised = await ask(http, sending(BEGIN, *THINKS, *SAYS[:3]))
    assert text_of(events) == "CMD: "
    assert isinstance(raised, BackendUnavailable)
    assert "broke off" in raised.message


async def test_a_stream_that_is_cut_behind_the_last_word(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for event in (BEGIN, *SAYS, stop("end_turn", output_tokens=3)):
            await peer.event(event)
        peer.reset()

    events, raised = await ask(http, script)
    assert raised is None
    assert events[-2:] == [Usage(9, 3), Finish("stop")]


async def test_one_whole_message_in_place_of_a_stream(http: HttpClient) -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Yes."},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(message)

    events, raised = await ask(http, script)
    assert raised is None
    assert [event for event in events if not isinstance(event, ReasoningMetadata)] == [
        Reasoning("hm"),
        Text("Yes."),
        ToolCall("a", "f", '{"x": 1}'),
        Usage(7, 3),
        Finish("tool"),
    ]


@pytest.mark.parametrize("answer", [{"ok": True}, [1], "x", {"type": "message_start"}])
async def test_json_that_is_no_reply(http: HttpClient, answer: Any) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(answer)

    events, raised = await ask(http, script)
    assert events == []
    assert isinstance(raised, BackendUnavailable)


async def test_a_rate_limit_says_how_long(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        error = {"type": "rate_limit_error", "message": "Slow down."}
        body = {"type": "error", "error": error}
        await peer.reply(body, "429 Too Many", "application/json", "Retry-After: 7")

    _, raised = await ask(http, script)
    assert isinstance(raised, BackendUnavailable)
    assert raised.data["retry_after"] == 7
    assert raised.data["type"] == "rate_limit_error"


@pytest.mark.parametrize("status", ["529 Overloaded", "500 No"])
async def test_an_overloaded_server(http: HttpClient, status: str) -> None:
    async def script(request: Request, peer: Peer) -> None:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        await peer.reply({"type": "error", "error": error}, status)

    _, raised = await ask(http, script)
    assert isinstance(raised, BackendUnavailable)
    assert "Overloaded" in raised.message


async def test_headers_and_path(http: HttpClient) -> None:
    async with FaultServer(sending(*WHOLE)) as server:
        for endpoint in (server.url, f"{server.url}/v1/", f"{server.url}/v1/messages"):
            preset = Preset(provider="anthropic", endpoint=endpoint, model="m", api_key_env="K")
            request = ModelRequest(preset, (RequestMessage("user", "hi"),))
            async for _ in AnthropicModel(http, {"K": "sk-right"}).stream(request):
                pass
    for came in server.requests:
        assert came.path == "/v1/messages"
        assert came.headers["x-api-key"] == "sk-right"
        assert came.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in came.headers
        assert "anthropic-beta" not in came.headers
    # The response was read to its end: one connection serves them all.
    assert server.connections == 1


async def test_a_beta_is_asked_for_beside_the_users_own(http: HttpClient) -> None:
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    async with FaultServer(sending(*WHOLE)) as server:
        for given in ({}, {"Anthropic-Beta": "context-1m"}):
            preset = Preset(
                provider="anthropic",
                endpoint=server.url,
                model="m",
                extra_body={"thinking": thinking},
                extra_headers={"Authorization": "Bearer proxy", **given},
                api_key_env="NOT_SET",
            )
            request = ModelRequest(preset, (RequestMessage("user", "hi"),))
            async for _ in AnthropicModel(http, {}).stream(request):
                pass
    first, second = (came.headers for came in server.requests)
    assert first["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert second["anthropic-beta"] == "context-1m,thinking-binding-controls-2026-08-01"
    assert first["authorization"] == "Bearer proxy"
    assert "x-api-key" not in first


async def test_a_server_without_a_named_model_is_asked_for_one(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            await peer.reply({"data": [{"id": "the-one"}]})
        else:
            await sending(*WHOLE)(request, peer)

    async with FaultServer(script) as server:
        preset = Preset(provider="anthropic", endpoint=server.url)
        request = ModelRequest(preset, (RequestMessage("user", "hi"),))
        async for _ in AnthropicModel(http).stream(request):
            pass
    assert server.requests[-1].json["model"] == "the-one"


async def count(http: HttpClient, answer: Any, status: str = "200 OK") -> tuple[int, Request]:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(answer, status)

    async with FaultServer(script) as server:
        preset = Preset(
            provider="anthropic",
            endpoint=server.url,
            model="m",
            temperature=0.5,
            stop=["x"],
            extra_body={"top_k": 3, "tool_choice": {"type": "auto"}},
        )
        request = ModelRequest(
            preset,
            (RequestMessage("system", "s"), RequestMessage("user", "hi")),
            (ToolSchema("ls", "Lists.", {}),),
        )
        return await AnthropicModel(http).count_tokens(request, timeout_s=5), server.requests[0]


async def test_a_count_is_asked_for_what_is_counted(http: HttpClient) -> None:
    tokens, request = await count(http, {"input_tokens": 34})
    assert tokens == 34
    assert request.path == "/v1/messages/count_tokens"
    assert request.json.keys() == {"model", "system", "messages", "tools", "tool_choice"}


@pytest.mark.parametrize(
    "answer", [{}, [], {"input_tokens": 0}, {"input_tokens": "3"}, {"input_tokens": True}]
)
async def test_an_answer_that_is_no_count(http: HttpClient, answer: Any) -> None:
    with pytest.raises(NotACountError):
        await count(http, answer)


async def test_a_count_that_is_refused(http: HttpClient) -> None:
    with pytest.raises(BackendRejected) as caught:
        await count(http, {"error": {"type": "not_found_error", "message": "no"}}, "404 No")
    assert caught.value.data["status"] == 404


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=3,
)
KINDS = st.sampled_from(
    ["text", "thinking", "tool_use", "redacted_thinking", "text_delta", "error", "message", 0, 1]
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all places of a JSON value: what holds them, and their key there."""
    found: list[tuple[Any, Any]] = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        found += [(value, key), *(places(inner) if isinstance(inner, dict | list) else [])]
    return found


@given(data=st.data())
@settings(max_examples=300)
@pytest.mark.slow
def test_nothing_a_server_sends_raises(data: st.DataObject) -> None:
    """Whatever stands in whatever place: the reader goes on, and what it gives is JSON."""
    events = copy.deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        holder, key = data.draw(st.sampled_from(places(events)))
        holder[key] = data.draw(JUNK | KINDS)
    reply = MessageReader("host")
    came = [item for event in events if isinstance(event, dict) for item in reply.feed(event)]
    came += reply.end()
    assert isinstance(came[-1], Finish)
    for item in came:
        match item:
            case Text(words) | Reasoning(words):
                assert isinstance(words, str)
                assert words
            case ToolCall(call_id, name, arguments):
                assert all(isinstance(part, str) for part in (call_id, name, arguments))
            case ReasoningMetadata():
                json.dumps(item.metadata).encode()
            case Usage():
                assert item.input_tokens > 0
                assert 0 <= item.reasoning_tokens <= item.output_tokens


HALF = json.loads('"\\ud83d"'), json.loads('"\\ude00"')


def test_half_characters_are_mended() -> None:
    """What two pieces make together goes back whole too."""
    events = read(
        start(0, "thinking", thinking=HALF[0]),
        delta(0, "thinking_delta", thinking=HALF[1]),
        delta(0, "signature_delta", signature="s"),
        start(1, "text", text="a"),
        delta(1, "text_delta", text=HALF[0]),
        delta(1, "text_delta", text=HALF[1]),
        stop("end_turn"),
    )
    assert text_of(events) == "a\N{GRINNING FACE}"
    [metadata] = [event.metadata for event in events if isinstance(event, ReasoningMetadata)]
    assert metadata["content"] == [
        {"type": "thinking", "thinking": "\N{GRINNING FACE}", "signature": "s"},
        {"type": "text", "length": 2},
    ]


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
SPOKEN = WORDS.filter(str.strip).map(lambda words: {"type": "text", "text": words})
THOUGHT = st.builds(
    lambda words, signature: {"type": "thinking", "thinking": words, "signature": signature},
    st.just("") | WORDS,
    WORDS,
)
HIDDEN = WORDS.map(lambda data: {"type": "redacted_thinking", "data": data})
CALLED = st.dictionaries(WORDS, WORDS, max_size=2).map(
    lambda given: {"type": "tool_use", "name": "ls", "input": given}
)


def streamed(index: int, block: Json) -> list[Json]:
    """Return a block as it streams, its words one by one."""
    match block["type"]:
        case "text":
            pieces = [delta(index, "text_delta", text=word) for word in block["text"]]
            return [start(index, "text", text=""), *pieces]
        case "thinking":
            words = [delta(index, "thinking_delta", thinking=word) for word in block["thinking"]]
            signed = delta(index, "signature_delta", signature=block["signature"])
            return [start(index, "thinking", thinking="", signature=""), *words, signed]
        case "tool_use":
            written = [
                delta(index, "input_json_delta", partial_json=part)
                for part in json.dumps(block["input"])
            ]
            return [start(index, "tool_use", id=block["id"], name="ls", input={}), *written]
    return [start(index, "redacted_thinking", data=block["data"])]


@given(blocks=st.lists(SPOKEN | THOUGHT | HIDDEN | CALLED, max_size=8))
def test_a_reply_goes_back_as_it_came(blocks: list[Json]) -> None:
    """All of it, in its order, through the session's log; but for thinking that ends it."""
    sent = [
        {**block, "id": f"toolu_{at}"} if block["type"] == "tool_use" else block
        for at, block in enumerate(blocks)
    ]
    events = read(*(event for at, block in enumerate(sent) for event in streamed(at, block)))
    metadata = [event.metadata for event in events if isinstance(event, ReasoningMetadata)]
    thinking = "".join(event.delta for event in events if isinstance(event, Reasoning))
    reply = RequestMessage(
        "assistant",
        text_of(events),
        tool_calls=tuple(event for event in events if isinstance(event, ToolCall)),
        reasoning=StoredReasoning(thinking, "anthropic", json.loads(json.dumps(metadata[0])))
        if metadata
        else None,
    )
    preset = Preset(provider="anthropic", endpoint="http://host", model="m")
    hello = RequestMessage("user", "hi")
    messages = request_body(ModelRequest(preset, (hello, reply, hello)), "m")["messages"]
    back = [block for m in messages if m["role"] == "assistant" for block in m["content"]]
    if not any("thinking" in block["type"] for block in sent):
        # Then the order is nobody's concern: text, then calls.
        words = "".join(block["text"] for block in sent if block["type"] == "text")
        sent = ([{"type": "text", "text": words}] if words else []) + [
            block for block in sent if block["type"] == "tool_use"
        ]
    while sent and "thinking" in sent[-1]["type"]:
        sent.pop()
    assert back == sent


def test_thinking_in_a_block_that_began_as_text() -> None:
    """As LiteLLM sends it, with the beginning twice and the end of a block too often."""
    end = {"type": "content_block_stop", "index": 0}
    events = read(
        BEGIN, BEGIN,
        start(0, "text", text=""),
        delta(0, "thinking_delta", thinking="Hm."),
        end, end,
        start(1, "text", text=""), delta(1, "text_delta", text="So."), end,
        stop("end_turn", output_tokens=5), OVER,
    )  # fmt: skip
    assert events[:2] == [Reasoning("Hm."), Text("So.")]
    assert [event for event in events if isinstance(event, Usage)] == [Usage(9, 5)]


@pytest.mark.parametrize(
    "words",
    [
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "system.0.cache_control: Extra inputs are not permitted",
        "Unknown field 'cache_control'",
    ],
)
async def test_a_server_that_refuses_marks_for_its_cache(http: HttpClient, words: str) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if "cache_control" in json.dumps(request.json):
            await peer.reply({"type": "error", "error": {"message": words}}, "400 Bad Request")
        else:
            await saying(BEGIN, start(0, "text", text="Yes."), stop("end_turn"), OVER)(
                request, peer
            )

    messages = (RequestMessage("system", "Be short."), RequestMessage("user", "hi"))
    async with FaultServer(script) as server:
        asked = ModelRequest(Preset(provider="anthropic", endpoint=server.url, model="m"), messages)
        model = AnthropicModel(http)
        for _ in range(2):
            events, error = await collect(model, asked)
            assert (error, text_of(events)) == (None, "Yes.")
    # It is asked without them from then on.
    assert len(server.requests) == 3


async def test_marks_for_a_cache_that_a_refusal_only_quotes_stay(http: HttpClient) -> None:
    words = "messages.0.content.0.text is odd: 'What does cache_control do?'"

    async def script(_: Request, peer: Peer) -> None:
        await peer.reply({"type": "error", "error": {"message": words}}, "400 Bad Request")

    async with FaultServer(script) as server:
        preset = Preset(provider="anthropic", endpoint=server.url, model="m")
        asked = ModelRequest(preset, (RequestMessage("user", "hi"),))
        _, error = await collect(AnthropicModel(http), asked)
    assert isinstance(error, BackendRejected)
    assert len(server.requests) == 1


def test_usage_under_the_names_of_chat_completions() -> None:
    reply = MessageReader("h")
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    reply.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage})
    assert reply.usage() == Usage(9, 5)
