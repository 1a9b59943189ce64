"""Anthropic's Messages, as Anthropic and others serve them: requests, and replies in a stream."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.adapters.anthropic_messages import (
    BINDING_BETA,
    CACHE_MARK,
    sampling_fields,
    system_text,
    thinking_fields,
    wire_messages,
    with_cache_marks,
)
from aish_lsp.models.adapters.stream import (
    Json,
    ModelNames,
    Post,
    SurrogateJoiner,
    as_count,
    as_dict,
    as_list,
    as_text,
    stream_reply,
)
from aish_lsp.models.address import api_url, server_name
from aish_lsp.models.keys import headers_for, key_of
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall
from aish_lsp.models.tokenize_api import NotACountError

if TYPE_CHECKING:
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest


_FINISH: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    # One of the provider's own tools takes longer than a reply may: the rest is not here.
    "pause_turn": "length",
    "tool_use": "tool",
    "refusal": "refusal",
}

# Which block a piece belongs to that came without the block's start.
_KIND_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking"}

_INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(slots=True)
class _Block:
    """A content block whose pieces are still coming.

    ``start`` is what it began with; ``length`` the characters of a text; ``pieces`` those of the
    thinking, or of a call's arguments.
    """

    kind: str
    start: Json = field(default_factory=dict)
    length: int = 0
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def arguments(self) -> str:
        """A call's arguments: those that were streamed, else those it began with."""
        streamed = well_formed("".join(self.pieces))
        return streamed if streamed.strip() else json.dumps(as_dict(self.start.get("input")))


class ReplyReader:
    """One reply while it streams: ``feed`` it each event, then ``end`` it.

    A reply is a list of content blocks. They stream one after the other, or, from llama.cpp, side
    by side; what the provider's own tools said and did in between is left out.

    ``server`` is who (host and port) signs the thinking: it alone takes it back.
    """

    #: The finish reason, if it said that the server broke the reply off: none does.
    gave_up: Final = None

    def __init__(self, server: str) -> None:
        self._server = server
        self._blocks: list[_Block] = []
        self._block_at: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._over = False
        #: An error that came in place of an event.
        self.error: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether the server has said why it stopped."""
        return self._over or self._stop_reason is not None

    @property
    def is_over(self) -> bool:
        """Whether ``message_stop`` has come."""
        return self._over

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return the text and reasoning of ``event`` and keep the rest of it."""
        events: list[ModelEvent] = []
        match event.get("type"):
            case "message_start":
                self._keep_usage(as_dict(event.get("message")).get("usage"))
            case "content_block_start":
                self._begin(event.get("index"), as_dict(event.get("content_block")), events)
            case "content_block_delta":
                self._add(event.get("index"), as_dict(event.get("delta")), events)
            case "message_delta":
                self._stop(as_dict(event.get("delta")))
                self._keep_usage(event.get("usage"))
            case "message_stop":
                self._over = True
            case "message":
                # A server that does not stream after all sends one whole message.
                for index, block in enumerate(as_list(event.get("content"))):
                    self._begin(index, as_dict(block), events)
                self._stop(event)
                self._keep_usage(event.get("usage"))
                self._over = True
            case kind:
                if kind == "error" or event.get("error"):
                    self.error = event.get("error") or event
        return events

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage and the finish."""
        calls: list[ToolCall] = []
        content: list[Json] = []
        for block in self._blocks:
            if block.kind == "tool_use":
                calls.append(_tool_call(block, {call.id for call in calls}))
                content.append({"type": "tool_use"})
            elif block.kind == "text":
                content.append({"type": "text", "length": block.length})
            else:
                content.append(_thought(block))
        events: list[ModelEvent] = [*calls]
        if any("thinking" in part["type"] for part in content):
            # Text and calls stand there for their places: all goes back in the order it came in.
            metadata = {"server": self._server, "content": content}
            events.append(ReasoningMetadata("anthropic", metadata))
        usage = _usage(self._counts)
        if usage is not None:
            events.append(usage)
        reason = _FINISH.get(self._stop_reason or "", "stop")
        events.append(Finish("tool" if reason == "stop" and calls else reason))
        return events

    def _begin(self, index: Any, start: Json, events: list[ModelEvent]) -> None:
        """Begin a block with what is in it from the first; blocks of other kinds are ignored."""
        kind = as_text(start.get("type"))
        block = _Block(kind, start)
        if isinstance(index, int):
            self._block_at[index] = block
        if kind in {"text", "thinking", "redacted_thinking", "tool_use"}:
            self._blocks.append(block)
        if kind in {"text", "thinking"}:
            self._add_words(block, as_text(start.get(kind)), events)
            block.signature = as_text(start.get("signature"))

    def _add(self, index: Any, delta: Json, events: list[ModelEvent]) -> None:
        """Add a piece to the block that it belongs to."""
        kind = as_text(delta.get("type"))
        if kind in _KIND_OF_DELTA and self._block_of(index) is None:
            self._begin(index, {"type": _KIND_OF_DELTA[kind]}, events)
        block = self._block_of(index)
        if block is None:
            return
        match kind, block.kind:
            case ("text_delta", "text") | ("thinking_delta", "thinking"):
                self._add_words(block, as_text(delta.get(block.kind)), events)
            case "signature_delta", _:
                block.signature += as_text(delta.get("signature"))
            case "input_json_delta", "tool_use":
                block.pieces.append(as_text(delta.get("partial_json")))

    def _block_of(self, index: Any) -> _Block | None:
        return self._block_at.get(index) if isinstance(index, int) else None

    def _add_words(self, block: _Block, piece: str, events: list[ModelEvent]) -> None:
        """Add a piece to a block of text or thinking, and what is complete to ``events``."""
        if block.kind == "text":
            if text := self._text.feed(piece):
                block.length += len(text)
                events.append(Text(text))
        else:
            block.pieces.append(piece)
            if text := self._reasoning.feed(piece):
                events.append(Reasoning(text))

    def _stop(self, delta: Json) -> None:
        self._stop_reason = as_text(delta.get("stop_reason")) or self._stop_reason

    def _keep_usage(self, usage: Any) -> None:
        """Keep the latest counts: they grow. Some servers say 0 where they do not say it again."""
        counts = as_dict(usage)
        for name in _INPUT_COUNTS:
            if count := as_count(counts.get(name)):
                self._counts[name] = count
        if "output_tokens" in counts:
            self._counts["output_tokens"] = as_count(counts["output_tokens"])
        details = as_dict(counts.get("output_tokens_details"))
        if count := as_count(details.get("thinking_tokens")):
            self._counts["thinking_tokens"] = count


def _tool_call(block: _Block, taken: set[str]) -> ToolCall:
    """Return the call with an id of its own: a result must find its call."""
    call_id = as_text(block.start.get("id"))
    if not call_id or call_id in taken:
        call_id = f"toolu_{uuid.uuid4().hex[:24]}"
    name = well_formed(as_text(block.start.get("name")))
    return ToolCall(well_formed(call_id), name, block.arguments)


def _thought(block: _Block) -> Json:
    """Return a block of thinking as it must go back."""
    if block.kind == "redacted_thinking":
        return {"type": block.kind, "data": as_text(block.start.get("data"))}
    thinking = well_formed("".join(block.pieces))
    return {"type": block.kind, "thinking": thinking, "signature": block.signature}


def _usage(counts: dict[str, int]) -> Usage | None:
    """Return the usage, or None where it makes no sense: a request without a token.

    Anthropic counts what was read from its cache, or written to it, beside the rest of the input.
    """
    read = counts.get("cache_read_input_tokens", 0)
    written = counts.get("cache_creation_input_tokens", 0)
    prompt = counts.get("input_tokens", 0) + read + written
    if prompt == 0:
        return None
    output = counts.get("output_tokens", 0)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        reasoning_tokens=min(counts.get("thinking_tokens", 0), output),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


# All that a request's size depends on; the counting endpoint refuses the other fields.
_COUNTED = ("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config")

_BETA_HEADER = "anthropic-beta"


class AnthropicModel:
    """The adapter for every server that speaks Anthropic's Messages.

    ``environ`` is where keys are looked up; the process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        self._names = ModelNames(http)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an address.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "messages")
        with key_of(preset):
            headers, body = await self._prepare(request)
            post = Post(url, headers, body, preset.timeout)
            reply = stream_reply(self._http, post, ReplyReader(server_name(url)))
            async with aclosing(reply):
                async for event in reply:
                    yield event

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the tokens that the input of ``request`` has, as the server counts them.

        ``timeout_s`` is in seconds. Anthropic charges nothing for it, and calls it an estimate.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``.
            NotACountError: what came is not a count.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "messages/count_tokens")
        with key_of(preset):
            headers, body = await self._prepare(request)
            counted = {name: body[name] for name in _COUNTED if name in body}
            reply = await self._http.post_json(url, counted, headers=headers, timeout_s=timeout_s)
        tokens = as_dict(reply).get("input_tokens")
        if type(tokens) is not int or tokens < 1:
            raise NotACountError
        return tokens

    async def _prepare(self, request: ModelRequest) -> tuple[dict[str, str], Json]:
        """Return the headers and the body of a request."""
        headers = await headers_for(request.preset, self._environ)
        body = request_body(request, await self._names.name_for(request.preset, headers))
        return _with_betas(headers, body), body


def request_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names."""
    preset = request.preset
    extra = preset.extra_body
    limit = request.max_output_tokens or preset.max_output_tokens
    messages = wire_messages(request.messages, preset)
    body: dict[str, Any] = {"max_tokens": limit, "stream": True}
    if model:
        body["model"] = model
    body |= _prompt(request, messages)
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": {"type": "object", **tool.parameters},
            }
            for tool in request.tools
        ]
    if preset.stop is not None:
        body["stop_sequences"] = preset.stop
    given = extra.get("max_tokens")
    body |= thinking_fields(preset, model, given if isinstance(given, int) else limit, messages)
    body |= sampling_fields(preset, model, extra.get("thinking", body.get("thinking")))
    return body | extra


def _prompt(request: ModelRequest, messages: list[Json]) -> dict[str, Any]:
    """Return the system prompt and the messages, marked for the provider's cache.

    Behind a proxy Claude costs ten times as much without the marks; servers that have no use for
    them take them all the same, since Anthropic's own programs send them.
    """
    system = system_text(request.messages)
    # Where turns are left out and cut short, no request begins as the last one did.
    marked = messages if request.preset.local_compress else with_cache_marks(messages)
    fields: dict[str, Any] = {"messages": marked}
    if system:
        fields["system"] = [{"type": "text", "text": system, "cache_control": CACHE_MARK}]
    return fields


def _with_betas(headers: dict[str, str], body: Json) -> dict[str, str]:
    """Return ``headers`` with leave for what the body has of betas, beside the user's own."""
    if "block_binding" not in as_dict(body.get("thinking")):
        return headers
    given = [value for name, value in headers.items() if name.lower() == _BETA_HEADER]
    others = {name: value for name, value in headers.items() if name.lower() != _BETA_HEADER}
    return {**others, _BETA_HEADER: ",".join([*given, BINDING_BETA])}
