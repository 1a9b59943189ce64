"""Replies recorded from real providers, served again with their bytes cut anywhere.

The recordings lie beside the repository (or where AISH_SHARED points) and are read there. Each is
compared with a decoding of its own, simple since it has the whole reply before it.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.openai import OpenAIModel
from aish_lsp.models.request import (
    Finish,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    Text,
    ToolCall,
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[3] / "../shared")
RECORDED = SHARED / "recorded"

pytestmark = pytest.mark.shared


def payloads(path: Path) -> list[Any]:
    """Return the JSON of each event; ``[DONE]`` stays a text."""
    text = path.read_bytes().decode()
    if path.suffix == ".txt":
        lines = [line for line in text.split("\n") if line.strip()]
    else:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    return ["[DONE]" if line == "[DONE]" else json.loads(line) for line in lines]


def is_chat_completion(path: Path) -> bool:
    """Return whether a recording is of chat completions, by its request or by its chunks."""
    request = path.with_suffix(".json")
    if path.suffix == ".sse" and request.exists():
        recorded_path: str = json.loads(request.read_text())["path"]
        return recorded_path.endswith("/chat/completions")
    try:
        chunks = payloads(path)
    except ValueError:
        return False
    return any(isinstance(chunk, dict) and "choices" in chunk for chunk in chunks)


def recordings() -> list[Any]:
    found = sorted([*RECORDED.rglob("*.sse"), *RECORDED.rglob("*.chunks.txt")])
    chosen = [path for path in found if is_chat_completion(path)]
    if not chosen:
        reason = f"no recordings under {RECORDED}"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=str(path.relative_to(RECORDED))) for path in chosen]


@dataclass
class Whole:
    """A reply as a whole."""

    text: str = ""
    reasoning: str = ""
    tools: list[tuple[str, str, str]] = field(default_factory=list)
    usage: tuple[int, int, int, int, float | None] | None = None
    encrypted: list[str] = field(default_factory=list)
    finish: str | None = None
    error: str | None = None


def expected(chunks: list[Any]) -> Whole:  # noqa: C901 - one place, to be read beside the data
    """Decode a recording the simple way."""
    whole = Whole()
    tools: dict[Any, list[str]] = {}
    usage: dict[str, Any] = {}
    finish = None
    for chunk in chunks:
        if chunk == "[DONE]":
            finish = finish or "stop"
            break
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or usage
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            content = delta.get("content") or ""
            if isinstance(content, list):
                for part in content:
                    whole.text += part.get("text", "")
                    for thought in part.get("thinking", []):
                        whole.reasoning += thought.get("text", "")
                content = ""
            whole.text += content + (delta.get("refusal") or "")
            details = delta.get("reasoning_details") or []
            whole.encrypted += [item["data"] for item in details if item.get("data")]
            whole.reasoning += (
                delta.get("reasoning_content")
                or delta.get("reasoning")
                or "".join(item.get("text") or item.get("summary") or "" for item in details)
            )
            for position, piece in enumerate(delta.get("tool_calls") or []):
                tool = tools.setdefault(piece.get("index", position), ["", "", ""])
                tool[0] = tool[0] or piece.get("id") or ""
                tool[1] = tool[1] or piece["function"].get("name") or ""
                tool[2] += piece["function"].get("arguments") or ""
            finish = finish or choice.get("finish_reason")
        if chunk.get("error"):
            whole.error = chunk["error"]["message"]
    whole.tools = [(tool[0], tool[1], tool[2]) for tool in tools.values()]
    if usage:
        prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
        reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
        if usage["total_tokens"] == prompt + completion + reasoning:
            completion += reasoning
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        whole.usage = (prompt, completion, reasoning, cached, usage.get("cost"))
    names = {"stop": "stop", "length": "length", "tool_calls": "tool", "content_filter": "refusal"}
    whole.finish = names[finish] if finish else None
    if whole.finish == "stop" and whole.tools:
        whole.finish = "tool"
    return whole


async def received(http: HttpClient, url: str) -> Whole:
    """Read a reply with the adapter."""
    whole = Whole()
    request = ModelRequest(Preset(endpoint=url, model="m"), (RequestMessage("user", "hi"),))
    try:
        async for event in OpenAIModel(http).stream(request):
            match event:
                case Text(delta) | Reasoning(delta):
                    assert delta, "an empty delta"
                    if isinstance(event, Text):
                        whole.text += delta
                    else:
                        whole.reasoning += delta
                case ToolCall(call_id, name, arguments):
                    whole.tools.append((call_id, name, arguments))
                case ReasoningMetadata(metadata):
                    details = metadata.get("reasoning_details", [])
                    whole.encrypted = [item["data"] for item in details if item.get("data")]
                case Usage(prompt, completion, reasoning, cached, _, cost):
                    assert whole.usage is None, "usage twice"
                    whole.usage = (prompt, completion, reasoning, cached, cost)
                case Finish(reason):
                    whole.finish = reason
    except (BackendUnavailable, BackendRejected) as error:
        whole.error = told(error)
    return whole


def told(error: AishError) -> str:
    words = error.data.get("provider_message")
    return str(words or error.message)


def body_of(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".sse":
        return raw
    lines = [line for line in raw.split(b"\n") if line.strip()]
    return b"".join(b"data: %s\n\n" % line for line in [*lines, b"[DONE]"])


@pytest.mark.parametrize("path", recordings())
@pytest.mark.slow
async def test_a_recorded_reply(http: HttpClient, path: Path) -> None:
    body = body_of(path)
    chance = random.Random(path.name)
    places = sorted(chance.randrange(len(body)) for _ in range(min(len(body), 400)))
    pieces = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True) if a < b]

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for piece in pieces:
            await peer.chunk(piece)
        await peer.chunk(b"")

    chunks = payloads(path)
    if path.suffix == ".txt":
        chunks.append("[DONE]")
    wanted = expected(chunks)
    async with FaultServer(script) as server:
        got = await received(http, server.url)
    if wanted.error is not None:
        assert (got.text, got.reasoning) == (wanted.text, wanted.reasoning)
        assert got.error is not None
        assert wanted.error in got.error
        return
    assert got == wanted


def error_replies() -> list[Any]:
    found = sorted((RECORDED / "errors_and_counts").glob("*__[45][0-9][0-9]__*.json"))
    if not found:
        reason = f"no recordings under {RECORDED}"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in found]


@pytest.mark.parametrize("path", error_replies())
async def test_a_recorded_refusal(http: HttpClient, path: Path) -> None:
    recorded = json.loads(path.read_text())
    status, response = recorded["status"], recorded["response"]

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(response, f"{status} No")

    async with FaultServer(script) as server:
        request = ModelRequest(
            Preset(endpoint=server.url, model="m"), (RequestMessage("user", "hi"),)
        )
        kind = BackendUnavailable if status == 429 or status >= 500 else BackendRejected
        with pytest.raises(kind) as caught:
            await anext(OpenAIModel(http).stream(request))
    assert caught.value.data["status"] == status
    error = response[0]["error"] if isinstance(response, list) else response["error"]
    assert " ".join(error["message"].split())[:100] in caught.value.message
