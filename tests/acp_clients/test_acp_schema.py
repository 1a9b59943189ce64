"""A whole conversation, each message of which is what the protocol's schema says."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from acp import schema
from acp_client import Caller, Wire, streams
from conversing import Place
from fault_server import FaultServer

SENT: Final[dict[str, Any]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
}
ANSWERS: Final[dict[str, Any]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
KEY: Final = "sk-ant-api03-" + "abcdefghij" * 8 + "-klmnopqrstAA"


class Conversation:
    """A client that checks all it is sent, agrees to everything, and lends an unsaved file.

    Attributes:
        updates: the updates.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.updates: list[Any] = []
        self.sent: set[str] = set()

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request; return the result."""
        number = await self._wire.begin(method, **params)
        while True:
            message = await self._wire.receive()
            if "method" not in message:
                assert (message["id"], message.get("error")) == (number, None)
                _check(ANSWERS[method], message["result"])
                return message["result"]
            _check(SENT[message["method"]], message["params"])
            self.sent.add(message["method"])
            if message["method"] == "session/update":
                self.updates.append(message["params"]["update"])
                continue
            result: Any = {}
            if message["method"] == "session/request_permission":
                result = {"outcome": {"outcome": "selected", "optionId": "0"}}
            elif message["method"] == "fs/read_text_file":
                result = {"content": f"unsaved = '{KEY}'\n"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            await self._wire.send(answer)


def _check(model: Any, value: Any) -> None:
    """Check that a value fits the schema, and has nothing that is not in it."""
    read = model.model_validate(value)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == value


@pytest.mark.parametrize("tool", ["read_file", "edit_file"])
async def test_every_message_fits_the_schema_and_nothing_comes_twice(
    place: Place, tool: str
) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    arguments = {"old": "unsaved", "new": "changed"} if tool == "edit_file" else {}
    model = Caller(tool, path="notes.txt", **arguments)
    model.replies = ["I make it.\nCMD: touch made; echo tw1\\ce", "Good.\nGOAL: complete"]
    async with FaultServer(model) as server, streams() as (reader, writer):
        place.configure(server.url, context_window=16_384)
        client = Conversation(Wire(reader, writer))
        lends = {"fs": {"readTextFile": True, "writeTextFile": True}, "auth": {"terminal": True}}
        await client.ask("initialize", protocolVersion=1, clientCapabilities=lends)
        known = {"cwd": str(place.folder), "mcpServers": []}
        opened = await client.ask("session/new", **known)
        session = {"sessionId": opened["sessionId"]}
        await client.ask("session/set_config_option", **session, configId="mode", value="ask")
        await client.ask("session/set_mode", **session, modeId="act")
        run = "/run printf %s tw1 ce"
        for text in ("Make it.", "/help", "/context", run, "/norris make it", "/memory"):
            prompt = [{"type": "text", "text": text}]
            answer = await client.ask("session/prompt", **session, prompt=prompt)
            assert answer == {"stopReason": "end_turn"}, text
        lines = [json.dumps(one) for one in client.updates]
        begun = [one["toolCallId"] for one in client.updates if "kind" in one]
        ended = [
            one["toolCallId"]
            for one in client.updates
            if one["sessionUpdate"] == "tool_call_update"
            and one.get("status") in ("completed", "failed")
        ]
        await client.ask("session/close", **session)
        await client.ask("session/list", cwd=known["cwd"])
        await client.ask("session/load", **known, **session)
        await client.ask("session/resume", **known, **session)
        await client.ask("session/delete", **session)
    assert {one["sessionUpdate"] for one in client.updates} >= {
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "session_info_update",
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
    }
    assert {"fs/read_text_file", "session/request_permission"} <= client.sent
    # Each call begins and ends once, and what a command printed is sent once.
    assert len(begun) == len({*begun})
    assert sorted(begun) == sorted(ended)
    assert "".join(lines).count("tw1ce") == 2
    assert KEY not in "".join(map(json.dumps, client.updates))
