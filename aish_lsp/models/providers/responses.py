"""OpenAI's Responses protocol, without state on the server: requests contain all messages.

A response is a list of items: reasoning, messages, function calls, and the server's own tools.
Streamed events are matched to their items; an outline of the items is kept for the next request.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.models.address import server_name
from aish_lsp.models.forms import EVERY
from aish_lsp.models.loose_json import ABSURD, Json, as_dict, as_list, as_text
from aish_lsp.models.providers.base import CountingModel, settings_of
from aish_lsp.models.providers.openai import cache_key, read_usage
from aish_lsp.models.providers.reply import (
    ReplyReader,
    arguments_text,
    function_name,
    kept_of,
    meanings,
    others,
    written,
)
from aish_lsp.models.request import exchanges

if TYPE_CHECKING:
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.refusals import Changes
    from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall

# Optional fields, and patterns for refusals that mention them: models that do not reason have no
# encrypted content, and unverified accounts get no summaries.
_FIELDS: Final = {
    "include": re.compile(r"encrypted|\binclude\b", re.IGNORECASE),
    "reasoning.summary": re.compile(r"summar", re.IGNORECASE),
}

# How servers refuse earlier reasoning. It cannot be decrypted for another account or, behind a
# proxy, by another provider.
_REASONING: Final = re.compile(
    r"encrypted content .*could not be|of type 'reasoning'|\brs_\w", re.IGNORECASE | re.DOTALL
)
_UNREADABLE: Final = "invalid_encrypted_content"

# Statuses of a refused field; an error in the stream has none.
_MALFORMED: Final = frozenset({400, 404, 422, None})

#: The value of ``include`` that reasoning needs to be returned to a server that stores nothing.
ENCRYPTED: Final = "reasoning.encrypted_content"


class ResponsesModel(CountingModel):
    """The adapter for every server that speaks Responses. OpenAI and llama.cpp can count."""

    path = "responses"
    returned = ("output",)
    count_path = "responses/input_tokens"
    counted = (
        *("model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls"),
        *("reasoning", "text", "truncation", "chat_template_kwargs"),
    )
    not_counted = MappingProxyType({"reasoning.summary": None})

    def _body(self, request: ModelRequest, model: str, changes: Changes) -> Json:
        return request_body(request, model, changes)

    def _reader(self, url: str, body: Json) -> ResponseReader:
        return ResponseReader(server_name(url), body.get("max_output_tokens"))

    def _changes(self, error: AishError, body: Json, own: Json) -> Changes:
        """Return the refused optional field, or the encrypted content of refused reasoning."""
        if error.data.get("status") not in _MALFORMED:
            return {}
        words = str(error.data.get("provider_message"))
        items = [as_dict(item) for item in as_list(body.get("input"))]
        reasoning = [
            item["encrypted_content"]
            for item in items
            if item.get("type") == "reasoning" and item.get("encrypted_content")
        ]
        if reasoning and (error.data.get("code") == _UNREADABLE or _REASONING.search(words)):
            return dict.fromkeys(reasoning)
        for path, sentence in _FIELDS.items():
            holder, _, inner = path.partition(".")
            if holder in body and (not inner or inner in body[holder]) and sentence.search(words):
                return {path: None}
        return super()._changes(error, body, own)


def request_body(request: ModelRequest, model: str, refused: Container[str] = ()) -> Json:
    """Return the JSON of a request, without the encrypted reasoning that is ``refused``.

    ``extra_body`` comes last and replaces what it names. The protocol has no ``stop`` and no
    ``seed``.
    """
    preset = request.preset
    messages = request.messages
    body: Json = {"stream": True, "store": False}
    if model:
        body["model"] = model
    if messages and messages[0].role == "system":
        if messages[0].content:
            body["instructions"] = messages[0].content
        messages = messages[1:]
    items = input_of(messages, server_name(preset.endpoint))
    body["input"] = [i for i in items if i.get("encrypted_content") not in refused]
    body["max_output_tokens"] = request.max_output_tokens or preset.max_output_tokens
    body["include"] = [ENCRYPTED]
    body |= cache_key(request)
    body |= settings_of(preset, "temperature", "top_p")
    if preset.reasoning_effort is not None:
        body["reasoning"] = {"effort": preset.reasoning_effort, "summary": "auto"}
    if request.tools:
        # Without `strict: false`, a server may change the schema to make it strict.
        body["tools"] = [
            {"type": "function", **tool.declared(), "strict": False} for tool in request.tools
        ]
    return body | preset.extra_body


# A conversation as the input of a Responses request: messages, calls, their results, reasoning.

#: The longest call id that servers accept.
_LONGEST_ID: Final = 64

#: The fields of a call that are understood here.
_CALL_FIELDS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status"})


def input_of(messages: Sequence[RequestMessage], server: str) -> list[Json]:
    """Return the conversation as items for ``server``, with the reasoning that came from it.

    Servers refuse a call without a result, a result without a call, and one id for two calls, but
    some of them number the calls of each reply from the start.
    """
    items: list[Json] = []
    used: set[str] = set()
    for exchange in exchanges(messages):
        reply = exchange.reply
        ids = [_call_id(call, used, server) for call in reply.tool_calls]
        calls: dict[str, Json] = {}
        for call, call_id in zip(reply.tool_calls, ids, strict=True):
            calls[call_id if call.id in calls else call.id] = _call_item(call, call_id, server)
        items += _items_of(reply.content, calls, _outline(reply, server))
        for number, output in exchange.results:
            text = "cancelled" if output is None else output
            items.append({"type": "function_call_output", "call_id": ids[number], "output": text})
        for message in exchange.others:
            if message.role != "tool" and message.content:
                role = "developer" if message.role == "system" else message.role
                items.append({"type": "message", "role": role, "content": message.content})
    return items


def _outline(message: RequestMessage, server: str) -> list[Any]:
    """Return the outline of a reply if it came from ``server``; empty if not."""
    reasoning = message.reasoning
    if reasoning is None or reasoning.provider != server:
        return []
    outline = as_list(reasoning.metadata.get("output"))
    if reasoning.metadata.get(EVERY) and not any("summary" in as_dict(part) for part in outline):
        content = [{"type": "reasoning_text", "text": reasoning.text}]
        outline = [{"type": "reasoning", "summary": [], "content": content}, *outline]
    return outline


def _call_id(call: ToolCall, used: set[str], server: str) -> str:
    """Return an id for ``call`` that no other call of the request has."""
    own = kept_of(call, server)[1]
    call_id = own or call.id
    if not 0 < len(call_id) <= (len(own) or _LONGEST_ID) or call_id in used:
        call_id = next(name for name in map("call_{}".format, count()) if name not in used)
    used.add(call_id)
    return call_id


def _call_item(call: ToolCall, call_id: str, server: str) -> Json:
    """Return a call as an item."""
    parts, _ = kept_of(call, server)
    named = {"name": function_name(call.name), "arguments": arguments_text(call.arguments)}
    return {**parts, "type": "function_call", "call_id": call_id, **named}


# The outline of a reply: what a server needs in later requests besides text and calls.
#
# A conversation stores a reply as one text and its calls. The outline, stored as the reasoning's
# metadata, says how these were split into the response's items, and what was between them:
#
#     {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
#     {"type": "message", "length": 42, "phase": "commentary"}
#     {"type": "function_call", "call_id": "call_1"}

#: The text between two messages of one reply.
_SEPARATOR: Final = "\n\n"

# The fields of a reasoning item without which it is plain text.
_PLAIN_FIELDS: Final = frozenset({"type", "id", "status", "summary", "content", "format"})

_PLAIN: Final[Json] = {"type": "message"}


def _items_of(text: str, calls: Mapping[str, Json], outline: Sequence[Any]) -> list[Json]:
    """Return a reply as items of a request's input, in the order of its outline.

    ``calls`` are the items of its calls, by the calls' original ids. If the outline does not match
    the text, which may have been shortened, the reasoning comes first, then the text, then the
    calls.
    """
    parts = [as_dict(part) for part in outline]
    texts = _split(text, parts)
    if texts is None:
        parts = [part for part in parts if part.get("type") == "reasoning"] + [_PLAIN]
        texts = [text]
    left = dict(calls)
    items: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning" if _has_content(part):
                items.append(_reasoning_of(part))
            case "message" if message := texts.pop(0):
                items.append(_message(message, as_text(part.get("phase"))))
            case "function_call" if call := left.pop(as_text(part.get("call_id")), None):
                items.append(call)
    items += left.values()
    _drop_last_reasoning(items)
    return items


def _split(text: str, parts: list[Json]) -> list[str] | None:
    """Return the texts of the outline's messages, or None if they do not make up ``text``."""
    texts: list[str] = []
    start = 0
    for part in parts:
        if part.get("type") == "message":
            length = part.get("length")
            if not isinstance(length, int) or length < 0:
                return None
            start += len(_SEPARATOR) if texts else 0
            texts.append(text[start : start + length])
            start += length
    return texts if _SEPARATOR.join(texts) == text else None


def _message(text: str, phase: str) -> Json:
    """Return a message in the form that all servers accept; llama.cpp refuses shorter forms."""
    content = [{"type": "output_text", "text": text}]
    item: Json = {"type": "message", "role": "assistant", "content": content}
    return {**item, "phase": phase} if phase else item


def _reasoning_of(raw: Json) -> Json:
    """Return a reasoning item as it is returned: all that it contains, without its status."""
    kept = {name: value for name, value in raw.items() if value and name != "status"}
    return {**kept, "type": "reasoning", "summary": as_list(raw.get("summary"))}


def _is_opaque(raw: Json) -> bool:
    """Return whether a reasoning item contains more than text: something encrypted, a signature."""
    opaque = (value for name, value in raw.items() if name not in _PLAIN_FIELDS)
    return any(value and isinstance(value, str | dict | list) for value in opaque)


def _has_content(raw: Json) -> bool:
    """Return whether a reasoning item says anything by itself, without being looked up by its id.

    Servers store nothing here.
    """
    return _is_opaque(raw) or bool(as_list(raw.get("content")))


def _drop_last_reasoning(items: list[Json]) -> None:
    """Remove reasoning at the end: servers refuse it without the item that it led to."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()


#: The events that end a part of an item, and what they tell of the item.
_DONE: Final[dict[str, Json]] = {
    "response.output_item.done": {},
    "response.output_text.done": {"type": "message"},
    "response.refusal.done": {"type": "message"},
    "response.function_call_arguments.done": {"type": "function_call"},
}
_ENDS: Final = {f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")}

#: How many of xAI's cost units make a dollar.
_TICKS: Final = 10**10


class ResponseReader(ReplyReader):
    """One response while it streams; ``limit`` is the request's limit on output tokens."""

    # With any other status the response was cancelled, or is still running in the background.
    endings = meanings(
        stop="completed failed",
        length="incomplete",
        refusal="content_filter",
    )
    otherwise = "broken"

    def __init__(self, server: str, limit: Any = None) -> None:
        super().__init__(server)
        self._limit = limit
        # In order of arrival.
        self._items: list[Item] = []
        self._found_by: dict[int | str, Item] = {}
        self._reported: Any = None
        self._last_message: Item | None = None
        self._last_part: object = None

    def _read(self, event: Json) -> None:
        match as_text(event.get("type")):
            case "response.output_text.delta" | "response.refusal.delta" as kind:
                item = self._item_of(event, {"type": "message"})
                self._refused = self._refused or kind == "response.refusal.delta"
                self._add_message_text(item, as_text(event.get("delta")))
            case (
                "response.reasoning_text.delta"
                | "response.reasoning_summary_text.delta"
                # Older names of both.
                | "response.reasoning.delta"
                | "response.reasoning_summary.delta"
            ) as kind:
                item = self._item_of(event, {"type": "reasoning"})
                # If a server sends both the reasoning and its summary, only the first kind is used.
                item.source = item.source or kind
                if item.source == kind:
                    part = event.get("summary_index", event.get("content_index"))
                    self._add_item_reasoning(item, part, as_text(event.get("delta")))
            case "response.function_call_arguments.delta":
                item = self._item_of(event, {"type": "function_call"})
                self.is_calling = True
                item.arguments.append(written(event.get("delta")))
            case "response.output_item.added":
                self._announce(event, as_dict(event.get("item")))
            case kind if kind in _DONE:
                # These repeat what was streamed, and count for what was not.
                raw = as_dict(event.get("item")) or {**_DONE[kind], **_repeated(event)}
                self._read_item(event, raw)
            case _ if event.get("object") == "response":
                self._read_end(event, event)
            case kind if kind in _ENDS:
                self._read_end(event, as_dict(event.get("response")))
            case kind if kind == "error" or event.get("error"):
                self.error = {**event, **as_dict(event.get("error"))}

    def _announce(self, event: Json, raw: Json) -> Item:
        """Return a new item, even if its place is taken: some proxies give all items one place."""
        item = Item(raw)
        self._items.append(item)
        self._found_by.update(dict.fromkeys(_keys(event, raw), item))
        return item

    def _item_of(self, event: Json, raw: Json) -> Item:
        """Return the item that ``event`` belongs to, or a new one if none was announced."""
        keys = _keys(event, raw)
        keys = keys[:1] if isinstance(keys[0], int) else keys
        item = next((self._found_by[key] for key in keys if key in self._found_by), None)
        return item or self._announce(event, raw)

    def _read_item(self, event: Json, raw: Json) -> None:
        """Read a completed item: add what was not streamed."""
        item = self._item_of(event, raw)
        item.raw = {**item.raw, **raw}
        if arguments := written(raw.get("arguments")):
            item.arguments = [arguments]
        parts = [as_dict(part) for part in as_list(raw.get("content"))]
        if item.kind == "message":
            self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
            if not item.length:
                texts = [
                    as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts
                ]
                self._add_message_text(item, "".join(texts))
        elif item.kind == "reasoning" and not item.length:
            parts = parts or [as_dict(part) for part in as_list(raw.get("summary"))]
            for number, part in enumerate(parts):
                self._add_item_reasoning(item, number, as_text(part.get("text")))

    def _read_end(self, event: Json, response: Json) -> None:
        """Read the last event, or the whole response of a server that does not stream."""
        kind = as_text(event.get("type")).removeprefix("response.")
        status = as_text(response.get("status")) or kind
        reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
        filtered = status == "incomplete" and reason == "content_filter"
        self._finish = reason if filtered else status
        self._reported = response.get("usage")
        # Not earlier: until this event, which includes the usage, another item may arrive.
        self.is_over = True
        items = [as_dict(item) for item in as_list(response.get("output"))]
        if not self._items:
            for number, raw in enumerate(items):
                self._read_item({"output_index": number}, raw)
        for raw in filter(self._is_new, items):
            self._read_item({}, raw)
        # Some servers send the encrypted content only in this event.
        late = {as_text(raw.get("id")): raw.get("encrypted_content") for raw in items}
        for item in self._items:
            if item.kind == "reasoning" and not item.raw.get("encrypted_content"):
                item.raw["encrypted_content"] = late.get(as_text(item.raw.get("id")))
        if status == "failed":
            self.error = response.get("error") or event.get("error") or {}

    def _is_new(self, raw: Json) -> bool:
        """Return whether nothing was streamed of an item in the last event: a call, all text."""
        if raw.get("type") == "function_call":
            ids = {as_text(item.raw.get("call_id")) for item in self._items}
            return as_text(raw.get("call_id")) not in ids
        return raw.get("type") == "message" and not any(
            item.length for item in self._items if item.kind == "message"
        )

    def _add_message_text(self, item: Item, piece: str) -> None:
        """Add a piece of a message to the events; a new message begins a new paragraph."""
        if piece:
            separator = _SEPARATOR if self._last_message not in (None, item) else ""
            self._last_message = item
            item.length += len(self._add_text(separator + piece)) - len(separator)

    def _add_item_reasoning(self, item: Item, part: Any, piece: str) -> None:
        """Add a piece of the reasoning to the events; a new part begins a new paragraph."""
        if piece:
            key = (id(item), str(part))
            separator = _SEPARATOR if self._last_part not in (None, key) else ""
            self._last_part = key
            item.length += len(self._add_reasoning(separator + piece))

    def _tool_calls(self) -> list[ToolCall]:
        calls = []
        for item in self._items:
            name, arguments = as_text(item.raw.get("name")), "".join(item.arguments)
            if item.kind == "function_call" and (name or arguments):
                call_id = as_text(item.raw.get("call_id")) or as_text(item.raw.get("id"))
                item.call = self._call(call_id, name, arguments, others(item.raw, _CALL_FIELDS))
                calls.append(item.call)
        return calls

    def _metadata(self, _calls: list[ToolCall]) -> Json:
        """Return the outline of the items; empty if the text and the calls are enough.

        Reasoning is kept with the item that it led to. It is dropped if that item is one of the
        server's own tools, or if it has no content: the server would then look up its id, and has
        stored nothing.
        """
        outline: list[Json] = []
        for item in self._items:
            match item.kind:
                case "message" if item.length:
                    phase = as_text(item.raw.get("phase"))
                    named = {"phase": phase} if phase else {}
                    outline.append({"type": "message", "length": item.length, **named})
                case "function_call" if item.call:
                    outline.append({"type": "function_call", "call_id": item.call.id})
                case "reasoning" if _has_content(item.raw):
                    outline.append(_reasoning_of(item.raw))
                case kind if kind not in {"message", "function_call", "reasoning"}:
                    _drop_last_reasoning(outline)
        _drop_last_reasoning(outline)
        outline = [
            part
            for part, then in itertools.pairwise([*outline, {}])
            if part["type"] != "reasoning"
            or _is_opaque(part)
            # Plain reasoning is wanted only with the call that it led to.
            or then["type"] == "function_call"
        ]
        needed = any(part["type"] == "reasoning" or "phase" in part for part in outline)
        return {"output": outline} if needed else {}

    def usage(self) -> Usage | None:
        """Return the usage: that of chat completions, with other field names."""
        raw = self._reported
        if not isinstance(raw, dict):
            return None
        ticks = raw.get("cost_in_usd_ticks")
        if type(ticks) is int and 0 <= ticks <= ABSURD * _TICKS:
            raw = {**raw, "cost": ticks / _TICKS}
        return read_usage(raw)

    def _reason(self, usage: Usage | None, *, called: bool) -> FinishReason:
        # llama.cpp reports a reply as complete even if it has cut it off.
        limit = self._limit if isinstance(self._limit, int) else math.inf
        is_cut = usage is not None and usage.output_tokens >= limit
        reason = super()._reason(usage, called=called)
        return "length" if is_cut and self._finish != "content_filter" else reason


@dataclass(slots=True, eq=False)
class Item:
    """An item of the output.

    ``raw`` is the server's description of the item, ``length`` the number of its characters that
    became events, and ``source`` the kind of event that its reasoning came in. ``arguments`` are
    the pieces of a call's arguments, and ``call`` is the call made from them.
    """

    raw: Json
    length: int = 0
    source: str = ""
    arguments: list[str] = field(default_factory=list)
    call: ToolCall | None = None

    @property
    def kind(self) -> str:
        """The item's type; empty if there is none."""
        return as_text(self.raw.get("type"))


def _repeated(event: Json) -> Json:
    """Return the part of an item that ends with ``event``, as a completed item has it."""
    text = {name: event[name] for name in ("text", "refusal") if name in event}
    named = {"arguments": event["arguments"]} if "arguments" in event else {}
    return {"content": [text], **named} if text else named


def _keys(event: Json, raw: Json) -> list[int | str]:
    """Return the keys that identify an item: its place and its ids, or else its type.

    If there is a place, only that is looked up, since some proxies change the ids from event to
    event; llama.cpp gives no places. An item with neither counts as the only one of its type.
    """
    index = event.get("output_index")
    places = [index] if isinstance(index, int) else []
    ids = [as_text(key) for key in (event.get("item_id"), raw.get("id"), raw.get("call_id"))]
    return [*places, *filter(None, ids)] or [as_text(raw.get("type"))]


PROTOCOL = ResponsesModel
