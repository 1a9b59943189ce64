"""OpenAI's Responses against a real llama.cpp server, which serves them too.

With a grammar in a request it takes no tools; that a model calls one is left to recordings.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llama_server import ENDLESS, LlamaServer, says
from replies import text_of, usage_of
from reply_parts import leave_in_mid_stream

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.responses import ResponsesModel
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    ToolCall,
    ToolSchema,
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

REPLY = "I'll list the files: grüße 👩‍💻.\nCMD: ls -la\n"
LS = ToolSchema("ls", "Lists files.", {"type": "object", "properties": {}})
SYSTEM, QUESTION = (
    RequestMessage("system", "You are a shell."),
    RequestMessage("user", "Which files?"),
)

pytestmark = pytest.mark.llama


def ask(
    server: LlamaServer, grammar: str | None, *messages: RequestMessage, **settings: Any
) -> ModelRequest:
    """Return a question whose reply ``grammar`` forces; None leaves that to the server."""
    extra = {} if grammar is None else {"grammar": grammar}
    settings = {"endpoint": server.url, "temperature": 0.0, "extra_body": extra, **settings}
    preset = Preset(name="llama", provider="openai-responses", **settings)
    return ModelRequest(preset, messages or (SYSTEM, QUESTION))


async def collect(http: HttpClient, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in ResponsesModel(http).stream(request)]


@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/responses"])
async def test_text_byte_for_byte(http: HttpClient, llama: LlamaServer, suffix: str) -> None:
    events = await collect(http, ask(llama, says(REPLY), endpoint=llama.url + suffix))
    assert text_of(events) == REPLY
    assert events[-1] == Finish("stop")
    assert not any(isinstance(event, ReasoningMetadata) for event in events)


async def test_usage_and_count_agree(http: HttpClient, llama: LlamaServer) -> None:
    request = ask(llama, says(REPLY), SYSTEM, RequestMessage("user", "The same question twice."))
    counted = await ResponsesModel(http).count_tokens(request, timeout_s=30)
    first, second = [usage_of(await collect(http, request)) for _ in range(2)]
    assert first.input_tokens == second.input_tokens == counted
    # One token a byte, and the one that ends the reply.
    assert second.output_tokens == len(REPLY.encode()) + 1
    assert 0 < second.cache_read_tokens < second.input_tokens


async def test_instructions_are_read(http: HttpClient, llama: LlamaServer) -> None:
    longer = replace(SYSTEM, content=SYSTEM.content + "x" * 100)
    model = ResponsesModel(http)
    short, long = [
        await model.count_tokens(ask(llama, None, system, QUESTION), timeout_s=30)
        for system in (SYSTEM, longer)
    ]
    assert long == short + 100


async def test_a_reply_that_is_cut_at_its_limit(http: HttpClient, llama: LlamaServer) -> None:
    events = await collect(http, ask(llama, says(REPLY), max_output_tokens=6))
    assert text_of(events) == REPLY[:6]
    assert usage_of(events).output_tokens == 6
    assert events[-1] == Finish("length")


async def test_calls_and_what_they_found_go_back(http: HttpClient, llama: LlamaServer) -> None:
    """Text, calls and results: the server takes them all and counts them in."""
    calls = (ToolCall("call_0", "ls", '{"path": "."}'), ToolCall("call_1", "ls", "no JSON"))

    def talk(found: str) -> ModelRequest:
        return ask(
            llama,
            says(REPLY),
            SYSTEM,
            QUESTION,
            RequestMessage("assistant", "I look.", calls),
            RequestMessage("tool", found, tool_call_id="call_0"),
            RequestMessage("tool", "", tool_call_id="call_1"),
            RequestMessage("assistant", "Nothing.\nCMD: true"),
            RequestMessage("user", "So?"),
        )

    events = await collect(http, talk("a.py"))
    assert text_of(events) == REPLY
    model = ResponsesModel(http)
    short, long = [
        await model.count_tokens(talk(name), timeout_s=30) for name in ("a.py", "a" * 500)
    ]
    assert usage_of(events).input_tokens == short
    assert long == short + 496


async def test_tools_are_taken(http: HttpClient, llama: LlamaServer) -> None:
    request = replace(ask(llama, None, max_output_tokens=8), tools=(LS,))
    assert usage_of(await collect(http, request)).output_tokens <= 8


async def test_what_the_protocol_does_not_know_is_an_extra(
    http: HttpClient, llama: LlamaServer
) -> None:
    extra = {"grammar": says(REPLY), "stop": ["CMD"], "seed": 1}
    events = await collect(http, ask(llama, None, extra_body=extra))
    assert text_of(events) == REPLY.partition("CMD")[0]
    assert events[-1] == Finish("stop")


async def test_an_effort_is_no_fault(http: HttpClient, llama: LlamaServer) -> None:
    assert text_of(await collect(http, ask(llama, says(REPLY), reasoning_effort="low"))) == REPLY


async def test_too_long(http: HttpClient, llama: LlamaServer) -> None:
    with pytest.raises(BackendRejected) as caught:
        await collect(http, ask(llama, says(REPLY), RequestMessage("user", "x" * 9000)))
    data = caught.value.data
    assert (data["status"], data["type"]) == (400, "exceed_context_size_error")
    assert (data["n_prompt_tokens"] > 9000, data["n_ctx"]) == (True, 8192)


async def test_a_bad_request_is_shown(http: HttpClient, llama: LlamaServer) -> None:
    request = ask(llama, None, extra_body={"previous_response_id": "resp_1"})
    with pytest.raises((BackendRejected, BackendUnavailable), match="previous_response_id"):
        await collect(http, request)


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_leaving_in_mid_stream_frees_the_slot(
    http: HttpClient, llama: LlamaServer, how: str
) -> None:
    stream = ResponsesModel(http).stream(ask(llama, ENDLESS, max_output_tokens=8000))
    await leave_in_mid_stream(stream, llama, how)


@pytest.mark.usefixtures("parts")
async def test_a_wrong_key(http: HttpClient) -> None:
    with LlamaServer(grammar=says(REPLY), api_key="sk-right-key", context=2048) as server:
        request = ask(server, None, api_key_env="K")
        with pytest.raises(BackendRejected, match=r"Invalid API Key.*Check the key") as caught:
            [event async for event in ResponsesModel(http, {"K": "sk-wrong-key"}).stream(request)]
        assert "sk-wrong-key" not in str(caught.value)
        model = ResponsesModel(http, {"K": "sk-right-key"})
        assert text_of([event async for event in model.stream(request)]) == REPLY


@pytest.mark.usefixtures("parts")
@pytest.mark.shared
async def test_reasoning_stands_apart_and_stays_behind(http: HttpClient) -> None:
    tiny = SHARED / "models" / "tiny-qwen3think.gguf"
    if not tiny.exists():
        pytest.skip(f"no {tiny}")
    thought, answer = "The user wants files.", "I'll list the files.\nCMD: ls -la\n"
    with LlamaServer(model=tiny, context=2048) as server:
        grammar = says(f"<think>\n{thought}\n</think>\n\n{answer}")
        events = await collect(http, ask(server, grammar))
        assert text_of(events) == answer
        said = "".join(event.delta for event in events if isinstance(event, Reasoning))
        assert said.strip() == thought
        # It came without encrypted content: there is nothing to give back.
        assert not any(isinstance(event, ReasoningMetadata) for event in events)
        reply = RequestMessage("assistant", answer)
        again = ask(server, grammar, SYSTEM, QUESTION, reply, RequestMessage("user", "Again."))
        assert text_of(await collect(http, again)) == answer
