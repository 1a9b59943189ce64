"""How much later a client sees a delta than from a bare loop over the same stream.

    python tests/bench/bench_delta.py [ROUNDS]

Prints the milliseconds from the model's server to the client: of the first delta of a reply, the
median of all, and the 99th percentile. The bare loop is httpx and httpx-sse in a process of its
own, which writes the same notifications as aish-lsp. One client reads both, so that what is left
between the two is aish-lsp. They are measured in turns, so that a noisy moment hits both. Each
delta is the time at which it was sent.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

TESTS: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "lsp"))

from client import Client  # noqa: E402 - found by the line above

#: Deltas of a reply, and seconds between two of them.
DELTAS: Final = 400
PAUSE: Final = 0.005

#: A model's server in a process of its own: it prints its port.
MODEL: Final = f"""
import asyncio, sys, time
sys.path.append({str(TESTS / "servers")!r})
from fault_server import FaultServer, chunk_of

async def script(request, peer):
    if request.method == "GET":
        await peer.reply({{"data": [{{"id": "m"}}]}})
        return
    await peer.head()
    due = time.monotonic()
    for _ in range({DELTAS}):
        due += {PAUSE}
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await peer.event(chunk_of(f"{{time.monotonic()}} "))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")
    await peer.chunk(b"")

async def main():
    async with FaultServer(script) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

BARE: Final = """
import asyncio, json, sys
import httpx
from httpx_sse import aconnect_sse

async def main(url):
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        async with aconnect_sse(client, "POST", url, json={"stream": True}) as source:
            async for event in source.aiter_sse():
                if event.data == "[DONE]":
                    break
                delta = json.loads(event.data)["choices"][0]["delta"].get("content", "")
                params = {"token": "t", "value": {"kind": "text", "delta": delta}}
                message = {"jsonrpc": "2.0", "method": "$/progress", "params": params}
                body = json.dumps(message).encode()
                sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
                sys.stdout.buffer.flush()

asyncio.run(main(sys.argv[1]))
"""


class Timed(Client):
    """A client that notes by how many milliseconds each delta is late."""

    late: list[float]

    def _dispatch(self, message: Any) -> None:
        now = time.monotonic()
        value = message.get("params", {}).get("value", {})
        if value.get("kind") == "text":
            self.late += [(now - float(sent)) * 1000 for sent in value["delta"].split()]
        else:
            super()._dispatch(message)


async def bare(url: str) -> list[float]:
    """Return the delays of the deltas of one reply, read by the bare loop."""
    client = Timed(command=[sys.executable, "-c", BARE, f"{url}/v1/chat/completions"])
    client.late = []
    async with client:
        await client.ended()
    return client.late


async def served(client: Timed) -> list[float]:
    """Return the delays of the deltas of one reply, read by aish-lsp."""
    client.late = []
    await client.command_result("aish.context.reset", {})
    question = {"prompt": "Count.", "partialResultToken": "t"}
    await client.command_result("aish.ask", question, timeout=60)
    return client.late


def row(name: str, rounds: list[list[float]]) -> str:
    """Return what is printed of all rounds."""
    delays = [delay for one in rounds for delay in one]
    first = statistics.median(one[0] for one in rounds)
    percentiles = statistics.quantiles(delays, n=100)
    return (
        f"{name:9} {len(delays):5} deltas   first {first:6.2f}   median {percentiles[49]:6.2f}"
        f"   p99 {percentiles[98]:6.2f}\n"
    )


async def main(rounds: int) -> None:
    """Measure in turns."""
    command = [sys.executable, "-c", MODEL]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model,
        tempfile.TemporaryDirectory() as home,
    ):
        assert model.stdout is not None
        url = f"http://127.0.0.1:{int(model.stdout.readline())}"
        config = Path(home, "config.toml")
        settings = f'endpoint = "{url}"\nmodel = "m"\ncontext_window = 32768\n'
        config.write_text(f"[models.mine]\n{settings}", encoding="utf-8")
        folder = Path(home, "workspace")
        folder.mkdir()
        os.environ |= {"HOME": home, "AISH_DATA_DIR": home, "AISH_CONFIG": str(config)}
        os.environ |= {"AISH_DISCOVERY": "off", "AISH_REAL_START": "1"}
        delays: dict[str, list[list[float]]] = {"bare loop": [], "aish-lsp": []}
        try:
            async with Timed(command=[sys.executable, "-m", "aish_lsp"]) as client:
                await client.initialize(folder)
                await served(client)  # the first question imports what is used
                for _ in range(rounds):
                    delays["bare loop"].append(await bare(url))
                    delays["aish-lsp"].append(await served(client))
        finally:
            model.kill()
    for name, all_rounds in delays.items():
        assert all(len(one) == DELTAS for one in all_rounds), name
        sys.stdout.write(row(name, all_rounds))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
