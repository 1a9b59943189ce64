"""Google's Gemini, by its own protocol: ``generateContent``, streamed.

Written after https://ai.google.dev/api/generate-content; thoughts and their signatures after
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from aish_lsp.models.adapters.gemini_reply import ReplyReader
from aish_lsp.models.adapters.stream import Json, Post, arguments_of, as_dict, as_list, stream_reply
from aish_lsp.models.address import server_name
from aish_lsp.models.gemini_api import headers_of, is_vertex, method_url, model_name
from aish_lsp.models.keys import key_of
from aish_lsp.models.tokenize_api import NotACountError

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.adapters.stream import Json
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent, ModelRequest, RequestMessage, ToolCall

# What counts as input; how the reply is made does not.
_COUNTED = ("contents", "systemInstruction", "tools")

#: The first models that think, and the first that demand their calls' signatures back.
_FIRST_THINKING, _FIRST_SIGNING = (2, 5), (3, 0)

# Tokens to think with, as Google maps the words of OpenAI's `reasoning_effort`.
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_HIGHEST = frozenset({"xhigh", "max"})

# The least that a pro model of 2.5 thinks; it cannot be told not to.
_LEAST_PRO_BUDGET = 128

_VERSIONED = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_LATEST = re.compile(r"gemini-[a-z-]+-latest")


class GeminiModel:
    """The adapter for Google AI, for Google Cloud, and for proxies that speak as they do.

    ``environ`` is where keys are looked up; the process's own environment by default.
    """

    def __init__(self, http: HttpClient, environ: Mapping[str, str] = os.environ) -> None:
        self._http = http
        self._environ = environ

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply; see ``aish_lsp.models.request.Model``.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused, or there is no key.
            InvalidArgument: the endpoint is not an address, or the preset names no model.
        """
        preset = request.preset
        url = method_url(preset, "streamGenerateContent", "alt=sse")
        headers = await headers_of(preset, self._environ)
        with key_of(preset):
            post = Post(url, headers, request_body(request), preset.timeout)
            reply = stream_reply(self._http, post, ReplyReader(preset.provider, server_name(url)))
            async with aclosing(reply):
                async for event in reply:
                    yield event

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the input tokens of ``request``, tools and system prompt included.

        ``timeout_s`` is in seconds. It costs nothing, and has a rate limit of its own.

        Raises:
            BackendUnavailable, BackendRejected, InvalidArgument: as ``stream``.
            NotACountError: what came is not a count.
        """
        preset = request.preset
        url = method_url(preset, "countTokens")
        headers = await headers_of(preset, self._environ)
        with key_of(preset):
            body = count_body(request)
            reply = await self._http.post_json(url, body, headers=headers, timeout_s=timeout_s)
        total = reply.get("totalTokens") if isinstance(reply, dict) else None
        if type(total) is not int or total < 0:
            raise NotACountError
        return total


def request_body(request: ModelRequest) -> dict[str, Any]:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names.

    Of ``generationConfig`` it replaces the fields that it names, and leaves the others.
    """
    preset = request.preset
    must_sign = _version(preset.model) >= _FIRST_SIGNING
    system = [
        {"text": message.content}
        for message in request.messages
        if message.role == "system" and message.content
    ]
    body: dict[str, Any] = {"contents": contents_of(request.messages, must_sign=must_sign)}
    if system:
        body["systemInstruction"] = {"parts": system}
    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": tool.parameters,
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declarations}]
    config = _generation_config(preset, request.max_output_tokens)
    own = preset.extra_body.get("generationConfig")
    if isinstance(own, dict):
        config |= own
    return body | preset.extra_body | {"generationConfig": config}


def count_body(request: ModelRequest) -> dict[str, Any]:
    """Return the JSON of a question for the tokens of ``request``.

    Google AI looks at system prompt and tools only within a whole request; Google Cloud knows no
    such wrapping.
    """
    body = request_body(request)
    counted = {name: body[name] for name in _COUNTED if name in body}
    if is_vertex(request.preset):
        return counted
    named = {"model": f"models/{model_name(request.preset)}", **counted}
    return {"generateContentRequest": named}


def _generation_config(preset: Preset, max_output_tokens: int | None) -> Json:
    """Return how the reply is to be made."""
    config: Json = {"maxOutputTokens": max_output_tokens or preset.max_output_tokens}
    settings = {
        "temperature": preset.temperature,
        "topP": preset.top_p,
        "stopSequences": preset.stop,
        "seed": preset.seed,
        "thinkingConfig": _thinking(preset.model, preset.reasoning_effort) or None,
    }
    return config | {name: value for name, value in settings.items() if value is not None}


def _thinking(model: str, effort: str | None) -> Json:
    """Return how the model is to think: in a budget of tokens up to 2.5, on a level since 3.

    Thoughts are only shown where the model may think: where it may not, asking for them is an
    error.
    """
    shown: Json = {"includeThoughts": True} if _version(model) >= _FIRST_THINKING else {}
    if effort is None:
        return shown
    word = effort.strip().lower()
    budget = _budget(model, word)
    if budget is not None:
        return (shown if budget else {}) | {"thinkingBudget": budget}
    if word in {"none", "minimal"}:
        # The least there is; the pro models have no level below `low`.
        word = "minimal" if "flash" in model else "low"
    return shown | {"thinkingLevel": "high" if word in _HIGHEST else word}


def _budget(model: str, word: str) -> int | None:
    """Return the tokens to think with: a number as it is, a word's where the model needs one."""
    if re.fullmatch(r"-?\d{1,6}", word):
        return int(word)
    if not _FIRST_THINKING <= _version(model) < _FIRST_SIGNING:
        return None
    if word == "none":
        return _LEAST_PRO_BUDGET if "pro" in model else 0
    return _BUDGETS.get(word, _BUDGETS["high"])


def _version(model: str) -> tuple[int, int]:
    """Return a Gemini's version by its name; nothing is known of other models: (0, 0)."""
    name = model.lower()
    if found := _VERSIONED.search(name):
        return int(found[1]), int(found[2] or 0)
    return _FIRST_SIGNING if _LATEST.search(name) else (0, 0)


# A conversation as the ``contents`` of Gemini's protocol.
#
# What its servers refuse, and what is therefore done here: contents without parts and texts
# without a character are left out; the first content is a user's, and so is the last; as many
# function responses as calls follow a content with calls, all in one content that holds nothing
# else.

#: What Google says to send for a call that came without a signature, such as another model's:
#: https://ai.google.dev/gemini-api/docs/thought-signatures, "FAQs".
NO_SIGNATURE = "skip_thought_signature_validator"

# Where a conversation does not begin or end with the user, which it only does when it was cut.
_GO_ON = "Go on."


def contents_of(messages: Sequence[RequestMessage], *, must_sign: bool) -> list[Json]:
    """Return the conversation without its system prompt.

    ``must_sign`` is for models that refuse a call without a signature.
    """
    contents: list[Json] = []
    for position, message in enumerate(messages):
        if message.role == "user" and message.content:
            _add(contents, "user", [{"text": message.content}])
        elif message.role == "assistant":
            parts = model_parts(message)
            if must_sign:
                parts = _signed(parts)
            _add(contents, "model", parts)
            if message.tool_calls:
                following = messages[position + 1 :]
                results = list(takewhile(lambda other: other.role == "tool", following))
                _add(contents, "user", _responses(message.tool_calls, parts, results))
    if not contents or contents[0]["role"] != "user":
        contents.insert(0, _go_on())
    if contents[-1]["role"] != "user":
        contents.append(_go_on())
    return contents


def model_parts(message: RequestMessage) -> list[Json]:
    """Return the parts of an earlier reply.

    What the server sent is returned as it came, as long as the reply still says the same. Where its
    text was cut, the calls keep their signatures: without them they would be refused.
    """
    metadata = message.reasoning.metadata if message.reasoning else {}
    kept = [part for part in as_list(metadata.get("parts")) if isinstance(part, dict)]
    calls = [part for part in kept if "functionCall" in part]
    names = [as_dict(part["functionCall"]).get("name") for part in calls]
    if names != [call.name for call in message.tool_calls]:
        kept, calls = [], [_call(call) for call in message.tool_calls]
    if kept and _text(kept) == message.content:
        return kept
    return [*([{"text": message.content}] if message.content else []), *calls]


def _text(parts: list[Json]) -> str:
    return "".join(str(part.get("text", "")) for part in parts if not part.get("thought"))


def _call(call: ToolCall) -> Json:
    """Return a call that another model made, or one without anything to keep.

    Its id is ours or another provider's: none goes out. Where there is none, responses are matched
    by their order, and Google Cloud refuses a field that it does not know.
    """
    return {"functionCall": {"name": call.name or "unknown", "args": arguments_of(call.arguments)}}


def _signed(parts: list[Json]) -> list[Json]:
    """Return ``parts`` with a signature at the first call: the others of a reply need none."""
    for position, part in enumerate(parts):
        if "functionCall" in part:
            if part.get("thoughtSignature"):
                break
            signed = {**part, "thoughtSignature": NO_SIGNATURE}
            return [*parts[:position], signed, *parts[position + 1 :]]
    return parts


def _responses(
    calls: Sequence[ToolCall], parts: list[Json], results: Sequence[RequestMessage]
) -> list[Json]:
    """Return a response for each call, in their order."""
    outputs = {result.tool_call_id: result.content for result in results}
    return [
        {
            "functionResponse": {
                **_names(as_dict(sent)),
                "response": {"output": outputs[call.id]}
                if call.id in outputs
                else {"error": "There is no result."},
            }
        }
        for call, sent in zip(calls, _calls_in(parts), strict=True)
    ]


def _calls_in(parts: list[Json]) -> Iterator[Any]:
    return (part["functionCall"] for part in parts if "functionCall" in part)


def _names(call: Json) -> Json:
    """Return what ties a response to its call."""
    return {name: call[name] for name in ("id", "name") if name in call}


def _add(contents: list[Json], role: str, parts: list[Json]) -> None:
    """Add ``parts`` to the last content if it is of the same role, else as a new one."""
    if not parts:
        return
    last: Json = contents[-1] if contents else {}
    if last.get("role") != role or "functionResponse" in last["parts"][-1]:
        contents.append({"role": role, "parts": list(parts)})
    else:
        last["parts"].extend(parts)


def _go_on() -> Json:
    return {"role": "user", "parts": [{"text": _GO_ON}]}
