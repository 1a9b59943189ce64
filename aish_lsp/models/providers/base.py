"""What all protocols share: sending a request in the form that its server accepts, and counting it.

Also here: the default model of a request whose preset has none.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.models.address import api_url, server_name
from aish_lsp.models.endpoint import EndpointInfo, chat_models, describe_listed, list_models
from aish_lsp.models.forms import EVERY, forms_for, reformed
from aish_lsp.models.keys import BEARER, headers_for, key_of
from aish_lsp.models.local_server import served
from aish_lsp.models.loose_json import Json, as_dict
from aish_lsp.models.refusals import (
    Changes,
    Renamed,
    changed_fields,
    may_be_about_request,
    not_own,
    overflow_of,
    with_changes,
)
from aish_lsp.models.request import WithoutPart
from aish_lsp.models.written_calls import WrittenCalls

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.providers.reply import ReplyReader
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
        # In what form servers accept requests, by endpoint and model.
        self._forms: dict[tuple[str, str], _Form] = {}

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
        return any(metadata.get(name) for name in (*cls.returned, EVERY))

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
        at = await served(preset, self._http)
        url = self._url(at, self.path)
        headers = await self.headers(at, self._environ)
        with key_of(preset):
            model = await self._model_name(preset, headers)
            body = self._formed_body(request, model)
            headers = self._headers(headers, body)
            reader, written = self._reader(url, body), WrittenCalls(request.tools)
            has_begun = False
            events = self._http.stream(url, body, headers=headers, timeout_s=preset.timeout)
            try:
                async with aclosing(events):
                    while (data := await _next(events, reader)) is not None:
                        for event in written.read(reader.read(data, url)):
                            if not has_begun:
                                self._form(preset, model).accept()
                            has_begun = True
                            yield event
                        if reader.is_calling or written.is_calling:
                            request.tell_begun()
                    reader.check(url, headers)
                    # A reply of calls alone has none of its events before its end.
                    self._form(preset, model).accept()
                    for event in written.end(reader.end()):
                        yield event
                    await _drain(events)
            except (asyncio.CancelledError, GeneratorExit):
                request.tell_cut(reader.usage())
                raise
            except (BackendRejected, BackendUnavailable) as error:
                if error.data.get("status") == 404:
                    # The server may have been restarted with another model.
                    self._first_models.pop(preset.endpoint, None)
                request.tell_cut(reader.usage())
                if not has_begun:
                    self._learn_form(error, request, model, body)
                raise

    def _form(self, preset: Preset, model: str) -> _Form:
        """Return the form of requests that the server of ``preset`` has asked for so far."""
        return self._forms.setdefault((preset.endpoint, model), _Form())

    def _formed_body(
        self,
        request: ModelRequest,
        model: str,
        also: Mapping[str, Any] | None = None,
        form: _Form | None = None,
    ) -> Json:
        """Return the body of a request in ``form``, by default in the one that is accepted."""
        preset = request.preset
        form = form or self._form(preset, model)
        source, server = self.reasoning_source(preset), server_name(preset.endpoint)
        request = reformed(request, form.conversation, source, server)
        changes = not_own({**form.changes, **(also or {})}, preset.extra_body)
        return with_changes(self._body(request, model, changes), changes)

    def _learn_form(self, error: AishError, request: ModelRequest, model: str, body: Json) -> None:
        """Learn from a refusal in which form a request may be accepted.

        Raises:
            WithoutPart: there is one that has not been tried.
        """
        if not may_be_about_request(error) or overflow_of(error) is not None:
            return
        form, preset = self._form(request.preset, model), request.preset
        changes = self._changes(error, body, preset.extra_body)
        changes = {path: new for path, new in changes.items() if form.may_change(path, new)}
        sentences = ", ".join(filter(None, map(_told, changes.items())))
        conversation = form.conversation
        for name, told_of_form in () if changes else forms_for(error, conversation):
            another = _Form(form.changes, [*conversation, name])
            # A form that this conversation already has does not help.
            if self._formed_body(request, model, form=another) != body:
                form.conversation, sentences = another.conversation, told_of_form
                break
        else:
            if not changes:
                form.forget()
                return
        form.changes |= changes
        refused = WithoutPart(error.message, **error.data)
        refused.told = sentences
        raise refused from error

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
    def _body(self, request: ModelRequest, model: str, changes: Changes) -> Json:
        """Return the body of a request. Its fields are changed after that."""

    @abstractmethod
    def _reader(self, url: str, body: Json) -> ReplyReader:
        """Return a reader for the reply to ``body``."""

    def _headers(self, headers: dict[str, str], _body: Json) -> dict[str, str]:
        """Return the headers of a request, with any that its body requires."""
        return headers

    def _changes(self, error: AishError, body: Json, own: Json) -> Changes:
        """Return what to change in ``body``, which the server refused with ``error``.

        ``own`` is what the user configured, which is always sent.
        """
        return changed_fields(error, body, own)


@dataclass(slots=True)
class _Form:
    """The form in which a model's server accepts requests: changed fields, and the conversation.

    What is tried is forgotten unless it helps: a request in that form was answered.
    """

    changes: Changes = field(default_factory=dict)
    conversation: list[str] = field(default_factory=list)
    _accepted: tuple[Changes, list[str]] = field(default_factory=lambda: ({}, []))

    def may_change(self, path: str, new: Any) -> bool:
        """Return whether a change has not been tried. A field with a new value can be left out."""
        tried = self.changes.get(path, ...)
        return tried is ... or (new is None and isinstance(tried, str))

    def accept(self) -> None:
        """Keep the form: a request in it was answered."""
        self._accepted = (dict(self.changes), list(self.conversation))

    def forget(self) -> None:
        """Forget what was tried since the last answer."""
        self.changes, self.conversation = dict(self._accepted[0]), list(self._accepted[1])


#: Fields that nobody has configured, so that nobody misses them.
_SILENT: Final = frozenset({"stream_options", "include", "reasoning.summary", "prompt_cache_key"})


def _told(change: tuple[str, Any]) -> str:
    """Return what to tell the user about a changed field; empty for nothing."""
    path, value = change
    is_silent = not _SILENT.isdisjoint({path, path.partition(".")[0]})
    if is_silent or isinstance(value, Renamed) or not path.isascii() or len(path) > 60:
        return ""
    if value is None:
        return f"its server does not accept `{path}`, which is left out"
    return f"its server wants `{path}` to be {value!r}"


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

    #: What is changed in a counted request, as if the server had refused it.
    not_counted: ClassVar[Mapping[str, Any]] = {}

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return how many tokens the server counts in the request's input.

        Providers do not charge for this. ``timeout_s`` limits the whole call, in seconds.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``; the status is 404
                or 405 if the server cannot count.
            NotACountError: the answer contains no count.
        """
        preset = request.preset
        at = await served(preset, self._http)
        url = self._url(at, self.count_path)
        headers = await self.headers(at, self._environ)
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
        body = self._formed_body(request, model, self.not_counted)
        return {name: body[name] for name in self.counted if name in body}


def settings_of(preset: Preset, *names: str) -> Json:
    """Return those of the preset's optional settings ``names`` that are set."""
    values = {name: getattr(preset, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


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


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read to the end of the response if it arrives at once."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in events:
                pass
    except (TimeoutError, BackendUnavailable):
        pass
