"""From presets to adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.config.schema import Preset, Provider
from aish_lsp.errors import BackendUnavailable
from aish_lsp.models.http import HttpClient
from aish_lsp.models.openai import OpenAIModel
from aish_lsp.models.registry import open_model


def test_openai(http: HttpClient, tmp_path: Path) -> None:
    assert isinstance(open_model(Preset(), http, tmp_path), OpenAIModel)


def test_offline(http: HttpClient, tmp_path: Path) -> None:
    from aish_lsp.models.offline import OfflineModel

    assert isinstance(open_model(Preset(provider="offline"), http, tmp_path), OfflineModel)


@pytest.mark.parametrize("provider", ["openai-responses", "anthropic", "gemini"])
def test_what_is_not_spoken_yet_says_what_to_use(
    http: HttpClient, tmp_path: Path, provider: Provider
) -> None:
    with pytest.raises(BackendUnavailable, match=f'"{provider}" is not supported yet.*endpoint = '):
        open_model(Preset(provider=provider), http, tmp_path)
