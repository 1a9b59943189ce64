"""A tool server that we start: JSON lines over its pipes, under the supervisor of commands.

The SDK's own transport would leave the server running where we are killed, lets a line of any
length grow in memory, and reports on each line that is not JSON. So it is given this one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from aish_lsp.shell.output import clean_output
from aish_lsp.shell.process import SupervisedProcess

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

logger = logging.getLogger(__name__)

#: Bytes of a message. A longer one is not read to its end.
LONGEST_MESSAGE: Final = 16 << 20

#: Lines that are no messages: as many are passed over.
_MOST_GARBAGE: Final = 1000

#: Messages after which the others get their turn, and for how many seconds: a flood is slowed.
_AT_ONCE: Final = 100
_PAUSE: Final = 0.02

#: Bytes of what a server writes to its stderr that are kept in the log, and told.
_LOG_SIZE: Final = 1 << 20
_TOLD: Final = 400

#: Seconds that a server has to end by itself when its input ends.
_GRACE: Final = 2.0


class StdioTransport:
    """Starts a tool server and speaks with it, as the SDK's ``Transport``.

    Attributes:
        lost: done when the server is gone, or says what no client could read.
        trouble: what it said that nobody could read; empty where nothing.
    """

    def __init__(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environment = environment
        self._log = log
        self._tail = b""
        self._tasks: list[asyncio.Task[None]] = []
        self.lost = asyncio.Event()
        self.trouble = ""

    @property
    def last_words(self) -> str:
        """The end of what the server has written to its stderr."""
        return clean_output(self._tail[-_TOLD:].decode("utf-8", "replace")).strip()

    async def __aenter__(self) -> TransportStreams:
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
        """End the server: its input ends, and if that is not enough, as commands are ended."""
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
        """Read what comes still: a server whose pipe is full could not end."""
        while await self._process.stdout.read():
            pass

    async def _read(self) -> None:
        try:
            async with self._incoming:
                await self._read_messages()
        except anyio.BrokenResourceError:
            pass  # Nobody listens any more.
        finally:
            self.lost.set()

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
                    self.trouble = "it prints something else than messages to its stdout"
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
        """Write what the server writes to its stderr into the log, which begins anew."""
        kept = 0
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            while data := await self._process.stderr.read():
                self._tail = (self._tail + data)[-4096:]
                if kept < _LOG_SIZE:
                    kept += file.write(data[: _LOG_SIZE - kept])
                    file.flush()


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line; None where it is something else."""
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
