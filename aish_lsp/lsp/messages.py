"""JSON-RPC messages as they arrive: told apart, and refused where they are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aish_lsp.foundation.text import well_formed

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_INITIALIZED: Final = -32002
REQUEST_CANCELLED: Final = -32800

MessageId: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer."""

    id: MessageId
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants none."""

    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request of ours; ``error`` is whatever the client put there, or None."""

    id: MessageId
    result: Any
    error: Any


class Malformed(Exception):
    """What arrived is not a JSON-RPC message; ``id`` is the request's where it can be told."""

    def __init__(self, code: int, message: str, message_id: MessageId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = message_id


def parse(body: bytes) -> Request | Notification | Response:
    """Return the message that ``body`` holds; its params are plain data.

    Raises:
        Malformed: it holds none.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        # The error's own text is not passed on: it may quote the payload.
        raise Malformed(PARSE_ERROR, "the message is not JSON") from error
    if not isinstance(data, dict):
        raise Malformed(INVALID_REQUEST, "a message is one JSON object; batches are not taken")
    message_id = data.get("id")
    if isinstance(message_id, bool) or not isinstance(message_id, int | str):
        message_id = None
    if data.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, 'a message has "jsonrpc": "2.0"', message_id)
    if "method" in data:
        return _call(data, message_id)
    if message_id is None:
        raise Malformed(INVALID_REQUEST, "a message has a method, or an id and a result")
    return Response(message_id, data.get("result"), data.get("error"))


def _call(data: dict[str, Any], message_id: MessageId | None) -> Request | Notification:
    method = data["method"]
    if not isinstance(method, str):
        raise Malformed(INVALID_REQUEST, "a method is a string", message_id)
    if "id" not in data:
        return Notification(method, data.get("params"))
    if message_id is None:
        raise Malformed(INVALID_REQUEST, "the id of a request is a whole number or a string")
    return Request(message_id, method, data.get("params"))


def encode(message: dict[str, Any], plain: Callable[[Any], Any]) -> bytes:
    """Return ``message`` as JSON in UTF-8; ``plain`` makes plain data of what is none.

    Raises:
        TypeError, ValueError, RecursionError: it has no form in JSON.
    """
    text = json.dumps(
        message, default=plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    # Many clients would break off at half of a surrogate pair.
    return well_formed(text).encode()
