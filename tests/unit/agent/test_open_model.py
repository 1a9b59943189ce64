"""From presets to adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from aish_lsp.agent.model_choice import open_model
from aish_lsp.config.schema import Provider
from aish_lsp.models.http import HttpClient
from aish_lsp.offline import OfflineModel


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.mark.parametrize(
    ("provider", "adapter"),
    [
        ("openai", "OpenAIModel"),
        ("openai-responses", "ResponsesModel"),
        ("anthropic", "AnthropicModel"),
        ("gemini", "GeminiModel"),
        ("ollama", "OllamaModel"),
        ("offline", "OfflineModel"),
    ],
)
def test_each_provider_has_its_adapter(
    http: HttpClient, tmp_path: Path, provider: Provider, adapter: str
) -> None:
    assert type(open_model(provider, http, {}, lambda: OfflineModel(tmp_path))).__name__ == adapter


def test_no_provider_is_without_one(http: HttpClient, tmp_path: Path) -> None:
    for provider in get_args(Provider):
        assert callable(open_model(provider, http, {}, lambda: OfflineModel(tmp_path)).stream)
