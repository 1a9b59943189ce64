"""Anthropic's replies and those of servers like it, served again with their bytes cut anywhere.

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
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.foundation.events import Usage
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.anthropic import AnthropicModel, request_body
from aish_lsp.models.request import (
    Finish,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    StoredReasoning,
    Text,
    ToolCall,
    ToolSchema,
)

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[3] / "../shared")
RECORDED = SHARED / "recorded"
OWN = RECORDED / "sse" / "api.anthropic.com"

pytestmark = pytest.mark.shared

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool",
    "refusal": "refusal",
}


def params(paths: list[Path]) -> list[Any]:
    if not paths:
        reason = f"no recordings under {RECORDED}"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=str(path.relative_to(RECORDED))) for path in paths]


def is_messages(path: Path) -> bool:
    """Return whether a recording is of this protocol, by how it begins."""
    if path.name.endswith(".chunks.txt"):
        return path.read_text().startswith('{"type":"message_start"')
    start = path.read_text()[:4000]
    whole = start.startswith("{") and '"type":"message"' in start
    return whole or "event: message_start" in start


def recordings() -> list[Path]:
    found = [*RECORDED.rglob("*.sse"), *RECORDED.rglob("*.txt")]
    return sorted(path for path in found if is_messages(path))


def payloads(path: Path) -> list[Any]:
    """Return the JSON of each event up to the reply's end; some files hold several replies."""
    text = path.read_text()
    if text.startswith("{") and not path.name.endswith(".chunks.txt"):
        return [json.loads(text)]
    lines = text.split("\n")
    if not path.name.endswith(".chunks.txt"):
        lines = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
    events: list[Any] = [json.loads(line) for line in lines if line.strip().startswith("{")]
    types = [event["type"] for event in events]
    return events[: types.index("message_stop") + 1] if "message_stop" in types else events


@dataclass
class Whole:
    """A reply as a whole."""

    text: str = ""
    reasoning: str = ""
    tools: list[tuple[str, str, Any]] = field(default_factory=list)
    thoughts: list[dict[str, str]] = field(default_factory=list)
    usage: dict[str, int] | None = None
    finish: str | None = None


def expected(events: list[Any]) -> Whole:  # noqa: C901 - one place, to be read beside the data
    """Decode a recording the simple way."""
    if events[0]["type"] == "message":
        message = events[0]
        blocks = dict(enumerate(message["content"]))
        usage, stop = message["usage"], message["stop_reason"]
    else:
        blocks, usage, stop = {}, {}, None
        for event in events:
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "json": ""}
            elif event["type"] == "content_block_delta":
                for name, value in event["delta"].items():
                    if name in {"text", "thinking", "signature"}:
                        block = blocks[event["index"]]
                        block[name] = block.get(name, "") + value
                    elif name == "partial_json":
                        blocks[event["index"]]["json"] += value
            elif event["type"] == "message_start":
                usage |= event["message"]["usage"]
            elif event["type"] == "message_delta":
                usage |= event["usage"]
                stop = event["delta"]["stop_reason"] or stop
    whole = Whole(finish=FINISH[stop])
    for block in blocks.values():
        match block["type"]:
            case "text":
                whole.text += block["text"]
            case "thinking":
                whole.reasoning += block["thinking"]
                keys = ("type", "thinking", "signature")
                whole.thoughts.append({key: block.get(key, "") for key in keys})
            case "redacted_thinking":
                whole.thoughts.append({key: block[key] for key in ("type", "data")})
            case "tool_use":
                arguments = json.loads(block.get("json") or json.dumps(block["input"]))
                whole.tools.append((block["id"], block["name"], arguments))
    read = usage.get("cache_read_input_tokens") or 0
    write = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    if usage["input_tokens"] + read + write:
        whole.usage = {
            "input": usage["input_tokens"] + read + write,
            "output": usage["output_tokens"],
            "reasoning": details.get("thinking_tokens", 0),
            "read": read,
            "write": write,
        }
    return whole


async def received(http: HttpClient, url: str) -> tuple[Whole, StoredReasoning | None]:
    """Read a reply with the adapter; and its reasoning as a session keeps it."""
    whole = Whole()
    kept = None
    preset = Preset(provider="anthropic", endpoint=url, model="m")
    request = ModelRequest(preset, (RequestMessage("user", "hi"),))
    async for event in AnthropicModel(http).stream(request):
        match event:
            case Text(delta):
                assert delta, "an empty delta"
                whole.text += delta
            case Reasoning(delta):
                assert delta, "an empty delta"
                whole.reasoning += delta
            case ToolCall(call_id, name, arguments):
                whole.tools.append((call_id, name, json.loads(arguments)))
            case ReasoningMetadata(metadata):
                kept = StoredReasoning(
                    whole.reasoning, "anthropic", json.loads(json.dumps(metadata))
                )
                whole.thoughts = [
                    part for part in metadata["content"] if "thinking" in part["type"]
                ]
            case Usage(prompt, output, reasoning, read, write):
                assert whole.usage is None, "usage twice"
                whole.usage = {
                    "input": prompt,
                    "output": output,
                    "reasoning": reasoning,
                    "read": read,
                    "write": write,
                }
            case Finish(reason):
                whole.finish = reason
    return whole, kept


def body_of(path: Path) -> bytes:
    raw = path.read_bytes()
    if not path.name.endswith(".chunks.txt"):
        return raw
    lines = [line for line in raw.split(b"\n") if line.strip()]
    names = [json.loads(line)["type"].encode() for line in lines]
    pairs = zip(names, lines, strict=True)
    return b"".join(b"event: %s\ndata: %s\n\n" % pair for pair in pairs)


async def replayed(http: HttpClient, path: Path) -> tuple[Whole, StoredReasoning | None]:
    """Serve a recording with its bytes cut at random places, and read it."""
    body = body_of(path)
    chance = random.Random(path.name)
    places = sorted(chance.randrange(len(body)) for _ in range(min(len(body), 400)))
    pieces = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True) if a < b]

    async def script(request: Request, peer: Peer) -> None:
        if body.startswith(b"{"):
            await peer.reply(body)
            return
        await peer.head()
        for piece in pieces:
            await peer.chunk(piece)
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        return await received(http, server.url)


@pytest.mark.parametrize("path", params(recordings()))
@pytest.mark.slow
async def test_a_recorded_reply(http: HttpClient, path: Path) -> None:
    got, _ = await replayed(http, path)
    assert got == expected(payloads(path))


def requests_that_go_on() -> list[Path]:
    """Return the recorded requests that begin as the one before them did."""
    found = []
    for path in sorted(OWN.glob("*.json")):
        name, _, number = path.stem.rpartition("__")
        before = path.with_name(f"{name}__{int(number) - 1}.json")
        if before.exists():
            messages = json.loads(path.read_text())["request"]["messages"]
            first = json.loads(before.read_text())["request"]["messages"]
            if len(messages) > len(first) and messages[: len(first)] == first:
                found.append(path)
    return found


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return a recorded message's content, spelled as we do, without the provider's own tools."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    spelled = []
    for block in blocks:
        if block["type"] == "tool_result":
            said = block["content"]
            text = said if isinstance(said, str) else "".join(part["text"] for part in said)
            spelled.append({**block, "content": text})
            if not block.get("is_error"):
                spelled[-1].pop("is_error", None)
        elif block["type"] in {"text", "thinking", "redacted_thinking", "tool_use"}:
            spelled.append({key: value for key, value in block.items() if key != "citations"})
    return spelled


def ours(recorded: list[dict[str, Any]]) -> list[RequestMessage]:
    """Return the user's recorded messages as the conversation has them."""
    messages = []
    for message in recorded:
        assert message["role"] == "user"
        for block in blocks_of(message["content"]):
            if block["type"] == "tool_result":
                call_id = block["tool_use_id"]
                messages.append(RequestMessage("tool", block["content"], tool_call_id=call_id))
            else:
                messages.append(RequestMessage("user", block["text"]))
    return messages


@pytest.mark.parametrize("path", params(requests_that_go_on()))
async def test_the_request_that_followed(http: HttpClient, path: Path) -> None:
    """What was parsed out of a reply goes back as the provider accepted it."""
    name, _, number = path.stem.rpartition("__")
    before = path.with_name(f"{name}__{int(number) - 1}.sse")
    reply, kept = await replayed(http, before)
    recorded = json.loads(path.read_text())["request"]
    first = json.loads(before.with_suffix(".json").read_text())["request"]["messages"]
    calls = tuple(ToolCall(i, name, json.dumps(given)) for i, name, given in reply.tools)
    answer = RequestMessage("assistant", reply.text, tool_calls=calls, reasoning=kept)
    later = recorded["messages"][len(first) + 1 :]
    where = kept.metadata["server"] if kept else "127.0.0.1"
    # A session that is resumed has what its log has.
    request = ModelRequest(
        Preset(provider="anthropic", endpoint=f"http://{where}", model=recorded["model"]),
        (*ours(first), answer, *ours(later)),
    )
    wanted = [
        {"role": message["role"], "content": blocks_of(message["content"])}
        for message in recorded["messages"]
    ]
    sent = request_body(request, recorded["model"])["messages"]
    assert joined(unmarked(sent)) == joined(wanted)


def unmarked(value: Any) -> Any:
    """Return ``value`` without the marks for the cache, which have tests of their own."""
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [unmarked(part) for part in value] if isinstance(value, list) else value


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join texts that stand side by side: what stood between them was the provider's own tool."""
    result = []
    for message in messages:
        content: list[dict[str, Any]] = []
        for block in message["content"]:
            if content and content[-1]["type"] == block["type"] == "text":
                content[-1] = {"type": "text", "text": content[-1]["text"] + block["text"]}
            else:
                content.append(block)
        result.append({**message, "content": content})
    return result


def test_there_are_such_requests() -> None:
    if not RECORDED.exists():
        pytest.skip(f"no recordings under {RECORDED}")
    signed = [path for path in requests_that_go_on() if '"signature"' in path.read_text()]
    assert signed, "no recorded request that gives signed thinking back"


@pytest.mark.parametrize(
    "path", params(sorted((RECORDED / "errors_and_counts").glob("api.anthropic.com__4*.json")))
)
async def test_a_recorded_refusal(http: HttpClient, path: Path) -> None:
    recorded = json.loads(path.read_text())

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(recorded["response"], f"{recorded['status']} No")

    async with FaultServer(script) as server:
        with pytest.raises(BackendRejected) as caught:
            await received(http, server.url)
    error = recorded["response"]["error"]
    assert caught.value.data["status"] == recorded["status"]
    assert caught.value.data["type"] == error["type"]
    assert error["message"] in caught.value.message


@pytest.mark.parametrize(
    "path", params(sorted((RECORDED / "errors_and_counts").glob("api.anthropic.com__200__count*")))
)
async def test_a_recorded_count(http: HttpClient, path: Path) -> None:
    recorded = json.loads(path.read_text())
    wanted = recorded["request"]
    came: list[Any] = []

    async def script(request: Request, peer: Peer) -> None:
        came.append([request.path, request.json])
        await peer.reply(recorded["response"])

    replaced = ["thinking", "tool_choice"]
    if "tool_reference" in path.read_text():
        # Of the provider's own search for tools, which we do not speak.
        replaced.append("messages")
    tools = [
        ToolSchema(tool["name"], tool["description"], tool["input_schema"])
        for tool in wanted.get("tools", [])
    ]
    async with FaultServer(script) as server:
        preset = Preset(
            provider="anthropic",
            endpoint=server.url,
            model=wanted["model"],
            extra_body={name: wanted[name] for name in replaced if name in wanted},
        )
        text = wanted["messages"][0]["content"][0]["text"]
        request = ModelRequest(preset, (RequestMessage("user", text),), tuple(tools))
        tokens = await AnthropicModel(http).count_tokens(request, timeout_s=5)
    assert tokens == recorded["response"]["input_tokens"]
    assert unmarked(came) == [["/v1/messages/count_tokens", wanted]]
