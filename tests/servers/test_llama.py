"""The models against a real llama.cpp server."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from llama_server import ENDLESS, LlamaServer, says
from replies import text_of, usage_of
from reply_parts import leave_in_mid_stream

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.endpoint import find_local
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import describe
from aish_lsp.models.providers.openai import OpenAIModel
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    RequestMessage,
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

REPLY = "I'll list the files.\nCMD: ls -la\n"

pytestmark = pytest.mark.llama


def ask(
    server: LlamaServer, grammar: str | None, *, limit: int = 1024, **settings: Any
) -> ModelRequest:
    """Return a question whose reply ``grammar`` forces; None leaves that to the server."""
    extra = {} if grammar is None else {"grammar": grammar}
    settings = {"endpoint": server.url, "temperature": 0.0, "max_output_tokens": limit, **settings}
    prompt = settings.pop("prompt", "Which files are here?")
    messages = (RequestMessage("system", "You are a shell."), RequestMessage("user", prompt))
    return ModelRequest(Preset(name="llama", extra_body=extra, **settings), messages)


async def collect(http: HttpClient, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in OpenAIModel(http).stream(request)]


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        "Grüße! 你好 👩‍💻 e\u0301 \u2028 ─\r\nCMD: echo \"$HOME\" \\ 'x'\n",
        "```sh\n\tCMD: make test\n```",
        "x",
    ],
)
@pytest.mark.parametrize("suffix", ["", "/v1"])
async def test_text_byte_for_byte(
    http: HttpClient, llama: LlamaServer, reply: str, suffix: str
) -> None:
    request = ask(llama, says(reply), endpoint=llama.url + suffix)
    events = await collect(http, request)
    assert text_of(events) == reply
    assert events[-1] == Finish("stop")


async def test_usage_is_the_servers(http: HttpClient, llama: LlamaServer) -> None:
    request = ask(llama, says(REPLY))
    usage = usage_of(await collect(http, request))
    body = {
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_tokens": 1024,
        **request.preset.extra_body,
    }
    whole = urllib.request.Request(
        f"{llama.url}/v1/chat/completions", data=json.dumps(body).encode()
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with await asyncio.to_thread(opener.open, whole) as reply:
        told = json.load(reply)["usage"]
    assert usage.input_tokens == told["prompt_tokens"]
    assert usage.output_tokens == told["completion_tokens"]
    # One token a byte, and the one that ends the reply.
    assert usage.output_tokens == len(REPLY.encode()) + 1


async def test_the_prompts_prefix_is_cached(http: HttpClient, llama: LlamaServer) -> None:
    request = ask(llama, says(REPLY), prompt="The same question twice.")
    await collect(http, request)
    usage = usage_of(await collect(http, request))
    assert 0 < usage.cache_read_tokens <= usage.input_tokens


async def test_a_reply_that_is_cut_at_its_limit(http: HttpClient, llama: LlamaServer) -> None:
    events = await collect(http, ask(llama, says(REPLY), limit=6))
    assert text_of(events) == REPLY[:6]
    assert usage_of(events).output_tokens == 6
    assert events[-1] == Finish("length")


async def test_the_endpoint_describes_itself(http: HttpClient, llama: LlamaServer) -> None:
    info = await describe(http, Preset(endpoint=llama.url))
    assert (info.kind, info.models, info.context_window) == ("llama.cpp", ("aish-tiny",), 8192)


async def test_discovery_finds_it(http: HttpClient, llama: LlamaServer) -> None:
    presets = await find_local(http, ports=[llama.port], timeout_s=5)
    assert presets == (
        Preset(name="llama.cpp", endpoint=llama.url, model="aish-tiny", context_window=8192),
    )
    request = ModelRequest(presets[0], (RequestMessage("user", "hi"),), max_output_tokens=3)
    assert usage_of(await collect(http, request)).output_tokens == 3


async def test_too_long(http: HttpClient, llama: LlamaServer) -> None:
    with pytest.raises(BackendRejected) as caught:
        await collect(http, ask(llama, says(REPLY), prompt="x" * 9000))
    data = caught.value.data
    assert data["status"] == 400
    assert data["type"] == "exceed_context_size_error"
    assert data["n_prompt_tokens"] > 9000
    assert data["n_ctx"] == 8192


async def test_a_grammar_that_is_none_is_refused(http: HttpClient, llama: LlamaServer) -> None:
    with pytest.raises(BackendRejected, match="refused the request"):
        await collect(http, ask(llama, "this is no grammar"))


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_leaving_in_mid_stream_frees_the_slot(
    http: HttpClient, llama: LlamaServer, how: str
) -> None:
    stream = OpenAIModel(http).stream(ask(llama, ENDLESS, limit=8000))
    await leave_in_mid_stream(stream, llama, how)


async def test_the_next_question_works_after_one_was_left(
    http: HttpClient, llama: LlamaServer
) -> None:
    stream = OpenAIModel(http).stream(ask(llama, ENDLESS, limit=8000))
    await anext(stream)
    await stream.aclose()
    assert text_of(await collect(http, ask(llama, says(REPLY)))) == REPLY


@pytest.mark.usefixtures("parts")
async def test_a_server_that_is_killed_in_mid_stream(http: HttpClient) -> None:
    came: list[ModelEvent] = []
    with LlamaServer(context=8192) as server:

        async def read() -> None:
            async for event in OpenAIModel(http).stream(ask(server, ENDLESS, limit=8000)):
                came.append(event)
                if len(came) == 20:
                    server.kill()

        with pytest.raises(BackendUnavailable, match="broke off"):
            await read()
        assert len(text_of(came)) >= 20
        with pytest.raises(BackendUnavailable, match=f"Nothing answers at {server.url}"):
            await collect(http, ask(server, ENDLESS))


@pytest.mark.usefixtures("parts")
async def test_a_grammar_and_a_key_for_the_whole_server(http: HttpClient) -> None:
    with LlamaServer(grammar=says(REPLY), api_key="sk-right-key", context=2048) as server:
        request = ask(server, None, api_key_env="K")
        with pytest.raises(BackendRejected, match=r"Invalid API Key.*Check the key") as caught:
            [e async for e in OpenAIModel(http, {"K": "sk-wrong-key"}).stream(request)]
        assert caught.value.data["status"] == 401
        assert caught.value.data["type"] == "authentication_error"
        assert "sk-wrong-key" not in str(caught.value)
        events = [e async for e in OpenAIModel(http, {"K": "sk-right-key"}).stream(request)]
        assert text_of(events) == REPLY
        info = await describe(http, request.preset, {"K": "sk-right-key"})
        assert info.context_window == 2048


@pytest.mark.usefixtures("parts")
@pytest.mark.shared
async def test_real_reasoning(http: HttpClient) -> None:
    model = SHARED / "models" / "tiny-qwen3think.gguf"
    if not model.exists():
        pytest.skip(f"no {model}")
    thought, answer = "The user wants files.", REPLY
    grammar = says(f"<think>\n{thought}\n</think>\n\n{answer}")
    with LlamaServer(model=model, context=2048) as server:
        events = await collect(http, ask(server, grammar))
    reasoning = "".join(event.delta for event in events if isinstance(event, Reasoning))
    assert reasoning.strip() == thought
    assert text_of(events) == answer
    assert events[-1] == Finish("stop")
