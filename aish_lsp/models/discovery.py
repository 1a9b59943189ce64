"""What can answer without any configuration: model servers on this machine, and keys at hand.

A server that is found may be used. A key that is found is only offered: nothing goes to a provider
before the user agreed. With ``AISH_DISCOVERY=off`` in the environment neither is looked for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aish_lsp.config.schema import Preset
from aish_lsp.models.address import host
from aish_lsp.models.endpoint import describe

if TYPE_CHECKING:
    from aish_lsp.models.http import HttpClient

#: Where model servers listen unless told otherwise: llama.cpp, Ollama, LM Studio, vLLM.
LOCAL_PORTS = (8080, 11434, 1234, 8000)

#: Seconds for each question to a port.
PROBE_TIMEOUT = 0.3


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """A provider whose key lies in the environment.

    ``variable`` names where the key is; its value is not kept. ``preset`` is ready to use once the
    user agreed that text of the project goes to ``host``.
    """

    label: str
    variable: str
    host: str
    preset: Preset


@dataclass(frozen=True, slots=True)
class Discovered:
    """Servers that may be used, and keys that may be asked about."""

    presets: tuple[Preset, ...] = ()
    offers: tuple[KeyOffer, ...] = ()


# By label: a model to begin with, a small one or the provider's own choice, over the protocol that
# gives the most of it: thoughts that go back, the cache, counts. Then the variables of the key.
_PROVIDERS: dict[str, tuple[Preset, tuple[str, ...]]] = {
    "OpenAI": (
        Preset(endpoint="https://api.openai.com/v1", model="gpt-5.4-mini"),
        ("OPENAI_API_KEY",),
    ),
    "Anthropic": (
        Preset(provider="anthropic", model="claude-haiku-4-5"),
        ("ANTHROPIC_API_KEY",),
    ),
    "Gemini": (
        # It thinks unasked, and what it thinks counts as output.
        Preset(
            provider="gemini",
            model="gemini-3.8-flash",
            context_window=1_000_000,
            max_output_tokens=8192,
        ),
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "OpenRouter": (
        Preset(endpoint="https://openrouter.ai/api/v1", model="openrouter/auto"),
        ("OPENROUTER_API_KEY",),
    ),
    "Groq": (
        Preset(endpoint="https://api.groq.com/openai/v1", model="openai/gpt-oss-120b"),
        ("GROQ_API_KEY",),
    ),
    "Mistral": (
        Preset(endpoint="https://api.mistral.ai/v1", model="mistral-small-latest"),
        ("MISTRAL_API_KEY",),
    ),
    "DeepSeek": (
        Preset(endpoint="https://api.deepseek.com/v1", model="deepseek-flash"),
        ("DEEPSEEK_API_KEY",),
    ),
}


async def discover(
    http: HttpClient,
    environ: Mapping[str, str] = os.environ,
    *,
    ports: Iterable[int] = LOCAL_PORTS,
    timeout_s: float = PROBE_TIMEOUT,
) -> Discovered:
    """Look at the loopback ``ports`` and at the key variables of ``environ``. Never raises.

    ``timeout_s`` is in seconds, for each question to a port.
    """
    if environ.get("AISH_DISCOVERY", "").strip().lower() == "off":
        return Discovered()
    presets = await find_local(http, ports=ports, timeout_s=timeout_s)
    return Discovered(presets, find_offers(environ))


async def find_local(
    http: HttpClient, *, ports: Iterable[int] = LOCAL_PORTS, timeout_s: float = PROBE_TIMEOUT
) -> tuple[Preset, ...]:
    """Return a preset for each model server on the loopback ``ports``, in their order.

    What answers must list models in OpenAI's form; many other things listen on these ports. The
    preset is called after the server (``llama.cpp``, ``ollama``, ``lm-studio``, ``vllm``), or
    ``local`` where it does not say what it is; a second one of a kind has its port in its name.
    """
    found = await asyncio.gather(*(_probe(http, port, timeout_s) for port in ports))
    presets: dict[str, Preset] = {}
    for preset in found:
        if preset is None:
            continue
        name = preset.name
        if name in presets:
            name = f"{name}-{preset.endpoint.rpartition(':')[2]}"
        presets[name] = replace(preset, name=name)
    return tuple(presets.values())


def find_offers(environ: Mapping[str, str]) -> tuple[KeyOffer, ...]:
    """Return an offer for each provider whose key variable is set."""
    offers = []
    for label, (model, variables) in _PROVIDERS.items():
        variable = next((name for name in variables if environ.get(name, "").strip()), None)
        if variable is not None:
            preset = replace(model, name=label.lower(), api_key_env=variable)
            offers.append(KeyOffer(label, variable, host(preset.endpoint), preset))
    return tuple(offers)


async def _probe(http: HttpClient, port: int, timeout_s: float) -> Preset | None:
    """Return a preset for the model server on ``port``, if there is one with a model."""
    preset = Preset(name="local", endpoint=f"http://127.0.0.1:{port}")
    info = await describe(http, preset, {}, timeout_s=timeout_s)
    if not info.models:
        return None
    return replace(
        preset,
        name=info.kind or preset.name,
        model=info.models[0],
        context_window=info.context_window,
    )
