"""Requests to other machines, through the environment's proxies: a transport for httpx."""

from __future__ import annotations

from typing import Final

import httpx

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.models.proxies import environment_certificates, environment_proxies, variable_of

#: Seconds for which an idle connection is kept.
KEEP_ALIVE: Final = 30.0

_LIMITS: Final = httpx.Limits(keepalive_expiry=KEEP_ALIVE)


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
