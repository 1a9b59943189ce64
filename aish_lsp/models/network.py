"""The environment's proxies and certificates, for httpx, which takes only some of what others take.

What is wrong in a variable is named in a warning, and as much of it is used as can be.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

import httpx

from aish_lsp.foundation.errors import BackendUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator

#: Seconds for which an idle connection is kept.
KEEP_ALIVE: Final = 30.0

_LIMITS: Final = httpx.Limits(keepalive_expiry=KEEP_ALIVE)

#: An entry of NO_PROXY: a scheme, a name or an address, a port.
_ENTRY: Final = re.compile(
    r"(?:\w+://)?(?P<host>\*?[\w.-]+(?:/\d+)?|\[?[\da-f:.]*:[\da-f:.]*\]?(?:/\d+)?)"
    r"(?::(?P<port>\d+))?/?",
    re.IGNORECASE,
)

#: What means all hosts.
_ANY: Final = re.compile(r"(?P<host>\*)(?P<port>)")


class Network(httpx.AsyncBaseTransport):
    """Sends requests to other machines, through the environment's proxies.

    Attributes:
        warnings: what is wrong in the environment, for the user.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._certificates = self._read_certificates()
        self._direct = httpx.AsyncHTTPTransport(verify=self._certificates, limits=_LIMITS)
        given = getproxies()
        self._exceptions = self._read_exceptions(given.get("no", ""))
        self._proxies = dict(self._read_proxies(given))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, directly or through the proxy for its scheme.

        Raises:
            BackendUnavailable: the proxy cannot be used.
        """
        proxy = self.proxy_for(request.url)
        if isinstance(proxy, str):
            raise BackendUnavailable(proxy)
        return await (proxy or self._direct).handle_async_request(request)

    def proxy_for(self, url: httpx.URL) -> httpx.AsyncBaseTransport | str | None:
        """Return the proxy for a request, or why it cannot be used; None if there is none."""
        if _is_any(self._exceptions, url):
            return None
        return self._proxies.get(url.scheme) or self._proxies.get("all")

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in (self._direct, *self._proxies.values()):
            if isinstance(transport, httpx.AsyncBaseTransport):
                await transport.aclose()

    def _read_certificates(self) -> ssl.SSLContext:
        names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
        name = next((name for name in names if os.environ.get(name)), "")
        path = os.environ.get(name, "")
        try:
            if path:
                # A folder that is missing would be one without certificates.
                Path(path).stat()
            return httpx.create_ssl_context()
        except OSError as error:
            reason = error.strerror or error
            self.warnings.append(
                f"{name} is {path!r}, which cannot be used ({reason}): the usual certificates are"
                " used instead. Correct it, or unset it."
            )
            return httpx.create_ssl_context(trust_env=False)

    def _read_exceptions(self, given: str) -> list[re.Match[str]]:
        """Return the entries of NO_PROXY that can be understood."""
        entries = [entry for entry in re.split(r"[\s,;]+", given) if entry]
        matches = [(entry, _ENTRY.fullmatch(entry) or _ANY.fullmatch(entry)) for entry in entries]
        odd = [entry for entry, match in matches if match is None]
        if odd:
            self.warnings.append(
                f"NO_PROXY has what is no host and no address, which is ignored: {', '.join(odd)}."
            )
        return [match for _, match in matches if match is not None]

    def _read_proxies(
        self, given: dict[str, str]
    ) -> Iterator[tuple[str, httpx.AsyncBaseTransport | str]]:
        """Yield the proxy of each scheme, or why it cannot be used."""
        for scheme in ("http", "https", "all"):
            url, name = given.get(scheme), f"{scheme.upper()}_PROXY"
            if not url:
                continue
            if "#" in url.rpartition("@")[0]:
                url = url.replace("#", "%23")
                self.warnings.append(f"{name} has a `#` in its password: write it as `%23`.")
            try:
                proxy = httpx.Proxy(url if "://" in url else f"http://{url}")
                yield (
                    scheme,
                    httpx.AsyncHTTPTransport(
                        verify=self._certificates, limits=_LIMITS, proxy=proxy
                    ),
                )
            except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
                # Not the message alone: it may contain the proxy's password.
                reason = "it needs the package socksio" if isinstance(error, ImportError) else ""
                msg = f"The proxy in {name} cannot be used{reason and f': {reason}'}. Correct it."
                self.warnings.append(msg)
                yield scheme, msg


def _is_any(entries: Iterable[re.Match[str]], url: httpx.URL) -> bool:
    """Return whether one of NO_PROXY's ``entries`` means the host of ``url``."""
    host = url.host.lower()
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    for entry in entries:
        name = entry["host"].strip("[]").lower().removeprefix("*").removeprefix(".")
        if entry["port"] and int(entry["port"]) != port:
            continue
        if not name or host == name or host.endswith(f".{name}") or _is_in(host, name):
            return True
    return False


def _is_in(host: str, name: str) -> bool:
    """Return whether ``host`` is an address in the network ``name``."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False
