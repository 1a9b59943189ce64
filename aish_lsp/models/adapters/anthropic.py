"""Anthropic's Messages, as Anthropic and others serve them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aish_lsp.models.adapters.anthropic_messages import (
    CACHE_MARK,
    system_text,
    wire_messages,
    with_cache_marks,
)
from aish_lsp.models.adapters.anthropic_reply import Reply
from aish_lsp.models.adapters.anthropic_thinking import (
    BINDING_BETA,
    sampling_fields,
    thinking_fields,
)
from aish_lsp.models.adapters.loose import Json, as_dict
from aish_lsp.models.adapters.model_names import ModelNames
from aish_lsp.models.adapters.stream import Post, stream_reply
from aish_lsp.models.address import api_url, server_name
from aish_lsp.models.keys import headers_for, key_of
from aish_lsp.models.tokenize_api import NotACountError

if TYPE_CHECKING:
    from aish_lsp.models.events import ModelEvent
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelRequest

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
            InvalidArgument: the endpoint is no address.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "messages")
        with key_of(preset):
            headers, body = await self._prepare(request)
            post = Post(url, headers, body, preset.timeout)
            reply = stream_reply(self._http, post, Reply(server_name(url)))
            async with aclosing(reply):
                async for event in reply:
                    yield event

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the tokens that the input of ``request`` has, as the server counts them.

        ``timeout_s`` is in seconds. Anthropic charges nothing for it, and calls it an estimate.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``.
            NotACountError: what came is no count.
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
