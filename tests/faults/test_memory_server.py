"""A server whose memory, session and usage are taken away while it works, and given back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError
from conversing import SHOWS_NOTHING, Place, ask, events

from aish_lsp.foundation.jsonl import read_jsonl


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.rglob(pattern)
    return path


async def refused(client: Client, command: str, argument: Any) -> str:
    with pytest.raises(RpcError) as caught:
        await client.command_result(command, argument)
    assert (caught.value.code, caught.value.data["kind"]) == (1008, "storeUnavailable")
    return caught.value.message


@pytest.mark.parametrize("stand", [Path.mkdir, os.mkfifo], ids=["folders", "pipes"])
async def test_what_stands_in_the_files_places_stops_no_conversation(
    place: Place, stand: Callable[[Path], object]
) -> None:
    fact = {"kind": "fact", "content": "We deploy with make ship."}
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await ask(client, "How do I run the tests?", "before")
        assert await client.command_result("aish.memory.add", fact) == {"id": 1}
        memory = only(place.data, "memory.jsonl")
        session = only(place.data, "sessions/*.jsonl")
        for path in (memory, session):
            path.rename(path.with_name(f"{path.name}.away"))
            stand(path)

        told = await refused(client, "aish.memory.add", fact | {"content": "x"})
        assert str(memory) in told
        assert "Move it away" in told
        assert (await ask(client, "Which files are here?", "during"))["finishReason"] == "stop"
        notices = [event["message"] for event in events(client, "during", "notice")]
        assert any(str(memory) in notice for notice in notices), notices
        assert (await ask(client, "What is this?", "again"))["finishReason"] == "stop"
        notices += [event["message"] for event in events(client, "again", "notice")]
        (saved,) = (notice for notice in notices if "This session is not being saved" in notice)
        assert f"{session}" in saved
        assert "Move it away" in saved

        for path in (memory, session):
            path.rmdir() if path.is_dir() else path.unlink()
            path.with_name(f"{path.name}.away").rename(path)
        (item,) = (await client.command_result("aish.memory.list"))["items"]
        assert item["content"] == fact["content"]
        assert await client.command_result("aish.memory.add", fact | {"content": "y"}) == {"id": 2}
        assert (await ask(client, "How do I build it?", "after"))["finishReason"] == "stop"
        assert events(client, "after", "notice") == []
        (listed,) = (await client.command_result("aish.session.list"))["sessions"]
        assert listed["turns"] == 4
    lines = [line for _, line in read_jsonl(session) if isinstance(line, dict)]
    assert len(lines) == sum(1 for _ in read_jsonl(session))
    said = [line["content"] for line in lines if line.get("role") == "user"]
    assert said == ["How do I run the tests?", "How do I build it?"]
