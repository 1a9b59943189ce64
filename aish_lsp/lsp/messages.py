"""JSON-RPC messages: checked as they arrive, queued as they leave, and the errors among them.

The outbox holds what waits to be sent to a client, which may be slow or may have stopped reading.
The ``stream`` module frames messages in a stream of bytes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
)

from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.foundation.events import camel_case
from aish_lsp.foundation.text import well_formed
from aish_lsp.lsp.stream import BadFrame

logger = logging.getLogger(__name__)

MessageId: TypeAlias = int | str


class Malformed(JsonRpcException):
    """What arrived is not a JSON-RPC message; ``id`` is the request's, if it is known."""

    def __init__(
        self, kind: type[JsonRpcException], message: str, msg_id: MessageId | None = None
    ) -> None:
        super().__init__(message, kind.CODE)
        self.id = msg_id


def parse(body: bytes | BadFrame) -> dict[str, Any]:
    """Return the message that ``body`` holds: a request, a notification or a response.

    A message with a ``method`` is a request if it has an ``id``, too.

    Raises:
        Malformed: it does not hold a message.
    """
    if isinstance(body, BadFrame):
        raise Malformed(JsonRpcParseError, body.message)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        # The text of the error is not passed on: it may quote the payload.
        raise Malformed(JsonRpcParseError, "the message is not JSON") from error
    if not isinstance(data, dict):
        raise Malformed(
            JsonRpcInvalidRequest, "a message is one JSON object; batches are not supported"
        )
    message_id = data.get("id")
    if isinstance(message_id, bool) or not isinstance(message_id, int | str):
        message_id = None
    if data.get("jsonrpc") != "2.0":
        raise Malformed(JsonRpcInvalidRequest, 'a message has "jsonrpc": "2.0"', message_id)
    if "method" not in data:
        if message_id is None:
            raise Malformed(JsonRpcInvalidRequest, "a message has a method, or an id and a result")
    elif not isinstance(data["method"], str):
        raise Malformed(JsonRpcInvalidRequest, "a method is a string", message_id)
    elif "id" in data and message_id is None:
        raise Malformed(JsonRpcInvalidRequest, "the id of a request is a whole number or a string")
    return data


def encode(message: object, plain: Callable[[Any], Any]) -> bytes:
    """Return ``message`` as JSON in UTF-8; ``plain`` turns other values into plain data.

    Raises:
        TypeError, ValueError, RecursionError: it cannot be written as JSON.
    """
    text = json.dumps(
        message, default=plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    # Many clients would fail on half of a surrogate pair.
    return well_formed(text).encode()


#: Bytes that may be queued before producers should wait.
HIGH_WATER = 1 << 20
#: Bytes in the queue above which the client counts as gone.
HARD_LIMIT = 64 << 20
#: Bytes that a sender takes at once.
BATCH = 256 << 10


class Outbox:
    """A queue of messages to a client, which are sent one batch after another.

    ``send`` sends a batch, and returns whether the client is still there; ``overflow`` is called
    once, when more than HARD_LIMIT bytes are queued. ``at_once`` sends a part if that does not
    block, and returns whether it did; it is asked where nothing is queued, as another thread would
    delay each piece of a reply, and cost half as much again.

    Attributes:
        queued: bytes that were written to it and are not sent yet.
        closed: whether nothing more will be sent.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], Awaitable[bool]],
        *,
        overflow: Callable[[], None],
        at_once: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.queued = 0
        self.closed = False
        self._send = send
        self._overflow = overflow
        self._at_once = at_once
        self._parts: deque[bytes] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._shrunk = asyncio.Event()

    def write(self, part: bytes) -> None:
        """Send or queue ``part``, or drop it after ``close``. In the thread of the event loop."""
        # What is being sent counts as queued, so nothing can be cut in two here.
        if self.closed or (not self.queued and self._at_once(part)):
            return
        if self.queued > HARD_LIMIT:
            self.close()
            self._overflow()
            return
        self._parts.append(part)
        self.queued += len(part)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all(), name="send")

    async def _send_all(self) -> None:
        while self._parts:
            batch = self._take()
            if not await self._send(batch):
                self.close()
            self.queued = max(0, self.queued - sum(map(len, batch)))
            self._shrunk.set()

    def _take(self) -> list[bytes]:
        """Return the next parts: at most BATCH bytes, or one part."""
        taken = [self._parts.popleft()]
        size = len(taken[0])
        while self._parts and (size := size + len(self._parts[0])) <= BATCH:
            taken.append(self._parts.popleft())
        return taken

    def close(self) -> None:
        """Drop what is queued and whatever follows; ``drained`` returns."""
        self.closed = True
        self._parts.clear()
        self.queued = 0
        self._shrunk.set()

    async def drained(self, limit: int = HIGH_WATER) -> None:
        """Wait while more than ``limit`` bytes are queued."""
        while self.queued > limit:
            self._shrunk.clear()
            await self._shrunk.wait()


# Errors: of handlers, of params, and of clients.


def response_error(msg_id: MessageId | None, error: BaseException) -> types.ResponseError:
    """Return the error that answers a request whose handler raised ``error``."""
    if isinstance(error, AishError):
        logger.info("request %s failed: %s", msg_id, error.kind)
        data = {camel_case(name): value for name, value in error.data.items()}
        return types.ResponseError(error.code, error.message, {"kind": error.kind} | data)
    if isinstance(error, asyncio.CancelledError):
        error = JsonRpcRequestCancelled("the request was cancelled")
    elif not isinstance(error, JsonRpcException):
        logger.error("request %s failed", msg_id, exc_info=error)
        message = f"internal error ({type(error).__name__}); see the server's log"
        error = JsonRpcInternalError(message)
    return error.to_response_error()


def wants_answer(method: str) -> bool | None:
    """Return whether ``method`` is a request; None if it is not LSP's, and so may be either."""
    known = types.METHOD_TO_TYPES.get(method)
    return None if known is None else known[1] is not None


def misfit(method: str, path: str, what: str) -> JsonRpcException:
    """Return the error for params of ``method`` that are malformed at ``path``."""
    message = f"{method}: {what}" + (f" at {path}" if path else "")
    return JsonRpcInvalidParams(message, data={"kind": "invalidArgument", "path": path})


def first_problem(error: BaseException) -> tuple[str, str]:
    """Return the path of a cattrs error's first problem, as on the wire, and what it is."""
    from cattrs import transform_error  # noqa: PLC0415 - needed for bad input only
    from cattrs.v import format_exception  # noqa: PLC0415 - as above

    def worded(one: BaseException, kind: type | None) -> str:
        return str(one) if isinstance(one, InvalidArgument) else format_exception(one, kind)

    what, _, path = transform_error(error, format_exception=worded)[0].rpartition(" @ $")
    names = path.lstrip(".").split(".")
    return ".".join(camel_case(name) for name in names), what


def client_error(error: Any) -> types.ResponseError:
    """Return the error that a client answered with, which may be anything."""
    if not isinstance(error, dict):
        error = {"message": "the client answered with a malformed error"}
    code = error.get("code")
    return types.ResponseError(
        code if isinstance(code, int) else JsonRpcInternalError.CODE,
        str(error.get("message", "")) or "the client answered with an error",
        error.get("data"),
    )
