"""How soon an agent client is served: its start against an echo agent, its deltas against LSP.

    python tests/bench/bench_acp.py [ROUNDS]

The echo agent is made of the SDK alone. Prints the least and the median milliseconds from the spawn
to the answer to the first ``session/new``, and of replies what ``bench_delta.py`` prints. Measured
in turns, so that a noisy moment hits all alike.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

from bench_delta import DELTAS, MODEL, Reply, Timed, cpu_seconds, row, served

ECHO: Final = """
import asyncio, uuid
import acp
from acp import schema

class Echo(acp.Agent):
    def on_connect(self, client):
        self.client = client

    async def initialize(self, protocol_version, **_):
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, **_):
        return schema.NewSessionResponse(session_id=uuid.uuid4().hex)

    async def prompt(self, session_id, prompt, **_):
        for block in prompt:
            await self.client.session_update(session_id, acp.update_agent_message(block))
        return schema.PromptResponse(stop_reason="end_turn")

asyncio.run(acp.run_agent(Echo()))
"""
ACP: Final = [sys.executable, "-m", "aish_lsp", "acp"]


class AgentClient:
    """A client that writes and reads bare lines, and notes when each delta comes, as ``Timed``."""

    process: asyncio.subprocess.Process

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._last = 0
        self.session = ""
        self.asked_at = self.first = 0.0
        self.late: list[float] = []

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        await self.ask("initialize", protocolVersion=1)
        opened = await self.ask("session/new", cwd=str(self._folder), mcpServers=[])
        self.session = opened["sessionId"]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.process.kill()
        await self.process.communicate()

    async def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request; the deltas that come before it are noted."""
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        while True:
            answer = json.loads(await self.process.stdout.readline())
            now = time.monotonic()
            if answer.get("id") == self._last:
                return answer["result"]
            update = answer.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                self._note(now, update["content"]["text"])

    def _note(self, now: float, text: str) -> None:
        if text[0].isdigit():
            self.first = self.first or (now - self.asked_at) * 1000
            self.late += [(now - float(sent)) * 1000 for sent in text.split()]

    async def reply(self) -> Reply:
        """Measure one reply."""
        prompt = [{"type": "text", "text": "/reset"}]
        await self.ask("session/prompt", sessionId=self.session, prompt=prompt)
        self.late, self.first = [], 0.0
        before, self.asked_at = cpu_seconds(self.process.pid), time.monotonic()
        prompt = [{"type": "text", "text": "Count."}]
        await self.ask("session/prompt", sessionId=self.session, prompt=prompt)
        cpu = (cpu_seconds(self.process.pid) - before) / DELTAS * 1e6
        return Reply(self.first, self.late, cpu)


async def starts(rounds: int, folder: Path) -> None:
    """Measure the start of both agents."""
    cases = {"echo agent": [sys.executable, "-c", ECHO], "aish-lsp acp": ACP}
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, command in cases.items():
            begun = time.perf_counter()
            async with AgentClient(command, folder):
                taken[name].append((time.perf_counter() - begun) * 1000)
    for name, each in taken.items():
        least, median = min(each), statistics.median(each)
        sys.stdout.write(f"{name:<14} least {least:6.0f} ms, median {median:6.0f} ms\n")


async def deltas(rounds: int, folder: Path) -> None:
    """Measure replies over both protocols."""
    replies: dict[str, list[Reply]] = {"LSP": [], "ACP": []}
    async with (
        Timed(command=[sys.executable, "-m", "aish_lsp"]) as editor,
        AgentClient(ACP, folder) as client,
    ):
        await editor.initialize(folder)
        # The first question imports what is used.
        await served(editor)
        await client.reply()
        for _ in range(rounds):
            replies["LSP"].append(await served(editor))
            replies["ACP"].append(await client.reply())
    for name, measured in replies.items():
        sys.stdout.write(row(name, measured))


async def main(rounds: int) -> None:
    """Measure in turns."""
    command = [sys.executable, "-c", MODEL]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model,
        tempfile.TemporaryDirectory() as home,
    ):
        assert model.stdout is not None
        config = Path(home, "config.toml")
        url = f"http://127.0.0.1:{int(model.stdout.readline())}"
        settings = f'endpoint = "{url}"\nmodel = "m"\ncontext_window = 32768\n'
        config.write_text(f"[models.mine]\n{settings}", encoding="utf-8")
        folder = Path(home, "workspace")
        folder.mkdir()
        os.environ |= {"HOME": home, "AISH_DATA_DIR": home, "AISH_CONFIG": str(config)}
        os.environ |= {"AISH_DISCOVERY": "off", "AISH_REAL_START": "1"}
        try:
            await starts(rounds, folder)
            await deltas(rounds, folder)
        finally:
            model.kill()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
