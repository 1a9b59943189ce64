"""The transport to a tool server at an address: the SDK's streamable HTTP.

Proxies and certificates come from the environment, as for models. A refusal gets its status, its
address and what to do, none of which the SDK passes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp import MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import BackendUnavailable, Denied
from aish_lsp.foundation.masking import Mask
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import exposes, is_loopback, without_secrets
from aish_lsp.models.faults import quoted, redactor
from aish_lsp.models.network import (
    Proxies,
    environment_certificates,
    environment_proxies,
    variable_of,
)
from aish_lsp.tools.sign_in import SignIn, is_open_to_others
from aish_lsp.tools.transports import LONGEST_MESSAGE
from aish_lsp.tools.wire import messages_in

if TYPE_CHECKING:
    from mcp_types import RequestId

    from aish_lsp.foundation.ports import AskUser

logger = logging.getLogger(__name__)

#: Seconds that a server at an address has for each step, and that it may be silent within a reply.
_TIMEOUT: Final = 30.0
_SILENCE: Final = 300.0

#: The header with the name of a session.
_SESSION: Final = "mcp-session-id"

_ACCEPTED: Final = 202

#: What to do about a status.
_REMEDIES: Final = {
    400: "Does the server need other `headers`?",
    401: 'Set a key in its `headers`, for example Authorization = "Bearer ${NAME}".',
    403: "Its `headers` have a key that may not do this, or none.",
    404: "Check the path of `url`: it often ends in /mcp.",
    405: "Check the path of `url`: the server has to speak streamable HTTP there, often at /mcp.",
    406: "Check `url`: the server has to speak streamable HTTP there.",
    407: "Check the user and the password in HTTPS_PROXY.",
    415: "Check `url`: the server has to speak streamable HTTP there.",
    421: "The server does not take requests for this name: check its list of allowed hosts.",
    429: "Wait a while.",
}
_FAILED: Final = "The server itself failed: its own log may say why."

#: The statuses by which a server says that it does not know a session.
_LOST: Final = frozenset({400, 404})

#: The statuses by which older servers refuse the first message of newer ones.
_OLDER: Final = frozenset({400, 404, 405, 406, 411, 415, 422})

#: JSON-RPC's codes for a request that is wrong in itself: no method, parameters, not JSON.
_OUR_FAULT: Final = frozenset({-32601, -32602, -32700})

#: How many refusals are kept until their requests are answered.
_MOST_REFUSALS: Final = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response that is no reply, from ``where``: ``said`` is how its body begins."""

    status: int
    where: str
    said: str
    had_session: bool


class RemoteTransport:
    """Talks to a server over streamable HTTP, as the SDK's ``Transport``.

    With ``over``, it is the older kind of server, which sends all replies as events of one stream;
    ``over`` is called when that is of no more use.

    The first request may have to wait for the user to sign in. ``headers`` go with each request; if
    they contain ``Authorization``, the user need not sign in. ``wait`` is called with the number of
    seconds that the user may keep the connection waiting. ``secrets`` are parts of the address or
    of headers that no error may contain. ``extra_certificates`` is a file with certificates to
    trust besides the usual ones.

    Attributes:
        trouble: why the connection is of no more use; empty if it is not known.
        last_words: always empty: what it writes into its log is not seen.

    Raises:
        Denied: a header would go unencrypted to another machine.
    """

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        ask_user: AskUser,
        wait: Callable[[float], None],
        *,
        secrets: Iterable[str] = (),
        extra_certificates: str = "",
        over: Callable[[], None] | None = None,
    ) -> None:
        if exposes(url, ()) or (headers and is_open_to_others(url)):
            what = "headers" if headers else "address has a key, and"
            raise Denied(f"its {what} would go unencrypted to another machine: use https")
        self._url = url
        self._headers = dict(headers)
        self._without_headers, self._mask = redactor(headers), Mask(secrets)
        self._shown = self._redact(without_secrets(url))
        self._certificates = extra_certificates
        signs_in = "authorization" not in map(str.lower, headers)
        self._sign_in = SignIn(name, url, ask_user, wait) if signs_in else None
        self._over = over
        self._refusals: dict[str, Refusal] = {}
        self._streams: Any = self._open()
        self.trouble = ""
        self.last_words = ""

    async def __aenter__(self) -> Any:
        """Open the connection; return what it receives and what it sends."""
        return await self._streams.__aenter__()

    async def __aexit__(self, *error: object) -> bool | None:
        """Close the connection."""
        closed: bool | None = await self._streams.__aexit__(*error)
        return closed

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[tuple[Any, Any]]:
        client = await asyncio.to_thread(
            _open_client,
            self._url,
            self._certificates,
            headers=self._headers,
            auth=self._sign_in.provider() if self._sign_in else None,
            timeout=httpx2.Timeout(_TIMEOUT, read=_SILENCE),
        )
        client.event_hooks["response"] += [_bounded, self._keep]
        client.failed = self._failed
        if self._over is None:
            async with (
                client,
                streamable_http_client(
                    self._url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
                ) as streams,
            ):
                yield streams
        else:
            made: Any = lambda **_: client  # noqa: E731 - the SDK gives it what the client has
            async with AsyncExitStack() as stack:
                older = sse_client(self._url, httpx_client_factory=made)
                async with asyncio.timeout(_TIMEOUT):
                    streams = await stack.enter_async_context(older)
                yield streams

    def _redact(self, text: str) -> str:
        return self._mask.parts(self._without_headers(text), "***")

    def may_be_older(self, error: BaseException) -> bool:
        """Return whether the server may be of the older kind: it refused the first message."""
        data = error.error.data if isinstance(error, MCPError) else None
        return isinstance(data, dict) and data.get("status") in _OLDER and not data.get(LOST)

    def _failed(self, error: httpx2.TransportError) -> None:
        """Note that a message could not be sent."""
        if self._over is not None:
            # The SDK tells nobody.
            self.trouble = transport_fault(error, self._shown)
            self._over()

    async def _keep(self, response: httpx2.Response) -> None:
        """Keep a refusal of a request until its error comes."""
        number = _number_of(response.request)
        if not number:
            return
        self._refusals.pop(number, None)
        kind = response.headers.get("content-type", "").lower()
        is_reply = kind.startswith(("application/json", "text/event-stream"))
        if response.is_redirect or response.status_code == _ACCEPTED:
            return
        if response.is_success and (is_reply or self._over is not None):
            return
        body = await response.aread()
        if response.is_success and body.startswith(b'{"jsonrpc"'):
            # It is a reply, whatever it calls itself.
            response.headers["content-type"] = "application/json"
            return
        quoted_body = self._redact(quoted(body))
        had_session = _SESSION in response.request.headers
        refusal = Refusal(response.status_code, self._shown, quoted_body, had_session)
        if self._over is not None:
            # There is no other answer to the request.
            self.trouble = _told(refusal)
            self._over()
        self._refusals[number] = refusal
        if len(self._refusals) > _MOST_REFUSALS:
            del self._refusals[next(iter(self._refusals))]

    def explained(self, number: RequestId, error: ErrorData) -> ErrorData:
        """Return the error of a request with its status, its address, and what to do."""
        refusal = self._refusals.pop(str(number), None)
        if refusal is None:
            return error
        is_lost = refusal.had_session and refusal.status in _LOST and error.code not in _OUR_FAULT
        data = {"status": refusal.status, LOST: is_lost}
        return ErrorData(code=error.code, message=_told(refusal), data=data)


#: Where an error says whether the server does not know the session any more.
LOST: Final = "lost"


def _told(refusal: Refusal) -> str:
    where, status = refusal.where, refusal.status
    detail = f": {cut(escaped(refusal.said), 300).rstrip('.')}" if refusal.said else ""
    if status < 400:
        return f"{where} answered with something else{detail}. Check the path of `url`"
    words = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    # What a server says of a bad request is better than a guess.
    guess = "" if detail else _REMEDIES[400]
    remedy = _FAILED if status >= 500 else guess if status == 400 else _REMEDIES.get(status, guess)
    status_line = " ".join(filter(None, (str(status), words)))
    return " ".join(filter(None, (f"{where} refused it ({status_line}){detail}.", remedy)))


def transport_fault(error: httpx2.TransportError, url: str) -> str:
    """Return why there is no connection, and what to do."""
    where, reason = without_secrets(url), cut(escaped(str(error)), 200).rstrip(".")
    match error:
        case httpx2.ProxyError():
            return f"the proxy to {where} failed: {reason}. Check HTTPS_PROXY and NO_PROXY"
        case httpx2.ConnectError() if "CERTIFICATE" in reason or "SSL" in reason:
            return (
                f"the connection to {where} is not secure: {reason}. Name the file of its"
                " certificates in SSL_CERT_FILE or NODE_EXTRA_CA_CERTS"
            )
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return f"{where} cannot be reached: {reason or 'it took too long'}. Is it running?"
        case httpx2.TimeoutException():
            return f"{where} sent nothing for {_SILENCE:g} s"
    return f"the connection to {where} broke off: {reason or type(error).__name__}"


class _Client(httpx2.AsyncClient):
    """Calls ``failed`` if a message cannot be sent."""

    failed: Callable[[httpx2.TransportError], None]

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request."""
        try:
            return await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method == "POST":
                self.failed(error)
            raise


def _open_client(url: str, certificates: str, **options: Any) -> _Client:
    """Return a client with the environment's proxies and certificates.

    Raises:
        BackendUnavailable: its proxy cannot be used.
    """
    # It logs each address with its query, which may contain a key.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    context, warnings = environment_certificates(httpx2.create_ssl_context)
    if certificates:
        _trust(context, certificates)
    proxies = Proxies() if is_loopback(url) else environment_proxies()
    for warning in warnings + proxies.warnings:
        logger.warning("%s", warning)
    try:
        return _Client(verify=context, proxy=proxies.proxy_for(url), trust_env=False, **options)
    except (ValueError, OSError, ImportError, httpx2.InvalidURL):
        # Not chained, and not quoted: its message may contain the proxy's password.
        variable = variable_of(proxies.scheme_for(url) or "")
        raise BackendUnavailable(f"the proxy in {variable} cannot be used: correct it") from None


def _trust(context: ssl.SSLContext, certificates: str) -> None:
    """Trust more certificates; as Node.js does, go on without those that cannot be read."""
    try:
        context.load_verify_locations(cafile=certificates)
    except (OSError, ssl.SSLError) as error:
        logger.warning("NODE_EXTRA_CA_CERTS: %s cannot be read: %s", certificates, error)


def _number_of(request: httpx2.Request) -> str:
    """Return the ID of the JSON-RPC request that an HTTP request carries; empty if it has none."""
    if request.method != "POST":
        return ""
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.StreamError):
        return ""
    return str(message.get("id", "")) if isinstance(message, dict) else ""


async def _bounded(response: httpx2.Response) -> None:
    """Make a JSON response that is too long fail, and one of a careless server a message.

    Events have a limit of their own.
    """
    if "event-stream" not in response.headers.get("content-type", ""):
        number = _number_of(response.request) if response.is_success else ""
        response.stream = _TidyStream(response.stream, number)


class _TidyStream(httpx2.AsyncByteStream):
    """The bytes of a response, up to a limit; those of a reply as the SDK expects it.

    ``number`` is the ID of the request that it should answer; empty for other responses.
    """

    def __init__(self, stream: Any, number: str) -> None:
        self._stream = stream
        self._number = number

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for piece in self._stream:
            body += piece
            if len(body) > LONGEST_MESSAGE:
                raise httpx2.ReadError(f"it sent more than {LONGEST_MESSAGE >> 20} MiB at once")
        yield self._tidy(bytes(body))

    def _tidy(self, body: bytes) -> bytes:
        if not self._number:
            return body
        replies = [
            one for one in messages_in(body) if isinstance(one, JSONRPCResponse | JSONRPCError)
        ]
        mine = [one for one in replies if str(one.id) == self._number] or replies
        if not mine:
            return body
        # Any other ID can only be meant for the same request.
        reply = mine[0].model_copy(update={"id": self._number})
        return reply.model_dump_json(by_alias=True, exclude_unset=True).encode()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
