"""Responses recorded from real providers, served again with their bytes cut anywhere.

The recordings lie beside the repository (or where AISH_SHARED points) and are read there. Each is
compared with a decoding of its own, simple since it has the whole reply before it; and where the
next request was recorded too, with that.
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
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.responses import ResponsesModel, request_body
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
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[3] / "../shared")
RECORDED = SHARED / "recorded"
HERE = "127.0.0.1"

# Whoever recorded these kept a few of their deltas only.
SHORTENED = {"openai-phase.1", "openai-shell-container.1"}

pytestmark = pytest.mark.shared


def payloads(path: Path) -> list[Any]:
    """Return the JSON of each event."""
    lines = path.read_bytes().decode().replace("\r\n", "\n").split("\n")
    if path.suffix == ".sse":
        lines = [line[5:] for line in lines if line.startswith("data:")]
    return [json.loads(line) for line in lines if line.strip() and line.strip() != "[DONE]"]


def is_responses(path: Path) -> bool:
    try:
        events = payloads(path)
    except ValueError:
        return False
    return any(
        isinstance(event, dict) and str(event.get("type")).startswith("response.")
        for event in events
    )


def responses_in(path: Path) -> list[list[Any]]:
    """Return the events of each response: some files hold several, one after the other."""
    found: list[list[Any]] = []
    for event in payloads(path):
        if not found or event["type"] == "response.created":
            found.append([])
        found[-1].append(event)
    return found


def recordings() -> list[Any]:
    files = sorted([*RECORDED.rglob("*.sse"), *RECORDED.rglob("*.chunks.txt")])
    chosen = [
        pytest.param(path, number, id=f"{path.relative_to(RECORDED)}-{number}")
        for path in files
        if is_responses(path)
        for number in range(len(responses_in(path)))
    ]
    reason = f"no recordings under {RECORDED}"
    return chosen or [pytest.param(Path(), 0, marks=pytest.mark.skip(reason=reason))]


@dataclass
class Whole:
    """A reply as a whole."""

    text: str = ""
    reasoning: str = ""
    tools: list[tuple[str, str, str]] = field(default_factory=list)
    usage: tuple[int, int, int, int, int, float | None] | None = None
    encrypted: list[str] = field(default_factory=list)
    finish: str | None = None


def expected(events: list[Any]) -> Whole:
    """Decode a recording the simple way."""
    texts: dict[int, str] = {}
    thoughts: dict[tuple[int, int], str] = {}
    for event in events:
        place = event.get("output_index", -1)
        match event["type"]:
            case "response.output_text.delta":
                texts[place] = texts.get(place, "") + event["delta"]
            case "response.reasoning_summary_text.delta":
                part = (place, event["summary_index"])
                thoughts[part] = thoughts.get(part, "") + event["delta"]
            case "response.reasoning_text.delta":
                part = (place, event["content_index"])
                thoughts[part] = thoughts.get(part, "") + event["delta"]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    calls = [item for item in items if item["type"] == "function_call"]
    usage = events[-1]["response"]["usage"]
    cost = usage.get("cost")
    if "cost_in_usd_ticks" in usage:
        cost = usage["cost_in_usd_ticks"] / 1e10
    spent = (
        usage["input_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["input_tokens_details"].get("cache_write_tokens") or 0,
        cost,
    )
    return Whole(
        text="\n\n".join(text for text in texts.values() if text),
        reasoning="\n\n".join(thoughts.values()),
        tools=[(call["call_id"], call["name"], call["arguments"]) for call in calls],
        # Without a token of input it makes no sense: what it took is then estimated.
        usage=spent if usage["input_tokens"] else None,
        encrypted=encrypted_to_return(items),
        finish="tool" if calls else "stop",
    )


def encrypted_to_return(items: list[Any]) -> list[str]:
    """Return the encrypted content that has its place in the next request.

    Not what led to a search of the server's own, nor to a message without a word.
    """
    said = {"message": lambda item: any(part["text"] for part in item["content"])}
    found = []
    for position, item in enumerate(items):
        rest = [later for later in items[position + 1 :] if later["type"] != "reasoning"]
        rest = [later for later in rest if said.get(later["type"], bool)(later)]
        leads_to = rest[0]["type"] if rest else None
        if item.get("encrypted_content") and leads_to in {"message", "function_call"}:
            found.append(item["encrypted_content"])
    return found


def whole(came: list[ModelEvent]) -> Whole:
    result = Whole()
    for event in came:
        match event:
            case Text(delta):
                assert delta, "an empty delta"
                result.text += delta
            case Reasoning(delta):
                assert delta, "an empty delta"
                result.reasoning += delta
            case ToolCall(call_id, name, arguments):
                result.tools.append((call_id, name, arguments))
            case ReasoningMetadata(metadata):
                items = json.loads(json.dumps(metadata))["output"]
                result.encrypted = [
                    item["encrypted_content"] for item in items if item["type"] == "reasoning"
                ]
            case Usage(prompt, completion, reasoning, cached, written, cost):
                assert result.usage is None, "usage twice"
                result.usage = (prompt, completion, reasoning, cached, written, cost)
            case Finish(reason):
                assert result.finish is None, "finish twice"
                result.finish = reason
    return result


def raw_body(events: list[Any]) -> bytes:
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode()


async def replayed(http: HttpClient, body: bytes, seed: str) -> list[ModelEvent]:
    """Read ``body`` with the adapter, from a server that cuts it anywhere."""
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(body)) for _ in range(min(len(body), 400)))
    pieces = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True) if a < b]

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for piece in pieces:
            await peer.chunk(piece)
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        preset = Preset(provider="openai-responses", endpoint=server.url, model="m")
        # Far beyond what was recorded: none of these replies was cut.
        request = ModelRequest(preset, (RequestMessage("user", "hi"),), max_output_tokens=10**6)
        return [event async for event in ResponsesModel(http).stream(request)]


@pytest.mark.parametrize(("path", "number"), recordings())
@pytest.mark.slow
async def test_a_recorded_reply(http: HttpClient, path: Path, number: int) -> None:
    found = responses_in(path)
    alone = path.suffix == ".sse" and len(found) == 1
    events = found[number]
    body = path.read_bytes() if alone else raw_body(events)
    came = await replayed(http, body, path.name)
    assert whole(came) == expected(events)
    if path.name.removesuffix(".chunks.txt") not in SHORTENED:
        texts = [
            part["text"]
            for item in events[-1]["response"]["output"]
            for part in item.get("content") or []
            if item["type"] == "message" and part["text"]
        ]
        assert whole(came).text == "\n\n".join(texts)


# Whoever recorded the requests made the quotes in them plain.
PLAIN_QUOTES = str.maketrans("\u2019\u201c\u201d", '\'""')

FOLLOWED = [
    "api.openai.com/llm__test_openai_responses__test_responses_tool_use_streaming__{}",
    "api.openai.com/pydantic-ai__test_openai_responses__test_openai_responses_stream__{}",
    (
        "api.openai.com/pydantic-ai__test_openai_responses__"
        "test_openai_responses_phase_streamed_on_part_start__{}"
    ),
    (
        "bedrock-mantle.us-east-1.api.aws/pydantic-ai__test_bedrock_mantle__"
        "test_reused_tool_call_ids_stream___{}"
    ),
    "openrouter.ai/llm-openrouter__test_llm_openrouter__test_tool_calls__{}",
]


def comparable(items: list[Any]) -> list[Any]:
    """Return what matters of a request's input; calls are numbered, since ids may be replaced."""
    numbers: dict[str, int] = {}
    found: list[Any] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                content = item["content"]
                text = content if isinstance(content, str) else content[0]["text"]
                found.append((item["role"], text.translate(PLAIN_QUOTES), item.get("phase")))
            case "reasoning":
                assert "status" not in item
                found.append((item["id"], item["summary"], item["encrypted_content"]))
            case "function_call":
                numbers[item["call_id"]] = len(numbers)
                found.append((len(numbers) - 1, item["name"], json.loads(item["arguments"])))
            case "function_call_output":
                found.append((numbers[item["call_id"]], item["output"]))
    return found


def reply_as_message(came: list[ModelEvent]) -> RequestMessage:
    metadata = [event.metadata for event in came if isinstance(event, ReasoningMetadata)]
    reply = whole(came)
    reasoning = StoredReasoning(reply.reasoning, HERE, metadata[0]) if metadata else None
    calls = tuple(ToolCall(*call) for call in reply.tools)
    return RequestMessage("assistant", reply.text, calls, reasoning=reasoning)


@pytest.mark.parametrize("name", FOLLOWED, ids=lambda name: name.partition("/")[0])
async def test_the_next_request_is_the_one_that_was_accepted(http: HttpClient, name: str) -> None:
    steps = [RECORDED / "sse" / f"{name.format(number)}.json" for number in range(4)]
    steps = [path for path in steps if path.exists()]
    if not steps:
        pytest.skip(f"no recordings under {RECORDED}")
    assert len(steps) > 1
    requests = [json.loads(path.read_text())["request"] for path in steps]
    instructions = requests[0].get("instructions", "")
    preset = Preset(provider="openai-responses", endpoint=f"http://{HERE}", model="m")
    messages = [
        RequestMessage("system", instructions),
        RequestMessage("user", requests[0]["input"][0]["content"]),
    ]
    for path, recorded in zip(steps, requests, strict=True):
        body = request_body(ModelRequest(preset, tuple(messages)), "m")
        assert comparable(body["input"]) == comparable(recorded["input"])
        assert body.get("instructions", "") == recorded.get("instructions", "")
        if path is steps[-1]:
            break
        reply = reply_as_message(await replayed(http, path.with_suffix(".sse").read_bytes(), name))
        messages.append(reply)
        results = requests[steps.index(path) + 1]["input"][-len(reply.tool_calls) :]
        for call, result in zip(reply.tool_calls, results, strict=True):
            messages.append(RequestMessage("tool", result["output"], tool_call_id=call.id))


async def test_a_recorded_refusal(http: HttpClient) -> None:
    found = [
        path
        for path in sorted((RECORDED / "errors_and_counts").glob("api.openai.com__4*.json"))
        if json.loads(path.read_text())["path"] == "/v1/responses"
    ]
    if not found:
        pytest.skip(f"no recordings under {RECORDED}")
    for path in found:
        recorded = json.loads(path.read_text())

        async def script(request: Request, peer: Peer, recorded: Any = recorded) -> None:
            await peer.reply(recorded["response"], f"{recorded['status']} No")

        async with FaultServer(script) as server:
            preset = Preset(provider="openai-responses", endpoint=server.url, model="m")
            request = ModelRequest(preset, (RequestMessage("user", "hi"),))
            with pytest.raises(BackendRejected) as caught:
                await anext(ResponsesModel(http).stream(request))
        assert caught.value.data["status"] == recorded["status"]
        assert recorded["response"]["error"]["message"] in caught.value.message
        assert len(server.requests) == 1
