"""The wire protocols, a module for each: a conversation becomes a request, a reply becomes events.

``protocol`` finds a module by the name that the configuration gives the protocol. Everything that
depends on a protocol is asked of its class there: a new one is a module, and its name in
``config.schema.Provider``.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset, Provider
    from aish_lsp.models.endpoint import EndpointInfo
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.providers.base import StreamingModel
    from aish_lsp.models.request import StoredReasoning

#: Seconds for each request that asks a server about itself.
DESCRIBE_TIMEOUT = 3.0


@cache
def protocol(provider: Provider) -> type[StreamingModel]:
    """Return the class of a wire protocol, loaded when it is first used.

    The offline model has no protocol: for it, the base class says what holds for all.
    """
    name = "base" if provider == "offline" else provider.removeprefix("openai-")
    loaded: type[StreamingModel] = import_module(f"{__name__}.{name}").PROTOCOL
    return loaded


def reply_limit(preset: Preset) -> int:
    """Return the most tokens that a reply may have: from ``extra_body``, or else the preset's."""
    return protocol(preset.provider).reply_limit(preset)


def reasoning_source(preset: Preset) -> str:
    """Return the name of the source of a reply's reasoning, the only one that it goes back to."""
    return protocol(preset.provider).reasoning_source(preset)


def goes_back(reasoning: StoredReasoning, preset: Preset) -> bool:
    """Return whether a request to ``preset`` carries this reasoning of an earlier reply."""
    return protocol(preset.provider).goes_back(reasoning, preset)


async def describe(
    http: HttpClient,
    preset: Preset,
    environ: Mapping[str, str] = os.environ,
    *,
    timeout_s: float = DESCRIBE_TIMEOUT,
) -> EndpointInfo:
    """Ask the endpoint of ``preset`` about itself. Never raises.

    ``timeout_s`` is in seconds, for each of at most three requests.
    """
    if preset.file is not None:
        # Its server is not started for this.
        from aish_lsp.models.endpoint import EndpointInfo  # noqa: PLC0415 - imports httpx

        models = (preset.model,) if preset.path.is_file() else ()
        return EndpointInfo("llama.cpp" if models else None, models, preset.context_window)
    return await protocol(preset.provider).describe(http, preset, environ, timeout_s=timeout_s)
