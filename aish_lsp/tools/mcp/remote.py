"""A tool server at an address: streamable HTTP, and signing in by OAuth where it wants that."""

from __future__ import annotations

import asyncio
import hashlib
import json
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import BaseModel

from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.files import write_atomic
from aish_lsp.foundation.paths import data_dir
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import is_loopback
from aish_lsp.tools.mcp.stdio import LONGEST_MESSAGE

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.client._transport import TransportStreams

    from aish_lsp.foundation.ports import AskUser

M = TypeVar("M", bound=BaseModel)

#: Seconds that the user has to sign in.
_SIGN_IN_SECONDS: Final = 300.0

#: Where a browser brings the code of a sign-in: a port of this machine, the same for a server each
#: time, since its provider may compare the whole address. It is above those that Linux gives to
#: connections of its own choice.
_FIRST_PORT: Final = 61_000
_PORTS: Final = 4_000


class RemoteTransport:
    """Speaks with a server over HTTP, as the SDK's ``Transport``.

    ``headers`` go with each request; with an ``Authorization`` of its own nobody signs in.
    ``wait`` is told for how many seconds more the user may keep the connection waiting.

    Attributes:
        lost: never done: each message has a request of its own.
        trouble, last_words: empty; what is wrong is an error.
    """

    trouble = last_words = ""

    def __init__(
        self,
        name: str,
        url: str,
        headers: dict[str, str],
        ask_user: AskUser,
        wait: Callable[[float], None],
    ) -> None:
        self._name = name
        self._url = url
        self._headers = headers
        self._ask_user = ask_user
        self._wait = wait
        self._stack = AsyncExitStack()
        self.lost = asyncio.Event()

    async def __aenter__(self) -> TransportStreams:
        """Make a client for the server; what it may have to wait for comes with the first request.

        Raises:
            Denied: a header would go unencrypted to another machine.
            Exception: whatever the SDK raises.
        """
        if self._headers and _is_open_to_others(self._url):
            raise Denied("its headers would go unencrypted to another machine: use https")
        signs_in = "authorization" not in map(str.lower, self._headers)
        sign_in = _SignIn(self._name, self._url, self._ask_user, self._wait) if signs_in else None
        client = create_mcp_http_client(
            headers=self._headers, auth=sign_in.provider() if sign_in else None
        )
        client.event_hooks["response"].append(_bounded)
        await self._stack.enter_async_context(client)
        return await self._stack.enter_async_context(
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
            )
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close what was opened."""
        await self._stack.__aexit__(kind, error, traceback)


def _is_open_to_others(url: str) -> bool:
    """Return whether what is sent to an address can be read on its way."""
    return urlsplit(url).scheme != "https" and not is_loopback(url)


async def _bounded(response: httpx2.Response) -> None:
    """Have a response of JSON end in an error where it is too long; events are bounded each."""
    if "event-stream" not in response.headers.get("content-type", ""):
        response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of a response, as long as they are not too many."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST_MESSAGE
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"it sent more than {LONGEST_MESSAGE >> 20} MiB at once")
            yield piece

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class _SignIn:
    """Signs the user in with the provider that a server names, in their browser."""

    def __init__(
        self, name: str, url: str, ask_user: AskUser, wait: Callable[[float], None]
    ) -> None:
        self._name = name
        self._url = url
        self._ask_user = ask_user
        self._wait = wait
        digest = hashlib.sha256(url.encode()).hexdigest()
        self._file = data_dir() / "oauth" / f"{digest[:32]}.json"
        self._port = _FIRST_PORT + int(digest[:8], 16) % _PORTS
        self._code: asyncio.Future[AuthorizationCodeResult] | None = None
        self._listener: asyncio.Server | None = None

    def provider(self) -> OAuthClientProvider:
        """Return what adds tokens to requests, and gets them."""
        back: Any = f"http://127.0.0.1:{self._port}/callback"
        return OAuthClientProvider(
            self._url,
            OAuthClientMetadata(client_name="aish-lsp", redirect_uris=[back]),
            _TokenFile(self._file),
            redirect_handler=self._open,
            callback_handler=self._answered,
        )

    async def _open(self, address: str) -> None:
        """Lead the user to the provider, once they agree.

        Raises:
            Denied: they do not, or it would not be safe.
        """
        if urlsplit(address).scheme not in ("https", "http"):
            raise Denied("its provider's address is not one of the web")
        if _is_open_to_others(self._url):
            raise Denied("your sign-in would go unencrypted to another machine: use https")
        question = Question(
            f"The tool server {self._name} wants you to sign in. Open this address in your browser?"
            f"\n\n    {cut(escaped(address), 300)}\n\nNothing but the browser's answer is listened"
            f" for, on port {self._port} of this machine, for five minutes.",
            yes="Open it",
            whole=address if len(address) > 300 else "",
        )
        self._wait(2 * _SIGN_IN_SECONDS)
        if await self._ask_user(question) is not True:
            raise Denied("you did not sign in")
        self._code = asyncio.get_running_loop().create_future()
        self._listener = await asyncio.start_server(self._receive, "127.0.0.1", self._port)
        await asyncio.to_thread(webbrowser.open, address)

    async def _answered(self) -> AuthorizationCodeResult:
        """Return what the browser brings back.

        Raises:
            TimeoutError: it brings nothing.
        """
        assert self._code is not None
        assert self._listener is not None
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                return await self._code
        finally:
            self._listener.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the code of a request, and answer a person."""
        try:
            async with asyncio.timeout(10):
                line = await reader.readline()
                target = line.split()[1].decode("ascii")
                given = parse_qs(urlsplit(target).query)
            code, refused = (given.get(key, [""])[0] for key in ("code", "error"))
            said = "You are signed in. You can close this page." if code else "No code came along."
            if refused:
                said = f"You are not signed in: {cut(escaped(refused), 100)}."
            body = said.encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
            if self._code is None or self._code.done():
                return
            if refused:
                denied = f"its provider did not sign you in: {cut(escaped(refused), 100)}"
                self._code.set_exception(Denied(denied))
            elif code:
                state, issuer = (given.get(key, [None])[0] for key in ("state", "iss"))
                self._code.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        except (TimeoutError, ValueError, IndexError, ConnectionError):
            pass  # Whoever that was.
        finally:
            writer.close()


class _TokenFile:
    """Keeps tokens in a file that only its owner can read, as the SDK's ``TokenStorage``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; None where there are none."""
        return self._get("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens."""
        await self._set("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what the provider knows us as; None where it does not."""
        return self._get("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep what the provider knows us as."""
        await self._set("client", client_info)

    def _get(self, key: str, kind: type[M]) -> M | None:
        try:
            return kind.model_validate(self._read()[key])
        except (KeyError, ValueError):
            return None

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    async def _set(self, key: str, value: BaseModel) -> None:
        told = self._read() | {key: value.model_dump(mode="json", exclude_none=True)}
        await asyncio.to_thread(write_atomic, self._path, json.dumps(told) + "\n")
