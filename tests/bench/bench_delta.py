"""How much later a client sees a delta than from a bare loop over the same stream.

    python tests/bench/bench_delta.py [ROUNDS]

Prints, in milliseconds, the median from the question to the first delta, and from the model's
server to the client the median and the 99th percentile of all deltas; and the microseconds of CPU
for each. The bare loop is httpx and httpx-sse in a process of its own, which writes the same
notifications as aish-lsp. One client reads both, so that what is left between the two is aish-lsp.
They are measured in turns, so that a noisy moment hits both. Each delta is the time at which it was
sent.
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
from typing import Any, Final, NamedTuple

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
      while await asyncio.to_thread(sys.stdin.buffer.readline):
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

    def ask_again(self) -> None:
        """Forget what was noted, and note when the next question was asked."""
        self.late: list[float] = []
        self.first = 0.0
        self.asked_at = time.monotonic()
        self.all_arrived = asyncio.Event()
        self.cpu_before = cpu_seconds(self.process.pid)

    def _dispatch(self, message: Any) -> None:
        now = time.monotonic()
        value = message.get("params", {}).get("value", {})
        if value.get("kind") == "text":
            self.first = self.first or (now - self.asked_at) * 1000
            self.late += [(now - float(sent)) * 1000 for sent in value["delta"].split()]
            if len(self.late) == DELTAS:
                self.all_arrived.set()
        else:
            super()._dispatch(message)


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU that a process has used; 0 where ``/proc`` does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Reply(NamedTuple):
    """What was measured of one reply, in milliseconds, and microseconds of CPU for each delta."""

    first: float
    late: list[float]
    cpu: float


async def received(client: Timed) -> Reply:
    """Return what was measured of a reply once all of it has arrived."""
    async with asyncio.timeout(60):
        await client.all_arrived.wait()
    cpu = (cpu_seconds(client.process.pid) - client.cpu_before) / DELTAS * 1e6
    return Reply(client.first, client.late, cpu)


async def bare(client: Timed) -> Reply:
    """Measure one reply that the bare loop reads."""
    client.ask_again()
    assert client.process.stdin is not None
    client.process.stdin.write(b"\n")
    return await received(client)


async def served(client: Timed) -> Reply:
    """Measure one reply that aish-lsp reads."""
    await client.command_result("aish.context.reset", {})
    client.ask_again()
    question = {"prompt": "Count.", "partialResultToken": "t"}
    answer = asyncio.create_task(client.command_result("aish.ask", question, timeout=60))
    reply = await received(client)
    await answer
    return reply


def row(name: str, replies: list[Reply]) -> str:
    """Return what is printed of all rounds."""
    delays = [delay for reply in replies for delay in reply.late]
    percentiles = statistics.quantiles(delays, n=100)
    first = statistics.median(reply.first for reply in replies)
    cpu = statistics.median(reply.cpu for reply in replies)
    return (
        f"{name:9} {len(delays):5} deltas   first {first:6.2f}   median {percentiles[49]:6.2f}"
        f"   p99 {percentiles[98]:6.2f}   CPU {cpu:4.0f}\n"
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
        replies: dict[str, list[Reply]] = {"bare loop": [], "aish-lsp": []}
        loop = [sys.executable, "-c", BARE, f"{url}/v1/chat/completions"]
        try:
            async with (
                Timed(command=[sys.executable, "-m", "aish_lsp"]) as server,
                Timed(command=loop) as plain,
            ):
                await server.initialize(folder)
                await served(server)  # the first question imports what is used
                await bare(plain)
                for _ in range(rounds):
                    replies["bare loop"].append(await bare(plain))
                    replies["aish-lsp"].append(await served(server))
                plain.process.kill()
        finally:
            model.kill()
    for name, measured in replies.items():
        sys.stdout.write(row(name, measured))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
