"""The transport to a tool server that we start, through its pipes, and how it is started.

The server runs under the supervisor of commands. The SDK's own transport would leave it running if
we are killed, would read a line of any length into memory, and would report each line that is not
JSON.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.process import SupervisedProcess
from aish_lsp.tools.wire import messages_in

if TYPE_CHECKING:
    from aish_lsp.config.schema import ToolServer

#: What a transport yields, as the SDK expects it: the messages of a server, and those for it.
_Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

#: The longest message, in bytes. A longer one is not read to its end.
LONGEST_MESSAGE: Final = 16 << 20

#: How many lines in a row that are not messages are tolerated.
_MOST_GARBAGE: Final = 1000

#: After this many messages in a row we pause for this many seconds, so that a flood of them does
#: not hold up everything else.
_AT_ONCE: Final = 100
_PAUSE: Final = 0.02

#: Bytes of a server's stderr that the log keeps, and bytes that are shown.
_LOG_SIZE: Final = 1 << 20
_TOLD: Final = 400

#: Bytes of a line of the log that is kept together.
_LONGEST_LINE: Final = 1 << 16

#: Seconds that a server has to end by itself after its input ends.
_GRACE: Final = 2.0


class StdioTransport:
    """Starts a tool server and talks to it, as the SDK's ``Transport``.

    ``over`` is called when the server has ended, or sends something that no client could read. What
    it writes to its stderr is kept in ``log``, ``without_secrets``.

    Attributes:
        trouble: what was wrong with its output; empty if nothing was.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        log: Path,
        *,
        over: Callable[[], None],
        without_secrets: Callable[[str], str] = str,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environment = environment
        self._log = log
        self._tail = b""
        self._tasks: list[asyncio.Task[None]] = []
        self._over = over
        self._without_secrets = without_secrets
        self._has_ended = False
        self.trouble = ""

    @property
    def last_words(self) -> str:
        """The end of what the server wrote to its stderr."""
        text = clean_output(self._tail.decode("utf-8", "replace"))
        return self._without_secrets(text)[-_TOLD:].strip()

    def may_be_older(self, _error: BaseException) -> bool:
        """Return whether the server may have ended at a message that it does not know."""
        return self._has_ended and not self.trouble

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
        for task in self._tasks[:-1]:
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
        # The log is kept to its end, unless others hold the pipe.
        await asyncio.wait(self._tasks[-1:], timeout=_GRACE)
        for task in (draining, *self._tasks):
            task.cancel()
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
            self._has_ended = True
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
                messages = messages_in(line)
                count += 1
                for message in messages:
                    await self._incoming.send(SessionMessage(message))
                garbage = 0 if messages else garbage + bool(line.strip())
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
            rest = b""
            while data := await self._process.stderr.read():
                self._tail = (self._tail + data)[-4096:]
                # Whole lines, since a secret may come in two parts.
                lines, _, rest = (rest + data).rpartition(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = lines + rest, b""
                if room and lines:
                    room = await self._log_lines(file, lines + b"\n", room)
            if room and rest:
                await self._log_lines(file, rest, room)

    async def _log_lines(self, file: BinaryIO, lines: bytes, room: int) -> int:
        """Write lines into the log without secrets; return how many bytes may still be written."""
        text = await asyncio.to_thread(self._without_secrets, lines.decode("utf-8", "replace"))
        try:
            return room - (file.write(text.encode("utf-8", "replace")[:room]) or 0)
        except OSError:
            return 0


async def _writer_to(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    made: Any = asyncio.streams.FlowControlMixin
    transport, protocol = await loop.connect_write_pipe(
        lambda: made(loop=loop), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


#: The variables of our environment that a server gets: those that it needs to run and to reach
#: others through the user's proxies, and no secrets besides those in a proxy's address.
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
)


def environment_of(server: ToolServer, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server whose variables are replaced."""
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    return {**inherited, **server.env}


def folder_of(server: ToolServer, root: Path) -> Path:
    """Return the folder in which a server runs.

    Raises:
        InvalidArgument: there is no such folder.
    """
    folder = root / (server.cwd or "")
    if not folder.is_dir():
        raise InvalidArgument(f"its `cwd` {escaped(str(folder))[:200]} is not a folder")
    return folder


def command_of(server: ToolServer, root: Path, environment: Mapping[str, str]) -> list[str]:
    """Return a server's command with the absolute path of its program.

    Raises:
        NotFound: its program is not installed.
    """
    program, *arguments = server.command or [""]
    if os.path.dirname(program):  # noqa: PTH120 - as a shell
        program = str(root / program)
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise NotFound(
            f"{escaped(program)[:80]} is not installed, or not on PATH. If your login shell finds"
            " it, `login = true` under `[shell]` helps"
        )
    return [os.path.abspath(found), *arguments]  # noqa: PTH100 - links are not followed
