"""OpenAI's chat completions, as served by OpenAI and many others.

Compatible servers differ most in the chunks of their replies; each difference is noted where it is
handled.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import host, server_name
from aish_lsp.models.forms import EVERY
from aish_lsp.models.loose_json import Json, as_count, as_dict, as_list, as_number, as_text
from aish_lsp.models.providers.base import StreamingModel, settings_of
from aish_lsp.models.providers.reply import (
    LONGEST_ID,
    ReplyReader,
    arguments_text,
    function_name,
    is_object,
    kept_of,
    meanings,
    others,
    written,
)
from aish_lsp.models.refusals import Renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.refusals import Changes
    from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall

# The two names of the limit on a reply's tokens; servers refuse a request with both.
_LIMITS = ("max_tokens", "max_completion_tokens")

# Here `max_tokens` is deprecated, and newer models refuse it.
_MAX_COMPLETION_TOKENS_HOSTS = ("api.openai.com", ".openai.azure.com", ".aliyuncs.com")

# These refuse `stream_options` as an unknown field, and report the usage without it.
_NO_STREAM_OPTIONS_HOSTS = (".mistral.ai",)

# These know `prompt_cache_key`: OpenAI and Moonshot.
_CACHE_KEY_HOSTS = (
    *("api.openai.com", ".api.openai.com"),
    *("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
)

# How servers say that they do not know a field.
_UNKNOWN = re.compile(
    r"unsupported parameter|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted"
    r"|not allowed|extra (?:inputs|fields)|instead",
    re.IGNORECASE,
)

# These accept only call ids of this form.
_SHORT_ID_HOSTS = _NO_STREAM_OPTIONS_HOSTS
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")


class OpenAIModel(StreamingModel):
    """The adapter for every server that speaks chat completions."""

    path = "chat/completions"
    returned = ("reasoning_details", "thinking_blocks", "reasoning_field", "others")

    def _body(self, request: ModelRequest, model: str, _changes: Changes) -> Json:
        return request_body(request, model)

    def _reader(self, url: str, _body: Json) -> ChatReader:
        return ChatReader(server_name(url))

    def _changes(self, error: AishError, body: Json, own: Json) -> Changes:
        """Return what to change; a server that needs the limit's other name mentions it."""
        words = str(error.data.get("provider_message"))
        for name, other in (_LIMITS, _LIMITS[::-1]):
            is_named = _UNKNOWN.search(words) and re.search(rf"\b{name}\b", words)
            if is_named and name in body.keys() - own.keys():
                return {name: Renamed(other)}
        return super()._changes(error, body, own)


def cache_key(request: ModelRequest) -> Json:
    """Return the field that names the cache of a request's beginning, where that is known.

    Requests with the same key are sent to the same machine, which has their beginning in its cache.
    Other servers refuse the field.
    """
    if not request.messages or not _is_one_of(host(request.preset.endpoint), _CACHE_KEY_HOSTS):
        return {}
    digest = hashlib.sha256(request.messages[0].content.encode("utf-8", "replace")).hexdigest()
    return {"prompt_cache_key": f"aish-{digest[:32]}"}


def request_body(request: ModelRequest, model: str) -> Json:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names."""
    preset = request.preset
    server = host(preset.endpoint)
    # A server gets back its own ids, whatever they are.
    calls = (call for message in request.messages for call in message.tool_calls)
    ids = {call.id: kept_of(call, server_name(preset.endpoint))[1] for call in calls}
    body: Json = {
        "messages": [_message(message, preset, ids) for message in request.messages],
        "stream": True,
    }
    if model:
        body["model"] = model
    if not _is_one_of(server, _NO_STREAM_OPTIONS_HOSTS):
        body["stream_options"] = {"include_usage": True}
    if preset.extra_body.keys().isdisjoint(_LIMITS):
        newer = _is_one_of(server, _MAX_COMPLETION_TOKENS_HOSTS)
        body[_LIMITS[newer]] = request.max_output_tokens or preset.max_output_tokens
    body |= cache_key(request)
    body |= settings_of(preset, "temperature", "top_p", "stop", "seed", "reasoning_effort")
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": tool.declared()} for tool in request.tools
        ]
    return body | preset.extra_body


def _message(message: RequestMessage, preset: Preset, ids: Mapping[str, str]) -> Json:
    """Return a message in OpenAI's form. Reasoning is included if it ``goes_back``."""
    wire: Json = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [_wire_call(call, preset, ids) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = _call_id(message.tool_call_id, preset, ids)
    reasoning = message.reasoning
    if reasoning is not None and OpenAIModel.goes_back(reasoning, preset):
        # The metadata comes from the session log, which the user may have edited.
        metadata = reasoning.metadata
        parts = {name: metadata.get(name) for name in _PART_FIELDS}
        unknown = as_dict(metadata.get("others"))
        wire |= {name: unknown[name] for name in unknown if _OPAQUE.search(name)}
        wire |= {name: value for name, value in parts.items() if value}
        name = metadata.get("reasoning_field")
        is_wanted = metadata.get(EVERY) or (message.tool_calls and not any(parts.values()))
        if is_wanted and reasoning.text and name in PLAIN_FIELDS:
            wire[name] = reasoning.text
    return wire


def _wire_call(call: ToolCall, preset: Preset, ids: Mapping[str, str]) -> Json:
    """Return an earlier call, with what its server said of it that is not understood here."""
    parts, _ = kept_of(call, server_name(preset.endpoint))
    name, arguments = function_name(call.name), arguments_text(call.arguments)
    function = {**as_dict(parts.get("function")), "name": name, "arguments": arguments}
    return {**parts, "id": _call_id(call.id, preset, ids), "type": "function", "function": function}


def _call_id(given: str, preset: Preset, ids: Mapping[str, str]) -> str:
    """Return a call's id in a form that the server accepts, the same for the call and its result.

    Another provider's id may be longer than OpenAI allows; Mistral requires nine letters or digits.
    """
    digest = hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()
    if _is_one_of(host(preset.endpoint), _SHORT_ID_HOSTS):
        return given if _SHORT_ID.fullmatch(given) else digest[:9]
    return ids.get(given) or (given if 0 < len(given) <= LONGEST_ID else f"call_{digest[:24]}")


def _is_one_of(server: str, hosts: tuple[str, ...]) -> bool:
    """Return whether ``server`` is one of ``hosts``; a leading dot stands for any subdomain."""
    return any(server == name or (name[0] == "." and server.endswith(name)) for name in hosts)


#: The fields of a delta that is text and nothing else.
_TEXT_FIELDS: Final = frozenset({"role", "content"})

#: The fields in which servers send reasoning in parts, which some of them sign.
_PART_FIELDS: Final = ("reasoning_details", "thinking_blocks")

#: The fields of such a part that arrive in pieces.
_TEXTS: Final = frozenset({"text", "summary", "thinking"})

#: The fields of a call that are understood here, and those of its function.
_CALL_FIELDS: Final = frozenset({"id", "index", "type", "function"})
_FUNCTION_FIELDS: Final = frozenset({"name", "arguments"})

#: The fields in which servers send reasoning as plain text.
PLAIN_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text", "thinking")

#: Other fields of a message that belong to its reasoning, and go back as they are.
_OPAQUE: Final = re.compile(r"reasoning|think|thought|signature|^(?:extra_content|provider_spec)")


@dataclass(slots=True)
class _Call:
    """A tool call whose pieces are still arriving."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Json = field(default_factory=dict)

    def add(self, function: Json) -> None:
        name = function.get("name")
        # Some servers repeat the name in every piece; others split it, before the arguments.
        if isinstance(name, str) and name != self.name and not self.arguments:
            self.name += name
        if arguments := written(function.get("arguments")):
            if self._is_repeated_by(arguments):
                self.arguments.clear()
            self.arguments.append(arguments)

    def _is_repeated_by(self, arguments: str) -> bool:
        """Return whether a piece begins the arguments anew, which are already an object."""
        # Parsed only if they may be complete.
        if not self.arguments or not arguments.lstrip().startswith("{"):
            return False
        return self.arguments[-1].rstrip().endswith("}") and is_object("".join(self.arguments))

    def is_followed_by(self, call_id: str, function: Json) -> bool:
        """Return whether a piece with a name, at this call's index, begins another call.

        Some servers send whole calls, all with index 0, and some of these give no ids.
        """
        if call_id and self.id:
            return call_id != self.id
        # Parsed only if it may be complete, as each of many pieces may repeat the name.
        ended = bool(self.arguments) and self.arguments[-1].rstrip().endswith("}")
        return ended and bool(function.get("arguments")) and is_object("".join(self.arguments))


class ChatReader(ReplyReader):
    """One chat completion while it streams."""

    endings = meanings(
        length="length max_tokens model_length model_context_window_exceeded",
        tool="tool_calls function_call tool_use",
        refusal="content_filter content_filtered safety sensitive refusal prohibited_content"
        " recitation blocklist",
        broken="error abort insufficient_system_resource network_error malformed_function_call",
    )

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        # The calls of the last chunk that had any.
        self._together: list[_Call] = []
        self._parts: dict[str, list[Json]] = {name: [] for name in _PART_FIELDS}
        self._others: Json = {}
        self._field = ""
        self._reported: Json | None = None

    def _read(self, chunk: Json) -> None:
        self.error = chunk.get("error") or (chunk if _is_error(chunk) else self.error)
        # Groq puts its usage under x_groq; some servers repeat a running total in every chunk.
        self._keep_usage(chunk.get("usage"))
        self._keep_usage(as_dict(chunk.get("x_groq")).get("usage"))
        for choice in as_list(chunk.get("choices")):
            if not isinstance(choice, dict):
                continue
            # A server that does not stream sends one whole message.
            is_whole = choice.get("delta") is None
            delta = as_dict(choice.get("message" if is_whole else "delta"))
            self.error = choice.get("error") or self.error
            if choice.get("index") not in (None, 0, "0"):
                # Some servers put the calls of one reply into a choice of their own.
                self._read_calls(delta)
                continue
            self._read_delta(delta)
            self._keep_usage(choice.get("usage"))
            # OpenRouter also tells what the provider itself said.
            self._native = as_text(choice.get("native_finish_reason")) or self._native
            self._finish = self._finish or as_text(choice.get("finish_reason")) or None

    def _tool_calls(self) -> list[ToolCall]:
        return [
            self._call(call.id, call.name, "".join(call.arguments), call.extra)
            for call in self._calls
            if call.name or call.arguments
        ]

    def _metadata(self, calls: list[ToolCall]) -> Json:
        metadata: Json = {name: parts for name, parts in self._parts.items() if parts}
        if not metadata and calls and self._field:
            # DeepSeek, Moonshot and others refuse a call's result without the reasoning before it.
            metadata["reasoning_field"] = self._field
        return {**metadata, "others": self._others} if self._others else metadata

    def usage(self) -> Usage | None:
        """Return the usage that the server has reported."""
        return read_usage(self._reported)

    def _keep_usage(self, usage: Any) -> None:
        if isinstance(usage, dict) and usage:
            self._reported = _counted(self._reported or {}, usage)

    def _read_delta(self, delta: Json) -> None:
        content = delta.get("content")
        if isinstance(content, str) and delta.keys() <= _TEXT_FIELDS:
            # Nearly every delta: nothing else needs to be looked for.
            self._add_text(content)
            return
        parts = {
            name: [item for item in as_list(delta.get(name)) if isinstance(item, dict)]
            for name in _PART_FIELDS
        }
        for name, items in parts.items():
            for item in items:
                _keep_part(self._parts[name], item)
        self._field = next((name for name in PLAIN_FIELDS if as_text(delta.get(name))), self._field)
        self._add_reasoning(_reasoning_text(delta, *parts.values()))
        for name, value in others(delta, _PART_FIELDS).items():
            is_plain = name in PLAIN_FIELDS and isinstance(value, str)
            if _OPAQUE.search(name) and not is_plain:
                self._others[name] = _joined(self._others.get(name), value)
        if isinstance(content, str):
            self._add_text(content)
        for part in as_list(content):
            self._read_part(as_dict(part))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            self._add_text(refusal)
        self._read_calls(delta)

    def _read_calls(self, delta: Json) -> None:
        pieces = as_list(delta.get("tool_calls"))
        before, self._together = self._together, []
        for number, piece in enumerate(pieces):
            if isinstance(piece, dict):
                function = as_dict(piece.get("function"))
                # Some servers send pieces of several calls together, and do not say whose they are.
                is_named = piece.get("index") is not None or piece.get("id") or function.get("name")
                together = [] if is_named or len(pieces) < 2 else before[number : number + 1]
                call = together[0] if together else self._call_of(piece, function)
                self._together.append(call)
                self.is_calling = True
                call.add(function)
                call.extra |= others(piece, _CALL_FIELDS)
                if unknown := others(function, _FUNCTION_FIELDS):
                    call.extra["function"] = as_dict(call.extra.get("function")) | unknown
        if isinstance(delta.get("function_call"), dict):
            self._call_of({"index": 0}, delta["function_call"]).add(delta["function_call"])

    def _read_part(self, part: Json) -> None:
        """Read one part of a content list (Mistral)."""
        if part.get("type") == "thinking":
            thinking = part.get("thinking")
            inner = thinking if isinstance(thinking, list) else [{"text": thinking}]
            for item in inner:
                self._add_reasoning(as_text(as_dict(item).get("text")))
        else:
            self._add_text(as_text(part.get("text")))

    def _call_of(self, piece: Json, function: Json) -> _Call:
        """Return the call that ``piece`` belongs to, or a new one if it begins one."""
        index, call_id = piece.get("index"), piece.get("id")
        call_id = str(call_id) if call_id else ""
        named = bool(function.get("name"))
        if isinstance(index, int) and (index in self._call_at or call_id or named):
            call = self._call_at.get(index)
        elif call_id:
            call = next((read for read in self._calls if read.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls and not named else None
        if call is None or (named and call.is_followed_by(call_id, function)):
            call = _Call()
            self._calls.append(call)
        if isinstance(index, int):
            self._call_at[index] = call
        call.id = call.id or call_id
        self._has_begun = True
        return call


def _counted(known: Json, usage: Json) -> Json:
    """Return the usage with later counts. Some servers send zeros after the real ones."""
    later = {
        name: _counted(as_dict(known.get(name)), value) if isinstance(value, dict) else value
        for name, value in usage.items()
    }
    return known | {name: value for name, value in later.items() if value or name not in known}


def _joined(known: Any, value: Any) -> Any:
    """Return the value of a field whose pieces are these: joined, unless it is only repeated."""
    if isinstance(known, dict) and isinstance(value, dict):
        return known | value
    can_be_joined = isinstance(value, str | list) and type(known) is type(value) and known != value
    return known + value if can_be_joined else value


def _keep_part(parts: list[Json], item: Json) -> None:
    """Keep a part of the reasoning, joined to the previous part if it continues that."""
    last = parts[-1] if parts else None
    same = last is not None and all(last.get(key) == item.get(key) for key in ("type", "index"))
    if last is None or not same or "data" in item:
        parts.append(dict(item))
        return
    for key, value in item.items():
        if key in _TEXTS and isinstance(value, str):
            last[key] = as_text(last.get(key)) + value
        elif value is not None:
            last[key] = value


def _is_error(chunk: Json) -> bool:
    """Return whether a chunk without an ``error`` field is an error."""
    message = "choices" not in chunk and (chunk.get("message") or chunk.get("detail"))
    return chunk.get("object") == "error" or bool(message)


#: The names of how much of the prompt was read from a cache, and of how much was written to one,
#: in ``prompt_tokens_details`` or beside it. DeepSeek has its own, and proxies pass on Anthropic's.
_CACHED: Final = "cached_tokens prompt_cache_hit_tokens cache_read_input_tokens cache_read_tokens"
_WRITTEN: Final = "cache_write_tokens cache_creation_tokens cache_creation_input_tokens"


def read_usage(raw: Json | None) -> Usage | None:
    """Return the usage that a server reported, or None if it is not plausible.

    Responses and some other servers speak of input and output, not of prompt and completion.
    """
    if raw is None:
        return None
    prompt, completion = (
        as_count(raw.get(ours)) or as_count(raw.get(theirs))
        for ours, theirs in (
            ("prompt_tokens", "input_tokens"),
            ("completion_tokens", "output_tokens"),
        )
    )
    prompt_details = as_dict(raw.get("prompt_tokens_details") or raw.get("input_tokens_details"))
    completion_details = as_dict(
        raw.get("completion_tokens_details") or raw.get("output_tokens_details")
    )
    if prompt == 0 and not _cost(raw):
        return None
    reasoning = as_count(completion_details.get("reasoning_tokens"))
    cached, written = (
        max(
            as_count(counts.get(name)) for counts in (prompt_details, raw) for name in names.split()
        )
        for names in (_CACHED, _WRITTEN)
    )
    missing = as_count(raw.get("total_tokens")) - prompt - completion
    if cached + written and missing == cached + written:
        # The total shows that what was cached is not part of prompt_tokens.
        prompt += cached + written
    elif missing > 0 and reasoning in (0, missing):
        # xAI and Gemini leave the reasoning out of completion_tokens; the total includes it.
        completion += missing
        reasoning = missing
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        reasoning_tokens=min(reasoning, completion),
        cache_read_tokens=min(cached, prompt),
        cache_write_tokens=min(written, prompt),
        cost=_cost(raw),
    )


def _cost(raw: Json) -> float | None:
    """Return the cost in dollars, which OpenRouter and LiteLLM report, or None."""
    cost = as_number(raw.get("cost"))
    if cost is not None and raw.get("is_byok") is True:
        # With the user's own key, `cost` is only OpenRouter's fee.
        upstream = as_dict(raw.get("cost_details")).get("upstream_inference_cost")
        cost += as_number(upstream) or 0.0
    return cost


def _reasoning_text(delta: Json, *parts: list[Json]) -> str:
    """Return a delta's reasoning, without repeating it if it is in several fields."""
    plain = (as_text(delta.get(name)) for name in PLAIN_FIELDS)
    joined = (
        "".join(
            next((as_text(item[name]) for name in _TEXTS if item.get(name)), "") for item in some
        )
        for some in parts
    )
    return next(filter(None, (*plain, *joined)), "")


PROTOCOL = OpenAIModel
