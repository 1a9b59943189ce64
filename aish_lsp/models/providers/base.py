"""What all protocols share: sending a request, and assembling the streamed reply.

Also here: the default model of a request whose preset has none, and repairs of what servers would
refuse, which is malformed tool calls and texts split within a character.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.address import api_url, origin, server_name
from aish_lsp.models.endpoint import EndpointInfo, chat_models, describe_listed, list_models
from aish_lsp.models.faults import error_in_stream, redactor
from aish_lsp.models.keys import BEARER, headers_for, key_of
from aish_lsp.models.loose_json import Json, as_dict, decoded
from aish_lsp.models.request import (
    Finish,
    Reasoning,
    ReasoningMetadata,
    Text,
    ToolCall,
    WithoutPart,
)

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.events import FinishReason, Usage
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest, StoredReasoning

#: Seconds to wait for each event after a complete reply: its usage, and the end of the stream.
TAIL_TIMEOUT = 5.0

#: Seconds to wait for the end of a response after its last event, so that the connection can be
#: reused.
DRAIN_TIMEOUT = 0.1

#: Seconds that a server may take to list its models.
LIST_TIMEOUT = 10.0


class StreamingModel(ABC):
    """An adapter for one protocol: it builds the request and provides a reader for the reply.

    If a server refuses an optional part of a request, later requests omit it. Keys are looked up in
    ``environ``.
    """

    #: The path of requests in the endpoint's API.
    path: ClassVar[str]

    #: The header in which the key is expected, and the protocol's other fixed headers.
    key_header: ClassVar[str] = BEARER
    fixed_headers: ClassVar[Mapping[str, str]] = {}

    #: The fields of a request that limit the reply's tokens, each as its path in the body.
    limit_fields: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("max_completion_tokens",),
        ("max_tokens",),
        ("max_output_tokens",),
    )

    #: Whether servers may have a tokenizer in addition to the API: llama.cpp and vLLM do.
    has_tokenizer: ClassVar[bool] = True

    #: The fields of a reply's metadata for which its reasoning is returned; other plain reasoning
    #: is not sent.
    returned: ClassVar[tuple[str, ...]] = ()

    #: The source of reasoning that its provider signs, so that only the same server accepts it;
    #: empty if the source is the server.
    signed_source: ClassVar[str] = ""

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        # The model that each server lists first, by endpoint; empty if the server has no list.
        self._first_models: dict[str, str] = {}
        # The parts of requests that servers have refused, by endpoint and model.
        self._refused: dict[tuple[str, str], frozenset[str]] = {}

    @classmethod
    async def headers(cls, preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request to the server of ``preset``.

        Raises:
            BackendRejected: as ``keys.headers_for``.
        """
        return await headers_for(preset, environ, cls.key_header, cls.fixed_headers)

    @classmethod
    async def describe(
        cls, http: HttpClient, preset: Preset, environ: Mapping[str, str], *, timeout_s: float
    ) -> EndpointInfo:
        """Ask the endpoint of ``preset`` about itself, as ``providers.describe``. Never raises."""
        try:
            headers = await cls.headers(preset, environ)
        except AishError:
            return EndpointInfo()
        return await describe_listed(http, preset, headers, timeout_s=timeout_s)

    @classmethod
    def reply_limit(cls, preset: Preset) -> int:
        """Return the most tokens of a reply: from ``extra_body``, or else the preset's."""
        for path in cls.limit_fields:
            limit: Any = preset.extra_body
            for name in path:
                limit = as_dict(limit).get(name)
            if type(limit) is int and limit > 0:
                return limit
        return preset.max_output_tokens

    @classmethod
    def reasoning_source(cls, preset: Preset) -> str:
        """Return the name of the source of a reply's reasoning, the only one it goes back to."""
        return cls.signed_source or server_name(preset.endpoint)

    @classmethod
    def goes_back(cls, reasoning: StoredReasoning, preset: Preset) -> bool:
        """Return whether a request to ``preset`` carries this reasoning of an earlier reply.

        It does if the same server signed it, or if it came with one of the ``returned`` fields.
        """
        metadata = reasoning.metadata
        if reasoning.provider != cls.reasoning_source(preset):
            return False
        if cls.signed_source:
            here = server_name(preset.endpoint)
            return bool(metadata) and metadata.get("server", here) == here
        return any(metadata.get(name) for name in cls.returned)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` once and yield its reply; see ``aish_lsp.models.request.Model``.

        Raises:
            BackendUnavailable: no answer, or it broke off. What was yielded remains valid.
            WithoutPart: the server refused a part of the request, and the next one omits it.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an HTTP URL, or the protocol needs the name of a
                model and the preset has none.
        """
        preset = request.preset
        url = self._url(preset, self.path)
        headers = await self.headers(preset, self._environ)
        with key_of(preset):
            model = await self._model_name(preset, headers)
            left_out = self._left_out(preset, model)
            body = self._body(request, model, left_out)
            headers = self._headers(headers, body)
            reader = self._reader(url, body)
            has_begun = False
            events = self._http.stream(url, body, headers=headers, timeout_s=preset.timeout)
            try:
                async with aclosing(events):
                    while (data := await _next(events, reader)) is not None:
                        for event in reader.read(data, url):
                            has_begun = True
                            yield event
                    reader.check(url, headers)
                    for event in reader.end():
                        yield event
                    await _drain(events)
            except BackendRejected as error:
                if error.data.get("status") == 404:
                    # The server may have been restarted with another model.
                    self._first_models.pop(preset.endpoint, None)
                refused = self._refused_by(error, body, preset.extra_body)
                if has_begun or refused <= left_out:
                    raise
                self._refused[preset.endpoint, model] = refused | self._left_out(preset, model)
                raise WithoutPart(error.message, **error.data) from error

    def _left_out(self, preset: Preset, model: str) -> frozenset[str]:
        """Return the parts of a request that the server of ``preset`` has refused so far."""
        return self._refused.get((preset.endpoint, model), frozenset())

    async def _model_name(self, preset: Preset, headers: Mapping[str, str]) -> str:
        """Return the preset's model, or else the first chat model in its server's list.

        Empty if the server has no list, and therefore one model, or if its list is empty.

        Raises:
            BackendUnavailable, BackendRejected: as ``endpoint.list_models``.
        """
        if not preset.model and preset.endpoint not in self._first_models:
            timeout_s = min(preset.timeout, LIST_TIMEOUT)
            try:
                models = await list_models(self._http, preset, headers, timeout_s=timeout_s)
            except BackendRejected as error:
                if error.data.get("status") not in {404, 405}:
                    raise
                self._first_models[preset.endpoint] = ""
            else:
                if names := chat_models(models):
                    self._first_models[preset.endpoint] = names[0]
        return preset.model or self._first_models.get(preset.endpoint, "")

    def _url(self, preset: Preset, path: str) -> str:
        """Return the URL of ``path`` in the endpoint's API."""
        return api_url(preset.endpoint, path)

    @abstractmethod
    def _body(self, request: ModelRequest, model: str, left_out: frozenset[str]) -> Json:
        """Return the body of a request, without the parts in ``left_out``."""

    @abstractmethod
    def _reader(self, url: str, body: Json) -> ReplyReader:
        """Return a reader for the reply to ``body``."""

    def _headers(self, headers: dict[str, str], _body: Json) -> dict[str, str]:
        """Return the headers of a request, with any that its body requires."""
        return headers

    def _refused_by(self, _error: BackendRejected, _body: Json, _own: Json) -> frozenset[str]:
        """Return the optional parts of ``_body`` that the server refused with ``_error``.

        ``_own`` is what the user configured, which is always sent.
        """
        return frozenset()


#: For the offline model, which has no protocol.
PROTOCOL = StreamingModel


class NotACountError(ValueError):
    """The reply to a request for a token count contains no plausible count."""


class CountingModel(StreamingModel):
    """An adapter whose protocol can ask the server how many tokens a request has."""

    #: The path that counts requests, in the endpoint's API.
    count_path: ClassVar[str]

    #: The field of the answer that holds the count.
    count_field: ClassVar[str] = "input_tokens"

    #: The fields of a request that its size depends on; a server may refuse the others.
    counted: ClassVar[tuple[str, ...]]

    #: Parts that are left out of a counted request, as if the server had refused them.
    not_counted: ClassVar[frozenset[str]] = frozenset()

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return how many tokens the server counts in the request's input.

        Providers do not charge for this. ``timeout_s`` limits the whole call, in seconds.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``; the status is 404
                or 405 if the server cannot count.
            NotACountError: the answer contains no count.
        """
        preset = request.preset
        url = self._url(preset, self.count_path)
        headers = await self.headers(preset, self._environ)
        with key_of(preset):
            model = await self._model_name(preset, headers)
            body = self._count_body(request, model)
            reply = await self._http.fetch_json(
                url, body, headers=self._headers(headers, body), timeout_s=timeout_s
            )
        tokens = as_dict(reply).get(self.count_field)
        if type(tokens) is not int or tokens < 1:
            raise NotACountError
        return tokens

    def _count_body(self, request: ModelRequest, model: str) -> Json:
        """Return the body to count: the parts of a request that its size depends on."""
        left_out = self._left_out(request.preset, model) | self.not_counted
        body = self._body(request, model, left_out)
        return {name: body[name] for name in self.counted if name in body}


def settings_of(preset: Preset, *names: str) -> Json:
    """Return those of the preset's optional settings ``names`` that are set."""
    values = {name: getattr(preset, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


class ReplyReader(ABC):
    """Assembles one reply while it streams: call ``feed`` with each event, then ``end``.

    ``provider`` is the source that the reasoning's metadata must be returned to.

    Attributes:
        error: the error that the server sent in the stream (a JSON value), or None.
        is_over: whether the protocol's end marker has arrived. Some protocols have none.
    """

    #: What the servers' finish reasons mean: each meaning with those reasons. ``broken`` means
    #: that the server gave up: the reply is incomplete or damaged.
    endings: ClassVar[Mapping[str, tuple[str, ...]]]

    #: The meaning of a finish reason that is not listed there.
    otherwise: ClassVar[str] = "stop"

    def __init__(self, provider: str) -> None:
        self.error: Any = None
        self.is_over = False
        self._provider = provider
        # Whether OpenAI's end marker has arrived, which many protocols have adopted.
        self._is_done = False
        # The server's finish reason, once it has given one.
        self._finish: str | None = None
        # Whether the text is the model's refusal to answer.
        self._refused = False
        self._events: list[ModelEvent] = []
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._ids: set[str] = set()

    @property
    def is_whole(self) -> bool:
        """Whether the content is complete, so that only the usage may follow."""
        return self.is_over or self._finish is not None

    @property
    def gave_up(self) -> str | None:
        """The finish reason if it means that the server broke off the reply, else None."""
        return self._finish if self._meaning() == "broken" else None

    @property
    def has_ended(self) -> bool:
        """Whether nothing that follows matters: after the end marker, or an error."""
        return self.is_over or self._is_done or self.error is not None

    def read(self, data: str, url: str) -> Iterator[ModelEvent]:
        """Yield the text and reasoning in the data of an event from the server at ``url``.

        Raises:
            BackendUnavailable: it is not part of a reply.
        """
        # If the server omits the blank lines between events, they arrive as the lines of one.
        for part in data.split("\n") if "\n" in data and decoded(data) is None else [data]:
            if part == "[DONE]":
                self._is_done = True
            if self.has_ended:
                return
            parsed = _parse(part)
            if parsed is None and self.is_whole:
                self._is_done = True
                return
            if parsed is None:
                why = "it sent something that is not part of a reply, or is cut"
                raise _broken(url, f"{why} ({part[:60]!r})")
            for event in parsed:
                yield from self.feed(event)

    def check(self, url: str, headers: Mapping[str, str]) -> None:
        """Raise an error if the reply that has ended is not whole, or is an error.

        ``url`` and ``headers`` are those of the request: errors name its server and mask its
        secrets.
        """
        if self.error is not None:
            raise error_in_stream(url, self.error, redactor(headers))
        if not self.is_whole and not self._is_done:
            raise _broken(url, "it ended before the reply did")
        if self.gave_up is not None:
            raise _broken(url, f"the server gave up ({self.gave_up})")

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return the text and reasoning in ``event``, and remember the rest of it."""
        self._read(event)
        events, self._events = self._events, []
        return events

    def end(self) -> list[ModelEvent]:
        """Return what is only known at the end: tool calls, metadata, usage and the finish."""
        calls = self._tool_calls()
        events: list[ModelEvent] = [*calls]
        if metadata := self._metadata(calls):
            events.append(ReasoningMetadata(self._provider, sendable(metadata)))
        usage = self._usage()
        if usage is not None:
            events.append(usage)
        return [*events, Finish(self._reason(usage, called=bool(calls)))]

    @abstractmethod
    def _read(self, event: Json) -> None:
        """Read ``event``; pass text to ``_add_text`` and reasoning to ``_add_reasoning``."""

    @abstractmethod
    def _tool_calls(self) -> list[ToolCall]:
        """Return the tool calls, each created by ``_call``."""

    @abstractmethod
    def _metadata(self, calls: list[ToolCall]) -> Json:
        """Return what must be returned with the reasoning; empty if there is nothing."""

    @abstractmethod
    def _usage(self) -> Usage | None:
        """Return the usage that the server reported, or None if it is not plausible.

        An input of no tokens is not. The usage is then estimated, so that a cost cap holds.
        """

    def _reason(self, _usage: Usage | None, *, called: bool) -> FinishReason:
        """Return why the reply ended."""
        reason = self._meaning()
        if reason == "stop" and called:
            return "tool"
        return "refusal" if reason == "stop" and self._refused else reason

    def _meaning(self) -> Any:
        """Return what the server's finish reason means: a FinishReason, or ``broken``."""
        for ours, theirs in self.endings.items():
            if self._finish in theirs:
                return ours
        return "stop" if self._finish is None else self.otherwise

    def _add_text(self, piece: str) -> str:
        """Add a piece of the text to the events; return the part that could be added now."""
        if text := self._text.feed(piece):
            self._events.append(Text(text))
        return text

    def _add_reasoning(self, piece: str) -> str:
        """Add a piece of the reasoning to the events; return the part that could be added now."""
        if text := self._reasoning.feed(piece):
            self._events.append(Reasoning(text))
        return text

    def _call(self, call_id: str, name: str, arguments: str) -> ToolCall:
        """Return a call with a unique id, which its result refers to.

        Some servers give no ids, or give one id twice.
        """
        call_id = well_formed(call_id)
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        return ToolCall(call_id, well_formed(name), well_formed(arguments))


async def _next(events: AsyncGenerator[str, None], reader: ReplyReader) -> str | None:
    """Return the data of the next event, or None at the end, or soon after a complete reply."""
    if reader.has_ended:
        return None
    if not reader.is_whole:
        return await anext(events, None)
    try:
        async with asyncio.timeout(TAIL_TIMEOUT):
            return await anext(events, None)
    except (TimeoutError, BackendUnavailable):
        return None  # An error after a complete reply is harmless.


def _parse(data: str) -> list[Json] | None:
    """Return the JSON objects in an event, or None if it contains anything else.

    Google sends a list of them if it does not stream.
    """
    value = decoded(data)
    parts = value if isinstance(value, list) and value else [value]
    return parts if all(isinstance(part, dict) for part in parts) else None


def _broken(url: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(f"The reply of {origin(url)} broke off: {why}. Ask again.")


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read to the end of the response if it arrives at once."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in events:
                pass
    except (TimeoutError, BackendUnavailable):
        pass


# Repairs of earlier tool calls: models write names and arguments that servers refuse.

# Characters that are not allowed in function names and call ids, and the longest name.
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64


def plain(name: str) -> str:
    """Return ``name`` with ``_`` in place of characters that servers refuse in names and ids."""
    return _INVALID.sub("_", name)


def function_name(name: str) -> str:
    """Return a called function's name in a form that servers accept, whatever the model wrote."""
    return plain(name)[:_LONGEST_NAME] or "unknown"


def arguments_of(text: str) -> Json:
    """Return a call's arguments as the object that servers and their templates need.

    Anything else is wrapped in an object and not dropped: the tool's result refers to it.
    """
    if not text.strip():
        return {}
    value = decoded(text, strict=True)
    return value if isinstance(value, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """Return a call's arguments as the text of a JSON object; unchanged if they are one."""
    return text if is_object(text) else json.dumps(arguments_of(text))


def is_object(text: str) -> bool:
    """Return whether ``text`` is a whole JSON object."""
    return isinstance(decoded(text, strict=True), dict)


def sendable(value: Any) -> Any:
    """Return a JSON value without what requests cannot contain: lone surrogates, NaN, Infinity."""
    written = well_formed(json.dumps(value, ensure_ascii=False))
    return json.loads(written, parse_constant=lambda _: None)


class SurrogateJoiner:
    """Joins surrogate pairs that are split between two pieces of a text.

    Some servers send the two halves of an emoji in two chunks, escaped in each one's JSON. A text
    with a lone half cannot be written to a file or sent to an editor.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` completes; half a pair at its end is held for the next."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
