"""How much later a client sees a delta than a bare loop over the same stream prints it.

A scripted server of events sends a delta every five milliseconds, each with the time at which it
was sent. In turns it is read by a bare httpx-sse loop, which prints what arrives, and by aish-lsp,
which a client asks a question. The delay counts from the socket of the model to the client's pipe.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lsp"))

from client import Client

#: Seconds between two deltas.
PAUSE = 0.005

BARE = """
import asyncio, json, sys
import httpx
from httpx_sse import aconnect_sse

async def main(url):
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        async with aconnect_sse(client, "POST", url, json={"stream": True}) as source:
            async for event in source.aiter_sse():
                if event.data == "[DONE]":
                    break
                choices = json.loads(event.data)["choices"]
                if choices:
                    print(choices[0]["delta"].get("content", ""), flush=True)

asyncio.run(main(sys.argv[1]))
"""


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """Return an event of the Chat Completions protocol."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(data).encode()


async def serve(count: int) -> asyncio.Server:
    """Return a model's server; a reply is ``count`` deltas."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        if not head.startswith(b"post"):
            writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head + chunk({"role": "assistant"}))
        due = time.monotonic()
        for _ in range(count):
            due += PAUSE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            writer.write(chunk({"content": f"{time.monotonic_ns()} "}))
        writer.write(chunk({}, "stop") + b"data: [DONE]\n\n")
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0)


def delays(text: str) -> list[float]:
    """Return the milliseconds from when each delta in ``text`` was sent until now."""
    now = time.monotonic_ns()
    return [(now - int(sent)) / 1e6 for sent in text.split()]


async def bare(url: str) -> list[float]:
    """Return the delays of the bare loop."""
    command = (sys.executable, "-c", BARE, f"{url}/chat/completions")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout is not None
    measured: list[float] = []
    async for line in process.stdout:
        measured += delays(line.decode())
    await process.wait()
    return measured


async def served(url: str, folder: Path) -> list[float]:
    """Return the delays of aish-lsp."""
    config = folder / "config.toml"
    config.write_text(f'default_model = "m"\n[models.m]\nmodel = "m"\nendpoint = "{url}"\n')
    measured: list[float] = []

    class Timed(Client):
        def _dispatch(self, message: Any) -> None:
            value = message.get("params", {}).get("value", {})
            if value.get("kind") == "text":
                measured.extend(delays(value["delta"]))
            else:
                super()._dispatch(message)

    command = [sys.executable, "-m", "aish_lsp"]
    async with Timed(command=command, env={"AISH_CONFIG": str(config)}) as client:
        await client.initialize(folder)
        question = {"prompt": "Count.", "partialResultToken": "t"}
        await client.command_result("aish.ask", question, timeout=120)
    return measured


async def main(count: int, rounds: int) -> None:
    """Measure in turns, so that a noisy moment hits both."""
    listening = await serve(count)
    host, port = listening.sockets[0].getsockname()
    url = f"http://{host}:{port}/v1"
    taken: dict[str, list[float]] = {"bare httpx-sse": [], "aish-lsp": []}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"AISH_DATA_DIR": f"{folder}/data", "AISH_DISCOVERY": "off"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        root = Path(folder, "workspace")
        root.mkdir()
        for _ in range(rounds):
            taken["bare httpx-sse"] += await bare(url)
            taken["aish-lsp"] += await served(url, root)
    for name, measured in taken.items():
        ranks = statistics.quantiles(measured, n=100)
        sys.stdout.write(
            f"{name:<16} {len(measured):5} deltas,"
            f" p50 {ranks[49]:6.2f} ms, p99 {ranks[98]:6.2f} ms\n"
        )


if __name__ == "__main__":
    arguments = [int(one) for one in sys.argv[1:]]
    asyncio.run(main(*arguments) if arguments else main(1_000, 3))
