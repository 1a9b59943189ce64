"""What must not leave the machine, or get into a log, before the real server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from client import RpcError
from conversing import SHOWS_NOTHING, Place, ask, fine, yes
from fault_server import FaultServer, Peer, Request

PASSWORD = "tr0ub4dor-and-3-more"
KEY = "sk-test-" + "0123456789abcdefWXYZ"

#: What prints a password of the environment, and what must be left of it nowhere.
PRINTING = {
    "echo $DB_PASSWORD": PASSWORD,
    "printenv DB_PASSWORD | base64": base64.b64encode(PASSWORD.encode()).decode()[:20],
    "printf xx%s $DB_PASSWORD | base64": base64.b64encode(b"xx" + PASSWORD.encode()).decode()[4:20],
    "printenv DB_PASSWORD | fold -w 7": PASSWORD[:7],
    "printenv DB_PASSWORD | od -An -tx1": PASSWORD.encode().hex(" ")[:30],
    "env | grep URL": "hunter22",
}


def kept(place: Place) -> str:
    """Return all that was written into the data folder."""
    return "\n".join(path.read_text() for path in place.data.rglob("*") if path.is_file())


@pytest.mark.parametrize("command", PRINTING)
async def test_a_secret_of_the_environment_stays_here(place: Place, command: str) -> None:
    async with FaultServer(fine) as server:
        place.configure(server.url, context_window=8192)
        environment = {
            "DB_PASSWORD": PASSWORD,
            "DATABASE_URL": "postgres://app:hunter22@db/app",
            "USE_PASSWORD": "true",
        }
        async with place.client("stdio", **environment) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            text = f"{command}; echo true"
            ran = await client.command_result("aish.run", {"text": text, "partialResultToken": "r"})
            # The user sees what their command printed.
            assert PRINTING[command] in ran["output"]
            await ask(client, "what is that?", "t")
            sent = server.requests[-1].json["messages"][-1]["content"]
            log = client.stderr
    assert "[secret]" in sent
    assert "\ntrue\n" in sent
    assert "[secret]" in kept(place)
    for text in (sent, log, kept(place)):
        assert PRINTING[command] not in text


async def test_a_reply_that_names_a_secret_is_logged_without_it(place: Place) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        for character in f"It is {PASSWORD}, I think.":
            await peer.event({"choices": [{"index": 0, "delta": {"content": character}}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        place.configure(server.url, context_window=8192)
        async with place.client(DB_PASSWORD=PASSWORD) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            await ask(client, "what is it?", "t")
    assert PASSWORD not in kept(place)
    assert "It is [secret], I think." in kept(place)


ECHOES = [
    f"Incorrect API key provided: {KEY}.",
    f"Incorrect API key provided: {KEY[:14]}",
    f"Incorrect API key provided: {KEY[:8]}****************{KEY[-4:]}.",
    f"Incorrect API key provided: {KEY[:6]}...{KEY[-4:]}.",
    f"The key that ends in {KEY[-10:]} is not known.",
    f"Basic {base64.b64encode(f'user:{KEY}'.encode()).decode()} was refused",
    f"got {KEY.encode().hex()}",
]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        *((words, "401 Unauthorized") for words in ECHOES),
        (ECHOES[0], "200 OK"),
        (ECHOES[1], "200 OK"),
        (ECHOES[1], "500 Oops"),
    ],
)
async def test_an_error_that_shows_a_key_is_masked(place: Place, words: str, status: str) -> None:
    async def script(_: Request, peer: Peer) -> None:
        if status == "200 OK":
            await peer.head()
            await peer.event({"error": {"message": words, "type": words, "code": 400}})
            await peer.chunk(b"")
        else:
            await peer.reply({"error": {"message": words, "code": words}}, status)

    async with FaultServer(script) as server:
        place.configure(server.url, context_window=8192, api_key_env="TESTED_KEY")
        async with place.client(TESTED_KEY=KEY) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            with pytest.raises(RpcError) as caught:
                await ask(client, "hello", "t")
            told = json.dumps([caught.value.message, caught.value.data, client.progress["t"]])
            log = client.stderr
    assert "***" in told
    for text in (told, log, kept(place)):
        assert "WXYZ" not in text
        for at in range(len(KEY) - 8):
            assert KEY[at : at + 8] not in text
            assert base64.b64encode(f"user:{KEY}".encode()).decode()[8:20] not in text
            assert KEY.encode().hex()[:16] not in text


def far(place: Place, proxy: FaultServer) -> Any:
    """Return a client of a server whose model stands behind an address without TLS."""
    place.configure("http://models.example:8080", context_window=8192, api_key_env="TESTED_KEY")
    names = ("HTTP_PROXY", "http_proxy")
    variables = {"TESTED_KEY": KEY, "NO_PROXY": "", "no_proxy": ""}
    return place.client("stdio", **variables, **dict.fromkeys(names, proxy.url))


async def test_a_key_goes_unencrypted_by_the_users_word_alone(place: Place) -> None:
    answers: list[Any] = [None, {"title": "Do not send it"}]
    async with FaultServer(fine) as proxy:
        async with far(place, proxy) as client:
            client.answers["window/showMessageRequest"] = lambda _: answers.pop(0)
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            for token in ("one", "two", "three"):
                with pytest.raises(RpcError) as caught:
                    await ask(client, "hello", token)
                assert caught.value.data["kind"] == "denied"
                assert "models.tested.endpoint" in caught.value.message
            # A plain no is kept.
            assert len(client.asked("window/showMessageRequest")) == 2
            question = client.asked("window/showMessageRequest")[0]["message"]
            assert "http://models.example:8080" in question
            assert "TESTED_KEY" in question
            await client.command_result("aish.model.list")
            await client.command_result("aish.context.show")
            assert proxy.connections == 0
            client.answers["window/showMessageRequest"] = yes
            await client.command_result("aish.model.use", {"name": "tested"})
        async with far(place, proxy) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            assert (await ask(client, "hello", "four"))["text"] == "All is well."
            assert client.asked("window/showMessageRequest") == []
    assert {request.headers["authorization"] for request in proxy.requests} == {f"Bearer {KEY}"}
    assert KEY not in kept(place)
