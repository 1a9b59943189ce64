"""Questions to every adapter, through the fault proxy, to a real llama.cpp."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
from fault_proxy import FaultProxy, Protocol
from fault_server import FaultServer, Peer, Request
from provider_breaks import KEY, REPLY
from provider_table import Row

from aish_lsp.agent.model_choice import open_model
from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import FinishReason
from aish_lsp.models import http
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import base
from aish_lsp.models.request import Finish, ModelRequest, RequestMessage, Text
from aish_lsp.offline import OfflineModel

PROTOCOLS: Final[tuple[Protocol, ...]] = ("openai", "openai-responses", "anthropic", "gemini")


@dataclass(frozen=True)
class Outcome:
    """What came of a question: the text of the reply, its end, and the error in the end's place."""

    text: str
    finish: FinishReason | None
    error: AishError | None


async def gemini(_: Request, peer: Peer) -> None:
    """Say REPLY as Google's servers do, a character a chunk."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": len(REPLY), "totalTokenCount": 60}
    await peer.head()
    for text in [*REPLY, ""]:
        content = {"parts": [{"text": text}], "role": "model"}
        end = {} if text else {"finishReason": "STOP"}
        chunk = {"candidates": [{"content": content, **end, "index": 0}], "usageMetadata": usage}
        data = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
        await peer.chunk(f"data: {data}\n\n".encode())
    await peer.chunk(b"")


class Asker:
    """An adapter, a proxy before its server, and the questions that go through them.

    Attributes:
        protocol: the adapter's.
        proxy: what breaks the answers.
        server: where it listens.
        plain: the address of a real server that speaks no TLS.
    """

    def __init__(
        self,
        protocol: Protocol,
        proxy: FaultProxy,
        server: FaultServer,
        plain: str,
        client: HttpClient,
    ) -> None:
        self.protocol: Protocol = protocol
        self.proxy = proxy
        self.server = server
        self.plain = plain
        self._model = open_model(protocol, client, {"K": KEY}, lambda: OfflineModel(Path()))

    async def ask(self, endpoint: str, patience: float) -> Outcome:
        """Ask a question; ``patience`` is the preset's timeout in seconds."""
        preset = Preset(
            name="tested",
            provider=self.protocol,
            endpoint=endpoint,
            model="tested",
            api_key_env="K",
            timeout=patience,
        )
        request = ModelRequest(preset, (RequestMessage("user", "Which files?"),))
        text, finish = "", None
        try:
            async for event in self._model.stream(request):
                match event:
                    case Text():
                        text += event.delta
                    case Finish():
                        finish = event.reason
        except AishError as error:
            return Outcome(text, None, error)
        return Outcome(text, finish, None)

    async def provoke(self, row: Row) -> Outcome:
        """Return what comes of a question that meets a fault."""
        self.proxy.fault = row.fault
        return await self.ask(row.endpoint(self.server.url, self.plain), row.patience)


@asynccontextmanager
async def asking(protocol: Protocol, llama_url: str) -> AsyncIterator[Asker]:
    """Give an adapter before llama.cpp; Gemini, which that does not speak, is spoken by hand."""
    async with (
        FaultServer(gemini) as by_hand,
        httpx.AsyncClient(timeout=60, trust_env=False) as behind,
    ):
        proxy = FaultProxy(by_hand.url if protocol == "gemini" else llama_url, behind)
        client = HttpClient()
        async with FaultServer(proxy.script) as server:
            yield Asker(protocol, proxy, server, llama_url, client)
            await client.aclose()


@asynccontextmanager
async def asking_all(llama_url: str) -> AsyncIterator[tuple[list[Asker], FaultServer]]:
    """Give an adapter of each protocol, and another host that must never be asked."""

    async def other(_: Request, peer: Peer) -> None:
        await peer.reply({})

    async with AsyncExitStack() as stack:
        elsewhere = await stack.enter_async_context(FaultServer(other))
        askers = [await stack.enter_async_context(asking(name, llama_url)) for name in PROTOCOLS]
        yield askers, elsewhere


@contextmanager
def near_limits() -> Iterator[None]:
    """Make limits small that would take long to reach, and let no name be looked up elsewhere."""
    resolve = socket.getaddrinfo

    def here_alone(host: Any, *args: Any, **more: Any) -> Any:
        if str(host).endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *args, **more)

    with (
        patch.object(socket, "getaddrinfo", here_alone),
        patch.object(http, "EVENT_LIMIT", 4 << 20),
        patch.object(http, "BODY_LIMIT", 4 << 20),
        patch.object(base, "TAIL_TIMEOUT", 1.0),
    ):
        yield
