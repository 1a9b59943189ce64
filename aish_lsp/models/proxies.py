"""The proxies and certificates that the environment names, of which HTTP clients take only some.

Besides models, tool servers are reached through them. What is wrong in a variable is named in a
warning, and as much of it is used as can be.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

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
            f"NO_PROXY has what is no host and no address, which is ignored: {', '.join(odd)}."
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
