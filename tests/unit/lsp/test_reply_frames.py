"""The way of a piece of a reply through the server, from its job to the writer of the client."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.lsp.messages import Outbox
from aish_lsp.lsp.server import create_server


async def test_a_piece_of_a_reply_passes_few_frames_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames are read where the piece goes out, up to the one that takes it from its job."""
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("AISH_DISCOVERY", "off")
    passed: set[tuple[str, ...]] = set()
    answered = asyncio.Event()
    server = create_server()

    class Noted(Outbox):
        def write(self, part: bytes) -> None:
            message: dict[str, Any] = json.loads(part)
            if "method" not in message and message["id"] == 2:
                answered.set()
            if message.get("params", {}).get("value", {}).get("kind") != "text":
                return
            names, frame = [], sys._getframe()
            while frame.f_back is not None and "CommandHandlers._stream" not in names:
                frame = frame.f_back
                names.append(frame.f_code.co_qualname)
            passed.add(tuple(names))

    def receive(number: int, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.protocol.receive(json.dumps(message).encode())

    async def send(_: list[bytes]) -> bool:
        return True

    outbox = Noted(send, overflow=answered.set)
    server.protocol.set_writer(outbox, include_headers=False)
    folder = tmp_path / "w"
    folder.mkdir()
    receive(1, "initialize", {"capabilities": {}, "rootUri": folder.as_uri()})
    question = {"prompt": "How do I list files?", "partialResultToken": "t"}
    receive(2, "workspace/executeCommand", {"command": "aish.ask", "arguments": [question]})
    await asyncio.wait_for(answered.wait(), 60)
    await server.stop_work()
    [names] = passed
    assert names[-1] == "CommandHandlers._stream"
    assert len(names) <= 4, names
