"""Messages of the Agent Client Protocol: one JSON object a line, on file descriptors.

The SDK's own transport ends the connection at a message that is JSON but no object, or whose id is
a list. Here such a message is answered with an error, and the connection continues.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

RpcMessage: TypeAlias = dict[str, Any]

#: Bytes of the longest line that is read; a longer one is skipped.
LONGEST_LINE: Final = 64 << 20

#: The id of the request that is being answered in this context.
REQUEST: ContextVar[int | str | None] = ContextVar("request", default=None)

#: Requests of the protocol that the SDK has no handler for: they go to the agent's ``ext_method``.
_EXTENSIONS: Final = ("session/delete",)

_CANCEL: Final = "$/cancel_request"
_PARSE_ERROR: Final = (-32700, "This line is not JSON.")
_INVALID: Final = (-32600, "This is not a JSON-RPC 2.0 message.")
_TOO_LONG: Final = (-32600, f"A message may have at most {LONGEST_LINE >> 20} MiB.")


class LineTransport:
    """Reads and writes messages; implements the SDK's ``Transport``.

    Args:
        source, sink: the file descriptors to read and to write. They may block: each has a thread.
        cancel: is called with the id of a request that the client cancels.
    """

    def __init__(self, source: int, sink: int, cancel: Callable[[object], None]) -> None:
        self._source = source
        self._sink = sink
        self._cancel = cancel
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        # A single thread keeps the order of the messages.
        self._writer = ThreadPoolExecutor(1, "acp writer")
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="acp reader", daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        # A client that dies may leave an error instead of the end of the stream.
        with suppress(OSError), os.fdopen(self._source, "rb") as file:
            while line := file.readline(LONGEST_LINE):
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
                while len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
        loop.call_soon_threadsafe(self._lines.put_nowait, None)

    async def receive(self) -> RpcMessage | None:
        """Return the next message that the SDK can handle; None at the end of the stream."""
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            message = _parsed(line)
            if isinstance(message, tuple):
                code, text = message
                await self.send(
                    {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
                )
            elif message.get("method") == _CANCEL:
                params = message.get("params")
                self._cancel(params.get("requestId") if isinstance(params, dict) else None)
            else:
                # The SDK handles each message in a task of its own, which inherits this.
                REQUEST.set(message.get("id"))
                return message
        return None

    async def send(self, message: RpcMessage) -> None:
        """Write a message.

        Raises:
            ConnectionError: the client has stopped reading.
        """
        if isinstance(error := message.get("error"), dict):
            message = message | {"error": _readable(error)}
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        for line_end in "\u2028\u2029":  # where some clients end a line
            text = text.replace(line_end, f"\\u{ord(line_end):x}")
        line = text.encode(errors="backslashreplace") + b"\n"
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._writer, _write, self._sink, line)
        except (OSError, RuntimeError) as error:
            self._lines.put_nowait(None)
            raise ConnectionError("the client has stopped reading") from error

    async def close(self) -> None:
        """Write what was sent, and nothing more."""
        self._writer.submit(os.close, self._sink)
        self._writer.shutdown(wait=False)


def _write(sink: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(sink, view) :]


def _parsed(line: bytes) -> RpcMessage | tuple[int, str]:
    """Return a message that the SDK can handle, or the code and the text of an error."""
    if len(line) == LONGEST_LINE:
        return _TOO_LONG
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _PARSE_ERROR
    if not isinstance(message, dict) or isinstance(message.get("id"), dict | list):
        return _INVALID
    method = message.get("method")
    if method is None:
        # An answer to a request of ours.
        is_error = isinstance(message.get("error"), dict)
        return message if "id" in message and (is_error or "result" in message) else _INVALID
    if not isinstance(method, str):
        return _INVALID
    return message | {"method": f"_{method}"} if method in _EXTENSIONS else message


def _readable(error: RpcMessage) -> RpcMessage:
    """Return an error that says which parameters are wrong, in words.

    The SDK's own error has a copy of the parameters, and sometimes values that are not JSON.
    """
    data = error.get("data")
    problems = data.get("errors") if isinstance(data, dict) else None
    if not isinstance(problems, list):
        return error if data is not None else {k: v for k, v in error.items() if k != "data"}
    parts = [f"{'.'.join(map(str, one['loc'])) or 'params'}: {one['msg']}" for one in problems[:5]]
    return {"code": error["code"], "message": f"Invalid params: {'; '.join(parts)}."}
