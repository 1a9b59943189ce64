"""What a server sends, taken as it is meant before the SDK checks it.

The SDK refuses a whole list of tools for one that does not follow the protocol, and a whole result
for one part. Here, the replies that we use are reduced to what the SDK accepts, and carry what the
server sent in ``_meta`` for us to judge part by part. Refusals over HTTP get their reason.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from aish_lsp.tools.listing import Unfit, fit_schema

if TYPE_CHECKING:
    from mcp.client import Transport

    #: Returns the error of a request that was refused by HTTP; the error itself for others.
    Explain = Callable[[RequestId, ErrorData], ErrorData]

Json = dict[str, Any]

#: Where a reply has what the server sent.
SENT: Final = "aish-lsp/sent"

#: How many requests may wait for their replies.
_MOST_OPEN: Final = 1000


@asynccontextmanager
async def tolerant(
    transport: Transport,
    ended: Callable[[], None],
    *,
    version: str = "",
    explain: Explain | None = None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """Open a transport that takes what a server sends as it is meant.

    ``ended`` is called when no more messages come. With a ``version``, the server is asked for that
    one. ``explain`` is for a transport over HTTP.
    """
    talk = _Talk(version, explain)
    async with transport as (received, sent):
        yield _Stream(received, talk.taken, ended), _Stream(sent, talk.noted)


class _Talk:
    """The requests that wait for their replies, and what is made of messages."""

    def __init__(self, version: str, explain: Explain | None) -> None:
        self._version = version
        self._explain = explain
        self._methods: dict[str, str] = {}

    def noted(self, message: JSONRPCMessage) -> JSONRPCMessage:
        """Remember what a request is, for its reply; return it."""
        if isinstance(message, JSONRPCRequest):
            self._methods[str(message.id)] = message.method
            if self._version and message.method == "initialize" and message.params:
                message.params["protocolVersion"] = self._version
            if len(self._methods) > _MOST_OPEN:
                del self._methods[next(iter(self._methods))]
        return message

    def taken(self, message: JSONRPCMessage) -> JSONRPCMessage:
        """Return a message as it is meant."""
        match message:
            case JSONRPCResponse():
                method = self._methods.pop(str(message.id), "")
                if (taken := _REPLIES.get(method)) is not None:
                    return message.model_copy(update={"result": taken(message.result)})
            case JSONRPCError():
                number: RequestId | None = message.id
                if number is None and len(self._methods) == 1:
                    # The server did not read as far as the ID: it is about the only request.
                    number = next(iter(self._methods))
                self._methods.pop(str(number), None)
                error = message.error
                if number is not None and self._explain is not None:
                    error = self._explain(number, error)
                return message.model_copy(update={"id": number, "error": error})
        return message


class _Stream:
    """One direction of a transport, as the SDK uses it: each message goes through ``change``."""

    def __init__(
        self,
        stream: Any,
        change: Callable[[JSONRPCMessage], JSONRPCMessage],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._change = change
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(*error)
        return closed

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise
        if isinstance(item, SessionMessage):
            item.message = self._change(item.message)
        return item

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        item.message = self._change(item.message)
        await self._stream.send(item)


# Messages


def messages_in(line: bytes) -> list[JSONRPCMessage]:
    """Return the messages on a line: one, or several in a list; none if it is something else.

    What a program has printed in front of a message is passed over.
    """
    with suppress(ValueError):
        return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
    if (start := line.find(b'{"jsonrpc"')) > 0 and not line.lstrip().startswith((b"{", b"[")):
        line = line[start:]
    try:
        data = json.loads(line.decode("utf-8-sig"))
        parts = data if isinstance(data, list) else [data]
        tidy = [_tidied(part) for part in parts if isinstance(part, dict)]
        return [jsonrpc_message_adapter.validate_python(part, by_name=False) for part in tidy]
    except (ValueError, RecursionError):
        return []


def _tidied(message: Json) -> Json:
    """Return a message without what careless servers add to it."""
    tidy = {key: value for key, value in message.items() if value is not None}
    if not tidy.keys() & {"method", "result", "error"}:
        if "id" not in tidy or "result" not in message:
            return {}
        tidy["result"] = {}
    tidy["jsonrpc"] = "2.0"
    for key in ("params", "result"):
        if not isinstance(tidy.get(key, {}), dict):
            tidy[key] = {"content": tidy[key]} if key == "result" else {}
    if "error" in tidy:
        error = tidy["error"] if isinstance(tidy["error"], dict) else {"message": tidy["error"]}
        code, reason = error.get("code"), error.get("message", "it gives no reason")
        reason = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
        tidy["error"] = {
            "code": code if type(code) is int else INTERNAL_ERROR,
            "message": reason,
            "data": error.get("data"),
        }
        tidy.pop("result", None)
    return tidy


# Replies


def _introduced(result: Json) -> Json:
    """Return what a server says of itself, as far as it is used.

    That is its version, and whether it has tools: one that names no capabilities may have some.
    """
    version, declared = result.get("protocolVersion"), result.get("capabilities")
    capabilities: Json = declared if isinstance(declared, dict) else {}
    tools = capabilities.get("tools", False if capabilities else {})
    listed = isinstance(tools, dict) and tools.get("listChanged") is True
    server = result.get("serverInfo")
    named: Json = server if isinstance(server, dict) else {}
    return {
        # One that nobody knows is that of a careless server, and not of a newer one.
        "protocolVersion": (
            version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        ),
        "capabilities": (
            {} if tools is None or tools is False else {"tools": {"listChanged": listed}}
        ),
        "serverInfo": {key: str(named.get(key, "")) for key in ("name", "version")},
    }


def _listed(result: Json) -> Json:
    """Return a list of tools that no check refuses, with each as it was sent."""
    tools, cursor = result.get("tools"), result.get("nextCursor")
    taken: Json = {key: value for key, value in result.items() if key not in _REPLACED}
    taken["tools"] = [_tool(one) for one in (tools if isinstance(tools, list) else [])]
    return taken | ({"nextCursor": cursor} if isinstance(cursor, str) and cursor else {})


_REPLACED: Final = frozenset({"tools", "nextCursor", "_meta"})


def _tool(sent: Any) -> Json:
    fields: Json = sent if isinstance(sent, dict) else {}
    schema: Json = {"type": "object"}
    with suppress(Unfit, RecursionError):
        # The SDK needs the schema for nothing but arguments that go into headers.
        if "x-mcp-header" in json.dumps(fields.get("inputSchema")):
            schema = fit_schema(fields["inputSchema"])
    return {"name": str(fields.get("name")), "inputSchema": schema, "_meta": {SENT: sent}}


def _called(result: Json) -> Json:
    """Return the result of a call that no check refuses; a question in its place is left alone."""
    kind = result.get("resultType")
    if kind not in (None, "complete"):
        return result
    taken: Json = {"content": [], "isError": result.get("isError") is True}
    return taken | {"_meta": {SENT: result}} | ({} if kind is None else {"resultType": kind})


_REPLIES: Final[Mapping[str, Callable[[Json], Json]]] = {
    "initialize": _introduced,
    "tools/list": _listed,
    "tools/call": _called,
}
