"""URLs built from the endpoints that users configure, and checks for keys sent unencrypted."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.redaction import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import Preset

_VERSION = re.compile(r"v\d+\w*")

# The last part of an endpoint that is a full URL of the API.
_WRITTEN_OUT = re.compile(r"/(chat/completions|responses|messages|models)$")


def api_url(endpoint: str, path: str, *, version: str = "v1") -> str:
    """Return the URL of ``path`` in the endpoint's API, e.g. ``chat/completions``.

    ``version`` is added unless the endpoint contains one (``/v1``, ``/api/paas/v4``,
    ``/v1beta/openai``) or ends in ``/chat/completions``, ``/responses``, ``/messages`` or
    ``/models``. A query is kept.

    Raises:
        InvalidArgument: the endpoint is not an HTTP URL.
    """
    parts = _split(endpoint)
    path_given = parts.path.rstrip("/")
    base = _WRITTEN_OUT.sub("", path_given)
    if base == path_given and not any(_VERSION.fullmatch(segment) for segment in base.split("/")):
        base += f"/{version}"
    return parts._replace(path=f"{base}/{path}", fragment="").geturl()


def server_url(endpoint: str, path: str) -> str:
    """Return the URL of ``path`` on the same server but outside the API, without ``/v1``.

    Raises:
        InvalidArgument: the endpoint is not an HTTP URL.
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
    """Return the scheme, host and port of ``url``, without a user or password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def without_secrets(url: str) -> str:
    """Return ``url`` without user, password and query."""
    return origin(url) + urlsplit(url).path


def host(url: str) -> str:
    """Return the host name in lower case; empty if there is none."""
    return (urlsplit(url).hostname or "").lower()


def server_name(url: str) -> str:
    """Return the host, and the port unless it is the scheme's default. Each port is a server."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in {None, default} else f":{parts.port}"
    return host(url) + port


def is_loopback(url: str) -> bool:
    """Return whether ``url`` points at this machine."""
    name = host(url)
    if url.startswith("file:"):
        return True
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _split(endpoint: str) -> SplitResult:
    """Split an endpoint; raise InvalidArgument if it is not an HTTP URL."""
    if not endpoint.strip():
        raise InvalidArgument(
            "The model has no valid endpoint. Set `endpoint`, for example http://127.0.0.1:8080.",
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


# Keys that would be sent unencrypted: over HTTP to another machine.

_SECRET_HEADERS: Final = ("auth", "key", "token", "secret", "cookie")


def is_secret_header(name: str) -> bool:
    """Return whether a header with this name may contain a key."""
    return any(word in name.lower() for word in _SECRET_HEADERS)


def exposes(url: str, headers: Iterable[str]) -> bool:
    """Return whether a request would send a key unencrypted, in a header or in the URL."""
    parts = urlsplit(url)
    if parts.scheme != "http" or is_loopback(url):
        return False
    in_url = parts.password or any(is_secret_name(name) for name, _ in parse_qsl(parts.query))
    return bool(in_url) or any(map(is_secret_header, headers))


def shows_key(preset: Preset) -> bool:
    """Return whether requests to the server of ``preset`` would send a key unencrypted."""
    has_key = preset.api_key_command or preset.api_key_env
    headers = [*preset.extra_headers, *(["Authorization"] if has_key else [])]
    try:
        return exposes(preset.endpoint, headers)
    except ValueError:
        return False  # not a URL: nothing is sent there
