"""How long a piece of a reply takes from the model's server to whoever asked.

    python tests/bench/bench_delta.py [ROUNDS]

Prints the milliseconds by which pieces are late: the first one, the median and the 99th percentile.
The reference is a plain loop over httpx and httpx-sse; it, the events of a turn, and the
notifications of a server over stdio are measured in turns, so that a noisy moment hits all alike.
Each piece of the reply is the time at which it was sent.
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
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import httpx
from httpx_sse import EventSource

sys.path += [str(Path(__file__).resolve().parents[1] / name) for name in ("lsp", "servers")]

from client import Client

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import Text
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask
from aish_lsp.config.loading import Configuration

#: Pieces of a reply, and seconds between two of them.
PIECES: Final = 200
PAUSE: Final = 0.005

#: A model's server in its own process: it prints its port.
SERVER: Final = f"""
import asyncio, json, sys, time
sys.path.append({str(Path(__file__).resolve().parents[1] / "servers")!r})
from fault_server import FaultServer

def chunk(text, reason=None):
    delta = {{"content": text}}
    return json.dumps({{"choices": [{{"index": 0, "delta": delta, "finish_reason": reason}}]}})

async def script(request, peer):
    if request.method == "GET":
        await peer.reply({{"data": [{{"id": "m"}}]}})
        return
    await peer.head()
    for _ in range({PIECES}):
        await peer.event(chunk(f"{{time.monotonic()}} "))
        await asyncio.sleep({PAUSE})
    await peer.event(chunk("", "stop"))
    await peer.event("[DONE]")
    await peer.chunk(b"")

async def main():
    async with FaultServer(script) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def late(delta: str) -> list[float]:
    """Return the milliseconds by which the pieces in ``delta`` are late."""
    now = time.monotonic()
    return [(now - float(sent)) * 1000 for sent in delta.split()]


async def bare(url: str) -> list[float]:
    """Read a reply with httpx and httpx-sse alone."""
    found: list[float] = []
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    transport = httpx.AsyncHTTPTransport()
    async with (
        httpx.AsyncClient(transport=transport, timeout=60) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body) as response,
    ):
        response.headers["content-type"] = "text/event-stream"
        async with aclosing(EventSource(response).aiter_sse()) as events:
            async for event in events:
                if event.data != "[DONE]":
                    found += late(json.loads(event.data)["choices"][0]["delta"]["content"])
    return found


async def turn(workspace: Workspace) -> list[float]:
    """Read a reply as the events of a turn."""
    found: list[float] = []
    await workspace.shown.reset()
    async for event in ask(workspace.shown, Ask("hi")).events():
        if isinstance(event, Text):
            found += late(event.delta)
    return found


async def server(client: Client, number: int) -> list[float]:
    """Read a reply as the notifications of a server."""
    found: list[float] = []
    token = f"t{number}"

    class Watched(list[Any]):
        def append(self, value: Any) -> None:
            if value.get("kind") == "text":
                found.extend(late(value["delta"]))
            super().append(value)

    client.progress[token] = Watched()
    await client.command_result("aish.context.reset", {})
    await client.command_result("aish.ask", {"prompt": "hi", "partialResultToken": token})
    return found


def row(name: str, rounds: Iterable[list[float]]) -> str:
    """Return what is printed of all rounds."""
    rounds = list(rounds)
    pieces = [piece for one in rounds for piece in one]
    first = statistics.median(one[0] for one in rounds)
    return (
        f"{name:8} first {first:6.2f}   median {statistics.median(pieces):6.2f}"
        f"   p99 {statistics.quantiles(pieces, n=100)[-1]:6.2f}"
    )


async def main(rounds: int) -> None:
    """Measure in turns."""
    command = [sys.executable, "-c", SERVER]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model,
        tempfile.TemporaryDirectory() as home,
    ):
        assert model.stdout is not None
        url = f"http://127.0.0.1:{int(model.stdout.readline())}"
        config = Path(home) / "config.toml"
        settings = f'endpoint = "{url}"\nmodel = "m"\ncontext_window = 32768\n'
        config.write_text(f"[models.mine]\n{settings}", encoding="utf-8")
        os.environ |= {"HOME": home, "AISH_DATA_DIR": home, "AISH_CONFIG": str(config)}
        os.environ["AISH_DISCOVERY"] = "off"
        folder = Path(home) / "workspace"
        folder.mkdir()
        services = Services()
        configuration = Configuration(folder, services.trust, services.environ)
        workspace = Workspace(folder, services, configuration)
        async with Client(command=[sys.executable, "-m", "aish_lsp"]) as client:
            await client.initialize(folder)
            ways: dict[str, Callable[[int], Awaitable[list[float]]]] = {
                "bare": lambda _: bare(url),
                "turn": lambda _: turn(workspace),
                "server": lambda number: server(client, number),
            }
            found: dict[str, list[list[float]]] = {name: [] for name in ways}
            for number in range(rounds + 1):
                for name, way in ways.items():
                    pieces = await way(number)
                    assert len(pieces) == PIECES, (name, len(pieces))
                    if number:
                        # The first round loads what is loaded once.
                        found[name].append(pieces)
        for name, all_rounds in found.items():
            print(row(name, all_rounds))  # noqa: T201 - what it is for
        await workspace.aclose()
        await services.aclose()
        model.kill()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
