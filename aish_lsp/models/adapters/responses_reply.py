"""The events of a Responses stream, put together into events of ours.

A response is a list of items: reasoning, messages, function calls, and what the server ran itself.

Items are found again while it streams, and outlined for the next request.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.adapters.openai_reply import read_usage
from aish_lsp.models.adapters.stream import ABSURD, Json, SurrogateJoiner, as_dict, as_list, as_text
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall

_TEXT_DELTAS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})

# The model's own words, or their summary; the last two are older names of theirs.
_REASONING_DELTAS: Final = frozenset(
    {
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning.delta",
        "response.reasoning_summary.delta",
    }
)

_LAST_EVENTS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)

# How a response ends that was not broken off.
_ENDS: Final = frozenset({"completed", "incomplete", "failed", ""})

#: xAI's unit of money, in a dollar.
_TICKS: Final = 10**10


class ReplyReader:
    """One response while it streams: ``feed`` it each event, then ``end`` it.

    ``provider`` names who must get the reasoning back; ``limit`` is how many tokens were asked for.
    """

    def __init__(self, provider: str, limit: Any = None) -> None:
        self._provider = provider
        self._limit = limit
        self._items = Items()
        self._response: Json | None = None
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._speaker: Item | None = None
        self._thought: object = None
        self._refused = False
        #: An error that came in place of an event, or as the end.
        self.error: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether the response has ended: until then another item may come."""
        return self._response is not None

    @property
    def is_over(self) -> bool:
        """The same: the end brings the usage with it."""
        return self.is_whole

    @property
    def gave_up(self) -> str | None:
        """A status that is not an end: cancelled, or still at work in the background."""
        status = as_text(as_dict(self._response).get("status"))
        return None if status in _ENDS else status

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return the text and reasoning of ``event`` and keep the rest of it."""
        kind = as_text(event.get("type"))
        events: list[ModelEvent] = []
        if kind in _TEXT_DELTAS:
            item = self._items.of(event, {"type": "message"})
            self._refused = self._refused or kind == "response.refusal.delta"
            self._say(item, as_text(event.get("delta")), events)
        elif kind in _REASONING_DELTAS:
            item = self._items.of(event, {"type": "reasoning"})
            # A server that gives both the words and their summary is heard once.
            item.heard = item.heard or kind
            if item.heard == kind:
                part = event.get("summary_index", event.get("content_index"))
                self._think(item, part, as_text(event.get("delta")), events)
        elif kind == "response.function_call_arguments.delta":
            item = self._items.of(event, {"type": "function_call"})
            item.arguments.append(as_text(event.get("delta")))
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            self._read_item(event, kind.endswith("done"), events)
        elif kind in _LAST_EVENTS or event.get("object") == "response":
            self._read_end(event, events)
        elif kind == "error" or event.get("error"):
            self.error = {**event, **as_dict(event.get("error"))}
        return events

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage and the finish."""
        calls = self._tool_calls()
        events: list[ModelEvent] = [*calls.values()]
        output = outline_of(self._parts(calls))
        if output:
            events.append(ReasoningMetadata(self._provider, {"output": output}))
        usage = _usage(as_dict(self._response).get("usage"))
        if usage is not None:
            events.append(usage)
        events.append(Finish(self._finish(bool(calls), usage)))
        return events

    def _read_item(self, event: Json, done: bool, events: list[ModelEvent]) -> None:
        """Read an item as it is announced, or as a whole: what was not streamed is told then."""
        raw = as_dict(event.get("item"))
        if not done:
            self._items.announce(event, raw)
            return
        item = self._items.of(event, raw)
        item.raw = {**item.raw, **raw}
        if as_text(raw.get("arguments")):
            item.arguments = [raw["arguments"]]
        parts = [as_dict(part) for part in as_list(raw.get("content"))]
        if item.kind == "message":
            self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
            if not item.length:
                texts = [
                    as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts
                ]
                self._say(item, "".join(texts), events)
        elif item.kind == "reasoning" and not item.length:
            parts = parts or [as_dict(part) for part in as_list(raw.get("summary"))]
            for number, part in enumerate(parts):
                self._think(item, number, as_text(part.get("text")), events)

    def _read_end(self, event: Json, events: list[ModelEvent]) -> None:
        """Read the last event, or the whole response of a server that does not stream."""
        response = event if event.get("object") == "response" else as_dict(event.get("response"))
        named = as_text(event.get("type")).removeprefix("response.")
        status = as_text(response.get("status")) or named
        self._response = {**response, "status": status}
        items = [as_dict(item) for item in as_list(response.get("output"))]
        if not self._items:
            for number, raw in enumerate(items):
                self._read_item({"output_index": number, "item": raw}, True, events)
        # Some servers give the encrypted content only here.
        late = {as_text(raw.get("id")): raw.get("encrypted_content") for raw in items}
        for item in self._items:
            if item.kind == "reasoning" and not item.raw.get("encrypted_content"):
                item.raw["encrypted_content"] = late.get(as_text(item.raw.get("id")))
        if status == "failed":
            self.error = response.get("error") or event.get("error") or {}

    def _say(self, item: Item, piece: str, events: list[ModelEvent]) -> None:
        """Tell a piece of a message; another message begins a paragraph of its own."""
        if not piece:
            return
        separator = SEPARATOR if self._speaker not in (None, item) else ""
        self._speaker = item
        if text := self._text.feed(separator + piece):
            item.length += len(text) - len(separator)
            events.append(Text(text))

    def _think(self, item: Item, part: Any, piece: str, events: list[ModelEvent]) -> None:
        """Tell a piece of the reasoning; another part begins a paragraph of its own."""
        if not piece:
            return
        thought = (id(item), str(part))
        separator = SEPARATOR if self._thought not in (None, thought) else ""
        self._thought = thought
        if text := self._reasoning.feed(separator + piece):
            item.length += len(text)
            events.append(Reasoning(text))

    def _tool_calls(self) -> dict[int, ToolCall]:
        """Return the calls by the place of their item, each with an id of its own."""
        ids: set[str] = set()
        calls: dict[int, ToolCall] = {}
        for place, item in enumerate(self._items):
            name, arguments = as_text(item.raw.get("name")), "".join(item.arguments)
            if item.kind != "function_call" or not (name or arguments):
                continue
            call_id = as_text(item.raw.get("call_id")) or as_text(item.raw.get("id"))
            if not call_id or call_id in ids:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            ids.add(call_id)
            calls[place] = ToolCall(*map(well_formed, (call_id, name, arguments)))
        return calls

    def _parts(self, calls: dict[int, ToolCall]) -> Iterator[Json]:
        """Yield the items in the terms of an outline."""
        for place, item in enumerate(self._items):
            if item.kind == "message":
                if item.length:
                    phase = as_text(item.raw.get("phase"))
                    named = {"phase": phase} if phase else {}
                    yield {"type": "message", "length": item.length, **named}
            elif item.kind == "function_call":
                if place in calls:
                    yield {"type": "function_call", "call_id": calls[place].id}
            else:
                yield item.raw

    def _finish(self, called: bool, usage: Usage | None) -> FinishReason:
        response = as_dict(self._response)
        if response.get("status") == "incomplete":
            reason = as_dict(response.get("incomplete_details")).get("reason")
            return "refusal" if reason == "content_filter" else "length"
        # llama.cpp calls a reply complete that it has cut.
        limit = self._limit if isinstance(self._limit, int) else math.inf
        if usage is not None and usage.output_tokens >= limit:
            return "length"
        if called:
            return "tool"
        return "refusal" if self._refused else "stop"


def _usage(raw: Any) -> Usage | None:
    """Return the usage that a server reported: that of chat completions under other names."""
    if not isinstance(raw, dict):
        return None
    usage = {
        **raw,
        "prompt_tokens": raw.get("input_tokens"),
        "completion_tokens": raw.get("output_tokens"),
        "prompt_tokens_details": raw.get("input_tokens_details"),
        "completion_tokens_details": raw.get("output_tokens_details"),
    }
    ticks = raw.get("cost_in_usd_ticks")
    if type(ticks) is int and 0 <= ticks <= ABSURD * _TICKS:
        usage["cost"] = ticks / _TICKS
    return read_usage(usage)


@dataclass(slots=True, eq=False)
class Item:
    """An item of the output.

    ``raw`` is what the server has said it is, ``length`` counts the characters told of it, and
    ``heard`` is the kind of event that they came in; ``arguments`` are a call's, in pieces.
    """

    raw: Json
    length: int = 0
    heard: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The item's type; empty where there is none."""
        return as_text(self.raw.get("type"))


class Items:
    """All items of a response, in the order in which they came."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._found_by: dict[int | str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def announce(self, event: Json, raw: Json) -> Item:
        """Return a new item, whatever stood in its place: some proxies give all of them one."""
        return self._add(_keys(event, raw), raw)

    def of(self, event: Json, raw: Json) -> Item:
        """Return the item that ``event`` belongs to; a new one where it was not announced."""
        keys = _keys(event, raw)
        sought = keys[:1] if isinstance(keys[0], int) else keys
        item = next((self._found_by[key] for key in sought if key in self._found_by), None)
        return item or self._add(keys, raw)

    def _add(self, keys: list[int | str], raw: Json) -> Item:
        item = Item(raw)
        self._items.append(item)
        self._found_by.update(dict.fromkeys(keys, item))
        return item


def _keys(event: Json, raw: Json) -> list[int | str]:
    """Return what an item is found by: its place, and where an event tells none, its ids.

    Some proxies change the ids from event to event; llama.cpp gives no places. What has neither is
    taken for the only one of its type.
    """
    place = event.get("output_index")
    places = [place] if isinstance(place, int) else []
    ids = [as_text(key) for key in (event.get("item_id"), raw.get("id"), raw.get("call_id"))]
    return [*places, *filter(None, ids)] or [as_text(raw.get("type"))]


# What a Responses server wants back of a reply, beside its text and its calls, and in which place.
#
# A conversation keeps a reply as one text and its calls. The outline, kept as the reasoning's
# metadata, tells how these were spread over the items of the response and what stood between them:
#
#     {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
#     {"type": "message", "length": 42, "phase": "commentary"}
#     {"type": "function_call", "call_id": "call_1"}

#: Between two messages of one reply.
SEPARATOR: Final = "\n\n"

# What must go back of a reasoning item; the last two are OpenRouter's.
_REASONING_FIELDS: Final = ("id", "encrypted_content", "content", "format", "signature")

_PLAIN: Final[Json] = {"type": "message"}


def outline_of(parts: Iterable[Json]) -> list[Json]:
    """Return the outline of a response's items, or nothing where text and calls alone say it all.

    Reasoning goes with the item that it led to: what led to something that the server ran itself
    stays behind with that. Without its encrypted content reasoning stays behind too: the server
    would look for it by its id where it stored nothing.
    """
    outline: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning":
                if as_text(part.get("encrypted_content")):
                    outline.append(_reasoning(part))
            case "message" | "function_call":
                outline.append(part)
            case _:
                _drop_last_reasoning(outline)
    _drop_last_reasoning(outline)
    needed = any(part["type"] == "reasoning" or "phase" in part for part in outline)
    return outline if needed else []


def items_of(text: str, calls: Mapping[str, Json], outline: Sequence[Any]) -> list[Json]:
    """Return a reply as items of a request's input, in the order of its outline.

    ``calls`` are the items of its calls by the calls' own ids. Where the outline does not fit the
    text, which may have been cut since, the reasoning comes first, then the text, then the calls.
    """
    parts = [as_dict(part) for part in outline]
    texts = _spread(text, parts)
    if texts is None:
        parts = [part for part in parts if part.get("type") == "reasoning"] + [_PLAIN]
        texts = [text]
    left = dict(calls)
    items: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning" if as_text(part.get("encrypted_content")):
                items.append(_reasoning(part))
            case "message" if said := texts.pop(0):
                items.append(_message(said, as_text(part.get("phase"))))
            case "function_call" if call := left.pop(as_text(part.get("call_id")), None):
                items.append(call)
    items += left.values()
    _drop_last_reasoning(items)
    return items


def _spread(text: str, parts: list[Json]) -> list[str] | None:
    """Return the texts of the outline's messages, or None where they are not those of ``text``."""
    texts: list[str] = []
    start = 0
    for part in parts:
        if part.get("type") == "message":
            length = part.get("length")
            if not isinstance(length, int) or length < 0:
                return None
            start += len(SEPARATOR) if texts else 0
            texts.append(text[start : start + length])
            start += length
    return texts if SEPARATOR.join(texts) == text else None


def _message(text: str, phase: str) -> Json:
    """Return a message in the one form that all servers take: llama.cpp no shorter one."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    return {**item, "phase": phase} if phase else item


def _reasoning(raw: Json) -> Json:
    """Return a reasoning item as it goes back: exactly, without what is only said of it."""
    kept = {name: raw[name] for name in _REASONING_FIELDS if raw.get(name)}
    return {"type": "reasoning", "summary": as_list(raw.get("summary")), **kept}


def _drop_last_reasoning(items: list[Json]) -> None:
    """Drop the reasoning at the end: a server refuses it without the item that it led to."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()
