"""Forms of a conversation, for servers and templates that do not take every conversation.

``forms_for`` reads from a refusal which forms may be accepted, and ``reformed`` makes them. Each
form works on messages, before a protocol writes them.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.models.loose_json import Json, as_dict
from aish_lsp.models.request import NO_RESULT, RequestMessage, StoredReasoning, exchanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.request import ModelRequest

#: What Google tells clients to send for a call without a signature, such as another model's:
#: https://ai.google.dev/gemini-api/docs/thought-signatures, "FAQs".
NO_SIGNATURE: Final = "skip_thought_signature_validator"

#: The same in chat completions, and in Ollama's API.
UNSIGNED: Final = {
    "extra_content": {"google": {"thought_signature": NO_SIGNATURE}},
}

#: In the metadata of a reply's reasoning: it goes back even if nothing else asks for that.
EVERY: Final = "every"


@cache
def _forms() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Return each form of ``forms.toml``: its name, what the user is told, and what asks for it."""
    table = tomllib.loads(Path(__file__).with_name("forms.toml").read_text("utf-8"))
    words = table.pop("words")
    forms = []
    for name, form in table.items():
        pattern = "|".join(form["asked"])
        for word, meaning in words.items():
            pattern = pattern.replace(word, meaning)
        forms.append((name, form["told"], re.compile(pattern, re.IGNORECASE)))
    return tuple(forms)


def forms_for(error: AishError, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a refused conversation may be accepted, and what to tell of each.

    ``known`` are the forms that it already has.
    """
    words = str(error.data.get("provider_message", ""))
    for name, sentence, asked in _forms():
        if name not in known and asked.search(words):
            yield name, sentence


def reformed(request: ModelRequest, forms: Iterable[str], source: str, server: str) -> ModelRequest:
    """Return ``request`` with its conversation in these forms.

    ``source`` is where its reasoning comes from, and ``server`` the name of the server.
    """
    messages, forms = list(request.messages), set(forms)
    for name, made in _MADE.items():
        if name in forms:
            messages = list(made(messages, source, server))
    return replace(request, messages=tuple(messages))


_EMPTY: Final = "[empty]"
_NO_REPLY: Final = "[no reply]"


def _with_text(message: RequestMessage) -> RequestMessage:
    """Return a message that says something."""
    return message if message.content.strip() else replace(message, content=_EMPTY)


def _without_reasoning(message: RequestMessage) -> RequestMessage:
    """Return a message without reasoning, and without what was kept of its calls: signatures."""
    calls = tuple(replace(call, extra={}) for call in message.tool_calls)
    return replace(message, reasoning=None, tool_calls=calls)


def _as_text(message: RequestMessage) -> RequestMessage:
    """Return a message with its calls, or the result that it is, as text."""
    if message.role == "tool":
        return RequestMessage("user", f"[result of a tool]\n{message.content}")
    if not message.tool_calls:
        return message
    calls = (f"[called {call.name} with {call.arguments}]" for call in message.tool_calls)
    content = "\n".join(filter(None, (message.content, *calls)))
    return replace(message, content=content, tool_calls=(), reasoning=None)


def _as_one(messages: list[RequestMessage]) -> list[RequestMessage]:
    """Return the system's message, and all others as one of the user's."""
    before = [message for message in messages[:1] if message.role == "system"]
    rest = [_as_text(message) for message in messages[len(before) :]]
    if len(rest) < 2:
        return messages
    lines = (f"[{'you' if one.role == 'assistant' else 'user'}]\n{one.content}" for one in rest)
    return [*before, RequestMessage("user", "\n\n".join(["[This was said so far.]", *lines]))]


def _one_by_one(messages: Iterable[RequestMessage]) -> Iterator[RequestMessage]:
    """Yield the messages, with each call and its result as a reply of its own."""
    for exchange in exchanges(messages):
        reply, results = exchange.reply, dict(exchange.results)
        if not reply.tool_calls and reply != RequestMessage("assistant", ""):
            yield reply
        for number, call in enumerate(reply.tool_calls):
            one = replace(reply, tool_calls=(call,))
            yield one if number == 0 else replace(one, content="", reasoning=None)
            result = results[number]
            content = NO_RESULT if result is None else result
            yield RequestMessage("tool", content, tool_call_id=call.id)
        yield from exchange.others


def _with_reasoning(message: RequestMessage, source: str) -> RequestMessage:
    """Return a reply with its reasoning, or a blank one: some servers refuse an empty one."""
    if message.role != "assistant":
        return message
    reasoning = message.reasoning
    metadata = reasoning.metadata if reasoning and reasoning.provider == source else {}
    metadata = {**metadata, "reasoning_field": "reasoning_content", EVERY: True}
    text = reasoning.text if reasoning else ""
    return replace(message, reasoning=StoredReasoning(text or " ", source, metadata))


def _signed(message: RequestMessage, server: str) -> RequestMessage:
    """Return a message whose calls have something in place of the signature that they lack."""
    calls = (
        call if call.extra.get(server) else replace(call, extra={**call.extra, server: UNSIGNED})
        for call in message.tool_calls
    )
    return replace(message, tool_calls=tuple(calls))


def _with_short_ids(message: RequestMessage) -> RequestMessage:
    calls = tuple(
        replace(call, id=_short(call.id), extra=_without_ids(call.extra))
        for call in message.tool_calls
    )
    answered = message.tool_call_id and _short(message.tool_call_id)
    return replace(message, tool_calls=calls, tool_call_id=answered)


def _without_ids(extra: Json) -> Json:
    """Return what servers said of a call, without their own ids, which would go back to them."""
    return {
        server: {name: value for name, value in as_dict(fields).items() if name != "id"}
        for server, fields in extra.items()
    }


def _short(call_id: str) -> str:
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]


def _answered(messages: Iterable[RequestMessage]) -> Iterator[RequestMessage]:
    """Yield the messages, with a reply between a tool's result and a question."""
    last = ""
    for message in messages:
        if last == "tool" and message.role == "user":
            yield RequestMessage("assistant", _NO_REPLY)
        yield message
        last = message.role


def _alternating(messages: Iterable[RequestMessage]) -> list[RequestMessage]:
    """Return the messages with all of one speaker joined, the system's with the user's."""
    joined: list[RequestMessage] = []
    for message in messages:
        one = replace(message, role="user") if message.role == "system" else message
        last = joined[-1] if joined else None
        if last is not None and last.role == one.role == "user":
            joined[-1] = replace(last, content=f"{last.content}\n\n{one.content}")
        else:
            joined.append(one)
    return joined


#: How each form is made, of a conversation, the source of its reasoning and its server; in this
#: order.
_MADE: Final[dict[str, Callable[[list[RequestMessage], str, str], Iterable[RequestMessage]]]] = {
    "no reasoning": lambda messages, *_: map(_without_reasoning, messages),
    "calls as text": lambda messages, *_: map(_as_text, messages),
    "one question": lambda messages, *_: _as_one(messages),
    "one call at a time": lambda messages, *_: _one_by_one(messages),
    "no empty text": lambda messages, *_: map(_with_text, messages),
    "reasoning on every reply": lambda messages, source, _: (
        _with_reasoning(message, source) for message in messages
    ),
    "signed calls": lambda messages, _, server: (_signed(message, server) for message in messages),
    "short ids": lambda messages, *_: map(_with_short_ids, messages),
    "a reply after each result": lambda messages, *_: _answered(messages),
    "system in the first question": lambda messages, *_: _alternating(messages),
}
