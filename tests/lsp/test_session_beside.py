"""Several sessions of one folder, open at once in the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from client import Client, RpcError
from conversing import Place, ask, begin, chat_holds, events, streamed, yes
from fault_server import FaultServer, Peer, Request, chunk_of


async def answers_or_hangs(request: Request, peer: Peer) -> None:
    """Begin to answer; of the model named ``hangs`` nothing more comes."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    questions = sum(message["role"] == "user" for message in request.json["messages"])
    await peer.event(chunk_of(f"Reply {questions}.\n"))
    if request.json["model"] == "hangs":
        await peer.wait_closed()
        return
    await peer.event(chunk_of("CMD: echo ran\n"))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Client]:
    async with FaultServer(answers_or_hangs) as model:
        place.configure(model.url, context_window=8192)
        with place.config.open("a") as file:
            file.write(
                f'[models.stuck]\nendpoint = "{model.url}"\nmodel = "hangs"\n'
                "context_window = 8192\n"
            )
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            yield client


async def opened(client: Client) -> str:
    """Open a session beside the one that is shown; return its id."""
    result = await client.command_result("aish.session.new", {"show": False})
    return str(result["id"])


async def hanging(client: Client, token: str, **fields: Any) -> tuple[int, asyncio.Future[Any]]:
    """Ask a question whose answer hangs, and wait until its first words are there."""
    argument = {"prompt": "Well?", "model": "stuck", "partialResultToken": token, **fields}
    sent = await begin(client, "aish.ask", argument)

    async def look() -> None:
        while "Reply" not in streamed(client, token):
            await asyncio.sleep(0.01)

    await client.within(look(), "the first words of a reply")
    return sent


async def test_one_answers_while_another_one_hangs(client: Client) -> None:
    beside = await opened(client)
    number, stuck = await hanging(client, "stuck", session=beside)
    done = await ask(client, "And here?", "shown")
    assert (done["text"], done["finishReason"]) == ("Reply 1.\nCMD: echo ran\n", "stop")
    assert done["sessionId"] != beside
    # It did not wait for the other one, and nothing of that came to it.
    assert not [note for note in events(client, "shown", "notice") if "waits" in note["message"]]
    assert not stuck.done()
    busy = await client.command_result("aish.status", {"session": beside})
    idle = await client.command_result("aish.status")
    assert (busy["busy"], idle["busy"]) == (True, False)
    await client.notify("$/cancelRequest", {"id": number})
    result = await client.within(stuck, "the end of what was stopped")
    assert (result["finishReason"], result["sessionId"]) == ("cancelled", beside)


async def test_a_cancel_stops_only_its_own(client: Client) -> None:
    beside = await opened(client)
    one, first = await hanging(client, "one")
    _, second = await hanging(client, "two", session=beside)
    await client.notify("$/cancelRequest", {"id": one})
    assert (await client.within(first, "the first"))["finishReason"] == "cancelled"
    assert not second.done()
    # Of the session that is named, and of no other.
    _, third = await hanging(client, "three")
    stopped = await client.command_result("aish.cancel", {"session": beside})
    assert stopped == {"cancelled": 1}
    assert (await client.within(second, "the second"))["finishReason"] == "cancelled"
    assert not third.done()
    assert await client.command_result("aish.cancel") == {"cancelled": 1}
    assert (await client.within(third, "the third"))["finishReason"] == "cancelled"


async def test_each_has_its_own_turns_suggestions_model_and_costs(client: Client) -> None:
    beside = await opened(client)
    there = {"session": beside}
    first = await ask(client, "First?", "a")
    await ask(client, "First there?", "b", **there)
    second = await ask(client, "Second there?", "c", **there)
    assert second["text"].startswith("Reply 2.")
    [command] = first["commands"]
    waiting = await client.command_result("aish.commands.list")
    assert waiting["commands"] == [command]
    theirs = (await client.command_result("aish.commands.list", there))["commands"]
    assert [one["text"] for one in theirs] == ["echo ran", "echo ran"]
    run = {"commandId": command["id"], "partialResultToken": "r", **there}
    with pytest.raises(RpcError, match="No suggested command"):
        await client.command_result("aish.run", run)
    await client.command_result("aish.model.use", {"name": "stuck", **there})
    active = [await client.command_result("aish.model.list", which) for which in ({}, there)]
    assert [one["active"] for one in active] == ["tested", "stuck"]
    costs = [await client.command_result("aish.cost.show", which) for which in ({}, there)]
    assert [one["total"]["calls"] for one in costs] == [1, 2]
    await client.command_result("aish.context.reset", there)
    history = await client.command_result("aish.session.history", there)
    assert [turn["inForce"] for turn in history["turns"]] == [False] * 4
    kept = await client.command_result("aish.session.history")
    assert [turn["inForce"] for turn in kept["turns"]] == [True] * 2
    listed = (await client.command_result("aish.session.list"))["sessions"]
    assert {one["id"] for one in listed} == {beside, first["sessionId"]}


async def test_one_is_shown_while_another_one_goes_on(client: Client, place: Place) -> None:
    beside = await opened(client)
    first = await ask(client, "First?", "a")
    number, stuck = await hanging(client, "stuck", session=beside)
    # What runs beside does not keep the chat from showing another.
    fresh = (await client.command_result("aish.session.new"))["id"]
    assert fresh not in (beside, first["sessionId"])
    assert not stuck.done()
    with pytest.raises(RpcError, match="is not open here"):
        await ask(client, "Still there?", "b", session=first["sessionId"])
    shown = await client.command_result("aish.session.resume", {"id": beside})
    assert shown == {"id": beside, "turns": 1}
    # Now it is the one that must not be replaced.
    with pytest.raises(RpcError, match="A question is being answered in this session"):
        await client.command_result("aish.session.new")
    await client.notify("$/cancelRequest", {"id": number})
    await client.within(stuck, "the end of what was stopped")
    await client.command_result("aish.chat.send", {"prompt": "Here?"})
    await chat_holds(client, place, "Reply 2.")
    back = await client.command_result("aish.session.resume", {"id": first["sessionId"]})
    assert back == {"id": first["sessionId"], "turns": 2}
    # It was opened to stay.
    assert (await ask(client, "And?", "c", session=beside))["sessionId"] == beside


async def test_what_the_chat_does_not_show_needs_a_token(client: Client) -> None:
    beside = await opened(client)
    for command, argument in (
        ("aish.ask", {"prompt": "Hello?"}),
        ("aish.run", {"text": "true"}),
        ("aish.memory.summarize", {}),
    ):
        with pytest.raises(RpcError, match="need a token") as refused:
            await client.command_result(command, {**argument, "session": beside})
        assert refused.value.code == -32602
    with pytest.raises(RpcError, match="'nobody' is not open here"):
        await client.command_result("aish.status", {"session": "nobody"})


async def test_one_that_is_open_beside_is_deleted_once_nothing_runs_in_it(client: Client) -> None:
    beside = await opened(client)
    number, stuck = await hanging(client, "stuck", session=beside)
    with pytest.raises(RpcError, match="A question is being answered"):
        await client.command_result("aish.session.delete", {"id": beside})
    await client.notify("$/cancelRequest", {"id": number})
    await client.within(stuck, "the end of what was stopped")
    assert await client.command_result("aish.session.delete", {"id": beside}) == {"deleted": 1}
    with pytest.raises(RpcError, match="is not open here"):
        await client.command_result("aish.status", {"session": beside})
    assert (await client.command_result("aish.session.list"))["sessions"] == []


async def test_an_earlier_one_goes_on_beside_what_is_busy(place: Place) -> None:
    async with FaultServer(answers_or_hangs) as model:
        place.configure(model.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            first = await ask(client, "First?", "a")
        with place.config.open("a") as file:
            file.write(f'[models.stuck]\nendpoint = "{model.url}"\nmodel = "hangs"\n')
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            await hanging(client, "busy")
            beside = {"id": first["sessionId"], "show": False}
            both = [client.command_result("aish.session.resume", beside) for _ in range(2)]
            assert await asyncio.gather(*both) == [{"id": first["sessionId"], "turns": 2}] * 2
            again = await ask(client, "Second?", "b", session=first["sessionId"])
            assert again["text"].startswith("Reply 2.")
