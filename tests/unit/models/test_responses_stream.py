"""The Responses adapter against a server that shows every fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, Script, unused_port
from reply_parts import collect, saying

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import (
    AishError,
    BackendRejected,
    BackendUnavailable,
    InvalidArgument,
)
from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import server_name
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.base import NotACountError
from aish_lsp.models.providers.responses import ResponsesModel
from aish_lsp.models.request import (
    Finish,
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    Text,
    ToolSchema,
)

Json = dict[str, Any]


NO_ENCRYPTION = "Encrypted content is not supported with this model."
NO_SUMMARY = "Your organization must be verified to generate reasoning summaries."


def piece(text: str) -> Json:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def ended(**more: Any) -> Json:
    response = {"object": "response", "status": "completed", "output": [], **more}
    return {"type": f"response.{response['status']}", "response": response}


DONE = ended(usage={"input_tokens": 10, "output_tokens": 2})


def ask(url: str, **settings: Any) -> ModelRequest:
    settings = {"model": "m", "provider": "openai-responses", **settings}
    messages = (RequestMessage("system", "s"), RequestMessage("user", "hi"))
    return ModelRequest(Preset(name="p", endpoint=url, **settings), messages)


def refusing(*found: str) -> Script:
    """Return a script that answers, but for requests with a field that is ``found`` in them."""
    words = {"include": NO_ENCRYPTION, "summary": NO_SUMMARY}

    async def script(request: Request, peer: Peer) -> None:
        sent = {*request.json, *request.json.get("reasoning", {})}
        refused = [field for field in found if field in sent]
        if refused:
            error = {"message": words[refused[0]], "type": "invalid_request_error"}
            await peer.reply({"error": error}, "400 Bad Request")
        else:
            await saying(piece("all"), DONE)(request, peer)

    return script


async def test_a_reply(http: HttpClient) -> None:
    async with FaultServer(saying(piece("Hel"), piece("lo"), DONE)) as server:
        model = ResponsesModel(http, {"K": "sk-1"})
        events, error = await collect(model, ask(server.url, api_key_env="K"))
    assert error is None
    assert events == [Text("Hel"), Text("lo"), Usage(10, 2), Finish("stop")]
    [request] = server.requests
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.json["store"] is False


@pytest.mark.parametrize("suffix", ["/v1/responses", "/openai/v1?api-version=preview"])
async def test_the_endpoint_as_it_may_be_written(http: HttpClient, suffix: str) -> None:
    async with FaultServer(saying(DONE)) as server:
        assert (await collect(ResponsesModel(http), ask(server.url + suffix)))[1] is None
    path = suffix.replace("?", "/responses?") if "?" in suffix else suffix
    assert server.requests[0].path == path


async def test_no_endpoint(http: HttpClient) -> None:
    _, error = await collect(ResponsesModel(http, {"K": "k"}), ask("nowhere", api_key_env="K"))
    assert isinstance(error, InvalidArgument)


async def test_nothing_listens(http: HttpClient) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    events, error = await collect(ResponsesModel(http), ask(url))
    assert events == []
    assert isinstance(error, BackendUnavailable)
    assert url in error.message


async def test_the_first_chat_model_is_taken_where_none_is_named(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            await peer.reply({"data": [{"id": "qwen"}]})
        else:
            await saying(DONE)(request, peer)

    async with FaultServer(script) as server:
        assert (await collect(ResponsesModel(http), ask(server.url, model="")))[1] is None
    assert server.requests[1].json["model"] == "qwen"


@pytest.mark.parametrize("found", [("include",), ("summary",), ("include", "summary")])
async def test_what_a_model_does_not_take_is_left_out_from_then_on(
    http: HttpClient, found: tuple[str, ...]
) -> None:
    async with FaultServer(refusing(*found)) as server:
        model = ResponsesModel(http)
        for _ in range(2):
            events, error = await collect(model, ask(server.url, reasoning_effort="low"))
            assert error is None
            assert events[0] == Text("all")
        assert len(server.requests) == len(found) + 2
        # Another model of the same server is asked anew.
        await collect(model, ask(server.url, model="other", reasoning_effort="low"))
        assert len(server.requests) == 2 * (len(found) + 1) + 1
    assert ("include" in server.requests[-1].json) == ("include" not in found)
    assert ("summary" in server.requests[-1].json["reasoning"]) == ("summary" not in found)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "The encrypted content gAAA...DQ== could not be verified."},
        {"message": "No.", "code": "invalid_encrypted_content"},
        {"message": "Item with id 'rs_0fab' not found. Items are not persisted."},
        {"message": "Item 'rs_0' of type 'reasoning' was provided without its following item."},
    ],
)
async def test_reasoning_that_the_server_cannot_read_is_left_out_from_then_on(
    http: HttpClient, error: Json
) -> None:
    """Another account's key, another provider behind a proxy: the conversation must go on."""

    async def script(request: Request, peer: Peer) -> None:
        if any(item.get("encrypted_content") == "old" for item in request.json["input"]):
            await peer.reply({"error": error}, "400 Bad Request")
        else:
            await saying(piece("all"), DONE)(request, peer)

    def reply(encrypted: str) -> RequestMessage:
        thought = {"type": "reasoning", "id": "rs", "encrypted_content": encrypted}
        output = [thought, {"type": "message", "length": 1}]
        return RequestMessage(
            "assistant",
            "a",
            reasoning=StoredReasoning("", server_name(server.url), {"output": output}),
        )

    async with FaultServer(script) as server:
        model = ResponsesModel(http)
        first = ask(server.url)
        talk = (*first.messages, reply("old"), RequestMessage("user", "more"))
        longer = (*talk, reply("new"), RequestMessage("user", "yet more"))
        for messages in (talk, longer):
            _, failed = await collect(model, ModelRequest(first.preset, messages))
            assert failed is None
    assert len(server.requests) == 3
    kinds = [item["type"] for item in server.requests[-1].json["input"]]
    assert kinds == ["message", "message", "message", "reasoning", "message", "message"]
    assert all("include" in request.json for request in server.requests)


async def test_what_the_user_asks_for_is_not_left_out(http: HttpClient) -> None:
    async with FaultServer(refusing("include")) as server:
        request = ask(server.url, extra_body={"include": ["reasoning.encrypted_content"]})
        _, error = await collect(ResponsesModel(http), request)
    assert isinstance(error, BackendRejected)
    assert NO_ENCRYPTION in error.message
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [("400 Bad Request", "The model does not exist."), ("401 Unauthorized", NO_ENCRYPTION)],
)
async def test_another_refusal_is_shown(http: HttpClient, status: str, words: str) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"error": {"message": words}}, status)

    async with FaultServer(script) as server:
        _, error = await collect(ResponsesModel(http), ask(server.url))
    assert isinstance(error, BackendRejected)
    assert words in error.message
    assert len(server.requests) == 1


async def test_a_request_is_not_repeated_once_the_reply_began(http: HttpClient) -> None:
    refusal = {"type": "error", "status": 400, "message": NO_ENCRYPTION}
    async with FaultServer(saying(piece("part"), refusal)) as server:
        events, error = await collect(ResponsesModel(http), ask(server.url))
    assert events == [Text("part")]
    assert isinstance(error, BackendRejected)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (saying(piece("part")), "ended before the reply did"),
        (saying(piece("part"), end=Peer.reset), "broke off"),
        (saying(piece("part"), end=Peer.half_close), "broke off"),
        (saying(piece("part"), "{garbage"), "not part of a reply"),
        (saying(piece("part"), {"type": "error", "code": "server_error", "message": "up"}), "up"),
        (saying(piece("part"), {"type": "error", "error": {"message": "up"}}), "up"),
        (saying(piece("part"), {"error": {"code": 502, "message": "up"}}), "up"),
        (saying(piece("part"), ended(status="failed", error={"message": "up"})), "up"),
        (saying(piece("part"), ended(status="failed")), "no reason given"),
        (saying(piece("part"), ended(status="cancelled")), "gave up (cancelled)"),
    ],
)
async def test_what_came_is_kept_when_the_rest_does_not(
    http: HttpClient, script: Script, message: str
) -> None:
    async with FaultServer(script) as server:
        events, error = await collect(ResponsesModel(http), ask(server.url))
    assert events == [Text("part")]
    assert isinstance(error, BackendUnavailable)
    assert message in error.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("rate_limit_exceeded", BackendUnavailable),
        ("server_is_overloaded", BackendUnavailable),
        ("server_error", BackendUnavailable),
        ("invalid_prompt", BackendRejected),
        ("context_length_exceeded", BackendRejected),
    ],
)
@pytest.mark.parametrize("failed", [True, False])
async def test_errors_within_the_stream(
    http: HttpClient, code: str, kind: type[AishError], failed: bool
) -> None:
    error = {"code": code, "message": "No. Please try again in 1.5s."}
    last = ended(status="failed", error=error) if failed else {"type": "error", **error}
    async with FaultServer(saying(last)) as server:
        events, caught = await collect(ResponsesModel(http), ask(server.url))
    assert events == []
    assert type(caught) is kind
    assert caught.data["code"] == code
    assert caught.data.get("retry_after") == (1.5 if kind is BackendUnavailable else None)


@pytest.mark.parametrize("end", [None, Peer.reset, Peer.half_close])
async def test_a_cut_behind_the_end_spoils_nothing(
    http: HttpClient, end: Callable[[Peer], None] | None
) -> None:
    async with FaultServer(saying(piece("all"), DONE, end=end)) as server:
        events, error = await collect(ResponsesModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Usage(10, 2), Finish("stop")]


async def test_the_connection_serves_the_next_request(http: HttpClient) -> None:
    async with FaultServer(saying(piece("all"), DONE, "[DONE]")) as server:
        for _ in range(3):
            assert (await collect(ResponsesModel(http), ask(server.url)))[1] is None
    assert server.connections == 1


async def test_a_json_reply_in_place_of_a_stream(http: HttpClient) -> None:
    content = [{"type": "output_text", "text": "all"}]
    whole = ended(output=[{"type": "message", "content": content}])["response"]

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(whole)

    async with FaultServer(script) as server:
        events, error = await collect(ResponsesModel(http), ask(server.url))
    assert error is None
    assert events == [Text("all"), Finish("stop")]


async def test_a_reply_that_is_as_long_as_was_asked_for(http: HttpClient) -> None:
    async with FaultServer(saying(piece("cu"), DONE)) as server:
        events, _ = await collect(ResponsesModel(http), ask(server.url, max_output_tokens=2))
    assert events[-1] == Finish("length")


async def test_leaving_in_mid_stream_closes_the_connection(http: HttpClient) -> None:
    closed = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(piece("part"))
        await peer.wait_closed()
        closed.set()

    async with FaultServer(script) as server:
        stream = ResponsesModel(http).stream(ask(server.url))
        assert await anext(stream) == Text("part")
        await stream.aclose()
        await asyncio.wait_for(closed.wait(), 5)


class TestCount:
    """What the server's own counting says."""

    async def test_it_counts_what_would_be_sent(self, http: HttpClient) -> None:
        async def script(request: Request, peer: Peer) -> None:
            await peer.reply({"object": "response.input_tokens", "input_tokens": 11})

        async with FaultServer(script) as server:
            request = ask(
                server.url,
                reasoning_effort="low",
                temperature=0.0,
                extra_body={"tool_choice": "none", "metadata": {}},
            )
            tool = ToolSchema("ls", "lists", {"type": "object"})
            request = ModelRequest(request.preset, request.messages, (tool,))
            assert await ResponsesModel(http).count_tokens(request, timeout_s=5) == 11
        [sent] = server.requests
        assert sent.path == "/v1/responses/input_tokens"
        assert sent.json.keys() == {
            "model", "instructions", "input", "tools", "tool_choice", "reasoning",
        }  # fmt: skip
        assert sent.json["reasoning"] == {"effort": "low"}

    @pytest.mark.parametrize(
        "reply", [{}, [], {"input_tokens": None}, {"input_tokens": True}, {"input_tokens": 0}]
    )
    async def test_an_answer_that_is_no_count(self, http: HttpClient, reply: Any) -> None:
        async def script(request: Request, peer: Peer) -> None:
            await peer.reply(reply)

        async with FaultServer(script) as server:
            with pytest.raises(NotACountError):
                await ResponsesModel(http).count_tokens(ask(server.url), timeout_s=5)

    async def test_a_server_that_cannot_count(self, http: HttpClient) -> None:
        async def script(request: Request, peer: Peer) -> None:
            await peer.reply({"error": {"message": "no such page"}}, "404 Not Found")

        async with FaultServer(script) as server:
            with pytest.raises(BackendRejected) as caught:
                await ResponsesModel(http).count_tokens(ask(server.url), timeout_s=5)
        assert caught.value.data["status"] == 404
