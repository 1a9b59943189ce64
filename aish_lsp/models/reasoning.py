"""Whose reasoning a reply's is, and whether it goes back with the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.models.address import host

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.request import StoredReasoning


def reasoning_source(preset: Preset) -> str:
    """Return who wrote the reasoning of a reply from ``preset``; it goes back to nobody else.

    Many servers speak the ``openai`` protocol: there it is the server, elsewhere the provider.
    """
    return host(preset.endpoint) if preset.provider == "openai" else preset.provider


def goes_back(reasoning: StoredReasoning, preset: Preset) -> bool:
    """Return whether a request to ``preset`` carries this reasoning of an earlier reply.

    Over ``openai`` that is what came with parts to return (OpenRouter's ``reasoning_details``):
    plain reasoning is not sent again. Elsewhere a part without text or metadata makes no sense.
    """
    if reasoning.provider != reasoning_source(preset):
        return False
    if preset.provider == "openai":
        return bool(reasoning.metadata.get("reasoning_details"))
    return bool(reasoning.text or reasoning.metadata)
