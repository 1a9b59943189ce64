"""A provider's count of a whole request: by each adapter, remembered, and through every fault."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from clock import Clock
from fault_server import FaultServer, Peer, Request, Script, unused_port

from aish_lsp.agent.model_choice import open_model
from aish_lsp.config.schema import Preset, Provider
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.base import CountingModel
from aish_lsp.models.request import Model, ModelRequest, RequestMessage
from aish_lsp.models.tokenizer import RequestCounter

#: Long enough for any machine.
PATIENT = 20.0

#: What each protocol's server answers, and where it is asked.
ANSWERS: dict[Provider, tuple[str, str, str]] = {
    "anthropic": ("input_tokens", "claude-sonnet-5-5", "/v1/messages/count_tokens"),
    "openai-responses": ("input_tokens", "gpt-5.5", "/v1/responses/input_tokens"),
    "gemini": ("totalTokens", "gemini-3.8-flash", "/v1beta/models/gemini-3.8-flash:countTokens"),
}


def answering(body: Any, status: str = "200 OK", kind: str = "application/json") -> Script:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(body, status, kind)

    return script


def no_offline() -> Model:
    pytest.fail("the offline model was asked for")


def opened(http: HttpClient, provider: Provider) -> Model:
    return open_model(provider, http, {"K": "sk"}, no_offline)


def question(endpoint: str, text: str = "Hello?", provider: Provider = "anthropic") -> ModelRequest:
    preset = Preset(
        name="mine",
        provider=provider,
        endpoint=endpoint,
        model=ANSWERS[provider][1],
        api_key_env="K",
    )
    return ModelRequest(
        preset, (RequestMessage("system", "You are."), RequestMessage("user", text))
    )


@pytest.mark.parametrize("provider", ANSWERS)
async def test_each_protocol_counts(http: HttpClient, provider: Provider) -> None:
    field, _, path = ANSWERS[provider]
    counter = RequestCounter("mine", timeout_s=PATIENT)
    async with FaultServer(answering({field: 321})) as server:
        adapter = opened(http, provider)
        request = question(server.url, provider=provider)
        assert await counter.count(adapter, request) == 321
    assert [one.path for one in server.requests] == [path]
    assert counter.capable


async def test_a_protocol_without_such_a_question(http: HttpClient) -> None:
    adapter = opened(http, "openai")
    assert not isinstance(adapter, CountingModel)
    counter = RequestCounter("mine", timeout_s=PATIENT)
    assert await counter.count(adapter, question("http://127.0.0.1:9")) is None
    assert not counter.capable
    assert counter.take_notices() == []


NEVER: dict[str, Script] = {
    "404": answering({"error": {"message": "no"}}, "404 Not Found"),
    "405": answering({"error": {"message": "no"}}, "405 Method Not Allowed"),
    "501": answering({"error": {"message": "no"}}, "501 Not Implemented"),
    "text": answering({"input_tokens": "many"}),
    "true": answering({"input_tokens": True}),
    "negative": answering({"input_tokens": -7}),
    "nothing": answering({}),
    "a list": answering([1, 2]),
}


@pytest.mark.parametrize("fault", NEVER)
async def test_who_does_not_count_is_asked_once(http: HttpClient, fault: str) -> None:
    counter = RequestCounter("mine", timeout_s=PATIENT)
    async with FaultServer(NEVER[fault]) as server:
        adapter = opened(http, "anthropic")
        for text in ("one", "two"):
            assert await counter.count(adapter, question(server.url, text)) is None
    assert len(server.requests) == 1
    assert not counter.capable
    assert counter.take_notices() == []


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_who_is_denied_is_told_once(http: HttpClient, status: str) -> None:
    counter = RequestCounter("mine", timeout_s=PATIENT)
    async with FaultServer(answering({"error": {"message": "not you"}}, status)) as server:
        adapter = opened(http, "anthropic")
        for text in ("one", "two"):
            assert await counter.count(adapter, question(server.url, text)) is None
    assert len(server.requests) == 1
    [notice] = counter.take_notices()
    assert "tokenize.use_endpoint" in notice
    assert counter.take_notices() == []


async def hangs(_: Request, peer: Peer) -> None:
    await peer.wait_closed()


async def hangs_up(_: Request, peer: Peer) -> None:
    peer.reset()


BUSY: dict[str, Script] = {
    "it hangs": hangs,
    "it hangs up": hangs_up,
    "400": answering({"error": {"message": "prompt is too long"}}, "400 Bad Request"),
    "413": answering({"error": {"message": "too large"}}, "413 Request Too Large"),
    "429": answering({"error": {"message": "slower"}}, "429 Too Many Requests"),
    "500": answering({"error": {"message": "oh"}}, "500 Internal Server Error"),
    "529": answering({"error": {"message": "overloaded"}}, "529 Overloaded"),
}


@pytest.mark.parametrize("fault", BUSY)
async def test_who_fails_is_let_alone_for_a_while(http: HttpClient, fault: str) -> None:
    clock = Clock()
    # What answers, answers in any time; only what hangs is waited out.
    counter = RequestCounter("mine", timeout_s=0.3 if fault == "it hangs" else PATIENT, clock=clock)
    fails = True

    async def script(request: Request, peer: Peer) -> None:
        await (BUSY[fault] if fails else answering({"input_tokens": 12}))(request, peer)

    async with FaultServer(script) as server:
        adapter = opened(http, "anthropic")
        begin = time.monotonic()
        assert await counter.count(adapter, question(server.url)) is None
        assert time.monotonic() - begin < PATIENT
        asked = len(server.requests)
        assert await counter.count(adapter, question(server.url)) is None
        clock.now += 4.9
        assert await counter.count(adapter, question(server.url)) is None
        assert len(server.requests) == asked
        clock.now += 0.2
        assert await counter.count(adapter, question(server.url)) is None
        # The second pause is twice as long.
        clock.now += 9.9
        assert await counter.count(adapter, question(server.url)) is None
        assert counter.capable
        fails = False
        clock.now += 0.2
        counter._timeout_s = PATIENT
        patient = await counter.count(adapter, question(server.url))
    assert patient == 12
    assert counter.take_notices() == []


async def test_a_server_that_is_not_there(http: HttpClient) -> None:
    counter = RequestCounter("mine", timeout_s=PATIENT)
    request = question(f"http://127.0.0.1:{unused_port()}")
    assert await counter.count(opened(http, "anthropic"), request) is None
    assert counter.capable


async def test_a_key_that_is_not_set_is_left_to_the_question(http: HttpClient) -> None:
    counter = RequestCounter("mine", timeout_s=PATIENT)
    adapter = open_model("anthropic", http, {}, no_offline)
    assert await counter.count(adapter, question("http://127.0.0.1:9")) is None
    assert counter.capable
    assert counter.take_notices() == []


async def test_leaving_is_not_swallowed(http: HttpClient) -> None:
    counter = RequestCounter("mine", timeout_s=PATIENT)
    async with FaultServer(hangs) as server:
        counting = asyncio.create_task(
            counter.count(opened(http, "anthropic"), question(server.url))
        )
        while not server.requests:
            await asyncio.sleep(0.01)
        counting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await counting
