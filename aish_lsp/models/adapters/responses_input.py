"""A conversation as the input of a Responses request: messages, calls, their results, reasoning."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.models.adapters.calls import arguments_text, function_name
from aish_lsp.models.adapters.loose import Json, as_list
from aish_lsp.models.adapters.responses_outline import items_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.models.events import ToolCall
    from aish_lsp.models.request import Message

#: Characters that a call's id may have.
_LONGEST_ID: Final = 64


def input_of(messages: Sequence[Message], server: str) -> list[Json]:
    """Return the conversation as items for ``server``, which gets its own reasoning back.

    A server refuses a call without a result, a result without a call, and one id for two calls:
    some servers begin to count them anew with each reply.
    """
    items: list[Json] = []
    used: set[str] = set()
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            call_id = waiting.pop(message.tool_call_id or "", None)
            if call_id is not None:
                items.append(_result(call_id, message.content))
            continue
        items += [_result(call_id, "cancelled") for call_id in waiting.values()]
        waiting.clear()
        if message.role == "assistant":
            for call in message.tool_calls:
                waiting[call.id] = _call_id(call, used)
            calls = {call.id: _called(call, waiting[call.id]) for call in message.tool_calls}
            items += items_of(message.content, calls, _outline(message, server))
        elif message.content:
            role = "developer" if message.role == "system" else message.role
            items.append({"type": "message", "role": role, "content": message.content})
    return items + [_result(call_id, "cancelled") for call_id in waiting.values()]


def _outline(message: Message, server: str) -> list[Any]:
    """Return what the reply's own server wants back with it; another server gets nothing."""
    reasoning = message.reasoning
    if reasoning is None or reasoning.provider != server:
        return []
    return as_list(reasoning.metadata.get("output"))


def _call_id(call: ToolCall, used: set[str]) -> str:
    """Return an id for ``call`` that no other call of the request has."""
    call_id = call.id
    if not 0 < len(call_id) <= _LONGEST_ID or call_id in used:
        call_id = next(name for name in map("call_{}".format, count()) if name not in used)
    used.add(call_id)
    return call_id


def _called(call: ToolCall, call_id: str) -> Json:
    """Return a call as an item."""
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": function_name(call.name),
        "arguments": arguments_text(call.arguments),
    }


def _result(call_id: str, output: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}
