"""The only module that speaks HTTP: requests, event streams, and their errors.

httpx and its certificates take a quarter of a second to load, so they are loaded at the first
request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aish_lsp import __version__
from aish_lsp.foundation.errors import (
    AishError,
    BackendRejected,
    BackendUnavailable,
    InvalidArgument,
)
from aish_lsp.models.address import exposes, is_loopback, origin, without_secrets
from aish_lsp.models.faults import quoted, redactor, refusal
from aish_lsp.models.loose_json import decoded

if TYPE_CHECKING:
    import httpx

# httpx's own command line, which httpx would import along with rich, click and pygments, wherever
# it is loaded first; without it, httpx is the same but for `httpx.main`.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

logger = logging.getLogger(__name__)

#: Seconds to wait for a connection, unless the request's own timeout is shorter.
CONNECT_TIMEOUT = 15.0

#: Bytes to read of a reply that is not a stream.
BODY_LIMIT = 32 << 20

#: Bytes to read of an error response, for the provider's message; some repeat the request.
REFUSAL_LIMIT = 4 << 20


class HttpClient:
    """The HTTP client of all adapters: connections are shared and kept open.

    Proxies and certificates come from the environment, but servers on this machine are never
    reached through a proxy. Redirects are not followed: a key must not be sent to another host.
    ``timeout_s`` is always in seconds.

    Args:
        may_show_key: returns whether the user agreed to send a key to an origin unencrypted.
    """

    def __init__(self, may_show_key: Callable[[str], bool] = lambda _origin: False) -> None:
        self._may_show_key = may_show_key
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._warnings: list[str] = []
        self._opening = asyncio.Lock()

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    def drain_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about the environment, once there was a request."""
        warnings = tuple(self._warnings)
        self._warnings.clear()
        return warnings

    async def examine(self) -> tuple[str, ...]:
        """Return the warnings about the environment, without a request."""
        await self._client("https://other.invalid")
        return self.drain_warnings()

    async def stream(
        self, url: str, body: Mapping[str, Any], *, headers: Mapping[str, str], timeout_s: float
    ) -> AsyncGenerator[str, None]:
        """Post ``body`` as JSON and yield the data of each event as it arrives.

        A stream is recognized by its first bytes, since some servers give it another content type:
        server-sent events, of which only the data is used, since every provider's JSON says what
        kind of event it is; or JSON, of which each line is an event, or the whole if its first line
        is not complete. ``timeout_s`` limits the time between two packets. Closing the generator
        closes the connection.

        Raises:
            BackendUnavailable: no answer, or it broke off. What was yielded remains valid.
            BackendRejected: the server refused; ``faults.refusal`` documents ``data``.
        """
        import httpx  # noqa: PLC0415 - loaded at the first request
        from httpx_sse import EventSource  # noqa: PLC0415 - brings httpx

        async with self._respond(url, body, headers, timeout_s) as response:
            content, kind = _Body(response.aiter_bytes(), url), _content_type(response)
            start = await content.start()
            is_stream = _SSE_FIELD.match(start) is not None
            if start[:1] in (b"{", b"[") or (kind == "application/json" and not is_stream):
                while (text := await content.json()) is not None:
                    yield text
                return
            if not is_stream and kind not in {"text/event-stream", "text/plain", ""}:
                raise _unexpected(url, response, "a stream of events", await content.rest())
            repaired = httpx.Response(200, headers=_SSE_HEADERS, content=content)
            repaired.encoding = "utf-8-sig"
            async with aclosing(EventSource(repaired).aiter_sse()) as events:
                async for event in events:
                    content.pending = 0
                    if event.data:
                        yield event.data

    async def fetch_json(
        self,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Any:
        """Send a GET request, or ``body`` as JSON in a POST request, and return the JSON reply.

        ``timeout_s`` limits the whole request.

        Raises:
            BackendUnavailable, BackendRejected: as ``stream``.
        """
        await self._client(url)  # Loading httpx does not count as the server's time.
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._respond(url, body, headers or {}, timeout_s) as response,
            ):
                content = await _read(response, BODY_LIMIT)
                try:
                    return json.loads(content)
                except (ValueError, RecursionError):
                    raise _unexpected(url, response, "JSON", content[:REFUSAL_LIMIT]) from None
        except TimeoutError:
            msg = f"{origin(url)} did not answer within {timeout_s:g} s."
            raise BackendUnavailable(msg) from None

    @asynccontextmanager
    async def _respond(
        self,
        url: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and yield its response, whose status is 2xx and whose body is unread."""
        import httpx  # noqa: PLC0415 - loaded at the first request

        if exposes(url, headers) and not self._may_show_key(origin(url)):
            msg = (
                f"No key was sent to {origin(url)}: it would go there unencrypted, and you have"
                " not agreed to that. Write https:// in `endpoint`, or agree to it in a"
                " terminal: `aish-lsp ask --model NAME` asks you."
            )
            raise BackendRejected(msg)
        client = await self._client(url)
        method, content = "GET", None
        # Compression would save little, and would let proxies buffer what should stream.
        defaults = {"Accept-Encoding": "identity", "User-Agent": f"aish-lsp/{__version__}"}
        if body is not None:
            # A character that cannot be encoded (a lone surrogate) must not stop the request.
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            method, defaults["Content-Type"] = "POST", "application/json"
        limits = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT))
        with _translated_errors(url, timeout_s):
            request = client.build_request(
                method, url, content=content, headers={**defaults, **headers}, timeout=limits
            )
            async with aclosing(await _send(client, request)) as response:
                if not response.is_success:
                    raise await _refusal(url, response, headers)
                yield response

    async def _client(self, url: str) -> httpx.AsyncClient:
        """Return the client for servers on this machine, or else the client for all others."""
        local = is_loopback(url)
        async with self._opening:
            if local not in self._clients:
                self._clients[local], warnings = await asyncio.to_thread(_open_client, local)
                self._warnings += warnings
            return self._clients[local]


def _open_client(local: bool) -> tuple[httpx.AsyncClient, list[str]]:
    """Load httpx; return a client, and what is wrong in the environment.

    The first call blocks for a quarter of a second.
    """
    import httpx  # noqa: PLC0415 - loaded at the first request

    from aish_lsp.models.network import KEEP_ALIVE, Network  # noqa: PLC0415 - brings httpx

    # httpx would load this at its first connection, while the server's timeout is running.
    with suppress(ImportError):
        import_module("anyio._backends._asyncio")
    # httpx logs each URL with its query, which may contain a key.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if local:
        # A client with an explicit transport ignores the environment's proxies.
        limits = httpx.Limits(keepalive_expiry=KEEP_ALIVE)
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(limits=limits)), []
    network = Network()
    return httpx.AsyncClient(transport=network, trust_env=False), network.warnings


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send ``request`` and return its response, whose body is unread.

    A server may close an idle connection just as it is reused, as llama.cpp does after five
    seconds. The request is then sent again, until a new connection is used.
    """
    import httpx  # noqa: PLC0415 - loaded at the first request

    opened = False

    async def trace(event: str, _info: object) -> None:
        nonlocal opened
        opened = opened or event.startswith("connection.connect_")

    request.extensions["trace"] = trace
    while True:
        try:
            return await client.send(request, stream=True)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            if opened:
                raise


@contextmanager
def _translated_errors(url: str, timeout_s: float) -> Iterator[None]:
    """Translate httpx's exceptions into errors that name the server and say what to do."""
    import httpx  # noqa: PLC0415 - loaded at the first request

    where = origin(url)
    try:
        yield
    except (httpx.LocalProtocolError, UnicodeEncodeError):
        # Not chained: httpx's message contains the header, which may be the key.
        msg = f"A header for {where} cannot be sent. Check the key and `extra_headers`."
        raise BackendRejected(msg) from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError) as error:
        msg = f"The endpoint {where} is not an address: {_as_sentence(error)}"
        raise InvalidArgument(msg, path="endpoint") from error
    except httpx.TransportError as error:
        reason, message = _transport_fault(error, url, timeout_s)
        raise BackendUnavailable(message, **({"reason": reason} if reason else {})) from error
    except httpx.DecodingError as error:
        msg = f"The answer from {where} is damaged: {_as_sentence(error)}"
        raise BackendUnavailable(msg) from error


def _transport_fault(
    error: httpx.TransportError, url: str, timeout_s: float
) -> tuple[str | None, str]:
    """Return the kind of a connection failure, and a message that says what to do.

    Whether to retry depends on the kind: ``timeout``, ``refused``, ``broken``, or None for others.
    """
    import httpx  # noqa: PLC0415 - loaded at the first request

    where, reason = origin(url), str(error)
    match error:
        case httpx.ConnectTimeout():
            # A server without TLS may mistake the handshake for a request and wait for the rest.
            tls = " Does the server speak https?" if where.startswith("https:") else ""
            check = f"Check `endpoint` and the network.{tls}"
            return "timeout", f"{where} did not accept the connection in time. {check}"
        case httpx.TimeoutException():
            check = "If the model needs longer, raise `timeout`."
            return "timeout", f"{where} sent nothing for {timeout_s:g} s. {check}"
        case httpx.ProxyError():
            check = "Check HTTPS_PROXY and NO_PROXY."
            return None, f"The proxy to {where} failed: {_as_sentence(error)} {check}"
        case httpx.ConnectError():
            is_tls = "SSL" in reason or "CERTIFICATE" in reason
            return None if is_tls else "refused", _connect_message(reason, url)
    is_broken = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
    message = f"The connection to {where} broke off: {_break_reason(reason)}"
    return "broken" if is_broken else None, message


def _break_reason(words: str) -> str:
    """Return why a connection broke off, from the library's message, and what to do."""
    if "illegal status line" in words:
        return "the answer is not HTTP. Check the port of `endpoint`, and the https:// before it."
    if "Receive buffer too long" in words:
        return "its headers never end. Is it a model server?"
    words = words.partition(": bytearray(")[0].rstrip(". ")
    return f"{words or 'it was reset'}. Ask again."


def _as_sentence(error: Exception) -> str:
    """Return an error's message, or else its class name, with a full stop."""
    words = str(error).rstrip(". ") or type(error).__name__
    return f"{words}."


def _connect_message(reason: str, url: str) -> str:
    """Return why the connection failed, and what to do."""
    where = origin(url)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return (
            f"The certificate of {where} is not trusted. If it is your own, point SSL_CERT_FILE "
            "at its certificate authority."
        )
    if "SSL" in reason:
        return f"TLS with {where} failed ({reason}). Should `endpoint` begin with http://?"
    if is_loopback(url):
        return f"Nothing answers at {where}. Start the model server, or correct `endpoint`."
    return f"{where} cannot be reached ({reason}). Check the network and `endpoint`."


async def _refusal(url: str, response: httpx.Response, headers: Mapping[str, str]) -> AishError:
    """Return the error for a response whose status is not 2xx."""
    import httpx  # noqa: PLC0415 - loaded at the first request

    try:
        body = await _read(response, REFUSAL_LIMIT)
    except httpx.HTTPError:
        body = b""
    return refusal(url, response.status_code, response.headers, body, redactor(headers))


def _unexpected(url: str, response: httpx.Response, wanted: str, body: bytes) -> BackendUnavailable:
    """Return the error for a 2xx response that is not what was ``wanted``."""
    start = redactor(response.request.headers)(quoted(body))
    return BackendUnavailable(
        f"{without_secrets(url)} answered with {start or 'nothing'} and not with {wanted}. "
        "Is `endpoint` a model server?",
        status=response.status_code,
    )


async def _read(response: httpx.Response, limit: int) -> bytes:
    """Return the body, truncated after about ``limit`` bytes."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= limit:
            break
    return bytes(body)


def _content_type(response: httpx.Response) -> str:
    """Return the response's media type without its parameters."""
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


#: Bytes of one event; a server that sends more does not speak the protocol.
EVENT_LIMIT = 64 << 20

# Some servers omit the content type.
_SSE_HEADERS = {"Content-Type": "text/event-stream"}

_SSE_FIELD = re.compile(rb"(?:data|event|id|retry)?:")

#: What may precede the first event: blanks and a byte order mark.
_BLANK = b" \t\r\n\xef\xbb\xbf"

#: Bytes that show whether a body begins with the name of a field.
_FIELD_NAME = 6


class _Body:
    """The body of a reply, as bytes that end with a blank line even if the server omits it.

    ``pending`` counts the bytes since the last event; the reader of the events resets it. Reading
    raises BackendUnavailable if an event is longer than ``EVENT_LIMIT``.
    """

    def __init__(self, pieces: AsyncIterator[bytes], url: str) -> None:
        self.pending = 0
        self._pieces = pieces
        self._url = url
        self._read = bytearray()
        self._has_ended = False

    async def start(self) -> bytes:
        """Drop the blanks in front of the body; return how it begins, which is still to be read."""
        while len(self._read) < _FIELD_NAME and await self._read_more():
            # A server may send blanks for minutes.
            self._read = self._read.lstrip(_BLANK)
        return bytes(self._read[:_FIELD_NAME])

    async def rest(self) -> bytes:
        """Return what is left of the body, truncated after about ``REFUSAL_LIMIT`` bytes."""
        while len(self._read) < REFUSAL_LIMIT and await self._read_more():
            pass
        return bytes(self._read)

    async def json(self) -> str | None:
        """Return the next line, or the whole body if its first line is not JSON; None at the end.

        A whole body is truncated after about ``BODY_LIMIT`` bytes.
        """
        searched, is_whole = 0, False
        while True:
            end = -1 if is_whole else self._read.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._read[:end])
                if is_whole := bool(line.strip()) and decoded(line) is None:
                    continue
                del self._read[: end + 1]
                searched = 0
                if line.strip():
                    return line.decode("utf-8", "replace")
                continue
            searched = len(self._read)
            if searched >= BODY_LIMIT or not await self._read_more():
                text, self._read = self._read.decode("utf-8", "replace"), bytearray()
                return text if text.strip() else None

    async def _read_more(self) -> bool:
        """Read the next piece; return whether there was one."""
        piece = await anext(self._pieces, None)
        self._read += piece or b""
        return piece is not None

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        if not self._read and not await self._read_more():
            if self._has_ended:
                raise StopAsyncIteration
            self._has_ended = True
            return b"\n\n"
        piece, self._read = bytes(self._read), bytearray()
        self.pending += len(piece)
        if self.pending > EVENT_LIMIT:
            msg = f"{origin(self._url)} sent an event that never ends. Is it a model server?"
            raise BackendUnavailable(msg)
        return piece
