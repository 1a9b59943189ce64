"""Sessions through the real server: one process ends, and the next one goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from client import RpcError
from conversing import SHOWS_NOTHING, Place, ask, chat_holds, no, yes
from fault_server import FaultServer, Peer, Request, chunk_of

USAGE = {"prompt_tokens": 100, "completion_tokens": 9}


async def answered(request: Request, peer: Peer) -> None:
    """Say which question it was, and suggest two commands."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    questions = sum(message["role"] == "user" for message in request.json["messages"])
    await peer.head()
    await peer.event(chunk_of(f"Reply {questions}.\nCMD: echo ran\nCMD: make test\n"))
    await peer.event(chunk_of("", finish_reason="stop") | {"usage": USAGE})
    await peer.event("[DONE]")


def sent(model: FaultServer) -> list[Any]:
    """Return the messages of the last question that the model's server was sent."""
    *_, last = (one for one in model.requests if one.path.endswith("/chat/completions"))
    messages: list[Any] = last.json["messages"]
    return messages


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"))


async def test_a_session_goes_on_in_the_next_process(place: Place) -> None:
    async with FaultServer(answered) as model:
        place.configure(model.url, context_window=8192)
        with place.config.open("a") as file:
            file.write("price = {input = 1.0, output = 1.0}\n")
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            first = await ask(client, "First?", "a")
            run = {"commandId": first["commands"][0]["id"], "partialResultToken": "r"}
            assert (await client.command_result("aish.run", run))["output"] == "ran\n"
            saved = await client.command_result("aish.session.save", {"name": "plans"})
            assert saved == {"id": first["sessionId"], "name": "plans"}
        async with place.client() as client:
            await client.initialize(place.folder)
            await ask(client, "Something else?", "b")
            listed = (await client.command_result("aish.session.list"))["sessions"]
            assert {(one["title"], one["name"], one["questions"]) for one in listed} == {
                ("First?", "plans", 1),
                ("Something else?", None, 1),
            }
            assert {one["turns"] for one in listed} == {2}
            query = {"query": "FIRST?"}
            [found] = (await client.command_result("aish.session.list", query))["sessions"]
            (of_it,) = (one for one in listed if one["name"] == "plans")
            assert found == of_it | {"snippet": "First? plans"}
            assert all(one["cost"] == pytest.approx(109e-6) for one in listed)
            resumed = await client.command_result("aish.session.resume", {"id": "plans"})
            assert resumed == {"id": first["sessionId"], "turns": 2}
            waiting = (await client.command_result("aish.commands.list"))["commands"]
            assert waiting == first["commands"][1:]
            cost = await client.command_result("aish.cost.show")
            assert cost["total"]["calls"] == 1
            assert not client.notified("window/showMessage")

            second = await ask(client, "Second?", "c")
            assert second["sessionId"] == first["sessionId"]
            system, *turns = sent(model)
            assert system["role"] == "system"
            assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
            assert turns[0]["content"] == "First?"
            assert turns[1]["content"] == first["text"]
            output = "[exec output]\n$ echo ran (exit 0)\nran\n"
            assert turns[2]["content"].startswith(output)
            assert turns[2]["content"].endswith("Second?")

            shown = (await client.command_result("aish.session.history"))["turns"]
            assert [turn["content"] for turn in shown] == [
                *("First?", first["text"], "Second?", second["text"]),
            ]
            assert shown[2]["exec"] == [{"command": "echo ran", "exit": 0, "output": "ran\n"}]
            assert all(turn["inForce"] for turn in shown)
            # The first one ran, and is judged all the same.
            assert shown[1]["commands"] == first["commands"]


async def test_a_long_history_tells_the_risk_of_its_newest_commands(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        asked = await ask(client, "First?", "a")
        await client.shutdown()
    [log] = place.data.glob("workspaces/*/sessions/*.jsonl")
    with log.open("a") as file:
        for number in range(250):
            question: dict[str, Any] = {"role": "user", "content": f"And {number}?"}
            text = f"rm -rf ../{number}"
            command = {"id": f"c{number}", "text": text}
            reply = {"role": "assistant", "content": f"So:\nCMD: {text}\n", "commands": [command]}
            for line, message in enumerate((question, reply), 2 * number + 3):
                file.write(json.dumps({"n": line, **message}) + "\n")
    async with place.client() as client:
        await client.initialize(place.folder)
        found = await client.command_result("aish.session.history", {"id": asked["sessionId"]})
        replies = [turn for turn in found["turns"] if turn["role"] == "assistant"]
        assert replies[50]["commands"] == [{"id": "c49", "text": "rm -rf ../49"}]
        for number, reply in enumerate(replies[51:], 50):
            [command] = reply["commands"]
            assert (command["id"], command["line"]) == (f"c{number}", 1)
            assert command["risk"] == "destructive"


async def test_two_servers_never_write_one_session(place: Place) -> None:
    async with place.client() as one, place.client() as other:
        for client in (one, other):
            await client.initialize(place.folder)
        asked = await ask(one, "First?", "a")
        other.answers["window/showMessageRequest"] = yes
        for command in ("aish.session.resume", "aish.session.delete"):
            with pytest.raises(RpcError) as refused:
                await other.command_result(command, {"id": asked["sessionId"]})
            assert (refused.value.code, refused.value.data["kind"]) == (1007, "busy")
            assert "another editor" in refused.value.message
        await one.shutdown()
        resumed = await other.command_result("aish.session.resume", {"id": asked["sessionId"]})
        assert resumed["turns"] == 2


async def test_a_session_is_gone_on_with_after_the_server_was_killed(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        asked = await ask(client, "First?", "a")
        client.process.kill()
        await client.ended()
    [log] = place.data.glob("workspaces/*/sessions/*.jsonl")
    with log.open("ab") as file:
        file.write(b'{"n": 3, "ts": "2026-')
    async with place.client() as client:
        await client.initialize(place.folder)
        resumed = await client.command_result("aish.session.resume", {"id": asked["sessionId"]})
        assert resumed["turns"] == 2
        [told] = client.notified("window/showMessage")
        assert "never finished" in told["message"]
        await ask(client, "Second?", "b")
    lines = log.read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines[4:]] == [3, 4]


async def test_what_is_not_there_and_what_is_open(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        asked = await ask(client, "First?", "a")
        await client.command_result("aish.session.save", {"name": "plans"})
        with pytest.raises(RpcError, match="Did you mean plans") as refused:
            await client.command_result("aish.session.resume", {"id": "plan"})
        assert (refused.value.code, refused.value.data["kind"]) == (1009, "notFound")
        with pytest.raises(RpcError, match="Begin another") as refused:
            await client.command_result("aish.session.delete", {"id": "plans"})
        assert refused.value.code == 1007
        with pytest.raises(RpcError) as refused:
            await client.command_result("aish.session.delete", {})
        assert (refused.value.code, refused.value.data["path"]) == (-32602, "id")

        fresh = await client.command_result("aish.session.new")
        assert fresh["id"] != asked["sessionId"]
        # Nobody to ask, a no, and a yes.
        with pytest.raises(RpcError) as refused:
            await client.command_result("aish.session.delete", {"id": "plans"})
        assert refused.value.data["kind"] == "denied"
        client.answers["window/showMessageRequest"] = no
        assert await client.command_result("aish.session.delete", {"id": "plans"}) == {"deleted": 0}
        client.answers["window/showMessageRequest"] = yes
        assert await client.command_result("aish.session.delete", {"id": "plans"}) == {"deleted": 1}
        assert await client.command_result("aish.session.list") == {"sessions": []}


async def test_the_chat_goes_on_with_a_session_and_completes_its_name(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        await ask(client, "First?", "a")
        await client.command_result("aish.chat.send", {"prompt": ":save plans"})
        await chat_holds(client, place, "This session is saved as plans")
    place.chat.unlink()
    async with place.client() as client:
        await client.initialize(place.folder)
        uri = (await client.command_result("aish.chat.open"))["uri"]
        document = {"uri": uri, "languageId": "markdown", "version": 1}
        text = f"{place.chat.read_text()}:session resume p"
        opened = {"textDocument": document | {"text": text}}
        await client.notify("textDocument/didOpen", opened)
        lines = text.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        at = {"textDocument": {"uri": uri}, "position": position}
        found = await client.request("textDocument/completion", at)
        assert [item["label"] for item in found] == ["plans"]


async def test_a_command_that_runs_keeps_its_session(place: Place) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        asked = await ask(client, "First?", "a")
        await client.command_result("aish.session.new")
        run = {"text": "echo begun; sleep 60", "partialResultToken": "r"}
        running = asyncio.create_task(client.command_result("aish.run", run))
        await client.wait_for(lambda: client.progress["r"], "its output")
        with pytest.raises(RpcError, match="`echo begun; sleep 60` is running in this session"):
            await client.command_result("aish.session.resume", {"id": asked["sessionId"]})
        await client.command_result("aish.cancel")
        assert (await running)["finishReason"] == "cancelled"
        resumed = await client.command_result("aish.session.resume", {"id": asked["sessionId"]})
        assert resumed["turns"] == 2


def resuming(place: Place, model: FaultServer, how: str) -> None:
    """Write a configuration that says how a session is begun."""
    place.configure(model.url, context_window=8192)
    with place.config.open("a") as file:
        file.write(f'[sessions]\nresume = "{how}"\n')


async def asked_before(place: Place, *prompts: str) -> list[str]:
    """Ask questions, each in a session of its own; return their sessions."""
    ids = []
    async with place.client() as client:
        await client.initialize(place.folder)
        for number, prompt in enumerate(prompts):
            await client.command_result("aish.session.new")
            ids.append((await ask(client, prompt, f"before {number}"))["sessionId"])
    return ids


async def test_the_chat_tells_once_how_to_go_on_with_the_last_session(place: Place) -> None:
    async with FaultServer(answered) as model:
        resuming(place, model, "ask")
        _, last = await asked_before(place, "The first one?", "The *last* one?")
        line = "> The last session was *The *last* one?*. `:resume` continues it."
        for _ in range(2):
            async with place.client() as client:
                await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
                await client.command_result("aish.chat.open")
                text = await chat_holds(client, place, line)
                assert text.index(line) < text.rindex("## You")
                assert text.count(line) == 1
                assert not client.asked("window/showMessageRequest")
                # It is a new one until the user says so.
                assert (await client.command_result("aish.context.show"))["breakdown"]
                history = await client.command_result("aish.session.history")
                assert history == {"turns": []}
        async with place.client() as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            await client.command_result("aish.chat.send", {"prompt": ":resume"})
            text = await chat_holds(client, place, "“The *last* one?” continues, with 2 messages.")
            assert text.count(line) == 1
            assert text.index(line) < text.index(":resume\n")
            resumed = await ask(client, "And then?", "c")
            assert resumed["sessionId"] == last


async def test_the_last_session_that_is_open_nowhere_goes_on(place: Place) -> None:
    async with FaultServer(answered) as model:
        resuming(place, model, "always")
        first, last = await asked_before(place, "The first one?", "The last one?")
        async with place.client() as one, place.client() as other:
            await one.initialize(place.folder, capabilities=SHOWS_NOTHING)
            # What is asked at once waits for it.
            assert (await ask(one, "Here?", "a"))["sessionId"] == last
            await one.command_result("aish.chat.open")
            text = await chat_holds(one, place, "> The session *The last one?* continues. `:ses")
            assert "last session was" not in text
            await other.initialize(place.folder, capabilities=SHOWS_NOTHING)
            assert (await ask(other, "There?", "b"))["sessionId"] == first
            with pytest.raises(RpcError, match="no earlier session"):
                await other.command_result("aish.session.resume")


async def test_a_session_may_begin_without_a_word(place: Place) -> None:
    async with FaultServer(answered) as model:
        resuming(place, model, "never")
        [before] = await asked_before(place, "The only one?")
        async with place.client() as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            await client.command_result("aish.chat.send", {"prompt": "Here?"})
            await chat_holds(client, place, "Reply 1.")
            text = await chat_holds(client, place, "## You", times=3)
            assert "session" not in text
            assert await client.command_result("aish.session.resume") == {"id": before, "turns": 2}
