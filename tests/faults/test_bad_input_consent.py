"""A key that merely lies in the environment: nobody connects anywhere before the user's yes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError, never
from conversing import SHOWS_NOTHING, Place, ask, begin, events, no, yes
from fault_server import FaultServer, Peer, Request

KEY = "sk-test-0123456789abcdef"


async def refuse(_: Request, peer: Peer) -> None:
    """Answer as a proxy that lets nobody through."""
    await peer.reply(b"", "403 Forbidden", "text/plain")


def client_of(place: Place, proxy: FaultServer, *, discovery: str = "") -> Client:
    """Return a client of a server that finds a key, and reaches the world by ``proxy`` alone."""
    client = place.client(
        OPENAI_API_KEY=KEY,
        AISH_DISCOVERY=discovery,
        HTTPS_PROXY=proxy.url,
        https_proxy=proxy.url,
        NO_PROXY="",
        no_proxy="",
    )
    client.command = [sys.executable, str(Path(__file__).with_name("keyed_server.py"))]
    return client


def granted(place: Place) -> Any:
    return json.loads((place.data / "trust.json").read_text())["grants"]


async def test_a_no_is_kept_and_nothing_was_connected(place: Place) -> None:
    async with FaultServer(refuse) as proxy:
        async with client_of(place, proxy) as client:
            client.answers["window/showMessageRequest"] = no
            await client.initialize(place.folder)
            assert client.asked("window/showMessageRequest") == []
            for token in ("one", "two"):
                result = await ask(client, "hello", token)
                assert (result["model"], result["finishReason"]) == ("offline", "stop")
            [question] = client.asked("window/showMessageRequest")
            assert "OpenAI" in question["message"]
            assert "api.openai.com" in question["message"]
            assert "OPENAI_API_KEY" in question["message"]
            assert KEY not in json.dumps(question)
            told = [event["message"] for event in events(client, "one", "notice")]
            assert [message for message in told if "no provider's key is in use" in message] == told
            listed = await client.command_result("aish.model.list")
            assert listed["active"] == "offline"
            assert [row["name"] for row in listed["models"]] == ["openai", "offline"]
        async with client_of(place, proxy) as client:
            await client.initialize(place.folder)
            assert (await ask(client, "hello", "three"))["model"] == "offline"
            assert client.asked("window/showMessageRequest") == []
        assert proxy.connections == 0
    [grant] = granted(place)
    assert (grant["name"], grant["answer"]) == ("OpenAI", "denied")


async def test_a_yes_is_kept_and_connects_there_alone(place: Place) -> None:
    async with FaultServer(refuse) as proxy:
        async with client_of(place, proxy) as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            with pytest.raises(RpcError) as caught:
                await ask(client, "hello", "one")
            assert caught.value.code in {1001, 1002}
            assert KEY not in caught.value.message + client.stderr
        async with client_of(place, proxy) as client:
            await client.initialize(place.folder)
            with pytest.raises(RpcError):
                await ask(client, "hello", "two")
            assert client.asked("window/showMessageRequest") == []
        assert proxy.requests
        assert {one.method for one in proxy.requests} == {"CONNECT"}
        assert {one.path for one in proxy.requests} == {"api.openai.com:443"}
    [grant] = granted(place)
    assert (grant["name"], grant["answer"]) == ("OpenAI", "granted")
    for log in place.data.rglob("*"):
        assert log.is_dir() or KEY not in log.read_text()


async def test_no_clear_answer_is_a_no_and_is_not_kept(place: Place) -> None:
    unclear: list[Any] = [None, {}, {"title": "use openai"}, {"title": ["Use OpenAI"]}, [], "yes"]
    async with FaultServer(refuse) as proxy, client_of(place, proxy) as client:
        client.answers["window/showMessageRequest"] = lambda _: unclear[0]
        await client.initialize(place.folder)
        for token in ("one", "two"):
            assert (await ask(client, "hello", token))["model"] == "offline"
        assert len(client.asked("window/showMessageRequest")) == 1
        # Who names the model is asked again.
        for number in range(len(unclear)):
            with pytest.raises(RpcError) as caught:
                await client.command_result("aish.model.use", {"name": "openai"})
            assert (caught.value.code, caught.value.data["kind"]) == (1006, "denied")
            assert len(client.asked("window/showMessageRequest")) == 2 + number
            unclear.append(unclear.pop(0))
        assert proxy.connections == 0
    assert not (place.data / "trust.json").exists()


async def test_a_question_can_be_cancelled_while_the_user_is_asked(place: Place) -> None:
    async with FaultServer(refuse) as proxy, client_of(place, proxy) as client:
        client.answers["window/showMessageRequest"] = never
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        request_id, answer = await begin(
            client, "aish.ask", {"prompt": "hello", "partialResultToken": "t"}
        )
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        await client.notify("$/cancelRequest", {"id": request_id})
        assert (await client.within(answer, "the answer"))["finishReason"] == "cancelled"
        [question] = place.records()
        assert (question["content"], question["meta"]) == ("hello", "unanswered")
        client.answers["window/showMessageRequest"] = no
        assert (await ask(client, "hello", "u"))["model"] == "offline"
        assert proxy.connections == 0


async def test_with_discovery_off_nobody_is_asked(place: Place) -> None:
    async with (
        FaultServer(refuse) as proxy,
        client_of(place, proxy, discovery="off") as client,
    ):
        await client.initialize(place.folder)
        assert (await ask(client, "hello", "one"))["model"] == "offline"
        assert client.asked("window/showMessageRequest") == []
        assert proxy.connections == 0
