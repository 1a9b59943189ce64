"""Which endpoints there are, and what each says about itself: its kind, models, window, price."""

from __future__ import annotations

import asyncio
import os
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError
from aish_lsp.models.address import (
    api_url,
    gemini_method_url,
    gemini_models_url,
    host,
    server_url,
)
from aish_lsp.models.keys import headers_for
from aish_lsp.models.loose_json import Json, as_dict, as_list
from aish_lsp.models.prices import listed_price, lists_prices

if TYPE_CHECKING:
    from aish_lsp.config.schema import Price
    from aish_lsp.models.http import HttpClient


ServerKind: TypeAlias = Literal[
    "llama.cpp", "ollama", "lm-studio", "vllm", "openrouter", "anthropic"
]

#: Seconds for each question to a server about itself.
DESCRIBE_TIMEOUT = 3.0

#: Tokens that Ollama gives a model on a small machine, however many the model could take.
OLLAMA_DEFAULT_WINDOW = 4096

# How each server signs the models in its list.
_OWNERS: dict[str, ServerKind] = {
    "llamacpp": "llama.cpp",
    "vllm": "vllm",
    "library": "ollama",
    "organization_owner": "lm-studio",
}

# Where servers and providers put a model's window in their lists. LM Studio has two fields; that of
# the loaded model is the smaller.
_WINDOW_KEYS = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
)


#: Asks the server at a path beside its API: by a GET, or a POST of a body.
_Ask: TypeAlias = Callable[..., Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """What an endpoint says about itself; None and empty if it does not say.

    ``models`` are the names of its chat models. ``context_window`` is that of the preset's model,
    in tokens, and ``price`` is its price in the server's own list.
    """

    kind: ServerKind | None = None
    models: tuple[str, ...] = ()
    context_window: int | None = None
    price: Price | None = None


async def describe(
    http: HttpClient,
    preset: Preset,
    environ: Mapping[str, str] = os.environ,
    *,
    timeout_s: float = DESCRIBE_TIMEOUT,
) -> EndpointInfo:
    """Ask the endpoint of ``preset`` about itself. Never raises.

    ``timeout_s`` is in seconds, for each of at most three questions.
    """
    if preset.provider == "gemini":
        return await _describe_gemini(http, preset, environ, timeout_s=timeout_s)
    try:
        headers = await headers_for(preset, environ)
        models = await list_models(http, preset, headers, timeout_s=timeout_s)
    except AishError:
        return EndpointInfo()

    async def ask(path: str, body: Mapping[str, Any] | None = None) -> Json:
        url = server_url(preset.endpoint, path)
        reply = await http.fetch_json(url, body, headers=headers, timeout_s=timeout_s)
        return as_dict(reply)

    kind = _kind(preset, models)
    names = chat_models(models)
    name = preset.model or next(iter(names), "")
    try:
        told = await _ask_window(ask, kind, name)
    except AishError:
        told = None
    entry = _entry(models, name)
    price = listed_price(entry) if lists_prices(preset.endpoint) else None
    return EndpointInfo(kind, names, told or _window(entry), price)


async def list_models(
    http: HttpClient, preset: Preset, headers: Mapping[str, str], *, timeout_s: float
) -> list[Json]:
    """Return the entries of the endpoint's list of models; ``timeout_s`` is in seconds.

    Raises:
        BackendUnavailable, BackendRejected: as ``HttpClient.fetch_json``.
        InvalidArgument: the endpoint is not an address.
    """
    url = api_url(preset.endpoint, "models")
    reply = await http.fetch_json(url, headers=headers, timeout_s=timeout_s)
    return _entries(as_dict(reply), "data")


def chat_models(models: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names in a list of models, without embedding models."""
    return tuple(model["id"] for model in models if "embed" not in model["id"].lower())


def _kind(preset: Preset, models: list[Json]) -> ServerKind | None:
    """Return the kind of the server, recognised by how it signs its models."""
    if lists_prices(preset.endpoint):
        return "openrouter"
    owners = (_OWNERS.get(str(model.get("owned_by"))) for model in models)
    owner = next((owner for owner in owners if owner), None)
    if owner is None and any(model.get("type") == "model" for model in models):
        return "anthropic"
    return owner


async def _ask_window(ask: _Ask, kind: ServerKind | None, name: str) -> int | None:
    """Ask the server in its own way for the window of model ``name``, in tokens."""
    if kind == "llama.cpp":
        settings = as_dict((await ask("props")).get("default_generation_settings"))
        return _tokens(settings.get("n_ctx"))
    if kind == "lm-studio":
        return _window(_entry(_entries(await ask("api/v0/models"), "data"), name))
    if kind == "anthropic":
        # Its list is cut into pages, and has no aliases.
        return _window(await ask(f"v1/models/{quote(name, safe='', errors='replace')}"))
    if kind == "ollama":
        running = _entries(await ask("api/ps"), "models", key="name")
        for model in running:
            if model["name"] == name:
                return _tokens(model.get("context_length"))
        return _ollama_window(await ask("api/show", {"model": name}))
    return None


def _ollama_window(shown: Mapping[str, Any]) -> int | None:
    """Return the window that Ollama will give a model which it has not loaded yet, in tokens.

    That is the model's own ``num_ctx``, or else the server's default, but at most the model's own
    length. Ollama silently cuts off what exceeds the loaded window.
    """
    for line in str(shown.get("parameters") or "").splitlines():
        match line.split():
            case ["num_ctx", value]:
                return _tokens(int(value)) if value.isdecimal() else None
    info = as_dict(shown.get("model_info"))
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    length = _tokens(lengths[0]) if lengths else None
    return min(length, OLLAMA_DEFAULT_WINDOW) if length else None


def _window(model: Mapping[str, Any]) -> int | None:
    """Return the window in an entry of a list, in tokens."""
    meta = as_dict(model.get("meta"))
    values = (_tokens(model.get(key)) for key in _WINDOW_KEYS)
    return next((value for value in values if value), None) or _tokens(meta.get("n_ctx"))


def _entry(entries: list[Json], name: str) -> Json:
    """Return the entry called ``name``, or the only one there is; else an empty one."""
    if len(entries) == 1:
        return entries[0]
    return next((entry for entry in entries if entry["id"] == name), {})


def _entries(reply: Mapping[str, Any], name: str, key: str = "id") -> list[Json]:
    """Return the objects of a reply's list ``name`` that have a text under ``key``."""
    found = map(as_dict, as_list(reply.get(name)))
    return [item for item in found if isinstance(item.get(key), str)]


def _tokens(value: Any) -> int | None:
    """Return a positive number of tokens, or None."""
    return value if type(value) is int and value > 0 else None


async def _describe_gemini(
    http: HttpClient, preset: Preset, environ: Mapping[str, str], *, timeout_s: float
) -> EndpointInfo:
    """Return the models that generate text, and the window of the preset's. Never raises.

    The window is what Google calls the input limit; the reply has a limit of its own.
    ``timeout_s`` is in seconds, for each of two questions.
    """
    try:
        headers = await headers_for(preset, environ)
        url = gemini_models_url(preset)
        listed = as_dict(await http.fetch_json(url, headers=headers, timeout_s=timeout_s))
    except AishError:
        return EndpointInfo()
    models = {
        model["name"].removeprefix("models/"): model for model in _entries(listed, "models", "name")
    }
    talking = (name for name, model in models.items() if name and _can_generate(model))
    named = models.get(preset.model)
    try:
        # An alias is not in the list.
        url = gemini_method_url(preset, "")
        named = named or await http.fetch_json(url, headers=headers, timeout_s=timeout_s)
    except AishError:
        named = None
    window = _tokens(as_dict(named).get("inputTokenLimit"))
    return EndpointInfo(models=tuple(talking), context_window=window)


def _can_generate(model: Json) -> bool:
    """Return whether a model generates text, as far as it says; others embed, for example."""
    methods = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


# What can answer without any configuration: model servers on this machine, and keys in the
# environment.
#
# A server that is found may be used. A key that is found is only offered: nothing goes to a
# provider before the user has agreed. ``AISH_DISCOVERY=off`` in the environment turns both off.

#: The default ports of model servers: llama.cpp, Ollama, LM Studio, vLLM.
LOCAL_PORTS = (8080, 11434, 1234, 8000)

#: Seconds for each question to a port.
PROBE_TIMEOUT = 0.3


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """A provider whose key is in the environment.

    ``variable`` is the name of the key's variable; its value is not kept. ``preset`` is ready to
    use once the user has agreed that text of the project goes to ``host``.
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


def _providers() -> dict[str, Json]:
    """Return the providers by label, each with a preset and the variables of its key."""
    return tomllib.loads(Path(__file__).with_name("providers.toml").read_text("utf-8"))


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

    A server must list models in OpenAI's form, as many other things listen on these ports. The
    preset is named after the server (``llama.cpp``, ``ollama``, ``lm-studio``, ``vllm``), or
    ``local`` if that is not known; a second server of a kind has its port in the name.
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
    for label, provider in _providers().items():
        keys = (name for name in provider["variables"] if environ.get(name, "").strip())
        variable = next(keys, None)
        if variable is not None:
            preset = Preset(name=label.lower(), api_key_env=variable, **provider["preset"])
            offers.append(KeyOffer(label, variable, host(preset.endpoint), preset))
    return tuple(offers)


async def _probe(http: HttpClient, port: int, timeout_s: float) -> Preset | None:
    """Return a preset for the model server on ``port``, or None if there is none with a model."""
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
