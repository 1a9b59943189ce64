"""Google's Gemini protocol: ``generateContent``, streamed.

Documented at https://ai.google.dev/api/generate-content, and thoughts with their signatures at
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import api_url, server_name
from aish_lsp.models.endpoint import EndpointInfo, entries
from aish_lsp.models.faults import BLOCKED
from aish_lsp.models.forms import NO_SIGNATURE, UNSIGNED
from aish_lsp.models.keys import BEARER, headers_for
from aish_lsp.models.loose_json import Json, as_count, as_dict, as_list, as_text, as_tokens
from aish_lsp.models.providers.base import CountingModel
from aish_lsp.models.providers.reply import (
    ReplyReader,
    arguments_of,
    kept_of,
    meanings,
    object_of,
    sendable,
)
from aish_lsp.models.request import NO_RESULT, exchanges

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.refusals import Changes
    from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall

#: The first version that thinks, and the first that requires the signatures of its calls.
_FIRST_THINKING, _FIRST_SIGNING = (2, 5), (3, 0)

# Thinking budgets in tokens, as Google maps the values of OpenAI's `reasoning_effort`.
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_HIGHEST = frozenset({"xhigh", "max"})

# The smallest budget of a 2.5 pro model, whose thinking cannot be turned off.
_LEAST_PRO_BUDGET = 128

_VERSIONED = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_LATEST = re.compile(r"gemini-[a-z-]+-latest")


class GeminiModel(CountingModel):
    """The adapter for Google AI, Google Cloud, and proxies that speak their protocol."""

    path = "streamGenerateContent"
    key_header = "x-goog-api-key"
    limit_fields = (("generationConfig", "maxOutputTokens"),)
    has_tokenizer = False
    signed_source = "gemini"
    count_path = "countTokens"
    count_field = "totalTokens"
    counted = ("contents", "systemInstruction", "tools")

    @classmethod
    async def headers(cls, preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request; Google Cloud's key is an access token."""
        in_cloud = "/projects/" in urlsplit(preset.endpoint).path
        return await headers_for(preset, environ, BEARER if in_cloud else cls.key_header)

    @classmethod
    async def describe(
        cls, http: HttpClient, preset: Preset, environ: Mapping[str, str], *, timeout_s: float
    ) -> EndpointInfo:
        """Return the models that generate text, and the window of the preset's. Never raises.

        The window is what Google calls the input limit; replies have a separate limit.
        """
        try:
            headers = await cls.headers(preset, environ)
            url = _url_of(preset, "models", _ONE_PAGE)
            listed = as_dict(await http.fetch_json(url, headers=headers, timeout_s=timeout_s))
        except AishError:
            return EndpointInfo()
        models = {
            model["name"].removeprefix("models/"): model
            for model in entries(listed, "models", "name")
        }
        names = (name for name, model in models.items() if name and _can_generate(model))
        entry = models.get(preset.model)
        try:
            # An alias is not in the list.
            url = method_url(preset, "")
            entry = entry or await http.fetch_json(url, headers=headers, timeout_s=timeout_s)
        except AishError:
            entry = None
        window = as_tokens(as_dict(entry).get("inputTokenLimit"))
        return EndpointInfo(models=tuple(names), context_window=window)

    def _url(self, preset: Preset, path: str) -> str:
        return method_url(preset, path, "alt=sse" if path == self.path else "")

    def _body(self, request: ModelRequest, _model: str, _changes: Changes) -> Json:
        return request_body(request)

    def _reader(self, url: str, _body: Json) -> CandidateReader:
        return CandidateReader(server_name(url))

    def _count_body(self, request: ModelRequest, model: str) -> Json:
        """Return the body that asks for the token count of ``request``.

        Google AI counts the system prompt and tools only in a whole request, wrapped in a field;
        Google Cloud does not know that field.
        """
        body = super()._count_body(request, model)
        if is_vertex(request.preset):
            return body
        named = {"model": f"models/{model_name(request.preset)}", **body}
        return {"generateContentRequest": named}


#: The API version that supports thoughts, JSON schemas and counting the tokens of a request.
_API_VERSION: Final = "v1beta"

# More models than Google has; the default is 50 a page.
_ONE_PAGE: Final = "pageSize=1000"


def model_name(preset: Preset) -> str:
    """Return the model's name, without the ``models/`` prefix that Google's lists use.

    Raises:
        InvalidArgument: the preset has no model; these servers have no default.
    """
    name = preset.model.strip().removeprefix("models/")
    if not name:
        raise InvalidArgument(
            f"Model {preset.name!r} does not say which of the server's models it is. "
            "Set `model`, for example gemini-flash-latest.",
            path="model",
        )
    return name


def method_url(preset: Preset, method: str, query: str = "") -> str:
    """Return the URL of a model's method, e.g. ``countTokens``; of the model itself if empty.

    Raises:
        InvalidArgument: the endpoint is not an HTTP URL, or the preset has no model.
    """
    path = f"models/{quote(model_name(preset), safe='/')}"
    return _url_of(preset, f"{path}:{method}" if method else path, query)


def is_vertex(preset: Preset) -> bool:
    """Return whether the endpoint is Google Cloud's, whose paths contain a model's publisher."""
    return "/publishers/" in urlsplit(preset.endpoint).path


def _url_of(preset: Preset, path: str, query: str) -> str:
    """Return a URL in the API; a query in the endpoint is kept."""
    url = api_url(preset.endpoint, path, version=_API_VERSION)
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"


def _can_generate(model: Json) -> bool:
    """Return whether a model generates text (some only embed); true if it does not say."""
    methods = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def request_body(request: ModelRequest) -> Json:
    """Return the JSON of a request; ``extra_body`` comes last and replaces what it names.

    In ``generationConfig`` it replaces only the fields that it names.
    """
    preset = request.preset
    # A model with another name has asked for signatures if its server has refused their lack.
    server = server_name(preset.endpoint)
    calls = (call for message in request.messages for call in message.tool_calls)
    asked = any(kept_of(call, server)[0] == UNSIGNED for call in calls)
    must_sign = asked or _version(preset.model) >= _FIRST_SIGNING
    system = [
        {"text": message.content}
        for message in request.messages
        if message.role == "system" and message.content
    ]
    body: Json = {"contents": contents_of(request.messages, must_sign=must_sign)}
    if system:
        body["systemInstruction"] = {"parts": system}
    if request.tools:
        declarations = [tool.declared("parametersJsonSchema") for tool in request.tools]
        body["tools"] = [{"functionDeclarations": declarations}]
    config = _generation_config(preset, request.max_output_tokens)
    own = preset.extra_body.get("generationConfig")
    if isinstance(own, dict):
        config |= own
    return body | preset.extra_body | {"generationConfig": config}


def _generation_config(preset: Preset, max_output_tokens: int | None) -> Json:
    """Return the ``generationConfig``: the limit, sampling and thinking."""
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
    """Return the ``thinkingConfig``: a budget of tokens up to version 2.5, a level since 3.

    Thoughts are only requested if the model can think: otherwise that is an error.
    """
    shown: Json = {"includeThoughts": True} if _version(model) >= _FIRST_THINKING else {}
    if effort is None:
        return shown
    word = effort.strip().lower()
    budget = _budget(model, word)
    if budget is not None:
        return (shown if budget else {}) | {"thinkingBudget": budget}
    if word in {"none", "minimal"}:
        # The lowest level of a pro model is `low`.
        word = "minimal" if "flash" in model else "low"
    return shown | {"thinkingLevel": "high" if word in _HIGHEST else word}


def _budget(model: str, word: str) -> int | None:
    """Return the thinking budget in tokens: a number, or a word if the model needs a budget."""
    if re.fullmatch(r"-?\d{1,6}", word):
        return int(word)
    if not _FIRST_THINKING <= _version(model) < _FIRST_SIGNING:
        return None
    if word == "none":
        return _LEAST_PRO_BUDGET if "pro" in model else 0
    return _BUDGETS.get(word, _BUDGETS["high"])


def _version(model: str) -> tuple[int, int]:
    """Return the version in a Gemini model's name; (0, 0) for other models."""
    name = model.lower()
    if match := _VERSIONED.search(name):
        return int(match[1]), int(match[2] or 0)
    return _FIRST_SIGNING if _LATEST.search(name) else (0, 0)


# A conversation as the ``contents`` of Gemini's protocol.
#
# Servers enforce these rules: no content without parts, no empty text; the first and the last
# content are the user's; a content with calls is followed by as many function responses, all in one
# content with nothing else.

# For a conversation that was cut and does not begin or end with the user.
_GO_ON = "Go on."


def contents_of(messages: Sequence[RequestMessage], *, must_sign: bool) -> list[Json]:
    """Return the conversation without its system prompt.

    ``must_sign`` is for models that refuse a call without a signature.
    """
    contents: list[Json] = []
    for exchange in exchanges(messages):
        parts = model_parts(exchange.reply)
        if must_sign:
            parts = _signed(parts)
        _add(contents, "model", parts)
        _add(contents, "user", _responses(parts, dict(exchange.results)))
        for message in exchange.others:
            if message.role == "user" and message.content:
                _add(contents, "user", [{"text": message.content}])
    go_on: Json = {"role": "user", "parts": [{"text": _GO_ON}]}
    if not contents or contents[0]["role"] != "user":
        contents.insert(0, go_on)
    return contents if contents[-1]["role"] == "user" else [*contents, go_on]


def model_parts(message: RequestMessage) -> list[Json]:
    """Return the parts of an earlier reply.

    If the reply has not changed, these are the parts that the server sent. If its text was
    shortened, the calls still keep their signatures, without which they would be refused.
    """
    metadata = message.reasoning.metadata if message.reasoning else {}
    parts = [part for part in as_list(metadata.get("parts")) if isinstance(part, dict)]
    calls = [part for part in parts if "functionCall" in part]
    names = [as_dict(part["functionCall"]).get("name") for part in calls]
    if names != [call.name for call in message.tool_calls]:
        parts, calls = [], [_call(call) for call in message.tool_calls]
    if parts and _text(parts) == message.content:
        return parts
    return [*([{"text": message.content}] if message.content else []), *calls]


def _text(parts: list[Json]) -> str:
    return "".join(str(part.get("text", "")) for part in parts if not part.get("thought"))


def _call(call: ToolCall) -> Json:
    """Return a call that another model made, or one for which nothing was kept.

    Its id is ours or another provider's, and is not sent: without ids, responses are matched by
    order, and Google Cloud refuses fields that it does not know.
    """
    return {"functionCall": {"name": call.name or "unknown", "args": arguments_of(call.arguments)}}


def _signed(parts: list[Json]) -> list[Json]:
    """Return ``parts`` with a signature on the first call; a reply's other calls need none."""
    for position, part in enumerate(parts):
        if "functionCall" in part:
            if part.get("thoughtSignature"):
                break
            signed = {**part, "thoughtSignature": NO_SIGNATURE}
            return [*parts[:position], signed, *parts[position + 1 :]]
    return parts


def _responses(parts: list[Json], results: Mapping[int, str | None]) -> list[Json]:
    """Return a response for each call, in the order of the calls, with the call's id and name."""
    calls = [as_dict(part["functionCall"]) for part in parts if "functionCall" in part]
    return [
        {
            "functionResponse": {
                **{name: call[name] for name in ("id", "name") if name in call},
                "response": {"error": NO_RESULT}
                if results[number] is None
                else {"output": results[number]},
            }
        }
        for number, call in enumerate(calls)
    ]


def _add(contents: list[Json], role: str, parts: list[Json]) -> None:
    """Add ``parts`` to the last content if it has the same role, else as a new content."""
    if not parts:
        return
    last: Json = contents[-1] if contents else {}
    if last.get("role") != role or "functionResponse" in last["parts"][-1]:
        contents.append({"role": role, "parts": list(parts)})
    else:
        last["parts"].extend(parts)


#: Characters to quote of the server's explanation of a finish reason.
_EXPLANATION_LIMIT = 300


class CandidateReader(ReplyReader):
    """One reply while it streams.

    The reasoning's metadata must be returned to ``server`` (host and port). It is ``{"server": ...,
    "parts": [...]}``: the parts of the reply as the server sent them, so that each signature stays
    with its part, except that adjacent texts are joined.

    A blocked question is an error and not an empty reply: the question is then withdrawn, so that
    it does not block later ones.
    """

    endings = meanings(
        length="MAX_TOKENS",
        refusal="BLOCKLIST IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION IMAGE_SAFETY "
        "LANGUAGE MODEL_ARMOR PROHIBITED_CONTENT RECITATION SAFETY SPII",
        broken="MALFORMED_FUNCTION_CALL MALFORMED_RESPONSE MISSING_THOUGHT_SIGNATURE "
        "OTHER TOO_MANY_TOOL_CALLS UNEXPECTED_TOOL_CALL",
    )

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._parts: list[Json] = []
        self._answered = False
        self._reported: Json = {}
        self._explanation = ""

    @property
    def gave_up(self) -> str | None:
        """The finish reason and its explanation if the server broke off the reply, else None."""
        reason = super().gave_up
        return reason and f"{reason}{self._explanation}"

    def _read(self, chunk: Json) -> None:
        self.error = chunk.get("error") or self.error
        usage = as_dict(chunk.get("usageMetadata"))
        # Each chunk has a running total; some have only other fields, or zeros after real counts.
        self._reported |= {name: count for name, count in usage.items() if count}
        blocked = as_text(as_dict(chunk.get("promptFeedback")).get("blockReason"))
        if blocked and not self._answered:
            self.error = self.error or _blocked("the question", blocked)
        for candidate in as_list(chunk.get("candidates")):
            if not isinstance(candidate, dict) or candidate.get("index"):
                continue
            for part in as_list(as_dict(candidate.get("content")).get("parts")):
                self._read_part(as_dict(part))
            self._read_finish(candidate)

    def _tool_calls(self) -> list[ToolCall]:
        calls = [part["functionCall"] for part in sendable(self._parts) if "functionCall" in part]
        # Older models give no ids.
        return [
            self._call(
                call.get("id", ""), call["name"], json.dumps(call["args"], ensure_ascii=False)
            )
            for call in calls
        ]

    def _metadata(self, _calls: list[ToolCall]) -> Json:
        if not any(map(_must_go_back, self._parts)):
            return {}
        return {"server": self._server, "parts": self._parts}

    def usage(self) -> Usage | None:
        """Return the usage that the server has reported."""
        return read_usage(self._reported)

    def _read_finish(self, candidate: Json) -> None:
        if self._finish is not None or not as_text(candidate.get("finishReason")):
            return
        self._finish = as_text(candidate["finishReason"])
        message = as_text(candidate.get("finishMessage"))[:_EXPLANATION_LIMIT].strip()
        self._explanation = f": {message}" if message else ""
        if self._meaning() == "refusal" and not self._answered:
            self.error = self.error or _blocked("the reply", self._finish + self._explanation)

    def _read_part(self, part: Json) -> None:
        part = {name: value for name, value in part.items() if value is not None}
        if "functionCall" in part:
            self._read_call(part, as_dict(part["functionCall"]))
        elif "text" in part:
            self._read_text(part)
        elif part and "inlineData" not in part:
            # Something that the server ran, or a lone signature, which needs a part.
            self._parts.append(part if part.keys() - {"thoughtSignature"} else {"text": "", **part})

    def _read_text(self, part: Json) -> None:
        is_thought = part.get("thought") is True
        text = (self._add_reasoning if is_thought else self._add_text)(as_text(part["text"]))
        self._answered = self._answered or bool(text and not is_thought)
        others = {name: value for name, value in part.items() if name not in {"text", "thought"}}
        part = {"text": text, **({"thought": True} if is_thought else {}), **others}
        last = self._parts[-1] if self._parts else {}
        # A part with a signature must not be joined with another.
        if last.keys() == part.keys() <= {"text", "thought"}:
            last["text"] += text
        elif text or "thoughtSignature" in part:
            self._parts.append(part)

    def _read_call(self, part: Json, call: Json) -> None:
        if call.get("willContinue") is True or "partialArgs" in call:
            message = "a call came in pieces: leave out `streamFunctionCallArguments`"
            self.error = self.error or {"type": "invalid", "message": message}
        elif name := as_text(call.get("name")):
            call_parts = {**call, "name": name, "args": object_of(call.get("args"))}
            if not as_text(call.get("id")):
                call_parts.pop("id", None)
            self._parts.append({**part, "functionCall": call_parts})
            self._answered = self._has_begun = True


def read_usage(raw: Json) -> Usage | None:
    """Return the usage that a server reported, or None if it has no input tokens.

    The input of the server's own tools counts as input, and thoughts as output; the server reports
    both separately.
    """
    prompt = as_count(raw.get("promptTokenCount")) + as_count(raw.get("toolUsePromptTokenCount"))
    if prompt == 0:
        return None
    thoughts = as_count(raw.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=prompt,
        output_tokens=as_count(raw.get("candidatesTokenCount")) + thoughts,
        reasoning_tokens=thoughts,
        cache_read_tokens=min(as_count(raw.get("cachedContentTokenCount")), prompt),
    )


def _must_go_back(part: Json) -> bool:
    """Return whether a part contains more than its text or its call."""
    more = part.keys() - {"text", "functionCall"}
    return bool(more or as_dict(part.get("functionCall")).keys() - {"name", "args"})


def _blocked(what: str, reason: str) -> Json:
    return {"type": BLOCKED, "message": f"{what} was blocked ({reason})"}


PROTOCOL = GeminiModel
