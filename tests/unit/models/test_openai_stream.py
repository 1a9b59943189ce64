"""The chat-completions adapter against a server that shows every fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, Script, chunk_of, unused_port
from reply_parts import collect, saying

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import base
from aish_lsp.models.providers.openai import OpenAIModel
from aish_lsp.models.request import (
    Finish,
    ModelRequest,
    RequestMessage,
    Text,
    ToolCall,
    ToolSchema,
    WithoutPart,
)

USAGE = {"prompt_tokens": 10, "completion_tokens": 2}


def ask(url: str, **settings: Any) -> ModelRequest:
    settings.setdefault("model", "m")
    return ModelRequest(Preset(name="p", endpoint=url, **settings), (RequestMessage("user", "hi"),))


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


async def test_a_reply(http: HttpClient) -> None:
    script = saying(
        chunk_of("Hel"), chunk_of("lo"), STOP, {"choices": [], "usage": USAGE}, "[DONE]"
    )
    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events == [Text("Hel"), Text("lo"), Usage(10, 2), Finish("stop")]
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].json["messages"] == [{"role": "user", "content": "hi"}]
    assert "authorization" not in server.requests[0].headers


async def test_key_and_extra_headers(http: HttpClient) -> None:
    settings = {"api_key_env": "K", "extra_headers": {"X-Title": "t", "authorization": "Basic x"}}
    async with FaultServer(saying(STOP)) as server:
        model = OpenAIModel(http, {"K": "sk-1"})
        await collect(model, ask(server.url, api_key_env="K"))
        await collect(model, ask(server.url, **settings))
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"
    assert server.requests[1].headers["authorization"] == "Basic x"
    assert server.requests[1].headers["x-title"] == "t"


async def test_no_key_is_said_before_anything_is_sent(http: HttpClient) -> None:
    async with FaultServer(saying(STOP)) as server:
        _, error = await collect(OpenAIModel(http, {}), ask(server.url, api_key_env="NO_KEY"))
    assert isinstance(error, BackendRejected)
    assert "NO_KEY is not set" in error.message
    assert server.requests == []


async def test_the_first_chat_model_is_taken_where_none_is_named(http: HttpClient) -> None:
    models = {"data": [{"id": "nomic-embed"}, {"id": "qwen"}, {"id": "other"}]}

    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            await peer.reply(models)
        else:
            await saying(STOP)(request, peer)

    async with FaultServer(script) as server:
        model = OpenAIModel(http)
        for _ in range(2):
            assert (await collect(model, ask(server.url, model="")))[1] is None
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]
    assert server.requests[1].json["model"] == "qwen"


async def test_the_list_is_asked_again_if_it_was_empty_or_its_model_is_gone(
    http: HttpClient,
) -> None:
    listed = [[], ["old"], ["new"]]

    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            await peer.reply({"data": [{"id": name} for name in listed.pop(0)]})
        elif request.json.get("model") == "old":
            await peer.reply({"error": "no such model"}, "404 Not Found")
        else:
            await saying(STOP)(request, peer)

    async with FaultServer(script) as server:
        model = OpenAIModel(http)
        errors = [(await collect(model, ask(server.url, model="")))[1] for _ in range(4)]
    assert [error is None for error in errors] == [True, False, True, True]
    named = [request.json.get("model") for request in server.requests if request.method == "POST"]
    assert named == [None, "old", "new", "new"]


async def test_no_model_is_named_where_the_server_has_no_list(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            await peer.reply({"error": "no such page"}, "404 Not Found")
        else:
            await saying(STOP)(request, peer)

    async with FaultServer(script) as server:
        assert (await collect(OpenAIModel(http), ask(server.url, model="")))[1] is None
    assert "model" not in server.requests[1].json


async def test_refused_names_the_endpoint(http: HttpClient) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    for model in ("m", ""):
        events, error = await collect(OpenAIModel(http), ask(url, model=model))
        assert events == []
        assert isinstance(error, BackendUnavailable)
        assert url in error.message


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (saying(chunk_of("part")), "ended before the reply did"),
        (saying(chunk_of("part"), end=Peer.reset), "broke off"),
        (saying(chunk_of("part"), end=Peer.half_close), "broke off"),
        (saying(chunk_of("part"), "{garbage"), "not part of a reply"),
        (saying(chunk_of("part"), "[1, 2]"), "not part of a reply"),
        (saying(chunk_of("part"), "null"), "ended before the reply did"),
        (saying(chunk_of("part"), "[" * 100_000), "not part of a reply"),
        (saying(chunk_of("part"), {"error": {"code": 502, "message": "up"}}), "up"),
        (saying(chunk_of("part"), {"object": "error", "message": "up"}), "up"),
        (saying(chunk_of("part", finish_reason="error")), "gave up"),
        (saying(chunk_of("part", finish_reason="abort"), "[DONE]"), "gave up"),
    ],
)
async def test_what_came_is_kept_when_the_rest_does_not(
    http: HttpClient, script: Script, message: str
) -> None:
    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert events == [Text("part")]
    assert isinstance(error, BackendUnavailable)
    assert message in error.message
    assert server.url in error.message


async def test_an_error_in_the_chunk_of_the_last_text(http: HttpClient) -> None:
    last = {**chunk_of("part", finish_reason="error"), "error": {"code": 400, "message": "no"}}
    async with FaultServer(saying(last)) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert events == [Text("part")]
    assert isinstance(error, BackendRejected)
    assert error.data["status"] == 400


async def test_the_servers_own_words_come_before_its_finish_reason(http: HttpClient) -> None:
    last = {**chunk_of("part", finish_reason="error"), "error": {"code": 502, "message": "up"}}
    async with FaultServer(saying(last)) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert events == [Text("part")]
    assert isinstance(error, BackendUnavailable)
    assert error.data["provider_message"] == "up"


async def test_the_key_is_not_shown_by_an_error_in_the_stream(http: HttpClient) -> None:
    script = saying({"error": {"message": "bad key sk-secret-1", "type": "sk-secret-1"}})
    async with FaultServer(script) as server:
        model = OpenAIModel(http, {"K": "sk-secret-1"})
        _, error = await collect(model, ask(server.url, api_key_env="K"))
    assert error is not None
    assert "sk-secret-1" not in repr(error.__dict__)


async def test_a_connection_that_the_server_closed_meanwhile(http: HttpClient) -> None:
    script = saying(chunk_of("all"), STOP, "[DONE]")

    async def closing(request: Request, peer: Peer) -> None:
        await script(request, peer)
        peer.half_close()

    async with FaultServer(closing) as server:
        for _ in range(3):
            assert (await collect(OpenAIModel(http), ask(server.url)))[1] is None
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_stall_between_tokens_ends_at_the_timeout(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("part"))
        await peer.wait_closed()

    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url, timeout=2))
    assert events == [Text("part")]
    assert isinstance(error, BackendUnavailable)
    assert "for 2 s" in error.message


@pytest.mark.parametrize("end", [None, Peer.reset, Peer.half_close])
async def test_a_reply_that_finished_is_whole_without_done(
    http: HttpClient, end: Callable[[Peer], None] | None
) -> None:
    async with FaultServer(saying(chunk_of("all"), STOP, end=end)) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Finish("stop")]


async def test_done_without_a_finish_reason_is_a_finish(http: HttpClient) -> None:
    async with FaultServer(saying(chunk_of("all"), "[DONE]")) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Finish("stop")]


async def test_a_server_that_holds_the_connection_after_done_is_left(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("all"))
        await peer.event("[DONE]")
        await peer.wait_closed()

    async with FaultServer(script) as server:
        begin = time.monotonic()
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Finish("stop")]
    assert time.monotonic() - begin < 5


async def test_a_reply_leaves_its_connection_for_the_next(http: HttpClient) -> None:
    async with FaultServer(saying(chunk_of("all"), STOP, "[DONE]")) as server:
        for _ in range(3):
            assert (await collect(OpenAIModel(http), ask(server.url)))[1] is None
    assert server.connections == 1


async def test_a_server_that_does_not_stream(http: HttpClient) -> None:
    whole = {
        "choices": [{"index": 0, "message": {"content": "all"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(whole)

    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Usage(10, 2), Finish("stop")]


async def test_an_html_page_is_no_reply(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(b"<html><title>Sign in</title>", kind="text/html")

    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert events == []
    assert isinstance(error, BackendUnavailable)
    assert "Sign in" in error.message


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_leaving_in_mid_stream_closes_the_connection(http: HttpClient, how: str) -> None:
    closed = asyncio.Event()
    came = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("part"))
        await peer.wait_closed()
        closed.set()

    async with FaultServer(script) as server:
        stream = OpenAIModel(http).stream(ask(server.url))

        async def read() -> None:
            async for _ in stream:
                came.set()

        task = asyncio.create_task(read())
        await came.wait()
        begin = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if how == "close":
            await stream.aclose()
        await asyncio.wait_for(closed.wait(), 20)
        assert time.perf_counter() - begin < 20


@pytest.mark.parametrize("refuses_first", [False, True], ids=["plain", "after a refused field"])
async def test_closing_the_generator_where_it_yielded(
    http: HttpClient, *, refuses_first: bool
) -> None:
    closed = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        if refuses_first and "stream_options" in request.json:
            words = "Unrecognized request argument supplied: stream_options"
            await peer.reply({"error": {"message": words}}, "400 Bad Request")
            return
        await peer.head()
        await peer.event(chunk_of("part"))
        await peer.wait_closed()
        closed.set()

    async with FaultServer(script) as server:
        model = OpenAIModel(http)
        stream = model.stream(ask(server.url))
        if refuses_first:
            with pytest.raises(WithoutPart):
                await anext(stream)
            stream = model.stream(ask(server.url))
        assert await anext(stream) == Text("part")
        await stream.aclose()
        await asyncio.wait_for(closed.wait(), 20)


async def test_a_key_that_is_refused_is_asked_for_again(http: HttpClient, tmp_path: Any) -> None:
    counter = tmp_path / "asked"
    command = ["sh", "-c", f"echo x >> {counter}; wc -l < {counter} | tr -d ' '"]
    refuse = True

    async def script(request: Request, peer: Peer) -> None:
        if refuse:
            await peer.reply({"error": "no"}, "401 Unauthorized")
        else:
            await saying(STOP, "[DONE]")(request, peer)

    async with FaultServer(script) as server:
        request = ask(server.url, api_key_command=command)
        model = OpenAIModel(http)
        assert isinstance((await collect(model, request))[1], BackendRejected)
        refuse = False
        for _ in range(2):
            assert (await collect(model, request))[1] is None
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer 1", "Bearer 2", "Bearer 2"]


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            ["max_tokens", "max_completion_tokens"],
        ),
        ("Unrecognized request argument supplied: stream_options", ["stream_options", None]),
        ("max_tokens is too large: 99999. This model supports at most 4096.", ["max_tokens"]),
        ("Unsupported parameter: 'temperature'", ["temperature", None]),
        ("The model does not exist.", ["model"]),
    ],
)
async def test_a_field_that_the_server_does_not_know_is_not_sent_again(
    http: HttpClient, words: str, sent: list[str | None]
) -> None:
    fields = {"max_tokens", "max_completion_tokens", "stream_options", "temperature"}

    async def script(request: Request, peer: Peer) -> None:
        if sent[0] in request.json:
            await peer.reply({"error": {"message": words}}, "400 Bad Request")
        else:
            await saying(chunk_of("ok"), STOP)(request, peer)

    async with FaultServer(script) as server:
        model = OpenAIModel(http)
        for _ in range(2):
            _, error = await collect(model, ask(server.url, temperature=1.0))
            assert (error is None) == (len(sent) == 2)
    requests = [request.json.keys() & fields for request in server.requests]
    if len(sent) == 1:
        assert len(requests) == 2
        return
    assert len(requests) == 3, "it is learned at the first refusal"
    for left in requests[1:]:
        assert sent[0] not in left
        assert sent[1] is None or sent[1] in left


async def test_a_field_of_the_users_own_is_not_left_out(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        await peer.reply({"error": {"message": words}}, "400 Bad Request")

    async with FaultServer(script) as server:
        request = ask(server.url, extra_body={"max_tokens": 5})
        _, error = await collect(OpenAIModel(http), request)
    assert isinstance(error, BackendRejected)
    assert len(server.requests) == 1


async def test_signs_of_life_are_passed_over(http: HttpClient) -> None:
    async with FaultServer(
        saying("null", 7, '"ping"', [], chunk_of("ok"), "null", STOP, "[DONE] ")
    ) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events[0] == Text("ok")


@pytest.mark.slow
async def test_a_finish_reason_before_any_text_does_not_cut_what_follows(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "TAIL_TIMEOUT", 0.1)

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("", finish_reason="stop"))
        await asyncio.sleep(0.5)
        await peer.event(chunk_of("ok"))
        await peer.event(STOP)
        await peer.event("[DONE]")
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is None
    assert events[0] == Text("ok")


async def test_an_error_within_a_choice_is_one(http: HttpClient) -> None:
    wrong = {"choices": [{"index": 0, "delta": {}, "error": {"message": "it is down"}}]}
    async with FaultServer(saying(wrong)) as server:
        _, error = await collect(OpenAIModel(http), ask(server.url))
    assert error is not None
    assert "it is down" in error.message


async def test_what_the_provider_behind_said_is_the_reason(http: HttpClient) -> None:
    end = chunk_of("", finish_reason="stop", native_finish_reason="MALFORMED")
    async with FaultServer(saying(end, "[DONE]")) as server:
        events, _ = await collect(OpenAIModel(http), ask(server.url))
    [finish] = events
    assert isinstance(finish, Finish)
    assert finish.said == "MALFORMED"


async def test_the_usage_of_a_reply_that_broke_off_counts(http: HttpClient) -> None:
    part = chunk_of("part") | {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    async with FaultServer(saying(part)) as server:
        used: list[Usage] = []
        request = replace(ask(server.url), cut_off=used.append)
        events, error = await collect(OpenAIModel(http), request)
    assert isinstance(error, BackendUnavailable)
    assert (events, used) == ([Text("part")], [Usage(9, 2)])


@pytest.mark.parametrize(
    ("delta", "is_told"),
    [
        ({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}, True),
        ({"content": '<tool_call>{"name": "f", "arg'}, True),
        ({"content": "<tool"}, False),
        ({"role": "assistant"}, False),
    ],
)
async def test_a_call_that_begins_is_told_before_it_is_whole(
    http: HttpClient, delta: dict[str, Any], *, is_told: bool
) -> None:
    async with FaultServer(saying({"choices": [{"index": 0, "delta": delta}]})) as server:
        told: list[bool] = []
        tools = (ToolSchema("f", "", {}),)
        request = replace(ask(server.url), tools=tools, begun=lambda: told.append(True))
        events, error = await collect(OpenAIModel(http), request)
    assert isinstance(error, BackendUnavailable)
    assert (events, bool(told)) == ([], is_told)


async def test_a_form_is_kept_that_was_answered_with_a_call_alone(http: HttpClient) -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    call = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
    asked: list[bool] = []
    refusals = ["No."]

    async def script(request: Request, peer: Peer) -> None:
        asked.append("temperature" in request.json)
        words = "Unsupported parameter: 'temperature'" if asked[-1] else ""
        if not words and len(asked) > 2 and refusals:
            words = refusals.pop()
        if words:
            await peer.reply({"error": {"message": words}}, "400 Bad Request")
        else:
            await saying(call, STOP, "[DONE]")(request, peer)

    async with FaultServer(script) as server:
        model = OpenAIModel(http)
        for _ in range(3):
            await collect(model, ask(server.url, temperature=0.5))
    # What no form mended has changed nothing.
    assert asked == [True, False, False, False]


async def test_a_value_that_a_server_asked_for_and_then_refuses_is_left_out(
    http: HttpClient,
) -> None:
    asked: list[Any] = []

    async def script(request: Request, peer: Peer) -> None:
        asked.append(request.json.get("reasoning_effort"))
        if asked[-1] is None:
            await saying(chunk_of("Yes."), STOP)(request, peer)
            return
        words = "Unsupported parameter: 'reasoning_effort'"
        if asked[-1] == "high":
            words = "Please set reasoning_effort to 'none'."
        await peer.reply({"error": {"message": words}}, "400 Bad Request")

    async with FaultServer(script) as server:
        events, error = await collect(OpenAIModel(http), ask(server.url, reasoning_effort="high"))
    assert (error, events[0], asked) == (None, Text("Yes."), ["high", "none", None])


async def test_a_call_that_the_server_left_in_the_text_is_a_call(http: HttpClient) -> None:
    tool = ToolSchema("look", "Look.", {"type": "object", "properties": {}})
    pieces = ("I look.\n", "<tool_", 'call>{"name": "look", ', '"arguments": {}}</tool_call>')
    async with FaultServer(saying(*map(chunk_of, pieces), STOP, "[DONE]")) as server:
        request = replace(ask(server.url), tools=(tool,))
        events, error = await collect(OpenAIModel(http), request)
    assert error is None
    text, call, finish = events
    assert isinstance(call, ToolCall)
    assert (text, call.name, call.arguments) == (Text("I look.\n"), "look", "{}")
    assert finish == Finish("tool", "stop")
