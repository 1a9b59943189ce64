"""Endpoints as users write them, the addresses that follow from them, and keys they expose."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.redaction import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aish_lsp.config.schema import Preset

_VERSION = re.compile(r"v\d+\w*")

# The end of an endpoint that was written out in full.
_WRITTEN_OUT = re.compile(r"/(chat/completions|responses|messages|models)$")


def api_url(endpoint: str, path: str, *, version: str = "v1") -> str:
    """Return the address of ``path`` in the endpoint's API, e.g. ``chat/completions``.

    ``version`` is added unless the endpoint names one itself (``/v1``, ``/api/paas/v4``,
    ``/v1beta/openai``) or was written out up to ``/chat/completions``, ``/responses``,
    ``/messages`` or ``/models``. A query is kept.

    Raises:
        InvalidArgument: the endpoint is not an http address.
    """
    parts = _split(endpoint)
    path_given = parts.path.rstrip("/")
    base = _WRITTEN_OUT.sub("", path_given)
    if base == path_given and not any(_VERSION.fullmatch(segment) for segment in base.split("/")):
        base += f"/{version}"
    return parts._replace(path=f"{base}/{path}", fragment="").geturl()


def server_url(endpoint: str, path: str) -> str:
    """Return the address of ``path`` outside of the endpoint's API, without ``/v1`` before it.

    Raises:
        InvalidArgument: the endpoint is not an http address.
    """
    parts = _split(endpoint)
    base = _WRITTEN_OUT.sub("", parts.path.rstrip("/"))
    segments = base.split("/")
    for position, segment in enumerate(segments):
        if _VERSION.fullmatch(segment):
            base = "/".join(segments[:position])
            break
    return parts._replace(path=f"{base}/{path}", fragment="").geturl()


def origin(url: str) -> str:
    """Return scheme, host and port of ``url``, as messages name a server."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def without_secrets(url: str) -> str:
    """Return ``url`` without its user, password and query."""
    return origin(url) + urlsplit(url).path


def host(url: str) -> str:
    """Return the host's name in lower case."""
    return (urlsplit(url).hostname or "").lower()


def server_name(url: str) -> str:
    """Return host and port, without the scheme's usual port. Two ports are two servers."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    named = "" if parts.port in {None, usual} else f":{parts.port}"
    return host(url) + named


def is_loopback(url: str) -> bool:
    """Return whether ``url`` points at this machine."""
    name = host(url)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _split(endpoint: str) -> SplitResult:
    """Split an endpoint; raise InvalidArgument if it is not an http address."""
    if not endpoint.strip():
        raise InvalidArgument(
            "The model has no endpoint. Set `endpoint`, for example http://127.0.0.1:8080.",
            path="endpoint",
        )
    try:
        parts = urlsplit(endpoint.strip())
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        shown = endpoint.strip().rpartition("@")[2].partition("?")[0]
        msg = f"The endpoint {shown!r} is not an address. Write it like http://127.0.0.1:8080."
        raise InvalidArgument(msg, path="endpoint")
    return parts


# Where a server of Gemini's protocol has its methods.

#: The version of the API that has thoughts, JSON schemas and the counting of whole requests.
_GEMINI_VERSION: Final = "v1beta"

# More than Google has; by default a page has 50 models.
_ALL: Final = "pageSize=1000"


def gemini_model(preset: Preset) -> str:
    """Return the name of the model, without the ``models/`` that Google's lists put before it.

    Raises:
        InvalidArgument: the preset names none; these servers have no default model.
    """
    name = preset.model.strip().removeprefix("models/")
    if not name:
        raise InvalidArgument(
            f"Model {preset.name!r} does not say which of the server's models it is. "
            "Set `model`, for example gemini-flash-latest.",
            path="model",
        )
    return name


def gemini_method_url(preset: Preset, method: str, query: str = "") -> str:
    """Return the address of a model's method, e.g. ``countTokens``, or of the model if empty.

    Raises:
        InvalidArgument: the endpoint is not an address, or the preset names no model.
    """
    path = f"models/{quote(gemini_model(preset), safe='/')}"
    return _gemini_url(preset, f"{path}:{method}" if method else path, query)


def gemini_models_url(preset: Preset) -> str:
    """Return the address of the list of models, all on one page.

    Raises:
        InvalidArgument: the endpoint is not an address.
    """
    return _gemini_url(preset, "models", _ALL)


def is_vertex(preset: Preset) -> bool:
    """Return whether the endpoint is Google Cloud's, which names the publisher of each model."""
    return "/publishers/" in urlsplit(preset.endpoint).path


def _gemini_url(preset: Preset, path: str, query: str) -> str:
    """Return an address within the API; the endpoint's own query is kept."""
    url = api_url(preset.endpoint, path, version=_GEMINI_VERSION)
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"


# Keys that would be sent unencrypted: over http to another machine.

_SECRET_HEADERS: Final = ("auth", "key", "token", "secret", "cookie")


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name may hold a key."""
    return any(word in name.lower() for word in _SECRET_HEADERS)


def exposes(url: str, headers: Iterable[str]) -> bool:
    """Return whether a request exposes a key on its way, in a header or in the address."""
    parts = urlsplit(url)
    if parts.scheme != "http" or is_loopback(url):
        return False
    in_address = parts.password or any(is_secret_name(name) for name, _ in parse_qsl(parts.query))
    return bool(in_address) or any(map(is_secret_header, headers))


def shows_key(preset: Preset, environ: Mapping[str, str]) -> bool:
    """Return whether requests to the server of ``preset`` would expose a key on their way."""
    has_key = preset.api_key_command or (preset.api_key_env and environ.get(preset.api_key_env))
    headers = [*preset.extra_headers, *(["Authorization"] if has_key else [])]
    try:
        return exposes(preset.endpoint, headers)
    except ValueError:
        return False  # not an address: nothing is sent there
