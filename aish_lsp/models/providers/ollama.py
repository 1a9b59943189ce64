"""Ollama's own protocol: ``/api/chat``, whose reply is a JSON object on each line.

Unlike its chat completions, it takes the size of the window (``num_ctx``) with each request.
Documented at https://docs.ollama.com/api/chat.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import server_name, server_url
from aish_lsp.models.loose_json import Json, as_count, as_dict, as_list, as_text
from aish_lsp.models.providers.base import StreamingModel, settings_of
from aish_lsp.models.providers.reply import (
    ReplyReader,
    arguments_of,
    function_name,
    kept_of,
    meanings,
    others,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.refusals import Changes
    from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall

#: How Ollama says that a model cannot think.
_CANNOT_THINK: Final = re.compile(r"does not support thinking|\bthink value\b", re.IGNORECASE)

#: Efforts that Ollama calls by another name.
_EFFORTS: Final[dict[str, bool | str]] = {
    "none": False,
    "minimal": "low",
    "xhigh": "high",
    "max": "high",
}

#: The end of an address that is written with the API's first folder.
_API: Final = re.compile(r"/api(?:/chat)?/?$")


class OllamaModel(StreamingModel):
    """The adapter for Ollama's own API."""

    path = "api/chat"
    limit_fields = (("options", "num_predict"),)
    has_tokenizer = False
    returned = ("thinking",)

    def _url(self, preset: Preset, path: str) -> str:
        return server_url(_API.sub("", preset.endpoint), path)

    def _body(self, request: ModelRequest, model: str, _changes: Changes) -> Json:
        return request_body(request, model)

    def _reader(self, url: str, _body: Json) -> LineReader:
        return LineReader(server_name(url))

    def _changes(self, error: AishError, body: Json, own: Json) -> Changes:
        words = str(error.data.get("provider_message"))
        if "think" in body and "think" not in own and _CANNOT_THINK.search(words):
            return {"think": None}
        return super()._changes(error, body, own)


def request_body(request: ModelRequest, model: str) -> Json:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names.

    In ``options`` it replaces only the fields that it names.
    """
    preset = request.preset
    options: Json = {"num_predict": request.max_output_tokens or preset.max_output_tokens}
    if preset.context_window is not None:
        # Otherwise the server's own default holds, and it silently drops what exceeds that.
        options["num_ctx"] = preset.context_window
    options |= settings_of(preset, "temperature", "top_p", "seed", "stop")
    body: Json = {"messages": messages_of(request.messages, preset), "stream": True}
    if model:
        body["model"] = model
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": tool.declared()} for tool in request.tools
        ]
    if preset.reasoning_effort is not None:
        effort = preset.reasoning_effort.strip().lower()
        body["think"] = _EFFORTS.get(effort, effort)
    options |= as_dict(preset.extra_body.get("options"))
    return body | preset.extra_body | {"options": options}


def messages_of(messages: Iterable[RequestMessage], preset: Preset) -> list[Json]:
    """Return the messages of a request. Results name their tools, as older servers need it."""
    names: dict[str, str] = {}
    wire: list[Json] = []
    for message in messages:
        one: Json = {"role": message.role, "content": message.content}
        if message.tool_calls:
            server = server_name(preset.endpoint)
            one["tool_calls"] = [_call(call, server) for call in message.tool_calls]
            names |= {call.id: function_name(call.name) for call in message.tool_calls}
        if message.tool_call_id is not None:
            one["tool_call_id"] = message.tool_call_id
            one["tool_name"] = names.get(message.tool_call_id, "unknown")
        if message.reasoning is not None and OllamaModel.goes_back(message.reasoning, preset):
            one["thinking"] = message.reasoning.text
        wire.append(one)
    return wire


def _call(call: ToolCall, server: str) -> Json:
    parts, _ = kept_of(call, server)
    named = {"name": function_name(call.name), "arguments": arguments_of(call.arguments)}
    return {**parts, "id": call.id, "function": {**as_dict(parts.get("function")), **named}}


class LineReader(ReplyReader):
    """One reply while it streams. Calls arrive whole; older servers give them no ids."""

    endings = meanings(length="length")

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._calls: list[Json] = []
        self._reported: Json = {}
        self._thought = False

    def _read(self, chunk: Json) -> None:
        self.error = chunk.get("error") or self.error
        message = as_dict(chunk.get("message"))
        thinking = as_text(message.get("thinking"))
        self._thought = self._thought or bool(thinking)
        self._add_reasoning(thinking)
        self._add_text(as_text(message.get("content")))
        self._calls += map(as_dict, as_list(message.get("tool_calls")))
        if chunk.get("done") is True:
            self._finish = as_text(chunk.get("done_reason"))
            self._reported = chunk
            self.is_over = True

    def _tool_calls(self) -> list[ToolCall]:
        calls = []
        for call in self._calls:
            function = as_dict(call.get("function"))
            if name := as_text(function.get("name")):
                arguments = written(function.get("arguments")) or "{}"
                extra = others(call, ("id", "type", "function"))
                if unknown := others(function, ("index", "name", "arguments")):
                    extra["function"] = unknown
                calls.append(self._call(as_text(call.get("id")), name, arguments, extra))
        return calls

    def _metadata(self, calls: list[ToolCall]) -> Json:
        # The model's templates expect it with the calls that it led to.
        return {"thinking": True} if calls and self._thought else {}

    def usage(self) -> Usage | None:
        """Return the usage; older servers do not report an input that was cached."""
        prompt = as_count(self._reported.get("prompt_eval_count"))
        if prompt == 0:
            return None
        return Usage(prompt, as_count(self._reported.get("eval_count")))


PROTOCOL = OllamaModel
