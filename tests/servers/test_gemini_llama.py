"""Gemini's protocol against a real server of it: LiteLLM's proxy, with llama.cpp behind it.

LiteLLM is large and no part of the project's tools: it is looked for as ``litellm`` in the path, or
where LITELLM says, and only with ``AISH_FULL=1``. It has no thoughts, no signatures and no usage.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fault_server import free_port
from llama_server import ENDLESS, LlamaServer, says

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.gemini import GeminiModel
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    RequestMessage,
    Text,
    ToolCall,
    ToolSchema,
)

#: Seconds for the proxy to start: it imports for a quarter of a minute.
START_TIMEOUT = 100.0

REPLY = "I'll list the files.\nGrüße! 你好 👩‍💻\nCMD: ls -la\n"
KEY = "sk-aish-4f0Zb81kLmN42xVt"
TOOL = ToolSchema("ls", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}})

pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif(os.environ.get("TESTS_FULL") != "1", reason="runs with AISH_FULL=1"),
]


@dataclass(frozen=True)
class Proxy:
    """LiteLLM: its address, and the servers behind its models ``says`` and ``endless``."""

    url: str
    speaking: LlamaServer
    endless: LlamaServer


@pytest.fixture(scope="module")
def proxy(parts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy before a server that says REPLY, and one that never ends."""
    command = os.environ.get("LITELLM") or shutil.which("litellm")
    if not command:
        pytest.skip(
            "needs LiteLLM: pip install 'litellm[proxy]' elsewhere, then LITELLM=.../litellm"
        )
    folder = tmp_path_factory.mktemp("litellm")
    with LlamaServer(grammar=says(REPLY)) as speaking, LlamaServer(grammar=ENDLESS) as endless:
        servers = {"says": speaking, "endless": endless}
        (folder / "config.yaml").write_text(json.dumps(configuration(servers)), encoding="utf-8")
        port = free_port()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [command, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
                cwd=folder,
                env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
                stdout=log,
                stderr=log,
            )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/health/liveliness", process, folder / "log")
            yield Proxy(url, speaking, endless)
        finally:
            process.terminate()
            process.wait()


def configuration(servers: dict[str, LlamaServer]) -> dict[str, Any]:
    """Return the proxy's configuration; JSON is YAML too."""
    models = [
        {
            "model_name": name,
            "litellm_params": {
                "model": "hosted_vllm/aish-tiny",
                "api_base": f"{server.url}/v1",
                "api_key": "none",
            },
        }
        for name, server in servers.items()
    ]
    return {"model_list": models, "general_settings": {"master_key": KEY}}


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when ``url`` answers."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
        else:
            return
    pytest.fail(f"LiteLLM did not start:\n{log.read_text(errors='replace')[-2000:]}")


def ask(proxy: Proxy, model: str, *messages: RequestMessage, limit: int = 1024) -> ModelRequest:
    preset = Preset(
        provider="gemini",
        endpoint=proxy.url,
        model=model,
        api_key_env="KEY",
        temperature=0.0,
        max_output_tokens=limit,
    )
    system = RequestMessage("system", "You are a shell.")
    return ModelRequest(
        preset, (system, *(messages or (RequestMessage("user", "Which files?"),))), (TOOL,)
    )


async def collect(
    http: HttpClient, request: ModelRequest, key: str = KEY
) -> tuple[str, list[ModelEvent]]:
    """Return a reply's text, and what else came."""
    text = ""
    others: list[ModelEvent] = []
    async for event in GeminiModel(http, {"KEY": key}).stream(request):
        if isinstance(event, Text):
            text += event.delta
        else:
            others.append(event)
    return text, others


async def test_a_reply(http: HttpClient, proxy: Proxy) -> None:
    request = ask(proxy, "says")
    text, others = await collect(http, ModelRequest(request.preset, request.messages))
    # Its usage is all zeros: that is none.
    assert (text, others) == (REPLY, [Finish("stop")])


async def test_a_reply_that_is_as_long_as_it_may_be(http: HttpClient, proxy: Proxy) -> None:
    text, others = await collect(http, ask(proxy, "endless", limit=7))
    assert text
    assert others == [Finish("length")]


async def test_a_conversation_with_calls_and_results_is_taken(
    http: HttpClient, proxy: Proxy
) -> None:
    calls = (ToolCall("1", "ls", '{"path": "a"}'), ToolCall("2", "ls", "no object"))
    request = ask(
        proxy,
        "endless",
        RequestMessage("user", "Which files?"),
        RequestMessage("assistant", "I look.", calls),
        RequestMessage("tool", "b.py", tool_call_id="2"),
        RequestMessage("tool", "a.py", tool_call_id="1"),
        RequestMessage("user", "And now?"),
        limit=5,
    )
    _, others = await collect(http, request)
    assert others == [Finish("length")]


async def test_leaving_frees_the_server(http: HttpClient, proxy: Proxy) -> None:
    stream = GeminiModel(http, {"KEY": KEY}).stream(ask(proxy, "endless", limit=20_000))
    assert isinstance(await anext(stream), Text)
    assert proxy.endless.get("/slots")[0]["is_processing"]
    await stream.aclose()
    async with asyncio.timeout(20):
        while proxy.endless.get("/slots")[0]["is_processing"]:
            await asyncio.sleep(0.1)


async def test_a_model_that_is_not_there(http: HttpClient, proxy: Proxy) -> None:
    with pytest.raises(BackendRejected, match="Invalid model name"):
        await collect(http, ask(proxy, "nobody"))


async def test_a_key_that_is_none(http: HttpClient, proxy: Proxy) -> None:
    with pytest.raises(BackendRejected) as caught:
        await collect(http, ask(proxy, "says"), key="sk-wrong-key-of-nobody")
    assert "sk-wrong-key-of-nobody" not in caught.value.message
