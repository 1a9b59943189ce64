"""What all adapters share: a request is sent, and what streams back goes through a reader.

And the model to name in a request where the preset names none. What goes wrong in it is mended:
calls that no server takes back, and texts cut in a character.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.address import origin
from aish_lsp.models.counting import NotACountError
from aish_lsp.models.endpoint import chat_models, list_models
from aish_lsp.models.faults import error_in_stream, redactor
from aish_lsp.models.keys import headers_for, key_of
from aish_lsp.models.loose_json import Json, as_dict, decoded
from aish_lsp.models.request import Finish, Reasoning, ReasoningMetadata, Text, ToolCall

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.events import FinishReason, Usage
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest

#: Seconds to wait for what may follow a reply that is whole: its usage, and the end.
TAIL_TIMEOUT = 5.0

#: Seconds to wait for the end of a response after its last event, so that the connection can serve
#: the next request.
DRAIN_TIMEOUT = 0.1


class StreamingModel(ABC):
    """An adapter: a request in one protocol's terms, and the reader of the reply to it.

    What a server refuses and can do without is left out, and the request sent once more; it is
    left out of the requests that follow, too. ``environ`` is where keys are looked up; the
    process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        self._names = ModelNames(http)
        # By endpoint and model.
        self._refused: dict[tuple[str, str], frozenset[str]] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an address, or no model is named where one must be.
        """
        preset = request.preset
        url = self._url(preset)
        headers = await headers_for(preset, self._environ)
        with key_of(preset):
            model = await self._names.name_for(preset, headers)
            began = done = False
            while not done:
                left_out = self._left_out(preset, model)
                body = self._body(request, model, left_out)
                post = Post(url, self._headers(headers, body), body, preset.timeout)
                reply = stream_reply(self._http, post, self._reader(url, body))
                try:
                    async with aclosing(reply):
                        async for event in reply:
                            began = True
                            yield event
                    done = True
                except BackendRejected as error:
                    refused = self._refused_by(error, body, preset.extra_body)
                    if began or refused <= left_out:
                        raise
                    self._refused[preset.endpoint, model] = refused | self._left_out(preset, model)

    def _left_out(self, preset: Preset, model: str) -> frozenset[str]:
        """Return what the server of ``preset`` has refused so far."""
        return self._refused.get((preset.endpoint, model), frozenset())

    @abstractmethod
    def _url(self, preset: Preset) -> str:
        """Return the address that requests go to."""

    @abstractmethod
    def _body(self, request: ModelRequest, model: str, left_out: frozenset[str]) -> Json:
        """Return the JSON of a request, without what is to be ``left_out``."""

    @abstractmethod
    def _reader(self, url: str, body: Json) -> ReplyReader:
        """Return who reads the reply to ``body``."""

    def _headers(self, headers: dict[str, str], _body: Json) -> dict[str, str]:
        """Return the headers of a request, with what its body needs of them."""
        return headers

    def _refused_by(self, _error: BackendRejected, _body: Json, _own: Json) -> frozenset[str]:
        """Return what of ``_body`` is refused by ``_error`` and can be left out.

        ``_own`` is the user's part of it, which is sent as it is.
        """
        return frozenset()


class CountingModel(StreamingModel):
    """An adapter whose protocol has a question for the tokens of a request."""

    #: Where its answer has the count.
    count_field: ClassVar[str] = "input_tokens"

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the tokens of the request's input as the server counts them; it answers nothing.

        ``timeout_s`` is in seconds, for the whole question, which costs nothing.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``; 404 or 405 where
                the server cannot count.
            NotACountError: the answer holds no count.
        """
        preset = request.preset
        url = self._count_url(preset)
        headers = await headers_for(preset, self._environ)
        with key_of(preset):
            model = await self._names.name_for(preset, headers)
            body = self._count_body(request, model)
            reply = await self._http.fetch_json(
                url, body, headers=self._headers(headers, body), timeout_s=timeout_s
            )
        tokens = as_dict(reply).get(self.count_field)
        if type(tokens) is not int or tokens < 1:
            raise NotACountError
        return tokens

    @abstractmethod
    def _count_url(self, preset: Preset) -> str:
        """Return the address of the question."""

    @abstractmethod
    def _count_body(self, request: ModelRequest, model: str) -> Json:
        """Return the question's JSON: of a request what its size depends on."""


class ReplyReader(ABC):
    """Puts one reply together while it streams: ``feed`` it each event, then ``end`` it.

    ``provider`` names who must get the reasoning's metadata back.

    Attributes:
        error: what the server said went wrong within the stream: a JSON value, or None.
    """

    def __init__(self, provider: str) -> None:
        self.error: Any = None
        self._provider = provider
        self._events: list[ModelEvent] = []
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._ids: set[str] = set()

    @property
    @abstractmethod
    def is_whole(self) -> bool:
        """Whether the content is complete: what may follow is usage, or nothing."""

    @property
    def is_over(self) -> bool:
        """Whether the protocol's own end has come: nothing follows. Some end with the response."""
        return False

    @property
    def gave_up(self) -> str | None:
        """The finish reason, where it says that the server broke the reply off."""
        return None

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return the text and reasoning of ``event`` and keep the rest of it."""
        self._read(event)
        told, self._events = self._events, []
        return told

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage and the finish."""
        calls = self._tool_calls()
        events: list[ModelEvent] = [*calls]
        if metadata := self._metadata(calls):
            events.append(ReasoningMetadata(self._provider, metadata))
        usage = self._usage()
        if usage is not None:
            events.append(usage)
        return [*events, Finish(self._reason(usage, called=bool(calls)))]

    @abstractmethod
    def _read(self, event: Json) -> None:
        """Read ``event``: ``_say`` and ``_think`` what it tells at once."""

    @abstractmethod
    def _tool_calls(self) -> list[ToolCall]:
        """Return the calls, each made by ``_call``."""

    @abstractmethod
    def _metadata(self, calls: list[ToolCall]) -> Json:
        """Return what must go back with the reasoning; empty where nothing does."""

    @abstractmethod
    def _usage(self) -> Usage | None:
        """Return the usage that the server reported, or None where it makes no sense.

        A request without a token does not: what it took is then estimated, so that a cap holds.
        """

    @abstractmethod
    def _reason(self, usage: Usage | None, *, called: bool) -> FinishReason:
        """Return why the reply ended."""

    def _say(self, piece: str) -> str:
        """Tell a piece of the text; return what of it is complete."""
        if text := self._text.feed(piece):
            self._events.append(Text(text))
        return text

    def _think(self, piece: str) -> str:
        """Tell a piece of the reasoning; return what of it is complete."""
        if text := self._reasoning.feed(piece):
            self._events.append(Reasoning(text))
        return text

    def _call(self, call_id: str, name: str, arguments: str) -> ToolCall:
        """Return a call with an id of its own, by which its result finds it.

        Some servers give no ids, or the same one twice.
        """
        call_id = well_formed(call_id)
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        return ToolCall(call_id, well_formed(name), well_formed(arguments))


@dataclass(frozen=True, slots=True)
class Post:
    """A request as it is sent; ``timeout_s`` bounds the silence between two packets (seconds)."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any]
    timeout_s: float


async def stream_reply(
    http: HttpClient, post: Post, reader: ReplyReader
) -> AsyncGenerator[ModelEvent, None]:
    """Send ``post`` and yield the reply as ``reader`` reads it; its finish comes last.

    Raises:
        BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
        BackendRejected: the server refused.
    """
    events = http.stream_sse(post.url, post.body, headers=post.headers, timeout_s=post.timeout_s)
    async with aclosing(events), aclosing(_read(events, reader, post)) as pieces:
        async for event in pieces:
            yield event
        for event in reader.end():
            yield event
        await _drain(events)


async def _read(
    events: AsyncGenerator[str, None], reader: ReplyReader, post: Post
) -> AsyncGenerator[ModelEvent, None]:
    """Yield text and reasoning until the reply is over; raise where it broke off."""
    try:
        async with aclosing(_arriving(events, reader)) as arriving:
            async for data in arriving:
                if data == "[DONE]":
                    break
                for event in chain.from_iterable(map(reader.feed, _parse(data, post.url))):
                    yield event
                if reader.error is not None or reader.is_over:
                    break
            else:
                if not reader.is_whole:
                    raise _broken(post.url, "it ended before the reply did")
    except BackendUnavailable:
        # What is whole is not spoiled by what comes behind it.
        if not reader.is_whole:
            raise
    if reader.error is not None:
        raise error_in_stream(post.url, reader.error, redactor(post.headers))
    if reader.gave_up is not None:
        raise _broken(post.url, f"the server gave up ({reader.gave_up})")


async def _arriving(
    events: AsyncGenerator[str, None], reader: ReplyReader
) -> AsyncGenerator[str, None]:
    """Yield the data of each event; behind a whole reply nothing is waited for long."""
    with suppress(StopAsyncIteration, TimeoutError):
        while True:
            async with asyncio.timeout(TAIL_TIMEOUT if reader.is_whole else None):
                data = await anext(events)
            # Without blank lines between them, what was many events comes as the lines of one.
            for part in data.split("\n") if "\n" in data and decoded(data) is None else [data]:
                yield part


def _parse(data: str, url: str) -> list[Json]:
    """Return an event's JSON object; Google makes a list of them where it does not stream."""
    value = decoded(data)
    parts = value if isinstance(value, list) and value else [value]
    if not all(isinstance(part, dict) for part in parts):
        why = f"it sent something that is not part of a reply, or is cut ({data[:60]!r})"
        raise _broken(url, why)
    return parts


def _broken(url: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(f"The reply of {origin(url)} broke off: {why}. Ask again.")


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read to the end of the response, if it comes at once."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in events:
                pass
    except (TimeoutError, BackendUnavailable):
        pass


#: Seconds to ask a server for the models that it has.
LIST_TIMEOUT = 10.0


class ModelNames:
    """The names that servers were found to use; each server is asked once."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._found: dict[str, str] = {}

    async def name_for(self, preset: Preset, headers: Mapping[str, str]) -> str:
        """Return the preset's model, else the first chat model that its server lists.

        Empty where the server has no list: it then has but one.

        Raises:
            BackendUnavailable, BackendRejected: as ``endpoint.list_models``.
        """
        if preset.model:
            return preset.model
        known = self._found.get(preset.endpoint)
        if known is None:
            timeout_s = min(preset.timeout, LIST_TIMEOUT)
            try:
                models = await list_models(self._http, preset, headers, timeout_s=timeout_s)
            except BackendRejected as error:
                if error.data.get("status") not in {404, 405}:
                    raise
                models = []
            known = next(iter(chat_models(models)), "")
            self._found[preset.endpoint] = known
        return known


# An earlier call as it goes back: models write names and arguments that no server takes.

# What functions' names and calls' ids may not hold, and how long the names may be.
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64


def plain(name: str) -> str:
    """Return ``name`` with ``_`` for what no name and no id may hold."""
    return _UNFIT.sub("_", name)


def function_name(name: str) -> str:
    """Return the name of a called function; a model may call what none can be named."""
    return plain(name)[:_LONGEST_NAME] or "unknown"


def arguments_of(text: str) -> Json:
    """Return a call's arguments as the object that servers and their templates want.

    What is none is wrapped: the tool's answer will speak of what the model wrote, so it stands
    there.
    """
    if not text.strip():
        return {}
    value = decoded(text, strict=True)
    return value if isinstance(value, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """Return a call's arguments as the text of an object: as it came, if that is one."""
    return text if is_object(text) else json.dumps(arguments_of(text))


def is_object(text: str) -> bool:
    """Return whether ``text`` is a whole JSON object."""
    return isinstance(decoded(text, strict=True), dict)


class SurrogateJoiner:
    """Joins a text that comes in pieces, which may part a surrogate pair.

    Some servers send the two halves of an emoji in two chunks, each escaped in JSON of its own. A
    text with such a half cannot be written to a file or sent to an editor.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is complete with ``piece``; a half at its end waits for the next piece."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
