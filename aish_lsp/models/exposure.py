"""Keys that would go out unencrypted: over http to another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from aish_lsp.foundation.redaction import is_secret_name
from aish_lsp.models.address import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aish_lsp.config.schema import Preset

_SECRET_HEADERS: Final = ("auth", "key", "token", "secret", "cookie")


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name may hold a key."""
    return any(word in name.lower() for word in _SECRET_HEADERS)


def exposes(url: str, headers: Iterable[str]) -> bool:
    """Return whether a request shows a key on its way: in a header or in the address itself."""
    parts = urlsplit(url)
    if parts.scheme != "http" or is_loopback(url):
        return False
    in_address = parts.password or any(is_secret_name(name) for name, _ in parse_qsl(parts.query))
    return bool(in_address) or any(map(is_secret_header, headers))


def shows_key(preset: Preset, environ: Mapping[str, str]) -> bool:
    """Return whether requests to the server of ``preset`` would show a key on their way."""
    has_key = preset.api_key_command or (preset.api_key_env and environ.get(preset.api_key_env))
    headers = [*preset.extra_headers, *(["Authorization"] if has_key else [])]
    try:
        return exposes(preset.endpoint, headers)
    except ValueError:
        return False  # no address: nothing is sent there
