"""From a preset to the adapter that speaks its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.errors import BackendUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model

# What serves the same models over a protocol that is spoken already.
_INSTEAD = {
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}


def open_model(preset: Preset, http: HttpClient, root: Path) -> Model:
    """Return the adapter for ``preset``. ``root`` is the workspace's folder.

    An adapter keeps nothing of the preset: each request names its own.

    Raises:
        BackendUnavailable: the preset's protocol is not spoken yet.
    """
    if preset.provider == "openai":
        from aish_lsp.models.openai import OpenAIModel  # noqa: PLC0415 - loaded when first used

        return OpenAIModel(http)
    if preset.provider == "offline":
        from aish_lsp.models.offline import OfflineModel  # noqa: PLC0415 - as above

        return OfflineModel(root)
    msg = (
        f'The provider "{preset.provider}" is not supported yet. Use provider = "openai" with '
        f'endpoint = "{_INSTEAD[preset.provider]}".'
    )
    raise BackendUnavailable(msg)
