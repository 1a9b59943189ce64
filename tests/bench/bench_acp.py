"""How soon an agent client is served: its start against an echo agent, its deltas against LSP.

    python tests/bench/bench_acp.py [ROUNDS]

The echo agent is made of the SDK alone. A start is from the spawn to the answer to the first
``session/new``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from measuring import Row, Sample, compared, cpu_seconds, in_turns, main, percentile
from stage import AISH, Reply, Timed, question, served, stage

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
        prompt = [{"type": "text", "text": question(400, 5)}]
        await self.ask("session/prompt", sessionId=self.session, prompt=prompt)
        seconds = time.monotonic() - self.asked_at
        return Reply(self.first, self.late, seconds, cpu_seconds(self.process.pid) - before)


async def start(command: list[str], folder: Path) -> Sample:
    """Return what it takes from the spawn to a session."""
    begun = time.perf_counter()
    async with AgentClient(command, folder) as client:
        return Sample(time.perf_counter() - begun, cpu_seconds(client.process.pid))


async def rows(rounds: int) -> list[Row]:
    """Measure in turns."""
    with stage() as made:
        echo, aish = await in_turns(
            rounds,
            partial(start, [sys.executable, "-c", ECHO], made.workspace),
            partial(start, ACP, made.workspace),
        )
        ours: list[Reply] = []
        theirs: list[Reply] = []
        async with (
            Timed(command=AISH) as editor,
            AgentClient(ACP, made.workspace) as client,
        ):
            await editor.initialize(made.workspace)
            # The first question imports what is used.
            await served(editor)
            await client.reply()
            for _ in range(rounds):
                theirs.append(await served(editor))
                ours.append(await client.reply())

    def late(what: str, percent: int, target: float) -> Row:
        each = ([percentile(one.late, percent) for one in replies] for replies in (ours, theirs))
        return Row(f"ACP: delay of a delta, {what}", "LSP", next(each), next(each), target, "more")

    return [
        compared("ACP: spawn to a session", "agent of the SDK alone", aish, echo, 1.5),
        late("median", 50, 0.3),
        late("p99", 99, 1),
    ]


if __name__ == "__main__":
    main(rows, 5)
