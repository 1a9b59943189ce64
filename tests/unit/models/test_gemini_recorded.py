"""Gemini's replies as they were recorded, served again with their bytes cut anywhere.

The recordings lie beside the repository (or where AISH_SHARED points) and are read there. Each is
compared with a decoding of its own, simple since it has the whole reply before it. Requests that
a recorded client sent, and Google accepted, are built again from what the replies in them hold.
"""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import server_name
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.gemini import CandidateReader, GeminiModel, request_body
from aish_lsp.models.request import (
    Finish,
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

pytestmark = pytest.mark.shared


def payloads(path: Path) -> list[Any]:
    """Return the JSON of each event, or of each line; nothing of what is neither."""
    text = path.read_bytes().decode().replace("\r\n", "\n")
    if path.name.endswith(".chunks.txt"):
        lines = [line for line in text.split("\n") if line.strip()]
    else:
        lines = [line[5:] for line in text.split("\n") if line.startswith("data:")]
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        return []


def found(pattern: str, wanted: Any) -> list[Any]:
    """Return the recordings that are ``wanted``, or one that is skipped."""
    paths = [path for path in sorted(RECORDED.rglob(pattern)) if wanted(path)]
    if not paths:
        reason = f"no recordings under {RECORDED}"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=str(path.relative_to(RECORDED))) for path in paths]


def is_reply(path: Path) -> bool:
    # Arguments only come in pieces where that is asked for, which we do not.
    if path.suffix not in {".sse", ".txt"} or b'"partialArgs"' in path.read_bytes():
        return False
    return any(isinstance(chunk, dict) and "candidates" in chunk for chunk in payloads(path))


def is_request(path: Path) -> bool:
    recorded = json.loads(path.read_text())
    is_google = re.search(r"/models/gemini-[^/]*:", str(recorded.get("path")))
    return bool(is_google) and "contents" in recorded["request"]


@dataclass
class Whole:
    """A reply as a whole. Signatures stand with what they came with."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    signatures: list[tuple[str, str]] = field(default_factory=list)
    usage: tuple[int, int, int, int] | None = None
    finish: str | None = None


def kind_of(part: dict[str, Any]) -> str:
    names = set(part) - {"thoughtSignature", "thought"}
    return ",".join(sorted(names)) or "text"


def expected(chunks: list[Any]) -> Whole:
    """Decode a recording the simple way."""
    whole = Whole()
    usage: dict[str, int] = {}
    for chunk in chunks:
        for candidate in chunk["candidates"]:
            for part in candidate["content"]["parts"]:
                if part.get("thought"):
                    whole.thoughts += part["text"]
                else:
                    whole.text += part.get("text", "")
                if "thoughtSignature" in part:
                    whole.signatures.append((kind_of(part), part["thoughtSignature"]))
                call = part.get("functionCall", {})
                if "name" in call:
                    whole.calls.append((call["name"], dict(call.get("args", {}))))
            whole.finish = candidate.get("finishReason") or whole.finish
        if "promptTokenCount" in chunk.get("usageMetadata", {}):
            usage = chunk["usageMetadata"]
    if usage["promptTokenCount"]:
        given = usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
        thoughts = usage.get("thoughtsTokenCount", 0)
        assert usage["totalTokenCount"] == given + usage["candidatesTokenCount"] + thoughts
        made = usage["totalTokenCount"] - given
        whole.usage = (given, made, thoughts, usage.get("cachedContentTokenCount", 0))
    assert whole.finish == "STOP"
    whole.finish = "tool" if whole.calls else "stop"
    return whole


async def received(http: HttpClient, url: str) -> Whole:
    """Read a reply with the adapter."""
    whole = Whole()
    preset = Preset(provider="gemini", endpoint=url, model="gemini-3-flash")
    request = ModelRequest(preset, (RequestMessage("user", "hi"),))
    async for event in GeminiModel(http, {}).stream(request):
        match event:
            case Text(delta):
                assert delta, "an empty delta"
                whole.text += delta
            case Reasoning(delta):
                assert delta, "an empty delta"
                whole.thoughts += delta
            case ToolCall(call_id, name, arguments):
                assert call_id
                whole.calls.append((name, json.loads(arguments)))
            case ReasoningMetadata({"server": where, "parts": parts}) if where == server_name(url):
                whole.signatures = [
                    (kind_of(part), part["thoughtSignature"])
                    for part in parts
                    if "thoughtSignature" in part
                ]
            case Usage(given, made, thoughts, cached):
                assert whole.usage is None, "usage twice"
                whole.usage = (given, made, thoughts, cached)
            case Finish(reason):
                whole.finish = reason
            case _:
                pytest.fail(f"unexpected: {event}")
    return whole


def body_of(path: Path) -> bytes:
    raw = path.read_bytes()
    if not path.name.endswith(".chunks.txt"):
        return raw
    return b"".join(b"data: %s\r\n\r\n" % line for line in raw.split(b"\n") if line.strip())


@pytest.mark.parametrize("path", found("*", is_reply))
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

    async with FaultServer(script) as server:
        got = await received(http, server.url)
    assert got == expected(payloads(path))


def error_bodies() -> list[Any]:
    def is_error(path: Path) -> bool:
        return path.read_bytes().startswith(b'{"error"')

    return found("litellm/gemini_*", is_error)


@pytest.mark.parametrize("path", error_bodies())
@pytest.mark.parametrize("status", ["200 OK", "500 No"])
async def test_a_recorded_error_in_place_of_a_reply(
    http: HttpClient, path: Path, status: str
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(path.read_bytes(), status)

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="Cannot connect to host"):
            await received(http, server.url)


def is_refusal(path: Path) -> bool:
    return bool(re.search(r"googleapis\.com__4\d\d__", path.name))


@pytest.mark.parametrize("path", found("errors_and_counts/*.json", is_refusal))
async def test_a_recorded_refusal(http: HttpClient, path: Path) -> None:
    recorded = json.loads(path.read_text())

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(recorded["response"], f"{recorded['status']} No")

    async with FaultServer(script) as server:
        with pytest.raises(BackendRejected) as caught:
            await received(http, server.url)
    assert caught.value.data["status"] == recorded["status"]
    response = recorded["response"]
    error = response[0]["error"] if isinstance(response, list) else response["error"]
    assert " ".join(error["message"].split())[:100] in caught.value.message


def in_our_form(value: Any) -> Any:
    """Return a recorded value with the names as JSON has them; protobuf takes both."""
    if isinstance(value, list):
        return [in_our_form(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"_(\w)", lambda found: found[1].upper(), name): (
            item if name == "args" else in_our_form(item)
        )
        for name, item in value.items()
    }


def conversation(contents: list[Any]) -> list[RequestMessage]:
    """Return the messages that a recorded conversation is made of, replies read by our reader."""
    messages: list[RequestMessage] = []
    for content in contents:
        for part in content["parts"] if content["role"] == "user" else []:
            if "functionResponse" in part:
                response = part["functionResponse"]
                output = json.dumps(response["response"])
                messages.append(RequestMessage("tool", output, tool_call_id=response["id"]))
            elif "text" in part:
                messages.append(RequestMessage("user", part["text"]))
        if content["role"] == "model":
            reply = CandidateReader("google")
            events = reply.feed({"candidates": [{"content": content, "finishReason": "STOP"}]})
            events += reply.end()
            text = "".join(event.delta for event in events if isinstance(event, Text))
            calls = tuple(event for event in events if isinstance(event, ToolCall))
            [metadata] = [event for event in events if isinstance(event, ReasoningMetadata)]
            # As a session log keeps it.
            stored = StoredReasoning("", "gemini", json.loads(json.dumps(metadata.metadata)))
            messages.append(RequestMessage("assistant", text, calls, reasoning=stored))
    return messages


def without_outputs(contents: list[Any]) -> list[Any]:
    """Return contents without what the tools gave: each client words that in its own way.

    Nor with files: we send none.
    """
    copy = json.loads(json.dumps(contents))
    for content in copy:
        content["parts"] = [
            part for part in content["parts"] if not part.keys() & {"inlineData", "fileData"}
        ]
        for part in content["parts"]:
            if "functionResponse" in part:
                del part["functionResponse"]["response"]
    return [content for content in copy if content["parts"]]


@pytest.mark.parametrize("path", found("*.json", is_request))
def test_a_recorded_conversation_built_again(path: Path) -> None:
    recorded = json.loads(path.read_text())
    request = in_our_form(recorded["request"])
    model = re.search(r"/models/([^/:]+):", recorded["path"])
    assert model
    preset = Preset(provider="gemini", model=model[1])
    body = request_body(ModelRequest(preset, tuple(conversation(request["contents"]))))
    assert without_outputs(body["contents"]) == without_outputs(request["contents"])


def following(path: Path) -> Path:
    """Return the recording of the request that followed on a reply."""
    stem, _, number = path.stem.rpartition("__")
    return path.with_name(f"{stem}__{int(number) + 1}.json") if number.isdigit() else Path("none")


@pytest.mark.parametrize(
    "path", found("*.sse", lambda path: is_reply(path) and following(path).exists())
)
def test_a_reply_in_the_request_that_followed(path: Path) -> None:
    reply = CandidateReader("google")
    for chunk in payloads(path):
        reply.feed(chunk)
    calls = tuple(event for event in reply.end() if isinstance(event, ToolCall))
    message = RequestMessage("assistant", "", calls)
    result = RequestMessage("tool", "30 degrees", tool_call_id=calls[0].id)
    preset = Preset(provider="gemini", model="gemini-2.0-flash")
    body = request_body(ModelRequest(preset, (RequestMessage("user", "?"), message, result)))
    sent = json.loads(following(path).read_text())["request"]["contents"][-2:]
    for content in sent:
        for part in content["parts"]:
            # The recorded client makes ids of its own, and sends them.
            del next(iter(part.values()))["id"]
    assert without_outputs(body["contents"][-2:]) == without_outputs(sent)
