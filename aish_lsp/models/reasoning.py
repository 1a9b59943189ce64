"""Whose reasoning a reply's is, and whether it goes back with the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.models.address import server_name

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.request import StoredReasoning

# Protocols that many servers speak, and the parts of the metadata that tell what goes back.
_RETURNED = {
    "openai": ("reasoning_details", "reasoning_field"),
    "openai-responses": ("output",),
}


def reasoning_source(preset: Preset) -> str:
    """Return who wrote the reasoning of a reply from ``preset``; it goes back to nobody else.

    Many servers speak OpenAI's protocols: there it is the server, elsewhere the provider.
    """
    return server_name(preset.endpoint) if preset.provider in _RETURNED else preset.provider


def goes_back(reasoning: StoredReasoning, preset: Preset) -> bool:
    """Return whether a request to ``preset`` carries this reasoning of an earlier reply.

    Over OpenAI's protocols that is what came with parts to return (OpenRouter's
    ``reasoning_details``, encrypted content), or led to a call: other plain reasoning is not sent
    again. Over Anthropic's and Gemini's it is what came signed, and from the same server: a
    signature holds nowhere else. Elsewhere a part without text or metadata makes no sense.
    """
    if reasoning.provider != reasoning_source(preset):
        return False
    returned = _RETURNED.get(preset.provider)
    if returned is not None:
        return any(reasoning.metadata.get(name) for name in returned)
    if preset.provider in {"anthropic", "gemini"}:
        here = server_name(preset.endpoint)
        return bool(reasoning.metadata) and reasoning.metadata.get("server", here) == here
    return bool(reasoning.text or reasoning.metadata)
