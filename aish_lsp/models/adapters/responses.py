"""OpenAI's Responses, without a state on the server: each request brings the whole conversation."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.adapters.responses_reply import ReplyReader, items_of
from aish_lsp.models.adapters.stream import (
    Json,
    ModelNames,
    Post,
    arguments_text,
    as_dict,
    as_list,
    as_text,
    function_name,
    stream_again,
)
from aish_lsp.models.address import api_url, server_name
from aish_lsp.models.keys import headers_for, key_of
from aish_lsp.models.tokenize_api import NotACountError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.foundation.errors import BackendRejected
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest, RequestMessage, ToolCall

# Optional fields, and the words by which a refusal names them: models that do not reason have no
# encrypted content, and accounts that are not verified get no summaries.
_FIELDS: Final = {
    "include": re.compile(r"encrypted|\binclude\b", re.IGNORECASE),
    "summary": re.compile(r"summar", re.IGNORECASE),
}

# Reasoning cannot be read again by another account's key, nor behind a proxy by another provider.
_REASONING: Final = re.compile(
    r"encrypted content .*could not be|of type 'reasoning'|\brs_\w", re.IGNORECASE | re.DOTALL
)
_UNREADABLE: Final = "invalid_encrypted_content"

# An error within the stream carries no status.
_MALFORMED: Final = frozenset({400, 404, 422, None})


@dataclass(frozen=True, slots=True)
class Refused:
    """Optional ``fields``, and earlier ``reasoning`` by its encrypted content."""

    fields: frozenset[str] = frozenset()
    reasoning: frozenset[str] = frozenset()

    def __or__(self, other: Refused) -> Refused:
        return Refused(self.fields | other.fields, self.reasoning | other.reasoning)


NOTHING: Final = Refused()


def refused_by(error: BackendRejected, body: Mapping[str, Any]) -> Refused:
    """Return what of ``body`` is optional and refused by ``error``; nothing for other reasons."""
    if error.data.get("status") not in _MALFORMED:
        return NOTHING
    words = str(error.data.get("provider_message"))
    items = [as_dict(item) for item in as_list(body.get("input"))]
    reasoning = frozenset(
        as_text(item.get("encrypted_content")) for item in items if item.get("type") == "reasoning"
    )
    if reasoning and (error.data.get("code") == _UNREADABLE or _REASONING.search(words)):
        return Refused(reasoning=reasoning)
    sent = {*body, *as_dict(body.get("reasoning"))}
    named = (field for field, said in _FIELDS.items() if field in sent and said.search(words))
    field = next(named, None)
    return Refused(frozenset() if field is None else frozenset({field}))


#: What is asked for in ``include``: without it reasoning cannot go back to where nothing is stored.
ENCRYPTED: Final = "reasoning.encrypted_content"

# What the counting endpoint knows of a request.
_COUNTED: Final[tuple[str, ...]] = (
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
    "chat_template_kwargs",
)


_NOT_COUNTED: Final = Refused(frozenset({"include", "summary"}))


class ResponsesModel:
    """The adapter for every server that speaks Responses.

    ``environ`` is where keys are looked up; the process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ
        self._names = ModelNames(http)
        # By endpoint and model.
        self._refused: dict[tuple[str, str], Refused] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        What is optional and refused is left out, and the request sent once more.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an address.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "responses")
        headers = await headers_for(preset, self._environ)
        with key_of(preset):
            model = await self._names.name_for(preset, headers)
            key, left_out = (preset.endpoint, model), NOTHING

            def ask() -> tuple[Post, ReplyReader]:
                nonlocal left_out
                left_out = self._refused.get(key, NOTHING)
                body = request_body(request, model, left_out)
                reader = ReplyReader(server_name(url), body.get("max_output_tokens"))
                return Post(url, headers, body, preset.timeout), reader

            def learn(error: BackendRejected, body: Mapping[str, Any]) -> bool:
                known = left_out | refused_by(error, body)
                self._refused[key] = self._refused.get(key, NOTHING) | known
                return known != left_out

            async with aclosing(stream_again(self._http, ask, learn)) as reply:
                async for event in reply:
                    yield event

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the tokens of the request's input as the server counts them; it answers nothing.

        ``timeout_s`` is in seconds, for the whole question. OpenAI and llama.cpp can count.

        Raises:
            BackendUnavailable, BackendRejected: as ``HttpClient.post_json``; 404 or 405 where the
                server cannot count.
            InvalidArgument: the endpoint is not an address.
            NotACountError: the answer holds no count.
        """
        preset = request.preset
        url = api_url(preset.endpoint, "responses/input_tokens")
        headers = await headers_for(preset, self._environ)
        with key_of(preset):
            model = await self._names.name_for(preset, headers)
            refused = self._refused.get((preset.endpoint, model), NOTHING)
            whole = request_body(request, model, refused | _NOT_COUNTED)
            body = {name: whole[name] for name in _COUNTED if name in whole}
            reply = await self._http.post_json(url, body, headers=headers, timeout_s=timeout_s)
        tokens = as_dict(reply).get("input_tokens")
        if type(tokens) is not int or tokens <= 0:
            raise NotACountError
        return tokens


def request_body(request: ModelRequest, model: str, refused: Refused = NOTHING) -> dict[str, Any]:
    """Return the JSON of a request, without what is ``refused``.

    ``extra_body`` comes last and replaces what it names. The protocol knows no ``stop`` and no
    ``seed``.
    """
    preset = request.preset
    messages = request.messages
    body: dict[str, Any] = {"stream": True, "store": False}
    if model:
        body["model"] = model
    if messages and messages[0].role == "system":
        if messages[0].content:
            body["instructions"] = messages[0].content
        messages = messages[1:]
    items = input_of(messages, server_name(preset.endpoint))
    body["input"] = [i for i in items if i.get("encrypted_content") not in refused.reasoning]
    body["max_output_tokens"] = request.max_output_tokens or preset.max_output_tokens
    if "include" not in refused.fields:
        body["include"] = [ENCRYPTED]
    for name in ("temperature", "top_p"):
        value = getattr(preset, name)
        if value is not None:
            body[name] = value
    if preset.reasoning_effort is not None:
        summary = {} if "summary" in refused.fields else {"summary": "auto"}
        body["reasoning"] = {"effort": preset.reasoning_effort, **summary}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                # Without it a server may change the schema until it is strict.
                "strict": False,
            }
            for tool in request.tools
        ]
    return body | preset.extra_body


# A conversation as the input of a Responses request: messages, calls, their results, reasoning.

#: Characters that a call's id may have.
_LONGEST_ID: Final = 64


def input_of(messages: Sequence[RequestMessage], server: str) -> list[Json]:
    """Return the conversation as items for ``server``, which gets its own reasoning back.

    A server refuses a call without a result, a result without a call, and one id for two calls:
    some servers begin to count them anew with each reply.
    """
    items: list[Json] = []
    used: set[str] = set()
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            call_id = waiting.pop(message.tool_call_id or "", None)
            if call_id is not None:
                items.append(_result(call_id, message.content))
            continue
        items += [_result(call_id, "cancelled") for call_id in waiting.values()]
        waiting.clear()
        if message.role == "assistant":
            for call in message.tool_calls:
                waiting[call.id] = _call_id(call, used)
            calls = {call.id: _called(call, waiting[call.id]) for call in message.tool_calls}
            items += items_of(message.content, calls, _outline(message, server))
        elif message.content:
            role = "developer" if message.role == "system" else message.role
            items.append({"type": "message", "role": role, "content": message.content})
    return items + [_result(call_id, "cancelled") for call_id in waiting.values()]


def _outline(message: RequestMessage, server: str) -> list[Any]:
    """Return what the reply's own server wants back with it; another server gets nothing."""
    reasoning = message.reasoning
    if reasoning is None or reasoning.provider != server:
        return []
    return as_list(reasoning.metadata.get("output"))


def _call_id(call: ToolCall, used: set[str]) -> str:
    """Return an id for ``call`` that no other call of the request has."""
    call_id = call.id
    if not 0 < len(call_id) <= _LONGEST_ID or call_id in used:
        call_id = next(name for name in map("call_{}".format, count()) if name not in used)
    used.add(call_id)
    return call_id


def _called(call: ToolCall, call_id: str) -> Json:
    """Return a call as an item."""
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": function_name(call.name),
        "arguments": arguments_text(call.arguments),
    }


def _result(call_id: str, output: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}
