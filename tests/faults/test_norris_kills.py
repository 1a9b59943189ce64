"""A goal that is stopped, or whose server is killed, at any moment.

Nothing runs on, no half turn is left, and one undo takes back all. A few times; with AISH_FULL=1
it is two hundred stops and a hundred kills.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from client import RpcError
from conversing import Place, ask, yes
from fault_server import FaultServer, Peer, Request, chunk_of
from figures import tell
from machine import needs, without_namespaces
from marked import Marked
from test_tool_kills import FILES, tree

pytestmark = [
    needs(without_namespaces()),
    pytest.mark.timeout(7200 if "TESTS_FULL" in os.environ else 300),
]

STOPS: Final = 200 if "TESTS_FULL" in os.environ else 6
KILLS: Final = 100 if "TESTS_FULL" in os.environ else 6

#: Servers at a time.
AT_ONCE: Final = 4

STEPS: Final = (
    "I look.\nCMD: cat main.py\n",
    "I change it.\nCMD: printf 'x = 3\\n' > main.py\nCMD: echo new > new.txt\n",
    "I go on.\nCMD: sh -c '{sleep}; :' & setsid sh -c '{sleep}; :' & sh -c '{sleep}; :'; :\n",
)


class Model:
    """Plans three steps, of which the last never ends by itself; it answers anything else."""

    def __init__(self, marked: Marked) -> None:
        self.steps = [step.format(sleep=marked.sleep) for step in STEPS]
        self.sent: list[Any] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        messages = request.json["messages"]
        self.sent.append(messages)
        # Of the run alone: what was asked before it is not a step.
        number = sum("[norris] " in one["content"] for one in messages if one["role"] == "user")
        is_step = messages[-1]["content"].rpartition("\n\n")[2].startswith("[norris] ")
        text = self.steps[min(number, 3) - 1] if is_step else "I see."
        await peer.head()
        for start in range(0, len(text), 16):
            await peer.event(chunk_of(text[start : start + 16]))
            await asyncio.sleep(0.005)
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")


async def _many(tmp_path: Path, count: int, one: Any, what: str) -> None:
    chance = random.Random(13)
    during: Counter[str] = Counter()
    gate = asyncio.Semaphore(AT_ONCE)

    async def guarded(number: int, pause: float) -> None:
        async with gate:
            root = tmp_path / str(number)
            root.mkdir()
            during[await one(root, number % 4, pause)] += 1

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(guarded(number, chance.random() * 0.8))
    spread = ", ".join(f"{times} in {name}" for name, times in sorted(during.items()))
    tell(
        what,
        times=f"{count} ({spread})",
        left=0,
        not_undone=0,
        took=round(time.monotonic() - began),
    )


async def test_a_stop_leaves_no_process_and_no_half_turn(tmp_path: Path) -> None:
    await _many(tmp_path, STOPS, stopped, "goals stopped")


async def test_a_kill_leaves_no_process_and_can_be_undone(tmp_path: Path) -> None:
    await _many(tmp_path, KILLS, killed, "servers killed while a goal was pursued")


def _made(root: Path) -> tuple[Place, dict[str, tuple[bytes, int]]]:
    place = Place.make(root)
    for name, (content, mode) in FILES.items():
        (place.folder / name).write_bytes(content)
        (place.folder / name).chmod(mode)
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    return place, tree(place.folder)


def _step(client: Any) -> int:
    steps = [event["number"] for event in client.progress["t"] if event["kind"] == "step"]
    return max(steps, default=0)


def _reached(client: Any) -> str:
    """Return which step a run has come to."""
    return f"step {_step(client)}"


async def _come_to(client: Any, step: int, pause: float) -> None:
    """Wait until a run has come to a step, and a moment longer."""
    async with asyncio.timeout(60):
        while _step(client) < step:
            await asyncio.sleep(0.01)
    await asyncio.sleep(pause)


async def stopped(root: Path, step: int, pause: float) -> str:
    """Stop a run some seconds after it has come to a step; return what it had come to."""
    place, before = _made(root)
    marked = Marked()
    model = Model(marked)
    try:
        async with FaultServer(model) as server:
            place.configure(server.url, context_window=16384)
            async with place.client() as client:
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder)
                fields = {"goal": "Do it.", "allowCaution": True, "partialResultToken": "t"}
                running = asyncio.create_task(
                    client.command_result("aish.norris.start", fields, timeout=90)
                )
                await _come_to(client, step, pause)
                while not running.done():
                    try:
                        await client.command_result("aish.norris.stop", {})
                    except RpcError:
                        # It has not begun: its question stands, or it looks what is possible.
                        await client.command_result("aish.cancel", {})
                    await asyncio.wait([running], timeout=1)
                result = await running
                reached = _reached(client)
                assert result["outcome"] == "stopped", result
                await marked.until_gone()
                await ask(client, "Go on.", "u")
                _check(model.sent[-1])
                if tree(place.folder) != before:
                    await client.command_result("aish.undo", {})
    finally:
        marked.kill()
    assert tree(place.folder) == before
    return reached


async def killed(root: Path, step: int, pause: float) -> str:
    """Kill the server some seconds after a step has begun; return what the run had come to."""
    place, before = _made(root)
    marked = Marked()
    model = Model(marked)
    try:
        async with FaultServer(model) as server:
            place.configure(server.url, context_window=16384)
            async with place.client() as client:
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder)
                fields = {"goal": "Do it.", "allowCaution": True, "partialResultToken": "t"}
                running = asyncio.create_task(
                    client.command_result("aish.norris.start", fields, timeout=90)
                )
                await _come_to(client, step, pause)
                reached = _reached(client)
                client.process.send_signal(signal.SIGKILL)
                await client.ended()
                await asyncio.gather(running, return_exceptions=True)
            await marked.until_gone()
            async with place.client() as client:
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder)
                if reached != "step 0":
                    await client.command_result("aish.session.resume", {})
                await ask(client, "Go on.", "u")
                if reached != "step 0":
                    # What was told of is not lost.
                    assert "[norris] goal: Do it." in str(model.sent[-1])
                _check(model.sent[-1])
                if tree(place.folder) != before:
                    await client.command_result("aish.undo", {})
    finally:
        marked.kill()
    assert tree(place.folder) == before
    return reached


def _check(messages: list[Any]) -> None:
    """See that a conversation is whole: questions and answers in turn."""
    roles = [one["role"] for one in messages[1:]]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))], roles
