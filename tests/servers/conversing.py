"""A place of its own for one server process, and the words in which tests speak to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import CAPABILITIES, Client, Transport, execute
from fault_server import Peer, Request, Script, chunk_of

#: What a test must not inherit from the machine it runs on.
UNSET = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY",
         "OPENROUTER_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY",
         "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
         "all_proxy")  # fmt: skip


#: A client that shows progress and no documents: its chat is written into the file at once.
SHOWS_NOTHING = CAPABILITIES | {
    "window": {
        "workDoneProgress": True,
        "showMessage": {"messageActionItem": {"additionalPropertiesSupport": False}},
    }
}


@dataclass(frozen=True)
class Place:
    """A workspace folder, with a home, a configuration and a data folder beside it."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Place:
        """Return a place in the empty folder ``root``."""
        place = cls(root)
        place.folder.mkdir()
        (root / "home").mkdir()
        return place

    @property
    def folder(self) -> Path:
        """The workspace."""
        return self.root / "workspace"

    @property
    def data(self) -> Path:
        """AISH_DATA_DIR."""
        return self.root / "data"

    @property
    def config(self) -> Path:
        """AISH_CONFIG."""
        return self.root / "config.toml"

    @property
    def chat(self) -> Path:
        """The chat document."""
        return self.folder / ".aish" / "chat.md"

    def client(self, transport: Transport = "stdio", **env: str) -> Client:
        """Return a client, not started yet, of a server that lives here."""
        own = {
            "HOME": str(self.root / "home"),
            "AISH_DATA_DIR": str(self.data),
            "AISH_CONFIG": str(self.config),
            "AISH_DISCOVERY": "off",
        }
        configured = [name for name in os.environ if name.startswith("AISH_")]
        unset = dict.fromkeys((*UNSET, *configured), "")
        # More than by default: no key may get there, and the longest session reads it.
        logs = ("--log-level", "info")
        return Client(transport, arguments=logs, env=unset | own | env, cwd=self.root)

    def configure(self, endpoint: str, *, grammar: str | None = None, **settings: Any) -> None:
        """Write a configuration with one model, at ``endpoint``."""
        model = {
            "endpoint": endpoint,
            "model": "tested",
            "temperature": 0.0,
            "max_output_tokens": 1024,
            **settings,
        }
        # A TOML string may hold all that JSON escapes, and is written in the same way.
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in model.items()]
        if grammar is not None:
            lines.append(f"extra_body = {{grammar = {json.dumps(grammar, ensure_ascii=False)}}}")
        text = "\n".join(['default_model = "tested"', "[models.tested]", *lines, ""])
        self.config.write_text(text, encoding="utf-8")

    def records(self) -> list[Any]:
        """Return the lines of the one session log there is, without its header."""
        [path] = self.data.glob("workspaces/*/sessions/*.jsonl")
        return [json.loads(line) for line in path.read_bytes().splitlines()][1:]


def events(client: Client, token: str, kind: str) -> list[Any]:
    """Return the events of a kind that came under a token."""
    return [event for event in client.progress[token] if event["kind"] == kind]


def streamed(client: Client, token: str, kind: str = "text") -> str:
    """Return the deltas under a token, joined."""
    return "".join(event["delta"] for event in events(client, token, kind))


async def ask(client: Client, prompt: str, token: str, **fields: Any) -> Any:
    """Return the result of a question whose reply streams to ``token``."""
    return await client.command_result(
        "aish.ask", {"prompt": prompt, "partialResultToken": token, **fields}
    )


async def begin(
    client: Client, command: str, argument: Any, **params: Any
) -> tuple[int, asyncio.Future[Any]]:
    """Send a command; return the request's id and the future of its result."""
    return await client.begin("workspace/executeCommand", execute(command, argument, **params))


async def chat_until(
    client: Client, place: Place, condition: Callable[[str], object], what: str
) -> str:
    """Wait until the text of the chat document fulfills a condition, and return it."""
    found = ""

    async def look() -> None:
        nonlocal found
        while not condition(found):
            await asyncio.sleep(0.03)
            found = place.chat.read_text(encoding="utf-8") if place.chat.exists() else ""

    try:
        await client.within(look(), what)
    except TimeoutError as error:
        raise AssertionError(f"no {what}; the chat document holds:\n{found}") from error
    return found


async def chat_holds(client: Client, place: Place, text: str, *, times: int = 1) -> str:
    """Wait until the chat document holds ``text``, and return all of it."""
    return await chat_until(client, place, lambda found: found.count(text) >= times, repr(text))


def yes(params: Any) -> Any:
    """Press the button of a question that agrees; the first one does nothing."""
    return params["actions"][1]


def no(params: Any) -> Any:
    """Press the button of a question that does nothing."""
    return params["actions"][0]


async def fine(_: Request, peer: Peer) -> None:
    """Answer as a model server should."""
    await peer.head()
    await peer.event(chunk_of("All is well."))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")
    await peer.chunk(b"")


def forward_to(port: int, pause: float = 0.0) -> Script:
    """Return a script that hands each request on to ``port``, and every byte of the answer back.

    With ``pause`` (seconds) the answer comes as slowly as from a large model: so long after each
    kilobyte.
    """

    async def script(request: Request, peer: Peer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"{request.method} {request.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + request.body)
            while data := await reader.read(1 << 10 if pause else 1 << 16):
                await peer.send(data)
                await asyncio.sleep(pause)
        finally:
            writer.close()

    return script
