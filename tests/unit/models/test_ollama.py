"""Ollama's own protocol: requests, replies a line each, and what its server refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, Script
from reply_parts import collect

from aish_lsp.config.schema import Preset, Provider
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import goes_back, protocol, reasoning_source, reply_limit
from aish_lsp.models.providers.ollama import OllamaModel, request_body
from aish_lsp.models.refusals import overflow_of
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

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
DONE = {
    "model": "qwen3",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "total_duration": 4883583458,
    "prompt_eval_count": 26,
    "eval_count": 298,
}


def preset(url: str = "http://127.0.0.1:11434", **settings: Any) -> Preset:
    return Preset(name="mine", provider="ollama", endpoint=url, **{"model": "qwen3"} | settings)


def ask(url: str, **settings: Any) -> ModelRequest:
    return ModelRequest(preset(url, **settings), (RequestMessage("user", "hi"),))


def said(**message: Any) -> Json:
    return {"model": "qwen3", "message": {"role": "assistant", "content": "", **message}}


def lines(*chunks: Json | str) -> Script:
    """Return a script that says these, each cut in two where its line is."""

    async def script(request: Request, peer: Peer) -> None:
        await peer.head(kind="application/x-ndjson")
        for chunk in chunks:
            line = chunk if isinstance(chunk, str) else json.dumps(chunk)
            await peer.chunk(line[:9].encode())
            await peer.chunk(f"{line[9:]}\n".encode())
        await peer.chunk(b"")

    return script


async def reply(
    http: HttpClient, *chunks: Json | str
) -> tuple[list[ModelEvent], AishError | None, FaultServer]:
    async with FaultServer(lines(*chunks)) as server:
        return *await collect(OllamaModel(http), ask(server.url)), server


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("", "/api/chat"), ("/api", "/api/chat"), ("/v1", "/api/chat"), ("/x/", "/x/api/chat")],
)
async def test_the_chat_is_beside_the_api_of_others(
    http: HttpClient, endpoint: str, path: str
) -> None:
    async with FaultServer(lines(said(content="Yes"), DONE)) as server:
        _, error = await collect(OllamaModel(http), ask(f"{server.url}{endpoint}"))
    assert error is None
    assert [request.path for request in server.requests] == [path]


def test_the_window_and_the_settings_are_options() -> None:
    settings = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["x"], "context_window": 9000}
    body = request_body(ask("http://h", **settings, max_output_tokens=5), "qwen3")
    assert body.pop("options") == {
        "num_predict": 5,
        "num_ctx": 9000,
        **{name: settings[name] for name in ("temperature", "top_p", "seed", "stop")},
    }
    assert body == {
        "model": "qwen3",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    }
    # A window that is not configured is the server's to choose.
    assert "num_ctx" not in request_body(ask("http://h"), "m")["options"]


def test_options_of_the_users_own_replace_what_they_name() -> None:
    extra = {"options": {"num_predict": 9, "num_gpu": 1}, "keep_alive": "1h"}
    request = ask("http://h", extra_body=extra, context_window=9000)
    body = request_body(request, "m")
    assert body["options"] == {"num_predict": 9, "num_ctx": 9000, "num_gpu": 1}
    assert body["keep_alive"] == "1h"
    assert reply_limit(request.preset) == 9


@pytest.mark.parametrize(
    ("effort", "think"), [("none", False), ("low", "low"), ("minimal", "low"), ("max", "high")]
)
def test_an_effort_is_whether_to_think(effort: str, think: bool | str) -> None:
    assert request_body(ask("http://h", reasoning_effort=effort), "m")["think"] == think


def test_calls_are_objects_and_results_name_their_tool() -> None:
    here = preset()
    thought = StoredReasoning("hm", reasoning_source(here), {"thinking": True})
    call = ToolCall("c1", "read_file", '{"path": "a"}')
    messages = (
        RequestMessage("user", "Read a."),
        RequestMessage("assistant", "", tool_calls=(call,), reasoning=thought),
        RequestMessage("tool", "text", tool_call_id="c1"),
    )
    tools = (ToolSchema("read_file", "Reads.", SCHEMA),)
    body = request_body(ModelRequest(here, messages, tools), "m")
    [_, assistant, result] = body["messages"]
    function = {"name": "read_file", "arguments": {"path": "a"}}
    assert assistant["tool_calls"] == [{"id": "c1", "function": function}]
    assert assistant["thinking"] == "hm"
    assert result == {
        "role": "tool",
        "content": "text",
        "tool_call_id": "c1",
        "tool_name": "read_file",
    }
    [tool] = body["tools"]
    assert tool["function"] == {
        "name": "read_file",
        "description": "Reads.",
        "parameters": SCHEMA,
    }
    assert not goes_back(thought, preset("http://other:11434"))


async def test_a_reply_arrives_line_by_line(http: HttpClient) -> None:
    events, error, _ = await reply(
        http, said(thinking="H"), said(thinking="m"), said(content="Ye"), said(content="s"), DONE
    )
    assert error is None
    assert events == [
        *(Reasoning("H"), Reasoning("m"), Text("Ye"), Text("s")),
        *(Usage(26, 298), Finish("stop")),
    ]


async def test_calls_arrive_whole_with_and_without_ids(http: HttpClient) -> None:
    def call(**more: Any) -> Json:
        return {"function": {"name": "look", "arguments": {"at": "ä"}}, **more}

    events, error, _ = await reply(
        http, said(thinking="Hm", tool_calls=[call(id="c1")]), said(tool_calls=[call(), {}]), DONE
    )
    assert error is None
    first, second = (event for event in events if isinstance(event, ToolCall))
    assert (first.id, first.name, json.loads(first.arguments)) == ("c1", "look", {"at": "ä"})
    assert second.id not in ("", "c1")
    assert ReasoningMetadata({"thinking": True}) in events
    assert events[-1] == Finish("tool")


async def test_a_reply_that_is_cut_by_its_limit_says_so(http: HttpClient) -> None:
    events, _, _ = await reply(http, said(content="Ye"), DONE | {"done_reason": "length"})
    assert events[-1] == Finish("length")


async def test_an_input_that_was_cached_is_not_reported(http: HttpClient) -> None:
    done = {name: value for name, value in DONE.items() if name != "prompt_eval_count"}
    events, _, _ = await reply(http, said(content="Yes"), done)
    assert events == [Text("Yes"), Finish("stop")]


@pytest.mark.parametrize("last", [said(content="s"), '{"message": {"cont'])
async def test_a_reply_without_an_end_is_kept_and_told(http: HttpClient, last: Json | str) -> None:
    events, error, _ = await reply(http, said(content="Ye"), last)
    assert events[0] == Text("Ye")
    assert isinstance(error, BackendUnavailable)
    assert "broke off" in error.message


async def test_an_error_among_the_lines_is_told_in_its_words(http: HttpClient) -> None:
    events, error, _ = await reply(
        http, said(content="Ye"), {"error": "an error was encountered while running the model"}
    )
    assert events == [Text("Ye")]
    assert isinstance(error, BackendUnavailable)
    assert "encountered while running the model" in error.message


def refusing(words: str, field: str = "") -> Script:
    async def script(request: Request, peer: Peer) -> None:
        if not field or field in request.json:
            await peer.reply({"error": words}, "400 Bad Request")
        else:
            await lines(said(content="Yes"), DONE)(request, peer)

    return script


async def test_a_model_that_cannot_think_is_asked_without_it_from_then_on(
    http: HttpClient,
) -> None:
    async with FaultServer(refusing('"qwen3" does not support thinking', "think")) as server:
        model = OllamaModel(http)
        for _ in range(2):
            events, error = await collect(model, ask(server.url, reasoning_effort="low"))
            assert error is None
            assert events[0] == Text("Yes")
        assert len(server.requests) == 3
        own = ask(server.url, extra_body={"think": True})
        assert isinstance((await collect(model, own))[1], BackendRejected)


async def test_an_unknown_model_and_a_long_request_are_told(http: HttpClient) -> None:
    words = 'model "qwen3" not found, try pulling it first'
    async with FaultServer(refusing(words)) as server:
        _, error = await collect(OllamaModel(http), ask(server.url))
    assert isinstance(error, BackendRejected)
    assert words in error.message
    async with FaultServer(refusing("input length exceeds maximum context length")) as server:
        _, error = await collect(OllamaModel(http), ask(server.url))
    assert error is not None
    assert overflow_of(error) is not None


def test_the_protocol_is_found_by_its_name() -> None:
    assert protocol("ollama") is OllamaModel


# Its other protocols, in the shapes that it documents: thoughts are signed by nobody.

RESPONSE: list[Json] = [
    {"type": "response.created", "response": {"status": "in_progress"}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "reasoning", "id": "r"},
    },
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "hm",
        },
    },
    {
        "type": "response.output_item.done",
        "output_index": 1,
        "item": {
            "type": "function_call",
            "id": "fc",
            "call_id": "call_1",
            "name": "ls",
            "arguments": "{}",
        },
    },
    {
        "type": "response.completed",
        "response": {"status": "completed", "usage": {"input_tokens": 26, "output_tokens": 9}},
    },
]

MESSAGE: list[Json] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 26, "output_tokens": 0}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "hm"},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "call_1", "name": "ls", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    ("provider", "events"), [("openai-responses", RESPONSE), ("anthropic", MESSAGE)]
)
async def test_a_call_over_its_other_protocols_and_the_thoughts_before_it(
    http: HttpClient, provider: Provider, events: list[Json]
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for event in events:
            await peer.event(event)
        await peer.chunk(b"")

    question = RequestMessage("user", "hi")
    async with FaultServer(script) as server:
        here = Preset(name="mine", provider=provider, endpoint=server.url, model="qwen3")
        model = protocol(provider)(http, {})
        told, error = await collect(model, ModelRequest(here, (question,)))
        assert error is None
        call = ToolCall("call_1", "ls", "{}")
        assert told[:2] == [Reasoning("hm"), call]
        assert told[-2:] == [Usage(26, 9), Finish("tool")]
        [metadata] = [event.metadata for event in told if isinstance(event, ReasoningMetadata)]
        reasoning = StoredReasoning("hm", reasoning_source(here), metadata)
        reply = RequestMessage("assistant", "", (call,), reasoning=reasoning)
        result = RequestMessage("tool", "a.py", tool_call_id="call_1")
        await collect(model, ModelRequest(here, (question, reply, result)))
    # It goes back before the call that it led to.
    sent = json.dumps(server.requests[-1].json)
    assert 0 < sent.index('"hm"') < sent.index('"call_1"')
