"""From a preset to the adapter that speaks its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aish_lsp.config.schema import Provider
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model


def open_model(
    provider: Provider,
    http: HttpClient,
    environ: Mapping[str, str],
    offline: Callable[[], Model],
) -> Model:
    """Return the adapter that speaks ``provider``'s protocol, for any preset of that provider.

    Args:
        provider: the wire protocol.
        http: what its requests are sent by.
        environ: where keys are looked up.
        offline: opens the model that needs no server.
    """
    # Each is loaded when it is first used.
    match provider:
        case "openai":
            from aish_lsp.models.adapters.openai import OpenAIModel  # noqa: PLC0415 - as above

            return OpenAIModel(http, environ)
        case "openai-responses":
            from aish_lsp.models.adapters.responses import ResponsesModel  # noqa: PLC0415

            return ResponsesModel(http, environ)
        case "anthropic":
            from aish_lsp.models.adapters.anthropic import AnthropicModel  # noqa: PLC0415

            return AnthropicModel(http, environ)
        case "gemini":
            from aish_lsp.models.adapters.gemini import GeminiModel  # noqa: PLC0415

            return GeminiModel(http, environ)
        case "offline":
            return offline()
