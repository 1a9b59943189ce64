"""A chat completion's chunks, put together into events.

Servers that call themselves compatible differ most here; each difference is named where it is met.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.adapters.stream import (
    Json,
    SurrogateJoiner,
    as_count,
    as_dict,
    as_list,
    as_number,
    as_text,
    is_object,
)
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall

#: What servers call the reasoning that has nothing to it but its text.
PLAIN_FIELDS: Final = ("reasoning_content", "reasoning")

# Finish reasons that say that the server gave up.
_BROKEN_FINISH = frozenset({"error", "abort", "insufficient_system_resource"})

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool",
    "function_call": "tool",
    "content_filter": "refusal",
}


@dataclass(slots=True)
class _Call:
    """A tool call whose pieces are still coming."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def add(self, function: Json) -> None:
        name = function.get("name")
        # Some repeat the name in every piece; a name in pieces ends where the arguments begin.
        if isinstance(name, str) and name != self.name and not self.arguments:
            self.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            self.arguments.append(json.dumps(arguments))
        elif isinstance(arguments, str) and arguments:
            self.arguments.append(arguments)

    def is_followed_by(self, call_id: str, function: Json) -> bool:
        """Return whether a named piece in this call's place begins another call.

        Some give every whole call the index 0, and some of these no ids.
        """
        if call_id and self.id:
            return call_id != self.id
        # Looked at only where it may be whole: the name may come with each of very many pieces.
        ended = bool(self.arguments) and self.arguments[-1].rstrip().endswith("}")
        return ended and bool(function.get("arguments")) and is_object("".join(self.arguments))


class ReplyReader:
    """One reply while it streams: ``feed`` it each chunk, then ``end`` it.

    ``provider`` names who must get the reasoning's metadata back.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        self._details: list[Json] = []
        self._field = ""
        self._usage: Json | None = None
        self._finish: str | None = None
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._refused = False
        #: An error that came in place of a chunk, or within one.
        self.error: Any = None

    #: The end comes as ``[DONE]``, or with the response.
    is_over: Final = False

    @property
    def is_whole(self) -> bool:
        """Whether the server has given its finish reason: the content is then complete."""
        return self._finish is not None

    @property
    def gave_up(self) -> str | None:
        """A finish reason that is none: the server broke the reply off."""
        return self._finish if self._finish in _BROKEN_FINISH else None

    def feed(self, chunk: Json) -> list[ModelEvent]:
        """Return the text and reasoning of ``chunk`` and keep the rest of it."""
        self.error = chunk.get("error") or (chunk if _is_error(chunk) else self.error)
        # Groq puts its usage under x_groq; some repeat a running total in every chunk.
        self._keep_usage(chunk.get("usage"))
        self._keep_usage(as_dict(chunk.get("x_groq")).get("usage"))
        events: list[ModelEvent] = []
        for choice in as_list(chunk.get("choices")):
            if not isinstance(choice, dict) or choice.get("index"):
                continue
            # A server that does not stream after all sends one whole message.
            delta = choice.get("delta") if "delta" in choice else choice.get("message")
            if isinstance(delta, dict):
                self._read_delta(delta, events)
            self._keep_usage(choice.get("usage"))
            if self._finish is None and isinstance(choice.get("finish_reason"), str):
                self._finish = choice["finish_reason"] or None
        return events

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage and the finish."""
        events: list[ModelEvent] = [*self._tool_calls()]
        called = bool(events)
        metadata: Json = {}
        if self._details:
            metadata = {"reasoning_details": self._details}
        elif called and self._field:
            # DeepSeek, Moonshot and others refuse a call's result without what led to the call.
            metadata = {"reasoning_field": self._field}
        if metadata:
            events.append(ReasoningMetadata(self._provider, metadata))
        usage = read_usage(self._usage)
        if usage is not None:
            events.append(usage)
        reason = _FINISH.get(self._finish or "stop", "stop")
        if reason == "stop" and (called or self._refused):
            reason = "tool" if called else "refusal"
        events.append(Finish(reason))
        return events

    def _keep_usage(self, usage: Any) -> None:
        if isinstance(usage, dict) and usage:
            self._usage = usage

    def _read_delta(self, delta: Json, events: list[ModelEvent]) -> None:
        details = [
            item for item in as_list(delta.get("reasoning_details")) if isinstance(item, dict)
        ]
        for item in details:
            self._keep_detail(item)
        self._field = next((name for name in PLAIN_FIELDS if as_text(delta.get(name))), self._field)
        self._add_reasoning(_reasoning_text(delta, details), events)
        content = delta.get("content")
        if isinstance(content, str):
            self._add_text(content, events)
        for part in as_list(content):
            self._read_part(as_dict(part), events)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            self._add_text(refusal, events)
        for piece in as_list(delta.get("tool_calls")):
            if isinstance(piece, dict):
                function = as_dict(piece.get("function"))
                self._call_of(piece, function).add(function)
        if isinstance(delta.get("function_call"), dict):
            self._call_of({"index": 0}, delta["function_call"]).add(delta["function_call"])

    def _read_part(self, part: Json, events: list[ModelEvent]) -> None:
        """Read a part of a content that is a list (Mistral)."""
        if part.get("type") == "thinking":
            thinking = part.get("thinking")
            inner = thinking if isinstance(thinking, list) else [{"text": thinking}]
            for item in inner:
                self._add_reasoning(as_text(as_dict(item).get("text")), events)
        else:
            self._add_text(as_text(part.get("text")), events)

    def _add_text(self, piece: str, events: list[ModelEvent]) -> None:
        if text := self._text.feed(piece):
            events.append(Text(text))

    def _add_reasoning(self, piece: str, events: list[ModelEvent]) -> None:
        if text := self._reasoning.feed(piece):
            events.append(Reasoning(text))

    def _call_of(self, piece: Json, function: Json) -> _Call:
        """Return the call that ``piece`` belongs to; a new one where it begins one."""
        index, call_id = piece.get("index"), piece.get("id")
        call_id = str(call_id) if call_id else ""
        named = bool(function.get("name"))
        if isinstance(index, int):
            call = self._call_at.get(index)
        elif call_id:
            call = next((known for known in self._calls if known.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls and not named else None
        if call is None or (named and call.is_followed_by(call_id, function)):
            call = _Call()
            self._calls.append(call)
        if isinstance(index, int):
            self._call_at[index] = call
        call.id = call.id or call_id
        return call

    def _tool_calls(self) -> list[ToolCall]:
        """Return the calls, each with an id of its own: a result must find its call."""
        ids: set[str] = set()
        calls: list[ToolCall] = []
        for call in self._calls:
            if not call.name and not call.arguments:
                continue
            call_id = call.id if call.id and call.id not in ids else f"call_{uuid.uuid4().hex[:24]}"
            ids.add(call_id)
            written = (call_id, call.name, "".join(call.arguments))
            calls.append(ToolCall(*map(well_formed, written)))
        return calls

    def _keep_detail(self, item: Json) -> None:
        """Keep a part of the reasoning, joined with the part that it goes on."""
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(key) == item.get(key) for key in ("type", "index"))
        if last is None or not same or "data" in item:
            self._details.append(dict(item))
            return
        for key, value in item.items():
            if key in {"text", "summary"} and isinstance(value, str):
                last[key] = (last.get(key) or "") + value
            elif value is not None:
                last[key] = value


def _is_error(chunk: Json) -> bool:
    """Return whether a chunk is an error that does not stand under ``error``."""
    says = "choices" not in chunk and (chunk.get("message") or chunk.get("detail"))
    return chunk.get("object") == "error" or bool(says)


def read_usage(raw: Json | None) -> Usage | None:
    """Return the usage that a server reported, or None where it makes no sense.

    A request without a token does not: what it took is then estimated, so that a cap holds.
    """
    if raw is None:
        return None
    prompt_details = as_dict(raw.get("prompt_tokens_details"))
    completion_details = as_dict(raw.get("completion_tokens_details"))
    prompt = as_count(raw.get("prompt_tokens"))
    completion = as_count(raw.get("completion_tokens"))
    if prompt == 0 and not _cost(raw):
        return None
    reasoning = as_count(completion_details.get("reasoning_tokens"))
    # xAI and Gemini leave the reasoning out of completion_tokens; the total tells.
    beyond = as_count(raw.get("total_tokens")) - prompt - completion
    if beyond > 0 and reasoning in (0, beyond):
        completion += beyond
        reasoning = beyond
    cached = as_count(prompt_details.get("cached_tokens")) or as_count(
        raw.get("prompt_cache_hit_tokens")  # DeepSeek
    )
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        reasoning_tokens=min(reasoning, completion),
        cache_read_tokens=min(cached, prompt),
        cache_write_tokens=min(as_count(prompt_details.get("cache_write_tokens")), prompt),
        cost=_cost(raw),
    )


def _cost(raw: Json) -> float | None:
    """Return the dollars that OpenRouter and LiteLLM report, or None."""
    cost = as_number(raw.get("cost"))
    if cost is not None and raw.get("is_byok") is True:
        # With a key of the user's own, `cost` is OpenRouter's share alone.
        upstream = as_dict(raw.get("cost_details")).get("upstream_inference_cost")
        cost += as_number(upstream) or 0.0
    return cost


def _reasoning_text(delta: Json, details: list[Json]) -> str:
    """Return a delta's reasoning, once, however many spellings it comes in."""
    plain = next(filter(None, (as_text(delta.get(name)) for name in PLAIN_FIELDS)), "")
    return plain or "".join(
        as_text(item.get("text")) or as_text(item.get("summary")) for item in details
    )
