"""Where a server of Gemini's protocol has its methods, and what it tells about its models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.models.address import api_url
from aish_lsp.models.endpoint import EndpointInfo
from aish_lsp.models.keys import headers_for, request_headers, resolve_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient

#: The version of the API that has thoughts, JSON schemas and the counting of whole requests.
VERSION = "v1beta"

# More than Google has; its pages are of 50 models else.
_ALL = "pageSize=1000"


def model_name(preset: Preset) -> str:
    """Return the name of the model, without the ``models/`` before it that Google's lists have.

    Raises:
        InvalidArgument: the preset names none; these servers have no model of their own choice.
    """
    name = preset.model.strip().removeprefix("models/")
    if not name:
        raise InvalidArgument(
            f"Model {preset.name!r} does not say which of the server's models it is. "
            "Set `model`, for example gemini-flash-latest.",
            path="model",
        )
    return name


def method_url(preset: Preset, method: str, query: str = "") -> str:
    """Return the address of a model's method, e.g. ``countTokens``; empty: of the model itself.

    Raises:
        InvalidArgument: the endpoint is not an address, or the preset names no model.
    """
    path = f"models/{quote(model_name(preset), safe='/')}"
    return _url(preset, f"{path}:{method}" if method else path, query)


def is_vertex(preset: Preset) -> bool:
    """Return whether the endpoint is Google Cloud's, which has Gemini among its publishers."""
    return "/publishers/" in urlsplit(preset.endpoint).path


async def headers_of(preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request.

    For a project of Google Cloud the key is an access token, which goes as a bearer's.

    Raises:
        BackendRejected: as ``resolve_key``.
    """
    if "/projects/" in urlsplit(preset.endpoint).path:
        return request_headers(preset, await resolve_key(preset, environ))
    return await headers_for(preset, environ)


async def describe_gemini(
    http: HttpClient, preset: Preset, environ: Mapping[str, str], *, timeout_s: float
) -> EndpointInfo:
    """Return the models that can be talked to, and the window of the preset's one. Never raises.

    The window is what Google calls the limit of the input: the reply has another of its own.
    ``timeout_s`` is in seconds, for each of two questions.
    """
    try:
        headers = await headers_of(preset, environ)
        url = _url(preset, "models", _ALL)
        models = _entries(await http.get_json(url, headers=headers, timeout_s=timeout_s))
    except AishError:
        return EndpointInfo()
    named = next((entry for entry in models if _name(entry) == preset.model), None)
    try:
        # An alias is not in the list.
        named = named or await http.get_json(
            method_url(preset, ""), headers=headers, timeout_s=timeout_s
        )
    except AishError:
        named = None
    return EndpointInfo(models=tuple(_talking(models)), context_window=_input_limit(named))


def _url(preset: Preset, path: str, query: str) -> str:
    """Return an address within the API; a query of the endpoint's own is kept."""
    url = api_url(preset.endpoint, path, version=VERSION)
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"


def _entries(reply: Any) -> list[dict[str, Any]]:
    found = reply.get("models") if isinstance(reply, dict) else None
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and _name(entry)]


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or "").removeprefix("models/")


def _talking(models: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the names of the models that generate text; others embed, or answer questions."""
    for entry in models:
        methods = entry.get("supportedGenerationMethods")
        if not isinstance(methods, list) or "generateContent" in methods:
            yield _name(entry)


def _input_limit(entry: Any) -> int | None:
    limit = entry.get("inputTokenLimit") if isinstance(entry, dict) else None
    return limit if type(limit) is int and limit > 0 else None
