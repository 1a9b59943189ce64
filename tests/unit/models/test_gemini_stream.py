"""The Gemini adapter against a server that shows every fault, and what the server tells."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reply_parts
from fault_server import FaultServer, Peer, Request, Script
from reply_parts import saying

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.endpoint import EndpointInfo
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import describe
from aish_lsp.models.providers.base import NotACountError
from aish_lsp.models.providers.gemini import GeminiModel
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, RequestMessage, Text

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[3] / "../shared")

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}


def saying_text(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


STOP = saying_text("", "STOP", usageMetadata=USAGE)


def ask(url: str, **settings: Any) -> ModelRequest:
    settings = {"provider": "gemini", "model": "gemini-2.5-flash", "endpoint": url, **settings}
    return ModelRequest(Preset(name="g", **settings), (RequestMessage("user", "hi"),))


async def collect(
    http: HttpClient, request: ModelRequest, environ: dict[str, str] | None = None
) -> tuple[list[ModelEvent], AishError | None]:
    """Return the events of a reply, and the error that ended it."""
    return await reply_parts.collect(GeminiModel(http, environ or {}), request)


def answering(replies: dict[str, Any]) -> Script:
    """Return a script that answers each path with its JSON, all others with 404."""

    async def script(request: Request, peer: Peer) -> None:
        reply = replies.get(request.path)
        missing = {"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}
        await peer.reply(
            missing if reply is None else reply, "404 No" if reply is None else "200 OK"
        )

    return script


async def test_a_reply(http: HttpClient) -> None:
    async with FaultServer(saying(saying_text("Hello"), STOP)) as server:
        request = ask(server.url, api_key_env="K", extra_headers={"X-Own": "1"})
        events, error = await collect(http, request, {"K": "secret-key"})
    assert error is None
    assert events == [Text("Hello"), Usage(10, 2), Finish("stop")]
    [sent] = server.requests
    assert sent.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert sent.headers["x-goog-api-key"] == "secret-key"
    assert sent.headers["x-own"] == "1"
    assert "authorization" not in sent.headers
    assert sent.json["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


async def test_a_project_of_google_cloud_takes_an_access_token(http: HttpClient) -> None:
    async with FaultServer(saying(saying_text("Hello"), STOP)) as server:
        where = f"{server.url}/v1/projects/p/locations/global/publishers/google/models"
        await collect(http, ask(where, api_key_env="K"), {"K": "token"})
    [sent] = server.requests
    assert sent.headers["authorization"] == "Bearer token"
    assert "x-goog-api-key" not in sent.headers
    assert sent.path.startswith("/v1/projects/p/locations/global/publishers/google/models/gemini")


async def test_a_preset_without_a_model_asks_nobody(http: HttpClient) -> None:
    async with FaultServer(saying(STOP)) as server:
        _, error = await collect(http, ask(server.url, model=""))
    assert error is not None
    assert "Set `model`" in error.message
    assert server.requests == []


@pytest.mark.parametrize(
    ("payload", "kind", "words"),
    [
        ({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}},
         BackendUnavailable, "Overloaded."),
        ({"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}},
         BackendUnavailable, "Quota."),
        ({"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}},
         BackendRejected, "Bad."),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, BackendRejected, "SAFETY"),
        (saying_text("", "RECITATION"), BackendRejected, "RECITATION"),
        (saying_text("", "MALFORMED_FUNCTION_CALL"), BackendUnavailable, "MALFORMED_FUNCTION_CALL"),
        ("<html>", BackendUnavailable, "not part of a reply"),
    ],
)  # fmt: skip
async def test_an_error_within_the_stream(
    http: HttpClient, payload: Any, kind: type[AishError], words: str
) -> None:
    async with FaultServer(saying(payload)) as server:
        events, error = await collect(http, ask(server.url))
    assert events == []
    assert type(error) is kind
    assert words in error.message


async def test_the_part_before_an_error_is_kept(http: HttpClient) -> None:
    overloaded = {"error": {"code": 503, "message": "Overloaded."}}
    async with FaultServer(saying(saying_text("Hel"), overloaded)) as server:
        events, error = await collect(http, ask(server.url))
    assert events == [Text("Hel")]
    assert isinstance(error, BackendUnavailable)


@pytest.mark.parametrize("end", [None, Peer.reset, Peer.half_close])
async def test_a_stream_cut_before_its_end(
    http: HttpClient, end: Callable[[Peer], None] | None
) -> None:
    async with FaultServer(saying(saying_text("Hel"), end=end)) as server:
        events, error = await collect(http, ask(server.url))
    assert events == [Text("Hel")]
    assert isinstance(error, BackendUnavailable)


@pytest.mark.parametrize("end", [Peer.reset, Peer.half_close])
async def test_a_stream_cut_after_the_content_is_whole(
    http: HttpClient, end: Callable[[Peer], None]
) -> None:
    async with FaultServer(saying(saying_text("Hello"), STOP, end=end)) as server:
        events, error = await collect(http, ask(server.url))
    assert error is None
    assert events == [Text("Hello"), Usage(10, 2), Finish("stop")]


async def test_a_server_that_does_not_stream(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(saying_text("Hello", "STOP", usageMetadata=USAGE))

    async with FaultServer(script) as server:
        events, error = await collect(http, ask(server.url))
    assert error is None
    assert events == [Text("Hello"), Usage(10, 2), Finish("stop")]


async def test_a_server_that_makes_a_list_of_its_chunks(http: HttpClient) -> None:
    """Google does where it is not asked for events; a proxy may drop that from the address."""

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply([saying_text("Hel"), saying_text("lo"), STOP])

    async with FaultServer(script) as server:
        events, error = await collect(http, ask(server.url))
    assert error is None
    assert [event for event in events if isinstance(event, Text)] == [Text("Hel"), Text("lo")]
    assert events[-1] == Finish("stop")


async def test_a_refused_key_is_told_and_not_shown(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        details = [{"@type": "x.ErrorInfo", "reason": "API_KEY_INVALID"}]
        message = "API key secret-key not valid."
        await peer.reply({"error": {"code": 400, "message": message, "details": details}}, "400 No")

    async with FaultServer(script) as server:
        _, error = await collect(http, ask(server.url, api_key_env="K"), {"K": "secret-key"})
    assert isinstance(error, BackendRejected)
    assert "secret-key" not in error.message
    assert "`api_key_env`" in error.message


async def test_leaving_in_mid_stream_closes_the_connection(http: HttpClient) -> None:
    left = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(saying_text("Hel"))
        await peer.wait_closed()
        left.set()

    async with FaultServer(script) as server:
        stream = GeminiModel(http, {}).stream(ask(server.url))
        assert await anext(stream) == Text("Hel")
        await stream.aclose()
        async with asyncio.timeout(10):
            await left.wait()


MODELS = {
    "models": [
        {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]},
        {
            "name": "models/gemini-2.5-flash",
            "inputTokenLimit": 1048576,
            "outputTokenLimit": 65536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        {"name": "models/gemini-x", "inputTokenLimit": None},
        {"name": "models/gemini-y", "supportedGenerationMethods": None},
        {"name": "models/mute", "supportedGenerationMethods": []},
        {"name": "models/"},
        {"name": None},
        7,
    ]
}
LIST, ONE = "/v1beta/models?pageSize=1000", "/v1beta/models/gemini-flash-latest"
NAMES = ("gemini-2.5-flash", "gemini-x", "gemini-y")


@pytest.mark.parametrize(
    ("name", "replies", "info"),
    [
        ("gemini-2.5-flash", {LIST: MODELS}, EndpointInfo(None, NAMES, 1048576)),
        ("models/gemini-flash-latest", {LIST: MODELS, ONE: {"inputTokenLimit": 5}},
         EndpointInfo(None, NAMES, 5)),
        ("gemini-flash-latest", {LIST: MODELS}, EndpointInfo(None, NAMES)),
        ("gemini-x", {LIST: MODELS}, EndpointInfo(None, NAMES)),
        ("", {LIST: MODELS}, EndpointInfo(None, NAMES)),
        ("gemini-flash-latest", {LIST: {"models": {}}, ONE: [1]}, EndpointInfo()),
        ("gemini-2.5-flash", {LIST: [1]}, EndpointInfo()),
        ("gemini-2.5-flash", {}, EndpointInfo()),
    ],
)  # fmt: skip
async def test_what_a_server_tells_of_its_models(
    http: HttpClient, name: str, replies: dict[str, Any], info: EndpointInfo
) -> None:
    async with FaultServer(answering(replies)) as server:
        preset = ask(server.url, model=name, api_key_env="K").preset
        assert await describe(http, preset, {"K": "key"}) == info
    assert all(request.headers["x-goog-api-key"] == "key" for request in server.requests)


async def test_nothing_is_told_by_what_is_no_server(http: HttpClient) -> None:
    for preset in (ask("nowhere").preset, ask("http://x.invalid", api_key_env="K").preset):
        assert await describe(http, preset, {}) == EndpointInfo()


def recorded_counts() -> list[Any]:
    found = sorted(
        (SHARED / "recorded/errors_and_counts").glob("*googleapis.com__*__count__*.json")
    )
    if not found:
        reason = f"no recordings under {SHARED}"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in found]


@pytest.mark.shared
@pytest.mark.parametrize("path", recorded_counts())
async def test_a_recorded_count(http: HttpClient, path: Path) -> None:
    recorded = json.loads(path.read_text())
    split = re.fullmatch(r"(.*)/models/([^/]+):countTokens", recorded["path"])
    assert split

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(recorded["response"], f"{recorded['status']} X")

    async with FaultServer(script) as server:
        request = ask(server.url + split[1], model=split[2])
        if recorded["status"] == 200:
            total = await GeminiModel(http, {}).count_tokens(request, timeout_s=5)
            assert total == recorded["response"]["totalTokens"]
        else:
            with pytest.raises(BackendRejected, match="is not found"):
                await GeminiModel(http, {}).count_tokens(request, timeout_s=5)
    [sent] = server.requests
    assert sent.path == recorded["path"]
    # Wrapped as Google AI wants it, and bare for Google Cloud, as in its recording.
    is_cloud = "publishers" in sent.path
    assert sent.json.keys() == ({"contents"} if is_cloud else {"generateContentRequest"})


@pytest.mark.parametrize(
    "reply", [{}, [], {"totalTokens": "1"}, {"totalTokens": -1}, {"totalTokens": True}]
)
async def test_what_is_no_count(http: HttpClient, reply: Any) -> None:
    path = "/v1beta/models/gemini-2.5-flash:countTokens"
    async with FaultServer(answering({path: reply})) as server:
        with pytest.raises(NotACountError):
            await GeminiModel(http, {}).count_tokens(ask(server.url), timeout_s=5)
