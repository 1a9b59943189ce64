"""Anthropic's Messages protocol, as served by Anthropic and others.

Servers enforce these rules: user and assistant alternate, beginning with the user; the results of
tool calls are at the start of the next message; no text is blank.
"""

from __future__ import annotations

import json
import re
from dataclasses import field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.address import host, server_name
from aish_lsp.models.forms import EVERY
from aish_lsp.models.keys import BEARER, headers_for
from aish_lsp.models.loose_json import Json, as_count, as_dict, as_list, as_text
from aish_lsp.models.providers.base import CountingModel, settings_of
from aish_lsp.models.providers.reply import (
    ReplyReader,
    arguments_of,
    function_name,
    kept_of,
    meanings,
    object_of,
    others,
    plain,
    written,
)
from aish_lsp.models.refusals import STATUSES, unquoted
from aish_lsp.models.request import NO_RESULT, exchanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.refusals import Changes
    from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall

_BETA_HEADER = "anthropic-beta"

# The field of a block that marks it for the cache, and how a refusal names it.
_CACHE = "cache_control"
_NAMES_CACHE = re.compile(rf"[\"'`]?[\w.]*{_CACHE}")

# These do not look for the key in Anthropic's header: https://docs.ollama.com.
_BEARER_HOSTS = frozenset({"ollama.com"})


class AnthropicModel(CountingModel):
    """The adapter for every server that speaks Anthropic's Messages.

    Anthropic documents its token count as an estimate.
    """

    path = "messages"
    key_header = "x-api-key"
    fixed_headers = MappingProxyType({"anthropic-version": "2023-06-01"})
    signed_source = "anthropic"
    count_path = "messages/count_tokens"
    counted = ("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config")

    @classmethod
    async def headers(cls, preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request, with the key where its server looks for it."""
        is_bearer = host(preset.endpoint) in _BEARER_HOSTS
        header = BEARER if is_bearer else cls.key_header
        return await headers_for(preset, environ, header, cls.fixed_headers)

    def _headers(self, headers: dict[str, str], body: Json) -> dict[str, str]:
        """Return ``headers`` with the beta that the body needs, in addition to the user's own."""
        if "block_binding" not in as_dict(body.get("thinking")):
            return headers
        values = [value for name, value in headers.items() if name.lower() == _BETA_HEADER]
        others = {name: value for name, value in headers.items() if name.lower() != _BETA_HEADER}
        return {**others, _BETA_HEADER: ",".join([*values, _BINDING_BETA])}

    def _body(self, request: ModelRequest, model: str, changes: Changes) -> Json:
        return request_body(request, model, is_cached=_CACHE not in changes)

    def _reader(self, url: str, _body: Json) -> MessageReader:
        return MessageReader(server_name(url))

    def _changes(self, error: AishError, body: Json, own: Json) -> Changes:
        """Return what to change; the marks for the cache are within messages."""
        words = str(error.data.get("provider_message"))
        is_named = next(unquoted(_NAMES_CACHE, words), None) is not None
        if is_named and _CACHE not in own and error.data.get("status") in STATUSES:
            return {_CACHE: None}
        return super()._changes(error, body, own)


def request_body(request: ModelRequest, model: str, *, is_cached: bool = True) -> Json:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names.

    ``is_cached`` says whether its server takes marks for its cache.
    """
    preset = request.preset
    extra = preset.extra_body
    limit = request.max_output_tokens or preset.max_output_tokens
    messages = wire_messages(request.messages, preset)
    body: Json = {"max_tokens": limit, "stream": True}
    if model:
        body["model"] = model
    if is_cached and not preset.local_compress:
        # With it, turns are omitted and shortened, so no request begins like the previous one.
        mark_for_cache(messages)
    body["messages"] = messages
    system = "\n\n".join(
        message.content
        for message in request.messages
        if message.role == "system" and message.content.strip()
    )
    if system:
        mark = {_CACHE: CACHE_MARK} if is_cached else {}
        body["system"] = [{"type": "text", "text": system, **mark}]
    if request.tools:
        body["tools"] = [tool.declared("input_schema") for tool in request.tools]
        for tool in body["tools"]:
            tool["input_schema"] = {"type": "object", **tool["input_schema"]}
    if preset.stop is not None:
        body["stop_sequences"] = preset.stop
    max_tokens = extra.get("max_tokens")
    body |= _thinking_fields(
        preset, model, max_tokens if isinstance(max_tokens, int) else limit, messages
    )
    body |= _sampling_fields(preset, model, extra.get("thinking", body.get("thinking")))
    return body | extra


# Claude's models, by their names: how they think, and the fields that they refuse with it.
#
# Up to Claude 4.5, thinking has a budget of tokens; from 4.6 on, the model decides how much to
# think ("adaptive"), guided by ``effort``. Claude 5 and later think without being asked, and do not
# show it unless a summary is requested.

_Version: TypeAlias = tuple[int, int]

#: Allows ``block_binding`` in a request.
_BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"

_OWN_HOST: Final = "api.anthropic.com"

_ADAPTIVE: Final[_Version] = (4, 6)
_REFUSES_SAMPLING: Final[_Version] = (4, 7)
_THINKS_UNASKED: Final[_Version] = (5, 0)
_BINDS_THINKING: Final[_Version] = (5, 1)

# claude-opus-4-5-20251101, claude-3-7-sonnet-latest, anthropic/claude-opus-4.6, claude-sonnet-5@...
_NAME: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

#: Thinking budgets in tokens; the first is the smallest that the protocol accepts.
_LEAST_BUDGET: Final = 1024
_BUDGETS: Final = {
    "minimal": _LEAST_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 32768,
}


def _is_own(preset: Preset) -> bool:
    """Return whether Anthropic itself serves ``preset``."""
    return host(preset.endpoint) == _OWN_HOST


def _thinking_fields(
    preset: Preset, model: str, limit: int, messages: Sequence[Json]
) -> dict[str, Json]:
    """Return the fields of a request that control the model's thinking.

    ``limit`` is the request's ``max_tokens``, which includes thinking; ``messages`` are the
    request's. Models other than Claude get a budget, the form that other servers have adopted.
    """
    version = _version(model)
    if version is None or version < _ADAPTIVE:
        budget = min(_BUDGETS.get(preset.reasoning_effort or "", 0), limit // 2)
        if budget < _LEAST_BUDGET or not _may_have_budget(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    unasked = _is_own(preset) and version >= _THINKS_UNASKED
    if preset.reasoning_effort is None and not unasked:
        return {}
    thinking: Json = {"type": "adaptive", "display": "summarized"}
    if _is_own(preset) and version >= _BINDS_THINKING:
        # These refuse a request if the text before its thinking has changed since. Here it does
        # change (the file tree, the summary of evicted turns); the thinking is then dropped.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    fields = {"thinking": thinking}
    if preset.reasoning_effort is not None:
        fields["output_config"] = {"effort": preset.reasoning_effort}
    return fields


def _sampling_fields(preset: Preset, model: str, thinking: object) -> Json:
    """Return the sampling fields that the model accepts.

    With ``thinking`` (the request's field), and from Claude 4.7 on, it accepts none; otherwise most
    Claude models accept only one of the two.
    """
    version = _version(model)
    thinks = as_dict(thinking).get("type") in {"enabled", "adaptive"}
    if version is not None and (thinks or version >= _REFUSES_SAMPLING):
        return {}
    fields = settings_of(preset, "temperature", "top_p")
    if version is not None and "temperature" in fields:
        fields.pop("top_p", None)
    return fields


def _version(model: str) -> _Version | None:
    """Return the version in a Claude model's name, or None if there is none."""
    found = _NAME.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def _may_have_budget(messages: Sequence[Json]) -> bool:
    """Return whether thinking with a budget is allowed.

    It is not during the tool calls of a turn that another model began without thinking.
    """
    first: Json = {}
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif message["content"][0]["type"] != "tool_result":
            break
    return not first or "thinking" in first["type"]


#: Added to a block: everything up to it is cached for the next request.
CACHE_MARK: Final[Json] = {"type": "ephemeral"}

_LEFT_OUT: Final = {"type": "text", "text": "[The beginning was left out.]"}
_GO_ON: Final = {"type": "text", "text": "Go on."}


def wire_messages(messages: Iterable[RequestMessage], preset: Preset) -> list[Json]:
    """Return the messages of a request, in an order that servers always accept.

    The first and the last are the user's. A result whose call was evicted becomes text.
    """
    wire: list[Json] = []
    ids: set[str] = set()
    server = server_name(preset.endpoint)
    for exchange in exchanges(messages):
        calls = [_call(call, ids, server) for call in exchange.reply.tool_calls]
        blocks = _in_order(exchange.reply, calls, preset)
        while blocks and "thinking" in blocks[-1]["type"]:
            blocks.pop()  # The reply was cut off, and servers refuse thinking at its end.
        _append(wire, "assistant", blocks)
        # Results must come before all text.
        answers = [_result(calls[number]["id"], text) for number, text in exchange.results]
        for message in exchange.others:
            if message.role != "system":
                answers += _text(message.content)
        _append(wire, "user", answers)
    if not wire or wire[0]["role"] != "user":
        wire.insert(0, {"role": "user", "content": [_LEFT_OUT]})
    if wire[-1]["role"] != "user":
        # Newer models refuse to continue a reply that was started for them.
        _append(wire, "user", [_GO_ON])
    return wire


def _append(wire: list[Json], role: str, blocks: list[Json]) -> None:
    """Append a message, or add to the last one if it has the same role."""
    if not blocks:
        return
    if wire and wire[-1]["role"] == role:
        wire[-1]["content"] += blocks
    else:
        wire.append({"role": role, "content": blocks})


def _call(call: ToolCall, ids: set[str], server: str) -> Json:
    """Return a call with an id that is not in ``ids``, the request's other ids; add it there."""
    parts, own = kept_of(call, server)
    wire_id = call_id = own or plain(call.id) or "call"
    number = 1
    while call_id in ids:
        number += 1
        call_id = f"{wire_id}_{number}"
    ids.add(call_id)
    named = {"name": function_name(call.name), "input": arguments_of(call.arguments)}
    return {**parts, "type": "tool_use", "id": call_id, **named}


def _result(call_id: str, text: str | None) -> Json:
    """Return the result of a call; an error if there is none."""
    block: Json = {"type": "tool_result", "tool_use_id": call_id}
    if text is None:
        return {**block, "content": NO_RESULT, "is_error": True}
    return {**block, "content": text} if text.strip() else block


def mark_for_cache(messages: list[Json]) -> None:
    """Mark the last two of the user's ``messages`` for the provider's cache.

    The last mark caches the whole request for the next one. The mark before it finds what the
    previous request cached, even if there have been more calls since than the server looks back.
    Behind a proxy, Claude costs ten times as much without the marks. Most servers without such a
    cache accept them, because Anthropic's own programs send them.
    """
    for message in [message for message in messages if message["role"] == "user"][-2:]:
        message["content"][-1] = {**message["content"][-1], _CACHE: CACHE_MARK}


def _in_order(message: RequestMessage, calls: list[Json], preset: Preset) -> list[Json]:
    """Return a reply's blocks in their original order, if its thinking is to be returned.

    If the text has changed (shortened, or edited in the log), thinking comes first.
    """
    messages: list[Any] = []
    if message.reasoning and AnthropicModel.goes_back(message.reasoning, preset):
        messages = as_list(message.reasoning.metadata.get("content"))
    blocks: list[Json] = []
    thoughts: list[Json] = []
    begin = 0
    left = iter(calls)
    for part in map(as_dict, messages):
        match part.get("type"):
            case "text":
                end = begin + as_count(part.get("length"))
                blocks += _text(message.content[begin:end])
                begin = end
            case "tool_use":
                blocks += islice(left, 1)
            case _:
                thinking = _thinking(part, preset)
                thoughts += thinking
                blocks += thinking
    if not thoughts and message.reasoning and message.reasoning.metadata.get(EVERY):
        text = message.reasoning.text
        thoughts.append({"type": "thinking", "thinking": text, "signature": ""})
    elif begin == len(message.content) and next(left, None) is None:
        return blocks
    return [*thoughts, *_text(message.content), *calls]


def _thinking(part: Json, preset: Preset) -> list[Json]:
    """Return a block of thinking unchanged; nothing if it would be refused."""
    match part:
        case {"type": "thinking", "thinking": str(), "signature": str(signature)}:
            # Anthropic sends no signature if the thinking was cut off; other servers never sign.
            return [part] if signature or not _is_own(preset) else []
        case {"type": "redacted_thinking", "data": str(data)} if data:
            return [part]
    return []


def _text(text: str) -> list[Json]:
    """Return a block of text; nothing if it is blank and would be refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


# The kind of block that a piece begins if the block's start did not arrive, or was another's.
_KIND_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking"}

_INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(slots=True)
class _Block:
    """A content block whose pieces are still arriving.

    ``start`` is its first event's content, ``length`` the number of characters of a text, and
    ``pieces`` are the pieces of the thinking or of a call's arguments.
    """

    kind: str
    start: Json = field(default_factory=dict)
    length: int = 0
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def arguments(self) -> str:
        """A call's arguments: those that were streamed, or else those in its start."""
        streamed = well_formed("".join(self.pieces))
        return streamed if streamed.strip() else json.dumps(object_of(self.start.get("input")))

    def outline(self) -> Json:
        """Return the block as it must be returned; of text and calls, only their place is kept."""
        match self.kind:
            case "tool_use":
                return {"type": "tool_use"}
            case "text":
                return {"type": "text", "length": self.length}
            case "redacted_thinking":
                return {**self.start, "data": as_text(self.start.get("data"))}
        thinking = well_formed("".join(self.pieces))
        return {**self.start, "thinking": thinking, "signature": self.signature}

    def signed(self) -> Json:
        """Return the signature that arrived on its own, if any."""
        return {"signature": self.signature} if self.signature else {}


class MessageReader(ReplyReader):
    """One reply while it streams.

    A reply is a list of content blocks, streamed one after the other or, by llama.cpp, in parallel.
    Blocks of the provider's own tools are ignored.

    ``server`` (host and port) signs the thinking, which no other server accepts.
    """

    # With `pause_turn`, one of the provider's own tools took too long: the rest is missing.
    endings = meanings(
        length="max_tokens model_context_window_exceeded pause_turn",
        tool="tool_use",
        refusal="refusal",
    )

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._blocks: list[_Block] = []
        self._block_at: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}

    def _read(self, event: Json) -> None:
        match event.get("type"):
            case "message_start":
                self._keep_usage(as_dict(event.get("message")).get("usage"))
            case "content_block_start":
                self._begin(event.get("index"), as_dict(event.get("content_block")))
            case "content_block_delta":
                self._add(event.get("index"), as_dict(event.get("delta")))
            case "message_delta":
                self._stop(as_dict(event.get("delta")))
                self._keep_usage(event.get("usage"))
            case "message_stop":
                self.is_over = True
            case "message":
                # A server that does not stream sends one whole message.
                for index, block in enumerate(as_list(event.get("content"))):
                    self._begin(index, as_dict(block))
                self._stop(event)
                self._keep_usage(event.get("usage"))
                self.is_over = True
            case kind:
                if kind == "error" or event.get("error"):
                    self.error = event.get("error") or event

    def _tool_calls(self) -> list[ToolCall]:
        fields = ("type", "id", "name", "input")
        return [
            self._call(
                as_text(block.start.get("id")),
                as_text(block.start.get("name")),
                block.arguments,
                others(block.start, fields) | block.signed(),
            )
            for block in self._blocks
            if block.kind == "tool_use"
        ]

    def _metadata(self, _calls: list[ToolCall]) -> Json:
        # The places of text and calls are kept, so that the original order can be restored.
        content = [block.outline() for block in self._blocks]
        thought = any("thinking" in part["type"] for part in content)
        return {"server": self._server, "content": content} if thought else {}

    def usage(self) -> Usage | None:
        """Return the usage. The server counts cached input separately; Usage includes it."""
        counts = self._counts
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

    def _begin(self, index: Any, start: Json) -> None:
        """Begin a block with what it already contains; ignore unknown kinds."""
        kind = as_text(start.get("type"))
        block = _Block(kind, start)
        if isinstance(index, int):
            self._block_at[index] = block
        if kind in {"text", "thinking", "redacted_thinking", "tool_use"}:
            self._blocks.append(block)
        if kind in {"text", "thinking"}:
            self._add_piece(block, as_text(start.get(kind)))
            block.signature = as_text(start.get("signature"))

    def _add(self, index: Any, delta: Json) -> None:
        """Add a piece to the block that it belongs to."""
        kind = as_text(delta.get("type"))
        block, meant = self._block_of(index), _KIND_OF_DELTA.get(kind)
        if meant and (block is None or block.kind in {*_KIND_OF_DELTA.values()} - {meant}):
            # Some proxies begin a text, and then send thinking.
            self._begin(index, {"type": meant})
            block = self._block_of(index)
        if block is None:
            return
        match kind, block.kind:
            case ("text_delta", "text") | ("thinking_delta", "thinking"):
                self._add_piece(block, as_text(delta.get(block.kind)))
            case "signature_delta", _:
                block.signature += as_text(delta.get("signature"))
            case "input_json_delta", "tool_use":
                self.is_calling = True
                block.pieces.append(written(delta.get("partial_json")))

    def _block_of(self, index: Any) -> _Block | None:
        return self._block_at.get(index) if isinstance(index, int) else None

    def _add_piece(self, block: _Block, piece: str) -> None:
        """Add a piece to a block of text or thinking."""
        if block.kind == "text":
            block.length += len(self._add_text(piece))
        else:
            block.pieces.append(piece)
            self._add_reasoning(piece)

    def _stop(self, delta: Json) -> None:
        self._finish = as_text(delta.get("stop_reason")) or self._finish

    def _keep_usage(self, usage: Any) -> None:
        """Keep the latest counts, which grow; some servers send 0 instead of repeating a count."""
        counts = as_dict(usage)
        # Some proxies pass on the names of chat completions.
        for name, other in (
            ("input_tokens", "prompt_tokens"),
            ("output_tokens", "completion_tokens"),
        ):
            if name not in counts and other in counts:
                counts = {**counts, name: counts[other]}
        for name in _INPUT_COUNTS:
            if count := as_count(counts.get(name)):
                self._counts[name] = count
        if "output_tokens" in counts:
            self._counts["output_tokens"] = as_count(counts["output_tokens"])
        details = as_dict(counts.get("output_tokens_details"))
        if count := as_count(details.get("thinking_tokens")):
            self._counts["thinking_tokens"] = count


PROTOCOL = AnthropicModel
