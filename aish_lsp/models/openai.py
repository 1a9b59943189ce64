"""OpenAI's chat completions, as OpenAI and everybody else serves them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aish_lsp.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.address import api_url, host, origin
from aish_lsp.models.endpoint import chat_models, list_models
from aish_lsp.models.faults import error_in_stream, redactor
from aish_lsp.models.keys import forget_key, request_headers, resolve_key
from aish_lsp.models.openai_reply import Reply

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.events import ModelEvent
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Message, ModelRequest

#: Seconds to wait for the end of a response after its last event, so that the connection can serve
#: the next request.
DRAIN_TIMEOUT = 0.1

#: Seconds to ask a server for the models that it has.
LIST_TIMEOUT = 10.0

# Where the older `max_tokens` is deprecated, and refused by newer models.
_MAX_COMPLETION_TOKENS_HOSTS = ("api.openai.com", ".openai.azure.com", ".aliyuncs.com")

# Refuses `stream_options` as an unknown field; it reports the usage without being asked.
_NO_STREAM_OPTIONS_HOSTS = (".mistral.ai",)

# Finish reasons that say that the server gave up.
_BROKEN_FINISH = frozenset({"error", "abort", "insufficient_system_resource"})


class OpenAIModel:
    """The adapter for every server that speaks chat completions.

    ``environ`` is where keys are looked up; the process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        self._found_models: dict[str, str] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is no address.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "chat/completions")
        headers = request_headers(preset, await resolve_key(preset, self._environ))
        reply = Reply(provider=host(url))
        try:
            body = request_body(request, await self._model_name(preset, headers))
            events = self._http.stream_sse(url, body, headers=headers, timeout_s=preset.timeout)
            async with (
                aclosing(events),
                aclosing(_read_reply(events, reply, url, headers)) as pieces,
            ):
                async for event in pieces:
                    yield event
                for event in reply.end():
                    yield event
                await _drain(events)
        except BackendRejected as error:
            if error.data.get("status") in {401, 403}:
                forget_key(preset)
            raise

    async def _model_name(self, preset: Preset, headers: Mapping[str, str]) -> str:
        """Return the model to name in a request: the preset's, else the first the server has.

        Empty where the server has no list: it then has but one.
        """
        if preset.model:
            return preset.model
        known = self._found_models.get(preset.endpoint)
        if known is None:
            timeout_s = min(preset.timeout, LIST_TIMEOUT)
            try:
                found = await list_models(self._http, preset, headers, timeout_s=timeout_s)
            except BackendRejected as error:
                if error.data.get("status") not in {404, 405}:
                    raise
                found = []
            known = next(iter(chat_models(found)), "")
            self._found_models[preset.endpoint] = known
        return known


def request_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names."""
    preset = request.preset
    server = host(preset.endpoint)
    body: dict[str, Any] = {
        "messages": [_message(message, server) for message in request.messages],
        "stream": True,
    }
    if model:
        body["model"] = model
    if not _is_one_of(server, _NO_STREAM_OPTIONS_HOSTS):
        body["stream_options"] = {"include_usage": True}
    if "max_completion_tokens" not in preset.extra_body:
        newer = _is_one_of(server, _MAX_COMPLETION_TOKENS_HOSTS)
        field = "max_completion_tokens" if newer else "max_tokens"
        body[field] = request.max_output_tokens or preset.max_output_tokens
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


def _message(message: Message, server: str) -> dict[str, Any]:
    """Return a message in OpenAI's form.

    Reasoning goes back to the server that it came from, where it came with parts to return
    (OpenRouter's ``reasoning_details``); plain reasoning text is not sent again.
    """
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    reasoning = message.reasoning
    if reasoning is not None and reasoning.provider == server:
        details = reasoning.metadata.get("reasoning_details")
        if details:
            wire["reasoning_details"] = details
    return wire


async def _read_reply(
    events: AsyncGenerator[str, None], reply: Reply, url: str, headers: Mapping[str, str]
) -> AsyncGenerator[ModelEvent, None]:
    """Yield text and reasoning until the reply is over; raise where it broke off."""
    error: Any = None
    try:
        async for data in events:
            if data == "[DONE]":
                break
            chunk = _parse(data, url)
            for event in reply.feed(chunk):
                yield event
            error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
            if error:
                break
        else:
            if reply.finish_reason is None:
                raise _broken(url, "it ended before the reply did")
    except BackendUnavailable:
        # Behind the finish reason comes nothing but usage: the reply itself is whole.
        if reply.finish_reason is None:
            raise
    if error:
        raise error_in_stream(url, error, redactor(headers))
    if reply.finish_reason in _BROKEN_FINISH:
        raise _broken(url, f"the server gave up ({reply.finish_reason})")


def _parse(data: str, url: str) -> dict[str, Any]:
    """Return a chunk's JSON object."""
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        raise _broken(url, f"it sent something that is no chunk of a reply ({data[:60]!r})")
    return chunk


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


def _is_one_of(server: str, hosts: tuple[str, ...]) -> bool:
    """Tell whether ``server`` is one of ``hosts``; a leading dot stands for any subdomain."""
    return any(server == name or (name[0] == "." and server.endswith(name)) for name in hosts)
