"""Remembered approvals on the wire: how they are offered, listed and revoked."""

from __future__ import annotations

from typing import Any

import pytest
from client import Client, RpcError
from conversing import Place, ask, events, yes
from fault_server import FaultServer, Peer, Request, chunk_of
from machine import needs, without_landlock, without_namespaces

pytestmark = needs(without_landlock() or without_namespaces())

#: So long that a menu does not show all of it: it asks.
COMMAND = f"echo {'x' * 90} && sh run.sh"
SESSION, FOLDER = (f"Run, and don't ask again in this {scope}" for scope in ("session", "folder"))


async def suggests(request: Request, peer: Peer) -> None:
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    await peer.event(chunk_of(f"So.\nCMD: {COMMAND}\n"))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place.make(tmp_path_factory.mktemp("place"))
    (made.folder / "run.sh").write_text("echo ran\n")
    return made


async def run_suggestion(client: Client) -> str:
    """Have a suggestion run; return why it ended, or its output."""
    reply = await ask(client, "How?", "t")
    params = {"commandId": reply["commands"][0]["id"], "partialResultToken": "run"}
    done = await client.command_result("aish.run", params)
    return str(done["output"] or done["finishReason"]).rpartition("x")[2].strip()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("scope", "label"), [("session", SESSION), ("folder", FOLDER)])
async def test_an_approval_is_remembered_by_a_button_or_by_the_clients_own_dialog(
    place: Place, scope: str, label: str, *, own: bool
) -> None:
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(params)
        return {"approved": True, "remember": scope} if own else {"title": label}

    method = "aish/approve" if own else "window/showMessageRequest"
    options = {"aish": {"approve": own}}
    async with FaultServer(suggests) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers[method] = answer
            await client.initialize(place.folder, initializationOptions=options)
            assert [await run_suggestion(client) for _ in range(2)] == ["ran", "ran"]
            assert len(asked) == 1
            listed = (await client.command_result("aish.approvals.list"))["approvals"]
            assert [one["what"][-9:] for one in listed] == ["x" * 9, "sh run.sh"]
            assert {one["scope"] for one in listed} == {scope}
            assert all(set(one) == {"id", "what", "scope", "since"} for one in listed)
        async with place.client() as client:
            client.answers[method] = answer
            await client.initialize(place.folder, initializationOptions=options)
            await run_suggestion(client)
            assert len(asked) == (1 if scope == "folder" else 2)
            listed = (await client.command_result("aish.approvals.list"))["approvals"]
            left = await client.command_result("aish.approvals.revoke", {"id": listed[0]["id"]})
            assert left["approvals"] == listed[1:]
            with pytest.raises(RpcError, match="No approval"):
                await client.command_result("aish.approvals.revoke", {"id": listed[0]["id"]})
            assert (await client.command_result("aish.approvals.revoke"))["approvals"] == []
            await run_suggestion(client)
    assert len(asked) == (2 if scope == "folder" else 3)
    if own:
        assert asked[0]["remember"] == ["session", "folder"]
        assert asked[0]["labels"] == ["Cancel", "Run", SESSION, FOLDER]
        assert asked[0]["covers"] == f"echo {'x' * 90}; sh run.sh"
        assert "undo" in asked[0]["undo"]


@pytest.mark.parametrize(
    "answer",
    [
        {"approved": False, "remember": "folder"},
        {"remember": "folder"},
        {"approved": "yes", "remember": "folder"},
        {"approved": True, "remember": "always"},
        {"approved": True, "remember": ["folder"]},
        {"approved": True, "remember": None},
    ],
)
async def test_an_answer_that_was_not_offered_remembers_nothing(place: Place, answer: Any) -> None:
    async with FaultServer(suggests) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers["aish/approve"] = lambda _params: answer
            options = {"aish": {"approve": True}}
            await client.initialize(place.folder, initializationOptions=options)
            ran = await run_suggestion(client)
            listed = await client.command_result("aish.approvals.list")
    assert ran == ("ran" if answer.get("approved") is True else "denied")
    assert listed["approvals"] == []


async def test_the_chat_lists_and_revokes_approvals_by_their_numbers(place: Place) -> None:
    async with FaultServer(suggests) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = lambda _params: {"title": FOLDER}
            await client.initialize(place.folder)

            async def line(text: str) -> str:
                said = await client.command_result("aish.chat.line", {"line": text})
                return str(said["text"])

            assert "No approval is remembered" in await line(":approvals")
            await run_suggestion(client)
            listed = await line(":approvals")
            assert "\n2. `sh run.sh` in this folder, since 20" in listed
            assert "Revoked 1 approval" in await line(":approvals revoke 2")
            assert "sh run.sh" not in await line(":approvals")
            with pytest.raises(RpcError, match="No approval '2'"):
                await line(":approvals revoke 2")
            with pytest.raises(RpcError, match="Say which"):
                await line(":approvals revoke")
            assert "Revoked 1 approval" in await line(":approvals revoke all")


async def test_the_commands_of_a_step_that_ask_each_name_themselves(place: Place) -> None:
    async def step(request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        await peer.head()
        await peer.event(chunk_of("So.\nCMD: rm -r one\nCMD: rm -r two\n"))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")

    for name in ("one", "two"):
        (place.folder / name).mkdir()
    asked: list[Any] = []

    def approve(params: Any) -> Any:
        asked.append(params)
        return {"approved": True}

    async with FaultServer(step) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers |= {"aish/approve": approve, "window/showMessageRequest": yes}
            options = {"aish": {"approve": True}}
            await client.initialize(place.folder, initializationOptions=options)
            goal = {"goal": "Tidy up.", "maxSteps": 1, "partialResultToken": "t"}
            await client.command_result("aish.norris.start", goal, timeout=60)
            offered = {
                e["command"]["text"]: e["command"]["id"] for e in events(client, "t", "command")
            }
    assert [one["text"] for one in asked] == ["rm -r one", "rm -r two"]
    assert [one["callId"] for one in asked] == [offered["rm -r one"], offered["rm -r two"]]
