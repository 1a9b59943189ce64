"""A model that calls a tool, through the real server: the call is an event, the turn goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from client import RpcError
from conversing import Place, ask, events, streamed, yes
from fault_server import FaultServer, Peer, Request, chunk_of

DIAGNOSTICS = {"name": "diagnostics", "arguments": "{}"}
CALL = {"id": "c1", "type": "function", "function": {"name": "git__status", "arguments": "{}"}}


class Model:
    """Calls a tool, and answers once it was told what came of it."""

    def __init__(self, call: dict[str, Any] = CALL) -> None:
        self.call = call
        self.offered: list[str] = []
        self.sent: list[Any] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.sent.append(request.json["messages"])
        self.offered = [one["function"]["name"] for one in request.json.get("tools") or ()]
        await peer.head()
        if self.sent[-1][-1]["role"] == "tool":
            await peer.event(chunk_of("I see."))
            await peer.event(chunk_of("", finish_reason="stop"))
        else:
            delta = {"tool_calls": [{"index": 0, **self.call}]}
            await peer.event({"choices": [{"index": 0, "delta": delta}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        await peer.event("[DONE]")


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"))


async def test_a_call_is_an_event_and_its_result_goes_back(place: Place) -> None:
    model = Model()
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            result = await ask(client, "Is it clean?", "t")
            told = events(client, "t", "tool")
            shown = await client.command_result("aish.prompt.show", {"prompt": "And now?"})
            past = await client.command_result("aish.session.history", {})
    calling = ["Calling git status"] * 2
    assert [event["title"] for event in told] == [*calling, "Could not call git status"]
    assert past["turns"][1]["toolCalls"][0]["title"] == "Could not call git status"
    assert [tool["name"] for tool in shown["tools"]] == model.offered
    assert [(event["callId"], event["server"], event["name"]) for event in told] == [
        ("c1", "git", "status")
    ] * 3
    assert [event["status"] for event in told] == ["pending", "running", "failed"]
    question, reply, found = model.sent[1][1:]
    assert question["content"] == "Is it clean?"
    assert reply["tool_calls"] == [CALL]
    assert found["tool_call_id"] == "c1"
    assert found["content"] == told[-1]["result"]
    assert found["content"].startswith('There is no tool "git__status".')
    assert (result["text"], result["finishReason"]) == ("I see.", "stop")
    assert streamed(client, "t") == "I see."
    assert len(events(client, "t", "usage")) == len(model.sent) == 2


async def test_a_switched_tool_is_in_the_result_and_no_page_is_shown(place: Place) -> None:
    async with FaultServer(Model()) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            switch = {"server": "aish", "tool": "read_file", "on": False}
            found = await client.command_result("aish.tools.switch", switch)
            shown = [told["message"] for told in client.notified("window/showMessage")]
    tools = {tool["name"]: tool["on"] for tool in found["servers"][0]["tools"]}
    assert tools["read_file"] is False
    assert not [message for message in shown if "read_file" in message]


async def test_the_chat_shows_how_a_call_ended(place: Place) -> None:
    async with FaultServer(Model()) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            await client.command_result("aish.chat.send", {"prompt": "Is it clean?"})
            chat = place.folder / ".aish" / "chat.md"
            text = ""
            while "I see.\n\n## You" not in text:
                await asyncio.sleep(0.05)
                text = chat.read_text() if chat.exists() else ""
    reply = text.partition("## aish\n\n")[2]
    assert reply.startswith('> ✗ Could not call `git status`: There is no tool "git__status".')
    assert "\n\nI see.\n\n## You" in reply
    assert "> Now (" not in text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "The editor cannot tell"),
        ({}, "The editor cannot tell"),
        ({"items": "all is well"}, "The editor cannot tell"),
        ([{"items": []}], "The editor cannot tell"),
        (RpcError(-32601, "unknown"), "The editor cannot tell"),
        ({"items": []}, "The editor has no errors and no warnings there."),
        (
            {
                "items": [
                    *({"uri": "file:///x", "line": -1, "text": "x"}, "x", None, {}, {"uri": 3}),
                    {"uri": "untitled:x", "line": 0, "text": "x"},
                    {"uri": "file:///%00", "line": 0, "text": "x"},
                    {"uri": "file://[", "line": 0, "text": "x"},
                    {"uri": "file:///x", "line": 0, "text": 7},
                    {"uri": "MAIN", "line": 0, "text": "error: it is\nwrong", "more": {"a b": 1}},
                ]
            },
            "main.py:1: error: it is wrong\n",
        ),
    ],
)
async def test_the_client_is_asked_about_the_code(place: Place, answer: Any, told: str) -> None:
    main = place.folder / "main.py"
    main.write_text("x\n")
    asked: list[Any] = []

    def answered(params: Any) -> Any:
        asked.append(params)
        if isinstance(answer, RpcError):
            raise answer
        return json.loads(json.dumps(answer).replace("MAIN", main.as_uri()))

    model = Model({"id": "c1", "type": "function", "function": DIAGNOSTICS})
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers["aish/lookup"] = answered
            await client.initialize(place.folder, options={"aish": {"lookup": True}})
            result = await ask(client, "What is wrong?", "t")
    assert "diagnostics" in model.offered
    assert asked == [{"what": "diagnostics", "uri": None, "query": "", "position": None}]
    assert model.sent[1][-1]["content"].startswith(told)
    assert result["text"] == "I see."


@pytest.mark.parametrize(
    ("answer", "told"),
    [(yes, "Edited main.py, +1 \N{MINUS SIGN}1"), (lambda _params: None, "Did not edit main.py")],
    ids=["accepted", "refused"],
)
async def test_a_history_says_whether_an_edit_was_made(
    place: Place, answer: Any, told: str
) -> None:
    arguments = {"path": "main.py", "old": "old", "new": "new"}
    (place.folder / "main.py").write_text("old\n")
    model = Model(CALL | {"function": {"name": "edit_file", "arguments": json.dumps(arguments)}})
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = answer
            await client.initialize(place.folder)
            await ask(client, "Change @main.py please", "t")
            past = await client.command_result("aish.session.history", {})
    assert past["turns"][1]["toolCalls"][0]["title"] == told


async def test_a_file_that_is_open_under_another_name_is_changed_in_the_editor(
    place: Place,
) -> None:
    """The folder was given through a link, and the file is open as a link to it."""
    (place.folder / "AGENTS.md").write_text("on the disk\n")
    (place.folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (place.root / "other").symlink_to(place.folder)
    arguments = {"path": "AGENTS.md", "old": "unsaved", "new": "changed"}
    model = Model(CALL | {"function": {"name": "edit_file", "arguments": json.dumps(arguments)}})
    uri = (place.folder / "CLAUDE.md").as_uri()
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.root / "other")
            document = {"uri": uri, "languageId": "markdown", "version": 1, "text": "unsaved\n"}
            await client.notify("textDocument/didOpen", {"textDocument": document})

            async def apply(_params: Any) -> Any:
                changes = {
                    "textDocument": {"uri": uri, "version": 2},
                    "contentChanges": [{"text": "changed\n"}],
                }
                await client.notify("textDocument/didChange", changes)
                return {"applied": True}

            client.answers["workspace/applyEdit"] = apply
            await ask(client, "Change @AGENTS.md please", "t")
            [edit] = client.asked("workspace/applyEdit")
    assert "unsaved" in model.sent[0][-1]["content"]
    assert model.sent[1][-1]["content"].startswith("Changed AGENTS.md: 1 line added, 1 removed.")
    changed = edit["edit"]
    assert [*changed.get("changes", ())] == [uri] or (
        changed["documentChanges"][0]["textDocument"]["uri"] == uri
    )
    assert (place.folder / "AGENTS.md").read_text() == "on the disk\n"
