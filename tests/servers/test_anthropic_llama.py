"""Anthropic's Messages against a real llama.cpp server, which serves them too.

It takes no grammar with such a request: each server here has one for all its replies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_server import ENDLESS, LlamaServer, says
from replies import text_of, usage_of
from reply_parts import leave_in_mid_stream

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.address import server_name
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import describe
from aish_lsp.models.providers.anthropic import AnthropicModel
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

REPLY = "I'll list the files: grüße 👩‍💻.\nCMD: ls -la\n"
KEY = "sk-right-key"
LS = ToolSchema("ls", "Lists files.", {"properties": {"path": {"type": "string"}}})
SYSTEM, QUESTION = (
    RequestMessage("system", "You are a shell."),
    RequestMessage("user", "Which files?"),
)

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def server(parts: None) -> Iterator[LlamaServer]:
    """A server that always answers the same, and wants a key."""
    with LlamaServer(grammar=says(REPLY), api_key=KEY, context=8192) as running:
        yield running


def ask(
    server: LlamaServer,
    *messages: RequestMessage,
    tools: tuple[ToolSchema, ...] = (),
    **settings: Any,
) -> ModelRequest:
    settings = {"endpoint": server.url, "api_key_env": "K", "model": "aish-tiny", **settings}
    preset = Preset(name="llama", provider="anthropic", **settings)
    return ModelRequest(preset, messages or (SYSTEM, QUESTION), tools)


def model(http: HttpClient, key: str = KEY) -> AnthropicModel:
    return AnthropicModel(http, {"K": key})


async def collect(http: HttpClient, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in model(http).stream(request)]


@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/messages"])
async def test_text_byte_for_byte(http: HttpClient, server: LlamaServer, suffix: str) -> None:
    events = await collect(http, ask(server, endpoint=server.url + suffix))
    assert text_of(events) == REPLY
    assert events[-1] == Finish("stop")


async def test_usage_and_count_agree(http: HttpClient, server: LlamaServer) -> None:
    request = ask(server, tools=(LS,))
    counted = await model(http).count_tokens(request, timeout_s=30)
    first, second = [usage_of(await collect(http, request)) for _ in range(2)]
    assert first.input_tokens == second.input_tokens == counted
    # One token a byte, and the one that ends the reply.
    assert second.output_tokens == len(REPLY.encode()) + 1
    assert 0 < second.cache_read_tokens < second.input_tokens


async def test_a_reply_that_is_cut_at_its_limit(http: HttpClient, server: LlamaServer) -> None:
    events = await collect(http, ask(server, max_output_tokens=6))
    assert text_of(events) == REPLY[:6]
    assert usage_of(events).output_tokens == 6
    assert events[-1] == Finish("length")


async def test_what_a_tool_found_goes_back(http: HttpClient, server: LlamaServer) -> None:
    """Thinking, text, calls and results: the server takes them all and counts them in."""
    content = [
        {"type": "thinking", "thinking": "Let me look.", "signature": ""},
        {"type": "text", "length": 8},
        {"type": "tool_use"},
        {"type": "tool_use"},
    ]
    metadata = {"server": server_name(server.url), "content": content}
    calls = (ToolCall("toolu_1", "ls", '{"path": "."}'), ToolCall("toolu_2", "ls", "no JSON"))

    def talk(found: str) -> ModelRequest:
        reply = RequestMessage(
            "assistant",
            "Looking.",
            tool_calls=calls,
            reasoning=StoredReasoning("Let me look.", "anthropic", metadata),
        )
        return ask(
            server,
            SYSTEM,
            QUESTION,
            reply,
            RequestMessage("tool", found, tool_call_id="toolu_1"),
            RequestMessage("tool", "", tool_call_id="toolu_2"),
            RequestMessage("user", "So?"),
            tools=(LS,),
        )

    events = await collect(http, talk("a.py"))
    assert text_of(events) == REPLY
    short, long = [
        await model(http).count_tokens(talk(name), timeout_s=30) for name in ("a.py", "a" * 500)
    ]
    assert usage_of(events).input_tokens == short
    assert long == short + 496


@pytest.mark.parametrize("effort", ["low", "none"])
async def test_thinking_may_be_asked_for(
    http: HttpClient, server: LlamaServer, effort: str
) -> None:
    request = ask(server, reasoning_effort=effort, max_output_tokens=3000, temperature=0.0)
    assert text_of(await collect(http, request)) == REPLY


async def test_the_endpoint_describes_itself(http: HttpClient, server: LlamaServer) -> None:
    info = await describe(http, ask(server).preset, {"K": KEY})
    assert (info.kind, info.models, info.context_window) == ("llama.cpp", ("aish-tiny",), 8192)


async def test_a_model_that_is_not_named(http: HttpClient, server: LlamaServer) -> None:
    assert text_of(await collect(http, ask(server, model=""))) == REPLY


async def test_too_long(http: HttpClient, server: LlamaServer) -> None:
    with pytest.raises(BackendRejected) as caught:
        await collect(http, ask(server, RequestMessage("user", "x" * 9000)))
    data = caught.value.data
    assert (data["status"], data["type"]) == (400, "exceed_context_size_error")
    assert (data["n_prompt_tokens"] > 9000, data["n_ctx"]) == (True, 8192)


async def test_a_bad_request_is_shown(http: HttpClient, server: LlamaServer) -> None:
    request = ask(server, extra_body={"max_tokens": "many"})
    with pytest.raises(BackendRejected, match="max_tokens") as caught:
        await collect(http, request)
    assert caught.value.data["status"] == 400


async def test_a_wrong_key(http: HttpClient, server: LlamaServer) -> None:
    with pytest.raises(BackendRejected, match=r"Invalid API Key.*Check the key") as caught:
        [event async for event in model(http, "sk-wrong-key").stream(ask(server))]
    assert caught.value.data["status"] == 401
    assert "sk-wrong-key" not in str(caught.value)


async def test_a_proxys_own_header_in_place_of_the_key(
    http: HttpClient, server: LlamaServer
) -> None:
    request = ask(server, extra_headers={"Authorization": f"Bearer {KEY}"})
    events = [event async for event in AnthropicModel(http, {}).stream(request)]
    assert text_of(events) == REPLY


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_leaving_in_mid_stream_frees_the_slot(http: HttpClient, how: str) -> None:
    with LlamaServer(grammar=ENDLESS, context=8192) as endless:
        request = ask(endless, max_output_tokens=8000, api_key_env=None)
        stream = AnthropicModel(http).stream(request)
        await leave_in_mid_stream(stream, endless, how)


@pytest.mark.usefixtures("parts")
@pytest.mark.shared
async def test_real_thinking_and_back(http: HttpClient) -> None:
    tiny = SHARED / "models" / "tiny-qwen3think.gguf"
    if not tiny.exists():
        pytest.skip(f"no {tiny}")
    thought, answer = "The user wants files.", "I'll list the files.\nCMD: ls -la\n"
    grammar = says(f"<think>\n{thought}\n</think>\n\n{answer}")
    with LlamaServer(model=tiny, grammar=grammar, context=2048) as thinking:
        events = await collect(http, ask(thinking))
        assert text_of(events) == answer
        assert events[-1] == Finish("stop")
        said = "".join(event.delta for event in events if isinstance(event, Reasoning))
        assert said.strip() == thought
        [kept] = [event for event in events if isinstance(event, ReasoningMetadata)]
        assert kept.metadata["server"] == server_name(thinking.url)
        kinds = [part["type"] for part in kept.metadata["content"]]
        assert kinds == ["thinking", "text"]
        reasoning = StoredReasoning(said, "anthropic", kept.metadata)
        reply = RequestMessage("assistant", answer, reasoning=reasoning)
        again = ask(thinking, SYSTEM, QUESTION, reply, RequestMessage("user", "Again."))
        assert text_of(await collect(http, again)) == answer
