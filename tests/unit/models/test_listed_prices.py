"""Prices in a server's own list: OpenRouter's, in the form that it has in November 2026."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import Preset, Price
from aish_lsp.config.trust import TrustStore
from aish_lsp.models.catalog import Catalog
from aish_lsp.models.http import HttpClient
from aish_lsp.models.prices import listed_price, lists_prices


def model(name: str, window: int, **pricing: Any) -> dict[str, Any]:
    """Return an entry as the list has them."""
    return {
        "id": name,
        "canonical_slug": name,
        "hugging_face_id": None,
        "name": name,
        "created": 1760000000,
        "description": "A model.",
        "context_length": window,
        "architecture": {
            "modality": "text->text",
            "input_modalities": ["text"],
            "output_modalities": ["text"],
            "tokenizer": "Other",
            "instruct_type": None,
        },
        "pricing": pricing,
        "top_provider": {
            "context_length": window,
            "max_completion_tokens": 64000,
            "is_moderated": False,
        },
        "per_request_limits": None,
        "supported_parameters": ["max_tokens", "temperature", "tools"],
        "default_parameters": {},
        "expiration_date": None,
    }


LIST = {
    "data": [
        model(
            "maker/plain",
            131072,
            prompt="0.0000003",
            completion="0.0000012",
            input_cache_read="0.00000003",
        ),
        model(
            "maker/long",
            400000,
            prompt="0.000002",
            completion="0.00001",
            input_cache_read="0.0000002",
            input_cache_write="0.0000025",
            web_search="0.01",
            overrides=[
                {"min_prompt_tokens": 272000, "prompt": "0.000004", "completion": "0.000015"}
            ],
        ),
        model("maker/plain:free", 32768, prompt="0", completion="0", request="0"),
        model("openrouter/auto", 2000000, prompt="-1", completion="-1"),
    ]
}


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("maker/plain", Price(input=0.3, output=1.2, cache_read=0.03)),
        # The dearest of its prices, so that a cap holds.
        ("maker/long", Price(input=4.0, output=15.0, cache_read=0.2, cache_write=2.5)),
        ("maker/plain:free", Price(input=0.0, output=0.0)),
        ("openrouter/auto", None),
    ],
)
def test_what_the_list_says(name: str, price: Price | None) -> None:
    [entry] = [entry for entry in LIST["data"] if entry["id"] == name]
    assert listed_price(entry) == price


@pytest.mark.parametrize(
    "pricing",
    [
        None,
        "0.1",
        {},
        {"prompt": "0.1"},
        {"completion": "0.1"},
        {"prompt": "cheap", "completion": "0.1"},
        {"prompt": "NaN", "completion": "0.1"},
        {"prompt": "Infinity", "completion": "0.1"},
        {"prompt": True, "completion": "0.1"},
        {"prompt": None, "completion": "0.1"},
        {"prompt": "0.1", "completion": "0.1", "request": "0.005"},
        {"prompt": "0.1", "completion": "0.1", "request": "?"},
        {"prompt": "0.1", "completion": "0.1", "overrides": [{"prompt": "-1"}]},
    ],
)
def test_what_is_no_price(pricing: Any) -> None:
    assert listed_price({"id": "a", "pricing": pricing}) is None


def test_reasoning_that_has_its_own_price_is_output() -> None:
    pricing = {"prompt": "0.000001", "completion": "0.000002", "internal_reasoning": "0.000003"}
    assert listed_price({"pricing": pricing, "id": "a"}) == Price(input=1.0, output=3.0)
    pricing |= {"overrides": "none", "input_cache_write": "?"}
    assert listed_price({"pricing": pricing, "id": "a"}) == Price(input=1.0, output=3.0)


def test_only_a_list_that_is_known_is_believed() -> None:
    assert lists_prices("https://openrouter.ai/api/v1")
    assert lists_prices("https://OpenRouter.ai/api")
    assert not lists_prices("https://openrouter.ai.example/api/v1")
    assert not lists_prices("http://127.0.0.1:8080")


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient(lambda _place: True)
    yield client
    await client.aclose()


@pytest.fixture
def catalog(http: HttpClient, tmp_path: Path) -> Catalog:
    return Catalog(http, TrustStore(tmp_path / "trust.json"), {"K": "sk"})


def preset(name: str = "maker/plain", **settings: Any) -> Preset:
    # Without TLS, so that a proxy of ours can answer in its place.
    settings = {"endpoint": "http://openrouter.ai/api/v1", "api_key_env": "K", **settings}
    return Preset(name="mine", model=name, **settings)


@pytest.fixture
def replies() -> dict[str, Any]:
    """What the list's server answers now."""
    return {"body": LIST, "status": "200 OK"}


def served(replies: dict[str, Any]) -> FaultServer:
    async def script(request: Request, peer: Peer) -> None:
        assert request.path == "http://openrouter.ai/api/v1/models"
        await peer.reply(replies["body"], replies["status"])

    return FaultServer(script)


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
async def test_price_and_window_come_from_one_question(
    catalog: Catalog, replies: dict[str, Any], monkeypatch: pytest.MonkeyPatch, provider: Any
) -> None:
    async with served(replies) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        mine = preset(provider=provider)
        assert catalog.known_price(mine) is None
        for _ in range(2):
            assert await catalog.price(mine) == Price(input=0.3, output=1.2, cache_read=0.03)
            assert await catalog.window(mine) == 131072
        assert catalog.known_price(mine) == Price(input=0.3, output=1.2, cache_read=0.03)
        assert len(server.requests) == 1
        # Of a model whose list has no price that is known too.
        for _ in range(2):
            assert await catalog.price(preset("openrouter/auto")) is None
        assert len(server.requests) == 2
        # A name that the list does not have is never taken for another.
        assert await catalog.price(preset("maker/plain:nitro")) is None


async def test_a_price_of_ones_own_asks_nothing(
    catalog: Catalog, replies: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(replies) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        assert await catalog.price(preset(price=Price(input=1.0))) is None
        assert await catalog.price(preset(endpoint="http://127.0.0.1:9")) is None
        assert server.requests == []


async def test_a_window_of_ones_own_stands_beside_a_listed_price(
    catalog: Catalog, replies: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(replies) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        mine = preset(context_window=200_000)
        assert await catalog.price(mine) is not None
        assert await catalog.window(mine) == 200_000


async def test_a_list_that_does_not_come_is_asked_for_again(
    catalog: Catalog, replies: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies["status"] = "503 Service Unavailable"
    monkeypatch.setattr("aish_lsp.models.catalog._DISCOVERY_TTL", 0.0)
    async with served(replies) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        assert await catalog.price(preset()) is None
        replies["status"] = "200 OK"
        assert await catalog.price(preset()) is not None
        # Once it is known it stays so while the server is away.
        monkeypatch.setattr("aish_lsp.models.catalog._PRICE_TTL", 0.0)
        replies["status"] = "503 Service Unavailable"
        assert await catalog.price(preset()) is not None
