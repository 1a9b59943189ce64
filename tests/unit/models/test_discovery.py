"""What is found without any configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, Script, unused_port

from aish_lsp.models.endpoint import Discovered, discover, find_local, find_offers
from aish_lsp.models.http import HttpClient


def listing(owner: str, *names: str) -> Script:
    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/v1/models":
            data = [{"id": name, "owned_by": owner, "max_model_len": 4096} for name in names]
            await peer.reply({"object": "list", "data": data})
        else:
            await peer.reply(b"nothing here", "404 Not Found", "text/plain")

    return script


def always(body: Any, kind: str = "application/json") -> Script:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(body, kind=kind)

    return script


async def hanging(request: Request, peer: Peer) -> None:
    await asyncio.sleep(60)


async def babbling(request: Request, peer: Peer) -> None:
    while True:
        await peer.send(b"220 some other protocol\r\n")
        await asyncio.sleep(0.01)


#: They never come to an end of an answer.
ENDLESS = (hanging, babbling)


class Patient(HttpClient):
    """Waits as long as it is told for ``endless`` servers alone, and for others till they answer.

    So what is found does not depend on how busy the machine is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.endless: set[str] = set()

    async def fetch_json(
        self,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Any:
        ends = not any(url.startswith(f"{one}/") for one in self.endless)
        timeout_s = 60 if ends else timeout_s
        return await super().fetch_json(url, body, headers=headers, timeout_s=timeout_s)


@pytest.fixture
async def http() -> AsyncIterator[Patient]:
    client = Patient()
    yield client
    await client.aclose()


async def found(http: Patient, *scripts: Script) -> dict[str, tuple[str, str, int | None]]:
    """Return what is found on the scripts' ports: name to (which script, model, window)."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(FaultServer(script)) for script in scripts]
        pairs = zip(servers, scripts, strict=True)
        http.endless = {server.url for server, script in pairs if script in ENDLESS}
        ports = [server.port for server in servers]
        presets = await find_local(http, ports=[*ports, unused_port()], timeout_s=1.0)
    named: dict[str, tuple[str, str, int | None]] = {}
    for preset in presets:
        position = ports.index(int(preset.endpoint.rpartition(":")[2]))
        name = preset.name.replace(str(ports[position]), f"PORT{position}")
        named[name] = (f"server {position}", preset.model, preset.context_window)
    return named


async def test_servers_are_named_by_what_they_say_they_are(http: Patient) -> None:
    assert await found(
        http,
        listing("llamacpp", "tiny"),
        listing("library", "nomic-embed-text", "llama3:8b"),
        listing("organization_owner", "qwen"),
        listing("vllm", "big"),
    ) == {
        "llama.cpp": ("server 0", "tiny", 4096),
        "ollama": ("server 1", "llama3:8b", 4096),
        "lm-studio": ("server 2", "qwen", 4096),
        "vllm": ("server 3", "big", 4096),
    }


async def test_two_of_a_kind_and_one_that_does_not_say(http: Patient) -> None:
    assert await found(
        http, listing("llamacpp", "a"), listing("llamacpp", "b"), listing("me", "c")
    ) == {
        "llama.cpp": ("server 0", "a", 4096),
        "llama.cpp-PORT1": ("server 1", "b", 4096),
        "local": ("server 2", "c", 4096),
    }


@pytest.mark.parametrize(
    "script",
    [
        always(b"<html><title>Jenkins</title></html>", "text/html"),
        always({"status": "ok"}),
        always({"object": "list", "data": []}),
        always({"object": "list", "data": None}),
        always({"data": [{"name": "a row of something else"}]}),
        always([]),
        listing("library"),
        listing("library", "only-embeddings"),
        hanging,
        babbling,
    ],
)
@pytest.mark.slow
async def test_what_is_no_model_server_is_left_alone(http: Patient, script: Script) -> None:
    begin = time.monotonic()
    assert await found(http, script, listing("vllm", "big")) == {"vllm": ("server 1", "big", 4096)}
    assert time.monotonic() - begin < 20


@pytest.mark.slow
async def test_ports_are_asked_side_by_side(http: Patient) -> None:
    await found(http, hanging)
    begin = time.monotonic()
    assert await found(http, *[hanging] * 20) == {}
    assert time.monotonic() - begin < 10


async def test_nothing_found(http: Patient) -> None:
    assert await discover(http, {}, ports=[unused_port()]) == Discovered()


async def test_off_finds_nothing(http: Patient) -> None:
    environ = {"AISH_DISCOVERY": "off", "OPENAI_API_KEY": "sk"}
    async with FaultServer(listing("vllm", "big")) as server:
        assert await discover(http, environ, ports=[server.port]) == Discovered()
    assert server.requests == []


async def test_no_key_is_sent_while_looking(http: Patient) -> None:
    async with FaultServer(listing("vllm", "big")) as server:
        result = await discover(http, {"OPENAI_API_KEY": "sk"}, ports=[server.port], timeout_s=1)
    assert [preset.name for preset in result.presets] == ["vllm"]
    assert [offer.label for offer in result.offers] == ["OpenAI"]
    assert all("authorization" not in request.headers for request in server.requests)


ALL_KEYS = [
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY",
    "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY",
]  # fmt: skip


def test_keys_are_offered_by_name_and_not_kept() -> None:
    offers = find_offers(dict.fromkeys(ALL_KEYS, "sk-secret-value"))
    assert [offer.variable for offer in offers] == ALL_KEYS
    assert "sk-secret-value" not in repr(offers)
    for offer in offers:
        assert offer.preset.api_key_env == offer.variable
        assert offer.preset.model
        assert f"{offer.preset.endpoint}/".startswith(f"https://{offer.host}/")
        own = {"Anthropic": "anthropic", "Gemini": "gemini"}
        assert offer.preset.provider == own.get(offer.label, "openai")
    assert len({offer.preset.name for offer in offers}) == len(ALL_KEYS)


def test_either_name_of_geminis_key_and_only_one_offer() -> None:
    [offer] = find_offers({"GOOGLE_API_KEY": "k"})
    assert offer.variable == offer.preset.api_key_env == "GOOGLE_API_KEY"
    [offer] = find_offers({"GOOGLE_API_KEY": "k", "GEMINI_API_KEY": "k"})
    assert offer.variable == "GEMINI_API_KEY"


def test_empty_variables_offer_nothing() -> None:
    assert find_offers({"OPENAI_API_KEY": " ", "GROQ_API_KEY": ""}) == ()


def test_the_page_has_what_is_offered() -> None:
    page = Path(__file__).parents[3] / "docs/providers/README.md"
    rows = [line for line in page.read_text().splitlines() if "_API_KEY`" in line]
    offers = find_offers(dict.fromkeys(ALL_KEYS, "k"))
    for row, offer in zip(rows, offers, strict=True):
        for told in (offer.variable, offer.preset.model, offer.preset.provider):
            assert f"`{told}`" in row


async def test_nobody_gets_a_port_on_which_a_test_expects_nobody() -> None:
    kept = unused_port()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", kept)
    with pytest.raises(OSError, match="in use"):
        await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", kept)
