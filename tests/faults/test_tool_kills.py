"""A server that is killed in the middle of tool calls: nothing runs on, and all can be undone.

A few kills; with ``AISH_FULL=1`` two hundred.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from conversing import Place, ask, begin, yes
from fault_server import FaultServer, Peer, Request, chunk_of
from figures import tell
from marked import Marked

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="what leaves its group is only found on Linux"
    ),
    pytest.mark.timeout(7200 if "TESTS_FULL" in os.environ else 300),
]

KILLS: Final = 200 if "TESTS_FULL" in os.environ else 8

#: Servers at a time.
AT_ONCE: Final = 4

#: What is there at first, and the mode of each.
FILES: Final = {"main.py": (b"x = 1\r\ny = 2\r\n", 0o751), "notes.txt": (b"one\n", 0o600)}

#: What leaves its shell and its group, and writes meanwhile.
FAMILY: Final = (
    "echo ran > ran.txt; setsid sh -c '{sleep}; :' & (setsid {sleep} <&- >&- 2>&- &);"
    " rm notes.txt; sh -c '{sleep}; :'; :"
)


class Model:
    """Calls tools, some of them at once; it answers when it is asked to go on."""

    def __init__(self, command: str) -> None:
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = [
            [("read_file", {"path": "main.py"}), ("search", {"pattern": "x"})],
            [("edit_file", {"path": "main.py", "old": "x = 1", "new": "x = 3"})],
            [("write_file", {"path": "lib/new.py", "content": "z = 1\n"})],
            [("run_command", {"command": command})],
        ]
        self.sent: list[Any] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        messages = request.json["messages"]
        self.sent.append(messages)
        rounds = sum("tool_calls" in one for one in messages)
        await peer.head()
        if messages[-1]["content"] == "Go on." or rounds == len(self.rounds):
            await peer.event(chunk_of("I see."))
            await peer.event(chunk_of("", finish_reason="stop"))
        else:
            calls = [
                {
                    "index": index,
                    "id": f"c{rounds}{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(self.rounds[rounds])
            ]
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        await peer.event("[DONE]")


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of a workspace that are the user's, each with its mode."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {".git", ".aish"} & set(path.parts)
    }


async def test_nothing_runs_on_and_all_is_undone(tmp_path: Path) -> None:
    chance = random.Random(11)
    during: Counter[str] = Counter()
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, pause: float) -> None:
        async with gate:
            root = tmp_path / str(number)
            root.mkdir()
            during[await killed(root, number % 5, pause)] += 1

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(KILLS):
            group.create_task(one(number, chance.random() / 10))
    tell(
        "servers killed during tool calls",
        kills=f"{KILLS} ({', '.join(f'{count} in {name}' for name, count in during.items())})",
        left=0,
        not_undone=0,
        seconds=round(time.monotonic() - began),
    )


async def killed(root: Path, calls: int, pause: float) -> str:
    """Kill a server after so many calls have begun; return which tool was called then."""
    place = Place.make(root)
    for name, (content, mode) in FILES.items():
        (place.folder / name).write_bytes(content)
        (place.folder / name).chmod(mode)
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    before = tree(place.folder)
    marked = Marked()
    model = Model(f": {marked.number}; {FAMILY.format(sleep=marked.sleep)}")
    try:
        async with FaultServer(model) as server:
            place.configure(server.url, context_window=16384)
            async with place.client() as client:
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder)
                await begin(client, "aish.ask", {"prompt": "Do it.", "partialResultToken": "t"})
                running: list[str] = []
                while len(running) <= calls:
                    running = [
                        event["name"]
                        for event in client.progress["t"]
                        if event["kind"] == "tool" and event["status"] == "running"
                    ]
                    await asyncio.sleep(0.01)
                await asyncio.sleep(pause)
                client.process.send_signal(signal.SIGKILL)
                await client.ended()
            await marked.until_gone()
            async with place.client() as client:
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder)
                await client.command_result("aish.session.resume", {})
                await ask(client, "Go on.", "t")
                if tree(place.folder) != before:
                    await client.command_result("aish.undo", {})
    finally:
        marked.kill()
    # Each call has a result, that of the one that was broken off too.
    told = model.sent[-1]
    made = [call["id"] for one in told for call in one.get("tool_calls") or ()]
    found = {one["tool_call_id"]: one["content"] for one in told if one["role"] == "tool"}
    assert list(found) == made
    assert all(found.values())
    # One undo takes back all that the exchange did.
    assert tree(place.folder) == before
    return running[-1]
