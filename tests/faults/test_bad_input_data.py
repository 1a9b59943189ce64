"""A data folder that cannot be used: questions are answered all the same, and the user is told."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from client import RpcError
from conversing import SHOWS_NOTHING, Place, ask, chat_holds, events


@pytest.mark.parametrize("fault", ["a file", "cannot be made", "takes no more bytes"])
async def test_a_question_is_answered_with_a_notice(place: Place, fault: str) -> None:
    if fault == "a file":
        place.data.write_text("in the way")
    data = "/proc/aish" if fault == "cannot be made" else str(place.data)
    client = place.client(AISH_DATA_DIR=data)
    if fault == "takes no more bytes":
        limited = f'ulimit -f 0; exec "{sys.executable}" -m aish_lsp'
        client.command = ["sh", "-c", limited]
    (place.folder / "Makefile").write_text("test:\n\techo tested\n")
    async with client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        first = await ask(client, "How do I run the tests?", "one")
        assert (first["finishReason"], first["error"]) == ("stop", None)
        assert [command["text"] for command in first["commands"]] == ["make test"]
        told = [event["message"] for event in events(client, "one", "notice")]
        assert any("not being saved" in message for message in told), told
        second = await ask(client, "Which files are here?", "two")
        assert second["finishReason"] == "stop"
        assert events(client, "two", "notice") == []

        command: Any = {"text": "ls", "partialResultToken": "run"}
        assert (await client.command_result("aish.run", command))["exitCode"] == 0
        with pytest.raises(RpcError) as caught:
            await client.command_result("aish.memory.add", {"kind": "fact", "content": "x"})
        assert (caught.value.code, caught.value.data["kind"]) == (1008, "storeUnavailable")
        assert await client.command_result("aish.memory.list") == {"items": []}
        assert (await client.command_result("aish.context.show"))["total"] > 0
        assert await client.command_result("aish.model.use", {"name": "offline"})
        if fault != "takes no more bytes":
            await client.command_result("aish.ask", {"prompt": "hello"})
            text = await chat_holds(client, place, "## You\n", times=2)
            assert "## aish\n\n" in text
