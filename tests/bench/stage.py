"""A stage for measurements: a scripted model's server, the bare loop over it, and a home.

It speaks the chat completions of OpenAI, and for other programs OpenAI's responses and Gemini's
streams. The model sends what the last question says: ``Send 400 words every 5 ms.`` Each word is
the time at which it was sent; with 0 ms it is a number, and all come as fast as they are read.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from measuring import TESTS, cpu_seconds

# isort: split
from client import Client

#: A model's server in a process of its own: it prints its port.
_MODEL: Final = f"""
import asyncio, json, re, sys, time
sys.path.append({str(TESTS / "servers")!r})
from fault_server import FaultServer, chunk_of

ASKED = re.compile(rb"Send (\\d+) words every ([\\d.]+) ms")

def message(text):
    content = [{{"type": "output_text", "text": text, "annotations": []}}]
    return {{"type": "message", "id": "i", "role": "assistant", "status": "completed",
            "content": content}}

def responses(text):
    if text is None:
        usage = {{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
        whole = {{"id": "r", "status": "completed", "output": [], "usage": usage}}
        return {{"type": "response.completed", "response": whole}}
    return {{"type": "response.output_text.delta", "item_id": "i", "output_index": 0,
            "content_index": 0, "delta": text}}

def gemini(text):
    part = {{"content": {{"role": "model", "parts": [{{"text": text or ""}}]}}, "index": 0}}
    return {{"candidates": [part | ({{"finishReason": "STOP"}} if text is None else {{}})]}}

def chat(text):
    return chunk_of(text or "", **({{"finish_reason": "stop"}} if text is None else {{}}))

def framed(event):
    name = b"event: %s\\n" % event["type"].encode() if "type" in event else b""
    data = name + b"data: " + json.dumps(event).encode() + b"\\n\\n"
    return b"%x\\r\\n%s\\r\\n" % (len(data), data)

async def script(request, peer):
    if request.method == "GET":
        await peer.reply({{"data": [{{"id": "m"}}]}})
        return
    if request.path.endswith("/chat/completions"):
        shape = chat
    elif request.path.endswith("/responses"):
        shape = responses
    elif ":streamGenerateContent" in request.path:
        shape = gemini
    else:
        await peer.reply({{}}, "404 Not Found")
        return
    await peer.head()
    if shape is responses:
        await peer.send(framed({{"type": "response.created", "response": {{"id": "r"}}}}))
        item = message("") | {{"status": "in_progress"}}
        await peer.send(framed({{"type": "response.output_item.added", "output_index": 0,
                                "item": item}}))
    sent = ""
    # What asks otherwise wants a summary.
    count, pause = (ASKED.findall(request.body) or [(b"1", b"0")])[-1]
    count, pause = int(count), float(pause) / 1000
    due = time.monotonic()
    if pause:
        for _ in range(count):
            due += pause
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            text = f"{{time.monotonic()}} "
            sent += text
            await peer.send(framed(shape(text)))
    else:
        for start in range(0, count, 50):
            some = range(start, min(count, start + 50))
            await peer.send(b"".join(framed(shape(f"{{n}} ")) for n in some))
    if shape is responses:
        await peer.send(framed({{"type": "response.output_item.done", "output_index": 0,
                                "item": message(sent)}}))
    await peer.send(framed(shape(None)))
    if shape is chat:
        await peer.event("[DONE]")
    await peer.chunk(b"")

async def main():
    async with FaultServer(script) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

#: Reads a stream and writes the same notifications as aish-lsp; asks what each line of stdin says.
_BARE: Final = """
import asyncio, json, sys
import httpx
from httpx_sse import aconnect_sse

async def main(url):
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
      while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        body = {"stream": True, "messages": [{"role": "user", "content": line.decode()}]}
        async with aconnect_sse(client, "POST", url, json=body) as source:
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

AISH: Final = (sys.executable, "-m", "aish_lsp")


@dataclass(frozen=True)
class Stage:
    """Where the model's server is, and a folder with a home, a workspace and a configuration."""

    root: Path
    url: str

    @property
    def workspace(self) -> Path:
        """The folder of the workspace."""
        return self.root / "workspace"

    @property
    def bare(self) -> tuple[str, ...]:
        """The command that starts the bare loop."""
        return (sys.executable, "-c", _BARE, f"{self.url}/v1/chat/completions")


@contextmanager
def stage(folder: Path | None = None, settings: str = "context_window = 32768") -> Iterator[Stage]:
    """Set the stage (in ``folder``) and point this process's environment at it."""
    command = [sys.executable, "-c", _MODEL]
    before = dict(os.environ)
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model,
        tempfile.TemporaryDirectory(dir=folder) as home,
    ):
        try:
            assert model.stdout is not None
            made = Stage(Path(home), f"http://127.0.0.1:{int(model.stdout.readline())}")
            made.workspace.mkdir()
            model_settings = f'[models.mine]\nendpoint = "{made.url}"\nmodel = "m"\n{settings}\n'
            (made.root / "config.toml").write_text(model_settings, encoding="utf-8")
            os.environ |= {"HOME": home, "AISH_DATA_DIR": f"{home}/data"}
            os.environ |= {"AISH_CONFIG": f"{home}/config.toml"}
            os.environ["AISH_DISCOVERY"] = "off"
            yield made
        finally:
            model.kill()
            os.environ.clear()
            os.environ.update(before)


def in_memory() -> Path | None:
    """Return a folder that is no disk, where there is one."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else None


class Reply(NamedTuple):
    """Milliseconds to the first delta, those that each was late, and seconds in all and of CPU."""

    first: float
    late: list[float]
    seconds: float
    cpu: float


class Timed(Client):
    """A client that notes when deltas come."""

    def ask_again(self, words: int) -> None:
        """Forget what was noted, and note when the next question was asked."""
        self.late: list[float] = []
        self.first = 0.0
        self._missing = words
        self.all_arrived = asyncio.Event()
        self.asked_at = time.monotonic()
        self.cpu_before = cpu_seconds(self.process.pid)

    def _dispatch(self, message: Any) -> None:
        now = time.monotonic()
        value = message.get("params", {}).get("value", {})
        if value.get("kind") == "text":
            self.first = self.first or (now - self.asked_at) * 1000
            sent = value["delta"].split()
            self.late += [(now - float(word)) * 1000 for word in sent]
            self._missing -= len(sent)
            if self._missing == 0:
                self.all_arrived.set()
        else:
            super()._dispatch(message)

    async def received(self) -> Reply:
        """Return what was measured of a reply once all of it has arrived."""
        async with asyncio.timeout(120):
            await self.all_arrived.wait()
        seconds = time.monotonic() - self.asked_at
        cpu = cpu_seconds(self.process.pid) - self.cpu_before
        return Reply(self.first, self.late, seconds, cpu)


def question(words: int, pause: float) -> str:
    """Return the question that has the model send so many words, so many milliseconds apart."""
    return f"Send {words} words every {pause:g} ms."


async def bare(client: Timed, words: int = 400, pause: float = 5) -> Reply:
    """Measure one reply that the bare loop reads."""
    client.ask_again(words)
    assert client.process.stdin is not None
    client.process.stdin.write(f"{question(words, pause)}\n".encode())
    return await client.received()


async def served(client: Timed, words: int = 400, pause: float = 5, *, reset: bool = True) -> Reply:
    """Measure one reply that aish-lsp reads, in a new conversation or in the one there is."""
    if reset:
        await client.command_result("aish.context.reset", {})
    client.ask_again(words)
    asked = {"prompt": question(words, pause), "partialResultToken": "t"}
    answer = asyncio.create_task(client.command_result("aish.ask", asked, timeout=120))
    receiving = asyncio.create_task(client.received())
    # Not to wait for the reply to a question that was refused.
    await asyncio.wait((answer, receiving), return_when=asyncio.FIRST_EXCEPTION)
    await answer
    return await receiving


def aish(*arguments: str) -> Sequence[str]:
    """Return the command line of ``aish-lsp`` in this environment."""
    return (*AISH, *arguments)
