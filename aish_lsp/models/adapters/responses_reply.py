"""The events of a Responses stream, put together into events of ours.

A response is a list of items: reasoning, messages, function calls, and what the server ran itself.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any, Final

from aish_lsp.foundation.text import well_formed
from aish_lsp.models.adapters.loose import ABSURD, Json, SurrogateJoiner, as_dict, as_list, as_text
from aish_lsp.models.adapters.openai_reply import read_usage
from aish_lsp.models.adapters.responses_items import SEPARATOR, Item, Items, outline_of
from aish_lsp.models.events import (
    Finish,
    FinishReason,
    ModelEvent,
    Reasoning,
    ReasoningMetadata,
    Text,
    ToolCall,
    Usage,
)

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
