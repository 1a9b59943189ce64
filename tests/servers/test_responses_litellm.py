"""OpenAI's Responses against LiteLLM's proxy, which makes them of other protocols.

LiteLLM is large and no part of the project's tools: it is looked for as ``litellm`` in the path, or
where LITELLM says, and only with ``AISH_FULL=1``. Behind it stands llama.cpp, and, since a tiny
model calls no tool, a script that calls two.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, free_port
from llama_server import LlamaServer, says
from replies import text_of

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError, BackendRejected
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.responses import ResponsesModel
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    RequestMessage,
    ToolCall,
    ToolSchema,
)

#: Seconds for the proxy to start: it imports for a quarter of a minute.
START_TIMEOUT = 100.0

REPLY = "Grüße! 👩‍💻\nCMD: ls -la\n"
KEY = "sk-aish-4f0Zb81kLmN42xVt"
LS = ToolSchema("ls", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}})
QUESTION = (RequestMessage("system", "You are a shell."), RequestMessage("user", "Which files?"))

pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif(os.environ.get("TESTS_FULL") != "1", reason="runs with AISH_FULL=1"),
]


def chunk(finish: str | None = None, /, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    named = {"function": {"arguments": arguments, **more.pop("function", {})}}
    return chunk(tool_calls=[{"index": index, "type": "function", **more, **named}])


async def calling(request: Request, peer: Peer) -> None:
    """Think, say something, and call two tools; LiteLLM may look for the server first."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    for payload in (
        chunk(role="assistant", reasoning_content="hm "),
        chunk(reasoning_content="hm"),
        chunk(content="I look."),
        piece(0, "", id="call_a", function={"name": "ls"}),
        piece(0, '{"path":'),
        piece(0, ' "."}'),
        piece(1, "{}", id="call_b", function={"name": "ls"}),
        chunk("tool_calls"),
        {**chunk(), "choices": [], "usage": usage},
        "[DONE]",
    ):
        await peer.event(payload)
    await peer.chunk(b"")


@asynccontextmanager
async def litellm(http: HttpClient, folder: Path, models: dict[str, Any]) -> AsyncIterator[str]:
    """Run a proxy; ``models`` are the parameters of each by its name."""
    command = os.environ.get("LITELLM") or shutil.which("litellm")
    if not command:
        pytest.skip(
            "needs LiteLLM: pip install 'litellm[proxy]' elsewhere, then LITELLM=.../litellm"
        )
    entries = [
        {"model_name": name, "litellm_params": {"api_key": "none", **parameters}}
        for name, parameters in models.items()
    ]
    # JSON is YAML too.
    configuration = {"model_list": entries, "general_settings": {"master_key": KEY}}
    (folder / "config.yaml").write_text(json.dumps(configuration), encoding="utf-8")
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(command, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)),
            cwd=folder,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(START_TIMEOUT):
            while not await answers(http, f"{url}/health/liveliness"):
                assert process.returncode is None, (folder / "log").read_text()[-2000:]
                await asyncio.sleep(0.3)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def answers(http: HttpClient, url: str) -> bool:
    try:
        await http.fetch_json(url, timeout_s=2)
    except AishError:
        return False
    return True


@pytest.mark.usefixtures("parts")
async def test_a_conversation_through_the_proxy(http: HttpClient, tmp_path: Path) -> None:
    model = ResponsesModel(http, {"K": KEY})

    with LlamaServer(grammar=says(REPLY), context=4096) as llama:
        async with FaultServer(calling) as script:
            behind = {
                # It makes chat completions of what is sent to these two.
                "says": {"model": "deepseek/aish-tiny", "api_base": f"{llama.url}/v1"},
                "calls": {"model": "deepseek/m", "api_base": f"{script.url}/v1"},
                # And lets this one's through.
                "through": {"model": "hosted_vllm/aish-tiny", "api_base": f"{llama.url}/v1"},
            }
            async with litellm(http, tmp_path, behind) as url:

                async def told(name: str, *messages: RequestMessage) -> list[ModelEvent]:
                    preset = Preset(
                        provider="openai-responses", endpoint=url, model=name, api_key_env="K"
                    )
                    request = ModelRequest(preset, messages or QUESTION, (LS,))
                    return [event async for event in model.stream(request)]

                for name in ("says", "through"):
                    events = await told(name)
                    assert text_of(events) == REPLY
                    assert events[-1] == Finish("stop")

                events = await told("calls")
                calls = [event for event in events if isinstance(event, ToolCall)]
                assert text_of(events) == "I look."
                said = [event.delta for event in events if isinstance(event, Reasoning)]
                assert "".join(said) == "hm hm"
                assert calls == [
                    ToolCall("call_a", "ls", '{"path": "."}'),
                    ToolCall("call_b", "ls", "{}"),
                ]
                assert any(isinstance(event, Usage) for event in events)
                assert events[-1] == Finish("tool")

                reply = RequestMessage("assistant", "I look.", tuple(calls))
                results = [RequestMessage("tool", "a.py", tool_call_id=call.id) for call in calls]
                talk = (*QUESTION, reply, *results)
                for name in ("says", "through"):
                    assert text_of(await told(name, *talk)) == REPLY
                await told("calls", *talk)

                with pytest.raises(BackendRejected, match="nothing-here"):
                    await told("nothing-here")
    sent = script.requests[-1].json["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert [call["id"] for call in sent[2]["tool_calls"]] == ["call_a", "call_b"]
    assert sent[2]["content"] == "I look."
