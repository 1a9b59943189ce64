"""What tests of selections share: a document that an editor has open, and a model that keeps what
it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from client import TIMEOUT, Client
from fault_server import FaultServer, Peer, Request, chunk_of


def place(line: int, character: int) -> dict[str, int]:
    """Return a position."""
    return {"line": line, "character": character}


def span(*numbers: int) -> dict[str, Any]:
    """Return a range: line and character of its start, then of its end."""
    return {"start": place(*numbers[:2]), "end": place(*numbers[2:])}


class Document:
    """A document that the client has open."""

    def __init__(self, client: Client, uri: str, language: str = "python") -> None:
        self.client = client
        self.uri = uri
        self.language = language
        self.version = 1
        self.text = ""

    async def open(self, text: str) -> Document:
        self.text = text
        document = {"uri": self.uri, "languageId": self.language, "version": 1, "text": text}
        await self.client.notify("textDocument/didOpen", {"textDocument": document})
        return self

    async def take(self, action: Any) -> Any:
        """Have the server carry the command of a code action out."""
        command = action["command"]
        [argument] = command["arguments"]
        return await self.client.command_result(command["command"], argument)

    async def change(self, text: str, range_: dict[str, Any] | None = None) -> None:
        """Replace a range, or all of the text."""
        self.version += 1
        change: dict[str, Any] = (
            {"text": text} if range_ is None else {"text": text, "range": range_}
        )
        await self.client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": self.uri, "version": self.version},
                "contentChanges": [change],
            },
        )

    async def close(self) -> None:
        await self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    async def actions(
        self, range_: dict[str, Any], diagnostics: list[Any] | None = None, **context: Any
    ) -> dict[str, Any]:
        """Return the code actions at a place by their titles."""
        found: list[Any] = await self.client.request(
            "textDocument/codeAction",
            {
                "textDocument": {"uri": self.uri},
                "range": range_,
                "context": {"diagnostics": diagnostics or [], **context},
            },
        )
        return {action["title"]: action for action in found}


class Model:
    """A model server that answers each question with ``reply`` and keeps what it was asked."""

    def __init__(self, reply: str = "All right.") -> None:
        self.reply = reply
        self.asked: list[str] = []
        self.systems: list[str] = []
        self._changed = asyncio.Event()

    async def until_asked(self, times: int = 1) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(TIMEOUT):
            while len(self.asked) < times:
                self._changed.clear()
                await self._changed.wait()

    async def answer(self, request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        messages = request.json["messages"]
        self.asked.append(messages[-1]["content"])
        self.systems.append(messages[0]["content"])
        self._changed.set()
        await peer.head()
        await peer.event(chunk_of(self.reply))
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    @asynccontextmanager
    async def serve(self, home: Path, **preset: Any) -> AsyncIterator[Model]:
        """Run it, and configure it for the user whose home this is."""
        async with FaultServer(self.answer) as server:
            rows = "".join(f"{name} = {value}\n" for name, value in preset.items())
            (home / "config.toml").write_text(
                f'default_model = "m"\n[models.m]\nmodel = "m"\nendpoint = "{server.url}"\n{rows}'
            )
            yield self
