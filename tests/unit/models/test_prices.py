"""The price table: its rows, and which model takes which."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from typing import Any

import pytest

from aish_lsp.config.schema import Preset, Price
from aish_lsp.models import prices
from aish_lsp.models.endpoint import find_offers
from aish_lsp.models.prices import AS_OF, price_of

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
MISTRAL = "https://api.mistral.ai/v1"

ROWS = [
    (server, model, tiers)
    for server, models in prices._table().items()
    for model, tiers in models.items()
]
GPT_4O = Price(input=2.5, output=10, cache_read=1.25)


def price(endpoint: str, model: str, tokens: int | None = None, **fields: Any) -> Price | None:
    return price_of(Preset(endpoint=endpoint, model=model, **fields), tokens)


def test_every_line_of_the_table_is_a_row() -> None:
    lines = prices._lines()
    number = r"[ ]+(?:\d+\.\d+|-)"
    row = re.compile(rf"  (?:[a-z0-9./-]+|  > \d[\d_]*)(?:[ ]+\d+\.\d+){{2}}(?:{number}){{2}}")
    server = re.compile(r"[a-z.]+\.(?:com|ai)")
    assert [line for line in lines if not (row.fullmatch(line) or server.fullmatch(line))] == []
    assert len(lines) == len(prices._table()) + sum(len(tiers) for _, _, tiers in ROWS)


def test_a_rows_prices_are_sane() -> None:
    for server, model, tiers in ROWS:
        assert price(f"https://{server}/v1", model) == tiers[-1][1], model
        bounds = [above for above, _ in tiers]
        assert bounds == sorted(set(bounds)), model
        assert bounds[0] == 0, model
        for _, each in tiers:
            assert 0 < each.input <= each.output <= 300, model
            assert each.cache_read is None or 0 < each.cache_read <= each.input, model
            assert each.cache_write is None or each.input < each.cache_write <= 2 * each.input
        for (_, less), (_, more) in pairwise(tiers):
            assert more.input > less.input, model
            assert more.output > less.output, model
            assert (more.cache_read or more.input) > (less.cache_read or less.input), model


def test_the_tables_date() -> None:
    assert date.fromisoformat(AS_OF) >= date(2026, 11, 22)


@pytest.mark.parametrize(
    ("endpoint", "model", "row"),
    [
        (OPENAI, "gpt-4.1-2025-04-14", "gpt-4.1"),
        (OPENAI, "gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        (OPENAI, "gpt-4o-2024-08-06", "gpt-4o"),
        (OPENAI, " GPT-4o ", "gpt-4o"),
        (ANTHROPIC, "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        (ANTHROPIC, "claude-haiku-4-5-latest", "claude-haiku-4-5"),
        (GEMINI, "models/gemini-2.5-flash", "gemini-2.5-flash"),
        (MISTRAL, "mistral-small-latest", "mistral-small"),
        (GEMINI, "models/gemini-flash-latest", "gemini-3.5-flash"),
        (GEMINI, "gemini-flash-lite-latest", "gemini-3.5-flash-lite"),
    ],
)
def test_a_dated_name_is_the_same_model(endpoint: str, model: str, row: str) -> None:
    found = price(endpoint, model)
    assert found is not None
    assert found == price(endpoint, row)


def test_a_longer_name_does_not_take_the_shorter_ones_price() -> None:
    assert price(OPENAI, "gpt-4o") == GPT_4O
    assert price(OPENAI, "gpt-4o-mini") == Price(input=0.15, output=0.6, cache_read=0.075)
    assert price(OPENAI, "gpt-4o-mini-2024-07-18") == price(OPENAI, "gpt-4o-mini")
    assert price(OPENAI, "gpt-4o-2024-05-13") == Price(input=5, output=15)


@pytest.mark.parametrize(
    ("endpoint", "model"),
    [
        (OPENAI, ""),
        (OPENAI, "gpt"),
        (OPENAI, "gpt-5-whatever"),
        (OPENAI, "gpt-5.9"),
        (OPENAI, "gpt-5-2025"),
        (OPENAI, "gpt-4o-audio-preview"),
        (OPENAI, "gpt-4o-mini-2024-07-18-x"),
        (OPENAI, "gpt-4o-latest-latest"),
        (OPENAI, "my-gpt-4o"),
        (OPENAI, "ft:gpt-4o-mini-2024-07-18:org::id"),
        (OPENAI, "claude-haiku-4-5"),
        (ANTHROPIC, "claude-sonnet"),
        (MISTRAL, "mistral-medium-2508"),
    ],
)
def test_an_unknown_model_has_no_price(endpoint: str, model: str) -> None:
    assert price(endpoint, model) is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://gateway.example/v1",
        "https://api.openai.com.example/v1",
        "https://example/api.openai.com/v1",
        "https://eu.api.openai.com/v1",
        "https://me.openai.azure.com/openai/v1",
        "https://openrouter.ai/api/v1",
        "http://127.0.0.1:8080",
        "http://localhost:11434/v1",
        "http://[::1]:8000",
        "",
        " ",
        "api.openai.com/v1",
    ],
)
def test_the_same_model_elsewhere_has_no_price(endpoint: str) -> None:
    assert price(endpoint, "gpt-4o") is None


@pytest.mark.parametrize(
    "endpoint", [OPENAI, "https://API.openai.com", "https://api.openai.com:443/v1/chat/completions"]
)
def test_a_host_however_it_is_written(endpoint: str) -> None:
    assert price(endpoint, "gpt-4o") == GPT_4O


@pytest.mark.parametrize(
    ("provider", "model", "endpoint"),
    [
        ("openai-responses", "gpt-4o", OPENAI),
        ("anthropic", "claude-haiku-4-5", ANTHROPIC),
        ("gemini", "gemini-2.5-flash", GEMINI),
    ],
)
def test_a_providers_own_host_is_the_default(provider: Any, model: str, endpoint: str) -> None:
    found = price("", model, provider=provider)
    assert found is not None
    assert found == price(endpoint, model)
    assert price("https://gateway.example", model, provider=provider) is None


def test_the_offline_model_has_no_price() -> None:
    assert price("", "offline", provider="offline") is None
    assert price("", "gpt-4o", provider="offline") is None


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, Price(input=1.25, output=10, cache_read=0.125)),
        (1, Price(input=1.25, output=10, cache_read=0.125)),
        (200_000, Price(input=1.25, output=10, cache_read=0.125)),
        (200_001, Price(input=2.5, output=15, cache_read=0.25)),
        (None, Price(input=2.5, output=15, cache_read=0.25)),
    ],
)
def test_a_long_prompt_is_dearer_and_an_unknown_one_counts_as_long(
    tokens: int | None, expected: Price
) -> None:
    assert price(GEMINI, "gemini-2.5-pro", tokens) == expected


def test_a_model_without_tiers_costs_the_same_at_any_length() -> None:
    assert price(OPENAI, "gpt-4o", 10) == price(OPENAI, "gpt-4o", 10**6) == GPT_4O


@pytest.mark.parametrize(
    "extra", [{"service_tier": "priority"}, {"speed": "fast"}, {"inference_geo": "us"}]
)
def test_another_tariff_is_unknown(extra: dict[str, Any]) -> None:
    assert price(OPENAI, "gpt-4o", extra_body=extra) is None
    assert price(OPENAI, "gpt-4o", extra_body={"logit_bias": {}}) == GPT_4O


def test_the_models_that_are_offered_for_a_key_have_prices() -> None:
    variables = ["OPENAI", "ANTHROPIC", "GEMINI", "GROQ", "MISTRAL", "DEEPSEEK"]
    offers = find_offers({f"{name}_API_KEY": "k" for name in variables})
    assert len(offers) == len(variables)
    assert [offer.label for offer in offers if price_of(offer.preset) is None] == []
