"""Signing in to a tool server: by OAuth, in the user's browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import BaseModel

from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.files import data_dir, write_atomic
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import is_loopback

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser

M = TypeVar("M", bound=BaseModel)

#: Seconds that the user has to sign in.
_SIGN_IN_SECONDS: Final = 300.0

#: The first of the local ports where a browser delivers the code of a sign-in. A server always has
#: the same one, since its provider may compare the whole address. They are above the ports that
#: Linux picks by itself.
_FIRST_PORT: Final = 61_000
_PORTS: Final = 4_000


def is_open_to_others(url: str) -> bool:
    """Return whether others can read what is sent to this address."""
    return urlsplit(url).scheme != "https" and not is_loopback(url)


class SignIn:
    """Lets the user sign in, in their browser, with the provider that a server names."""

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
        """Return the authentication, which obtains tokens and adds them to requests."""
        back: Any = f"http://127.0.0.1:{self._port}/callback"
        return OAuthClientProvider(
            self._url,
            OAuthClientMetadata(client_name="aish-lsp", redirect_uris=[back]),
            _TokenFile(self._file),
            redirect_handler=self._open,
            callback_handler=self._answered,
        )

    async def _open(self, address: str) -> None:
        """Open the provider's page in the user's browser if they agree.

        Raises:
            Denied: they do not agree, or it would not be safe.
        """
        if urlsplit(address).scheme not in ("https", "http"):
            raise Denied("its provider's address is not a web address")
        if is_open_to_others(self._url):
            raise Denied("your sign-in would go unencrypted to another machine: use https")
        question = Question(
            f"The tool server {self._name} wants you to sign in. Open this address in your browser?"
            f"\n\n    {cut(escaped(address), 300)}\n\nFor five minutes, aish listens for the"
            f" browser's answer, and nothing else, on port {self._port} of this machine.",
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
        """Return the code that the browser delivers.

        Raises:
            Denied: it delivers none in time, or says that the user was refused.
        """
        assert self._code is not None
        assert self._listener is not None
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                return await self._code
        except TimeoutError:
            minutes = _SIGN_IN_SECONDS / 60
            raise Denied(f"you did not sign in within {minutes:g} minutes") from None
        finally:
            self._listener.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the code from a browser's request, and answer with a line for the user."""
        try:
            async with asyncio.timeout(10):
                line = await reader.readline()
                target = line.split()[1].decode("ascii")
                query = parse_qs(urlsplit(target).query)
            code, refused = (query.get(key, [""])[0] for key in ("code", "error"))
            page = (
                "You are signed in. You can close this page."
                if code
                else "No sign-in code was sent."
            )
            if refused:
                page = f"You are not signed in: {cut(escaped(refused), 100)}."
            body = page.encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
            if self._code is None or self._code.done():
                return
            if refused:
                denied = f"its provider did not sign you in: {cut(escaped(refused), 100)}"
                self._code.set_exception(Denied(denied))
            elif code:
                state, issuer = (query.get(key, [None])[0] for key in ("state", "iss"))
                self._code.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        except (TimeoutError, ValueError, IndexError, ConnectionError):
            pass  # Not the browser: any program may connect here.
        finally:
            writer.close()


class _TokenFile:
    """Keeps tokens in a file that only its owner can read, as the SDK's ``TokenStorage``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, or None if there are none."""
        return self._get("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens."""
        await self._set("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration with the provider, or None if there is none."""
        return self._get("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep our registration with the provider."""
        await self._set("client", client_info)

    def _get(self, key: str, kind: type[M]) -> M | None:
        try:
            return kind.model_validate(self._read()[key])
        except (KeyError, ValueError):
            return None

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    async def _set(self, key: str, value: BaseModel) -> None:
        document = self._read() | {key: value.model_dump(mode="json", exclude_none=True)}
        await asyncio.to_thread(write_atomic, self._path, json.dumps(document) + "\n")
