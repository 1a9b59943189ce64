"""What an endpoint reports about itself (kind, models, window, price), and endpoint discovery."""

from __future__ import annotations

import asyncio
import itertools
import os
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.models.address import api_url, host, server_url
from aish_lsp.models.loose_json import Json, as_dict, as_list, as_text, as_tokens, decoded
from aish_lsp.models.prices import listed_price, lists_prices

if TYPE_CHECKING:
    from aish_lsp.config.schema import Price
    from aish_lsp.models.http import HttpClient


ServerKind: TypeAlias = Literal[
    "llama.cpp", "ollama", "lm-studio", "vllm", "openrouter", "anthropic"
]

#: Ollama's default window on a small machine, in tokens, whatever the model supports.
OLLAMA_DEFAULT_WINDOW = 4096

# The ``owned_by`` that each server gives the models in its list.
_OWNERS: dict[str, ServerKind] = {
    "llamacpp": "llama.cpp",
    "vllm": "vllm",
    "library": "ollama",
    "organization_owner": "lm-studio",
}

# The fields in which servers report a model's window in their lists. LM Studio has two; the smaller
# one, of the loaded model, comes first.
_WINDOW_KEYS = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "max_context_window_tokens",
    "max_context_tokens",
    "context_size",
    "max_seq_len",
    "n_ctx",
)

# Where they report it, besides the entry itself; GitHub Copilot has one within another.
_WINDOW_HOLDERS = ("limits", "capabilities", "top_provider", "meta")

#: Sends a GET to a path outside the API, or a POST if there is a body, and returns the reply.
_Ask: TypeAlias = Callable[..., Awaitable[Json]]


#: Statuses with which servers refuse a key, or want one.
_KEY_STATUSES: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """What an endpoint reports about itself; None or empty if it does not.

    ``models`` are the names of its chat models. ``context_window`` (tokens) and ``price`` (from the
    server's list) are those of the preset's model. ``refuses_key`` is whether it answers only with
    another key than it was sent, or with one at all.
    """

    kind: ServerKind | None = None
    models: tuple[str, ...] = ()
    context_window: int | None = None
    price: Price | None = None
    refuses_key: bool = False


async def describe_listed(
    http: HttpClient, preset: Preset, headers: Mapping[str, str], *, timeout_s: float
) -> EndpointInfo:
    """Ask a server that lists its models in OpenAI's form about itself. Never raises.

    ``timeout_s`` is in seconds, for each of at most three requests.
    """
    try:
        models = await list_models(http, preset, headers, timeout_s=timeout_s)
    except AishError as error:
        return EndpointInfo(refuses_key=error.data.get("status") in _KEY_STATUSES)

    async def ask(path: str, body: Mapping[str, Any] | None = None, query: str = "") -> Json:
        url = server_url(preset.endpoint, path)
        url += f"{'&' if '?' in url else '?'}{query}" if query else ""
        reply = await http.fetch_json(url, body, headers=headers, timeout_s=timeout_s)
        return as_dict(reply)

    kind = _kind(preset, models)
    names = chat_models(models)
    name = preset.model or next(iter(names), "")
    try:
        window = await _ask_window(ask, kind, name)
    except AishError:
        window = None
    entry = _entry(models, name)
    is_priced = lists_prices(preset.endpoint) and entry.get("id") == name
    price = listed_price(entry) if is_priced else None
    return EndpointInfo(kind, names, window or _window(entry), price)


async def list_models(
    http: HttpClient, preset: Preset, headers: Mapping[str, str], *, timeout_s: float
) -> list[Json]:
    """Return the entries of the endpoint's list of models; ``timeout_s`` is in seconds.

    Raises:
        BackendUnavailable, BackendRejected: as ``HttpClient.fetch_json``.
        InvalidArgument: the endpoint is not an HTTP URL.
    """
    url = api_url(preset.endpoint, "models")
    reply = await http.fetch_json(url, headers=headers, timeout_s=timeout_s)
    if not preset.model:
        # Many other programs list something.
        return entries(as_dict(reply), "data")
    models = [{**model, "id": model.get("id") or model.get("name")} for model in _listed(reply)]
    if len(models) == 1 and not models[0]["id"]:
        # A server with one model needs no name for it.
        models[0]["id"] = preset.model
    return entries({"data": models}, "data")


def _listed(reply: Any) -> list[Json]:
    """Return the models in a list of any form: an array, within an object, by name, names alone."""
    if not isinstance(reply, list):
        reply = as_dict(reply).get("data") or as_dict(reply).get("models")
    if isinstance(reply, dict):
        reply = [{"id": name, **as_dict(model)} for name, model in reply.items()]
    return [{"id": one} if isinstance(one, str) else as_dict(one) for one in as_list(reply)]


def chat_models(models: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names in a list of models, without those that do not write text.

    llama.cpp's router lists models that it loads when they are asked for: those that it has loaded
    come first, and those that it could not load last.
    """
    return tuple(model["id"] for model in sorted(models, key=_readiness) if _writes_text(model))


def _writes_text(model: Mapping[str, Any]) -> bool:
    """Return whether a model in a list is for chats, as far as it shows."""
    made = as_dict(model.get("architecture")).get("output_modalities")
    return "embed" not in model["id"].lower() and (not isinstance(made, list) or "text" in made)


def _readiness(model: Mapping[str, Any]) -> int:
    """Return how soon a model in a list can answer; less is sooner."""
    status = as_dict(model.get("status"))
    if status.get("failed") is True:
        return 2
    return 0 if status.get("value", "loaded") in ("loaded", "sleeping") else 1


def _kind(preset: Preset, models: list[Json]) -> ServerKind | None:
    """Return the kind of server, recognized by the entries of its list of models."""
    if lists_prices(preset.endpoint):
        return "openrouter"
    owners = (_OWNERS.get(str(model.get("owned_by"))) for model in models)
    owner = next((owner for owner in owners if owner), None)
    if owner is None and any("value" in as_dict(model.get("status")) for model in models):
        return "llama.cpp"
    if owner is None and any(model.get("type") == "model" for model in models):
        return "anthropic"
    return owner


async def _ask_window(ask: _Ask, kind: ServerKind | None, name: str) -> int | None:
    """Return the window of model ``name``, in tokens, as this kind of server reports it."""
    if kind == "llama.cpp":
        # A router has one for each model, and must not load the model for this.
        query = f"autoload=false&model={quote(name, safe='', errors='replace')}" if name else ""
        settings = as_dict((await ask("props", query=query)).get("default_generation_settings"))
        return as_tokens(settings.get("n_ctx"))
    if kind == "lm-studio":
        return _window(_entry(entries(await ask("api/v0/models"), "data"), name))
    if kind == "anthropic":
        # Its list is paged, and has no aliases.
        return _window(await ask(f"v1/models/{quote(name, safe='', errors='replace')}"))
    if kind == "ollama":
        running = entries(await ask("api/ps"), "models", key="name")
        for model in running:
            if model["name"] == name:
                return as_tokens(model.get("context_length"))
        return _ollama_window(await ask("api/show", {"model": name}))
    return None


def _ollama_window(shown: Mapping[str, Any]) -> int | None:
    """Return the window, in tokens, that Ollama will give a model that is not loaded yet.

    That is the model's ``num_ctx``, or else the server's default, limited by the model's context
    length. Ollama silently truncates input that exceeds the loaded window.
    """
    for line in str(shown.get("parameters") or "").splitlines():
        match line.split():
            case ["num_ctx", value]:
                return as_tokens(decoded(value))
    info = as_dict(shown.get("model_info"))
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    length = as_tokens(lengths[0]) if lengths else None
    return min(length, OLLAMA_DEFAULT_WINDOW) if length else None


def _window(model: Mapping[str, Any]) -> int | None:
    """Return the window in a list's entry, in tokens, or None."""
    holders = [model, *(as_dict(model.get(name)) for name in _WINDOW_HOLDERS)]
    holders += [as_dict(holder.get("limits")) for holder in holders[1:]]
    values = (_tokens(holder.get(key)) for holder in holders for key in _WINDOW_KEYS)
    window = next((value for value in values if value), None)
    return window or _window_to_be(as_list(as_dict(model.get("status")).get("args")))


def _tokens(value: Any) -> int | None:
    """Return a plausible number of tokens, which some servers write as text or as 8192.0."""
    value = decoded(value) if isinstance(value, str) else value
    return as_tokens(int(value) if isinstance(value, float) and value.is_integer() else value)


def _window_to_be(arguments: list[Any]) -> int | None:
    """Return the window that a model will be loaded with, from the command that will load it."""
    for name, value in itertools.pairwise(arguments):
        if name in ("-c", "-ctx", "--ctx-size"):
            return as_tokens(decoded(as_text(value)))
    return None


def _entry(listed: list[Json], name: str) -> Json:
    """Return the entry called ``name``, or the only one if there is one; else an empty one."""
    if len(listed) == 1:
        return listed[0]
    same = [entry for entry in listed if entry["id"].casefold() == name.casefold()]
    exact = (entry for entry in same if entry["id"] == name)
    return next(exact, same[0] if len(same) == 1 else {})


def entries(reply: Mapping[str, Any], name: str, key: str = "id") -> list[Json]:
    """Return the objects of a reply's list ``name`` whose ``key`` is a string."""
    rows = map(as_dict, as_list(reply.get(name)))
    return [item for item in rows if isinstance(item.get(key), str)]


# Discovery: what can answer without configuration, which is model servers on this machine and keys
# in the environment.
#
# A server that is found may be used at once. A key is only offered: nothing is sent to its provider
# before the user has agreed. ``AISH_DISCOVERY=off`` in the environment turns both off.

#: The default ports of model servers: llama.cpp, Ollama, LM Studio, vLLM, llama.cpp's next one.
LOCAL_PORTS = (8080, 11434, 1234, 8000, 9931)

#: Seconds for each request to a port.
PROBE_TIMEOUT = 0.3


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """A provider whose key is, or could be, in the environment.

    ``variable`` is the name of the key's variable; its value is not stored. ``preset`` is ready to
    use once the user has agreed to send text of the project to ``host``. ``keys`` is where one gets
    a key.
    """

    label: str
    variable: str
    host: str
    preset: Preset
    keys: str


@dataclass(frozen=True, slots=True)
class Discovered:
    """Servers that may be used, and keys that the user may be asked about."""

    presets: tuple[Preset, ...] = ()
    offers: tuple[KeyOffer, ...] = ()


def _providers() -> dict[str, Json]:
    """Return the providers by label, each with a preset and the names of its key variables."""
    return tomllib.loads(Path(__file__).with_name("providers.toml").read_text("utf-8"))


async def discover(
    http: HttpClient,
    environ: Mapping[str, str] = os.environ,
    *,
    ports: Iterable[int] = LOCAL_PORTS,
    timeout_s: float = PROBE_TIMEOUT,
) -> Discovered:
    """Probe the loopback ``ports`` and look for key variables in ``environ``. Never raises.

    ``timeout_s`` is in seconds, for each request to a port.
    """
    if environ.get("AISH_DISCOVERY", "").strip().lower() == "off":
        return Discovered()
    presets = await find_local(http, ports=ports, timeout_s=timeout_s)
    return Discovered(presets, find_offers(environ))


async def find_local(
    http: HttpClient, *, ports: Iterable[int] = LOCAL_PORTS, timeout_s: float = PROBE_TIMEOUT
) -> tuple[Preset, ...]:
    """Return a preset for each model server on the loopback ``ports``, in the order of the ports.

    Only a server that lists models in OpenAI's form counts: many other programs use these ports.
    The preset is named after the kind of server (``llama.cpp``, ``ollama``, ``lm-studio``,
    ``vllm``), or ``local`` if that is unknown; a second server of a kind has its port in the name.
    """
    answers = await asyncio.gather(*(_probe(http, port, timeout_s) for port in ports))
    presets: dict[str, Preset] = {}
    for preset in answers:
        if preset is None:
            continue
        name = preset.name
        if name in presets:
            name = f"{name}-{preset.endpoint.rpartition(':')[2]}"
        presets[name] = replace(preset, name=name)
    return tuple(presets.values())


def find_offers(environ: Mapping[str, str]) -> tuple[KeyOffer, ...]:
    """Return an offer for each provider whose key variable is set."""
    return tuple(offer for offer in all_offers(environ) if environ.get(offer.variable, "").strip())


def all_offers(environ: Mapping[str, str]) -> tuple[KeyOffer, ...]:
    """Return an offer for each provider, with the key variable that is set, or its usual one."""
    offers = []
    for label, provider in _providers().items():
        names = provider["variables"]
        variable = next((name for name in names if environ.get(name, "").strip()), names[0])
        preset = Preset(name=label.lower(), api_key_env=variable, **provider["preset"])
        offers.append(KeyOffer(label, variable, host(preset.endpoint), preset, provider["keys"]))
    return tuple(offers)


async def _probe(http: HttpClient, port: int, timeout_s: float) -> Preset | None:
    """Return a preset for the model server on ``port``, or None if no server there has a model."""
    preset = Preset(name="local", endpoint=f"http://127.0.0.1:{port}")
    info = await describe_listed(http, preset, {}, timeout_s=timeout_s)
    if not info.models:
        return None
    return replace(
        preset,
        name=info.kind or preset.name,
        model=info.models[0],
        context_window=info.context_window,
    )
