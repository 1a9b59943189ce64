"""Where a server of Gemini's protocol has its methods, and who may call them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.address import api_url
from aish_lsp.models.keys import headers_for, request_headers, resolve_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset

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


def models_url(preset: Preset) -> str:
    """Return the address of the list of models, all on one page.

    Raises:
        InvalidArgument: the endpoint is not an address.
    """
    return _url(preset, "models", _ALL)


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


def _url(preset: Preset, path: str, query: str) -> str:
    """Return an address within the API; a query of the endpoint's own is kept."""
    url = api_url(preset.endpoint, path, version=VERSION)
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"
