"""The transports to tool servers: through the pipes of a server that we start, or to an address.

A server that we start runs under the supervisor of commands. The SDK's own transport would leave it
running if we are killed, would read a line of any length into memory, and would report each line
that is not JSON. A server at an address is reached by the SDK's streamable HTTP, and the user signs
in by OAuth if the server wants it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import BaseModel

from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.files import data_dir, write_atomic
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import is_loopback
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.process import SupervisedProcess

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser

M = TypeVar("M", bound=BaseModel)

#: What a transport yields, as the SDK expects it: the messages of a server, and those for it.
_Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

#: The longest message, in bytes. A longer one is not read to its end.
LONGEST_MESSAGE: Final = 16 << 20

#: How many lines that are not messages are tolerated.
_MOST_GARBAGE: Final = 1000

#: After this many messages in a row we pause for this many seconds, so that a flood of them does
#: not hold up everything else.
_AT_ONCE: Final = 100
_PAUSE: Final = 0.02

#: Bytes of a server's stderr that the log keeps, and bytes that are shown.
_LOG_SIZE: Final = 1 << 20
_TOLD: Final = 400

#: Seconds that a server at an address has for each step, and that it may be silent within a reply.
_TIMEOUT: Final = 30.0
_SILENCE: Final = 300.0

#: Seconds that a server has to end by itself after its input ends.
_GRACE: Final = 2.0


class StdioTransport:
    """Starts a tool server and talks to it, as the SDK's ``Transport``.

    ``over`` is called when the server has ended, or sends something that no client could read.

    Attributes:
        trouble: what was wrong with its output; empty if nothing was.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        log: Path,
        over: Callable[[], None],
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environment = environment
        self._log = log
        self._tail = b""
        self._tasks: list[asyncio.Task[None]] = []
        self._over = over
        self.trouble = ""

    @property
    def last_words(self) -> str:
        """The end of what the server wrote to its stderr."""
        return clean_output(self._tail[-_TOLD:].decode("utf-8", "replace")).strip()

    async def __aenter__(self) -> _Streams:
        """Start the server.

        Raises:
            InvalidArgument, NotFound: it could not be started.
        """
        source, sink = os.pipe()
        try:
            self._process = SupervisedProcess(
                self._command, self._cwd, self._environment, source=source
            )
        except BaseException:
            os.close(sink)
            raise
        finally:
            os.close(source)
        self._writer = await _writer_to(sink)
        self._incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        work = {"read": self._read(), "write": self._write(), "log": self._keep_log()}
        self._tasks = [asyncio.create_task(what, name=f"MCP {name}") for name, what in work.items()]
        return received, sent

    async def __aexit__(self, *_: object) -> None:
        """End the server: close its input and, if that is not enough, end it like a command."""
        for task in self._tasks:
            task.cancel()
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _end(self) -> None:
        self._writer.close()
        draining = asyncio.create_task(self._drain())
        ended = self._process.ended
        with suppress(Exception):
            await asyncio.wait({ended}, timeout=_GRACE)
            self._process.stop()
            await ended
        draining.cancel()
        self._process.close()
        await asyncio.gather(*self._tasks, draining, return_exceptions=True)

    async def _drain(self) -> None:
        """Read the remaining output: a server whose pipe is full could not end."""
        while await self._process.stdout.read():
            pass

    async def _read(self) -> None:
        try:
            async with self._incoming:
                await self._read_messages()
        except anyio.BrokenResourceError:
            pass  # The client has closed the stream.
        finally:
            self._over()

    async def _read_messages(self) -> None:
        buffer = bytearray()
        count = garbage = 0
        while data := await self._process.stdout.read():
            searched = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                line, searched = bytes(buffer[:end]), 0
                del buffer[: end + 1]
                message = _message(line)
                count += 1
                if message is not None:
                    await self._incoming.send(message)
                elif line.strip():
                    garbage += 1
                if garbage > _MOST_GARBAGE:
                    self.trouble = "it prints other things than messages to its stdout"
                    return
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(_PAUSE)
            if len(buffer) > LONGEST_MESSAGE:
                self.trouble = f"it sent a message of more than {LONGEST_MESSAGE >> 20} MiB"
                return

    async def _write(self) -> None:
        with suppress(ConnectionError, anyio.BrokenResourceError):
            async with self._outgoing:
                async for message in self._outgoing:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._writer.write(f"{text}\n".encode())
                    await self._writer.drain()

    async def _keep_log(self) -> None:
        """Copy the server's stderr into the log, which starts empty.

        All of it is read, even if nothing can be written: a server whose pipe is full would block.
        """
        room = _LOG_SIZE
        with ExitStack() as stack:
            try:
                self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
                file = stack.enter_context(os.fdopen(descriptor, "wb", 0))
            except OSError:
                room = 0
            while data := await self._process.stderr.read():
                self._tail = (self._tail + data)[-4096:]
                if room:
                    try:
                        room -= file.write(data[:room])
                    except OSError:
                        room = 0


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line, or None if it is something else."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        return None


async def _writer_to(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    made: Any = asyncio.streams.FlowControlMixin
    transport, protocol = await loop.connect_write_pipe(
        lambda: made(loop=loop), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


#: Seconds that the user has to sign in.
_SIGN_IN_SECONDS: Final = 300.0

#: The first of the local ports where a browser delivers the code of a sign-in. A server always has
#: the same one, since its provider may compare the whole address. They are above the ports that
#: Linux picks by itself.
_FIRST_PORT: Final = 61_000
_PORTS: Final = 4_000


@asynccontextmanager
async def remote_transport(
    name: str,
    url: str,
    headers: dict[str, str],
    ask_user: AskUser,
    wait: Callable[[float], None],
) -> AsyncGenerator[tuple[Any, Any]]:
    """Talk to a server over streamable HTTP, as the SDK's ``Transport``.

    The first request may have to wait for the user to sign in. ``headers`` go with each request; if
    they contain ``Authorization``, the user need not sign in. ``wait`` is called with the number of
    seconds that the user may keep the connection waiting.

    Raises:
        Denied: a header would go unencrypted to another machine.
        Exception: any error of the SDK.
    """
    if headers and _is_open_to_others(url):
        raise Denied("its headers would go unencrypted to another machine: use https")
    signs_in = "authorization" not in map(str.lower, headers)
    sign_in = _SignIn(name, url, ask_user, wait) if signs_in else None
    client = httpx2.AsyncClient(
        headers=headers,
        auth=sign_in.provider() if sign_in else None,
        timeout=httpx2.Timeout(_TIMEOUT, read=_SILENCE),
    )
    client.event_hooks["response"].append(_bounded)
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as streams,
    ):
        yield streams


def _is_open_to_others(url: str) -> bool:
    """Return whether others can read what is sent to this address."""
    return urlsplit(url).scheme != "https" and not is_loopback(url)


async def _bounded(response: httpx2.Response) -> None:
    """Make a JSON response that is too long fail; events have a limit of their own."""
    if "event-stream" not in response.headers.get("content-type", ""):
        response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of a response, up to a limit."""

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
        if _is_open_to_others(self._url):
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
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    async def _set(self, key: str, value: BaseModel) -> None:
        told = self._read() | {key: value.model_dump(mode="json", exclude_none=True)}
        await asyncio.to_thread(write_atomic, self._path, json.dumps(told) + "\n")
