"""Very many lines of junk in each of our own files: told in a few words, and in nobody's way."""

from __future__ import annotations

import json

import pytest
from conversing import Place, ask, events

JUNK = ["not a line of ours\n", '{"id": 0, "n": 0}\n']
MANY = 200_000
#: Seconds for an answer on a machine that has much else to do.
PATIENCE = 120.0


@pytest.mark.parametrize("junk", JUNK)
async def test_very_many_lines_of_junk(place: Place, junk: str) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "It is here."})
        assert (await ask(client, "hello", "one"))["finishReason"] == "stop"
        [listed] = (await client.command_result("aish.session.list"))["sessions"]
    [data] = (place.data / "workspaces").iterdir()
    [session] = (data / "sessions").iterdir()
    for path in (data / "memory.jsonl", session, data / "usage.jsonl"):
        with path.open("a") as file:
            file.write(junk * MANY)
    for name in ("trust.json", "calibration.json"):
        (place.data / name).write_text(junk * MANY)
    async with place.client() as client:
        await client.initialize(place.folder)
        [item] = (await client.command_result("aish.memory.list", timeout=PATIENCE))["items"]
        assert item["content"] == "It is here."
        [found] = (await client.command_result("aish.session.list", timeout=PATIENCE))["sessions"]
        assert (found["id"], found["turns"]) == (listed["id"], 2)
        resumed = await client.command_result(
            "aish.session.resume", {"id": listed["id"]}, timeout=PATIENCE
        )
        assert resumed["turns"] == 2
        assert (await ask(client, "hello", "two"))["finishReason"] == "stop"
        told = [event["message"] for event in events(client, "two", "notice")]
        told += [params["message"] for params in client.notified("window/showMessage")]
        for name in ("memory.jsonl", session.name):
            assert any(f"{name}: {MANY - 3:,} more bad lines" in message for message in told), told
        assert len(json.dumps(told)) < 10_000
        assert await client.shutdown() == 0
        assert len(client.stderr) < 20_000
