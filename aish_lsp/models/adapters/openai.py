"""OpenAI's chat completions, as OpenAI and everybody else serves them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.adapters.openai_reply import PLAIN_FIELDS, ReplyReader
from aish_lsp.models.adapters.stream import (
    ModelNames,
    Post,
    arguments_text,
    function_name,
    stream_again,
)
from aish_lsp.models.address import api_url, host, server_name
from aish_lsp.models.keys import headers_for, key_of
from aish_lsp.models.request import goes_back

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest, RequestMessage

# A request with both is refused.
_LIMITS = ("max_tokens", "max_completion_tokens")

# Where the older `max_tokens` is deprecated, and refused by newer models.
_MAX_COMPLETION_TOKENS_HOSTS = ("api.openai.com", ".openai.azure.com", ".aliyuncs.com")

# Refuses `stream_options` as an unknown field; it reports the usage without being asked.
_NO_STREAM_OPTIONS_HOSTS = (".mistral.ai",)


# How a server says that it does not know a field.
_UNKNOWN = re.compile(
    r"unsupported parameter|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted"
    r"|not allowed|extra (?:inputs|fields)|instead",
    re.IGNORECASE,
)

# Wants ids of just this form for calls.
_SHORT_ID_HOSTS = _NO_STREAM_OPTIONS_HOSTS
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")

#: Characters that a call's id may have elsewhere.
_LONGEST_ID = 40


class OpenAIModel:
    """The adapter for every server that speaks chat completions.

    ``environ`` is where keys are looked up; the process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        self._names = ModelNames(http)
        # By endpoint and model.
        self._refused: dict[tuple[str, str], frozenset[str]] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        Where a server does not know a field that another name or none can do for, the request is
        sent once more without it.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an address.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "chat/completions")
        headers = await headers_for(preset, self._environ)
        with key_of(preset):
            model = await self._names.name_for(preset, headers)
            key, left_out = (preset.endpoint, model), frozenset[str]()

            def ask() -> tuple[Post, ReplyReader]:
                nonlocal left_out
                left_out = self._refused.get(key, frozenset())
                body = request_body(request, model, left_out)
                return Post(url, headers, body, preset.timeout), ReplyReader(server_name(url))

            def learn(error: BackendRejected, body: Mapping[str, Any]) -> bool:
                field = _unknown_field(error, body.keys() - preset.extra_body.keys() - left_out)
                if field is None:
                    return False
                self._refused[key] = self._refused.get(key, frozenset()) | {field}
                return True

            async with aclosing(stream_again(self._http, ask, learn)) as reply:
                async for event in reply:
                    yield event


def request_body(
    request: ModelRequest, model: str, refused: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the JSON of a request, without the fields that are ``refused``.

    ``extra_body`` comes last and replaces what it names.
    """
    preset = request.preset
    server = host(preset.endpoint)
    body: dict[str, Any] = {
        "messages": [_message(message, preset) for message in request.messages],
        "stream": True,
    }
    if model:
        body["model"] = model
    if "stream_options" not in refused and not _is_one_of(server, _NO_STREAM_OPTIONS_HOSTS):
        body["stream_options"] = {"include_usage": True}
    if preset.extra_body.keys().isdisjoint(_LIMITS):
        newer = _is_one_of(server, _MAX_COMPLETION_TOKENS_HOSTS)
        body[_LIMITS[newer != (not refused.isdisjoint(_LIMITS))]] = (
            request.max_output_tokens or preset.max_output_tokens
        )
    for name in ("temperature", "top_p", "stop", "seed", "reasoning_effort"):
        value = getattr(preset, name)
        if value is not None:
            body[name] = value
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    return body | preset.extra_body


def _unknown_field(error: BackendRejected, sent: set[str]) -> str | None:
    """Return the field of ``sent`` that ``error`` says its server does not know.

    The limit of tokens goes by two names; a server that wants the other one names that.
    """
    words = str(error.data.get("provider_message"))
    if error.data.get("status") not in {400, 422} or not _UNKNOWN.search(words):
        return None
    named = {field for field in (*_LIMITS, "stream_options") if re.search(rf"\b{field}\b", words)}
    if named & {*_LIMITS}:
        named |= {*_LIMITS}
    return next(iter(named & sent), None)


def _message(message: RequestMessage, preset: Preset) -> dict[str, Any]:
    """Return a message in OpenAI's form.

    Reasoning goes back to the server that it came from, where it came with parts to return
    (OpenRouter's ``reasoning_details``) or has led to a call; other plain text is not sent again.
    """
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": _call_id(call.id, preset),
                "type": "function",
                "function": {
                    "name": function_name(call.name),
                    "arguments": arguments_text(call.arguments),
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = _call_id(message.tool_call_id, preset)
    reasoning = message.reasoning
    if reasoning is not None and goes_back(reasoning, preset):
        if details := reasoning.metadata.get("reasoning_details"):
            wire["reasoning_details"] = details
        elif message.tool_calls and reasoning.text:
            name = reasoning.metadata.get("reasoning_field")
            # A session's log may be edited.
            if name in PLAIN_FIELDS:
                wire[name] = reasoning.text
    return wire


def _call_id(given: str, preset: Preset) -> str:
    """Return a call's id as the server takes it, the same for the call and its result.

    Another provider's may be longer than OpenAI allows; Mistral wants nine letters and digits.
    """
    digest = hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()
    if _is_one_of(host(preset.endpoint), _SHORT_ID_HOSTS):
        return given if _SHORT_ID.fullmatch(given) else digest[:9]
    return given if 0 < len(given) <= _LONGEST_ID else f"call_{digest[:24]}"


def _is_one_of(server: str, hosts: tuple[str, ...]) -> bool:
    """Return whether ``server`` is one of ``hosts``; a leading dot stands for any subdomain."""
    return any(server == name or (name[0] == "." and server.endswith(name)) for name in hosts)
