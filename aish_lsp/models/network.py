"""Requests to other machines, through the proxies and with the certificates of the environment.

HTTP clients take only some of what it names. Tool servers are reached so, too. What is wrong in a
variable is named in a warning, and as much of it is used as can be.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import BackendUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

#: Seconds for which an idle connection is kept.
KEEP_ALIVE: Final = 30.0

_LIMITS: Final = httpx.Limits(keepalive_expiry=KEEP_ALIVE)

#: An entry of NO_PROXY: a scheme, a name or an address or all of them, a port.
_ENTRY: Final = re.compile(
    r"(?:\w+://)?(?P<host>\*|\*?[\w.-]+(?:/\d+)?|\[?[\da-f:.]*:[\da-f:.]*\]?(?:/\d+)?)"
    r"(?::(?P<port>\d+))?/?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Proxies:
    """Who is reached through which proxy.

    Attributes:
        by_scheme: the address of the proxy for each scheme, and for ``all`` others.
        exceptions: who is reached directly, in NO_PROXY.
        warnings: what is wrong in the environment, for the user.
    """

    by_scheme: dict[str, str] = field(default_factory=dict)
    exceptions: list[re.Match[str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def scheme_for(self, url: str) -> str | None:
        """Return the key of the proxy in ``by_scheme`` for ``url``; None for a direct request."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        if any(_is_for(entry, host, port) for entry in self.exceptions):
            return None
        return next((key for key in (parts.scheme, "all") if key in self.by_scheme), None)

    def proxy_for(self, url: str) -> str | None:
        """Return the address of the proxy for ``url``; None for a direct request."""
        scheme = self.scheme_for(url)
        return None if scheme is None else self.by_scheme[scheme]


def environment_proxies() -> Proxies:
    """Return the environment's proxies. A ``#`` in a password is encoded."""
    from urllib.request import getproxies  # noqa: PLC0415 - brings much; httpx loads it anyway

    given, proxies = getproxies(), Proxies()
    if given.get("http") and given.get("https"):
        # Nothing goes through it, so nobody needs to hear what is wrong with it.
        given.pop("all", None)
    for scheme in ("http", "https", "all"):
        if url := given.get(scheme):
            if "#" in url.rpartition("@")[0]:
                url = url.replace("#", "%23")
                variable = variable_of(scheme)
                proxies.warnings.append(f"{variable} has a `#` in its password: write it as `%23`.")
            # As desktops write it.
            url = re.sub(r"^socks:", "socks5:", url, flags=re.IGNORECASE)
            proxies.by_scheme[scheme] = url if "://" in url else f"http://{url}"
    odd = []
    for entry in filter(None, re.split(r"[\s,;]+", given.get("no", ""))):
        if match := _ENTRY.fullmatch(entry):
            proxies.exceptions.append(match)
        else:
            odd.append(entry)
    if odd:
        proxies.warnings.append(
            "NO_PROXY names something that is neither a host nor an address, which is ignored:"
            f" {', '.join(odd)}."
        )
    return proxies


def variable_of(scheme: str) -> str:
    """Return the name of the variable with the proxy for a scheme."""
    return f"{scheme.upper()}_PROXY"


def _is_for(entry: re.Match[str], host: str, port: int | None) -> bool:
    """Return whether an entry of NO_PROXY means ``host``: its name, a part of it, its network."""
    name = entry["host"].strip("[]").lower().removeprefix("*").removeprefix(".")
    if entry["port"] and int(entry["port"]) != port:
        return False
    if not name or host == name or host.endswith(f".{name}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def environment_certificates(
    create: Callable[..., ssl.SSLContext],
) -> tuple[ssl.SSLContext, list[str]]:
    """Return the environment's certificates, and what is wrong with them.

    ``create`` is httpx's; if what the environment names cannot be read, the usual ones are used.
    """
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    name = next((name for name in names if os.environ.get(name)), "")
    path = os.environ.get(name, "")
    try:
        if path:
            # A folder that is missing would be one without certificates.
            Path(path).stat()
        return create(), []
    except OSError as error:
        warning = (
            f"{name} is {path!r}, which cannot be used ({error.strerror or error}): the usual"
            " certificates are used instead. Correct it, or unset it."
        )
        return create(trust_env=False), [warning]


class Network(httpx.AsyncBaseTransport):
    """Sends each request directly or through a proxy.

    Attributes:
        warnings: what is wrong in the environment, for the user.
    """

    def __init__(self) -> None:
        self._certificates, self.warnings = environment_certificates(httpx.create_ssl_context)
        self._proxies = environment_proxies()
        self.warnings += self._proxies.warnings
        # By the key of the proxy; None for none. In place of a transport, why there is none.
        self._transports: dict[str | None, httpx.AsyncBaseTransport | str] = {
            key: self._transport(key) for key in (None, *self._proxies.by_scheme)
        }

    def _transport(self, scheme: str | None) -> httpx.AsyncBaseTransport | str:
        """Return the transport through the proxy for ``scheme``, or why it cannot be used."""
        try:
            proxy = httpx.Proxy(self._proxies.by_scheme[scheme]) if scheme else None
            return httpx.AsyncHTTPTransport(verify=self._certificates, limits=_LIMITS, proxy=proxy)
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            # The message may contain the proxy's password.
            reason = ": it needs the package `socksio`" if isinstance(error, ImportError) else ""
            message = (
                f"The proxy in {variable_of(scheme or '')} cannot be used{reason}. Correct it."
            )
            self.warnings.append(message)
            return message

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request.

        Raises:
            BackendUnavailable: its proxy cannot be used.
        """
        transport = self._transports[self._proxies.scheme_for(str(request.url))]
        if isinstance(transport, str):
            raise BackendUnavailable(transport)
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            if isinstance(transport, httpx.AsyncBaseTransport):
                await transport.aclose()
