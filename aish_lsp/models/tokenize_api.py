"""How servers tell the tokens of a text and of a conversation: llama.cpp's way, and vLLM's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument

#: Posts a body to a path beside the server's API and returns the JSON reply; raises AishError.
Post: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

#: A conversation in the form of OpenAI's chat completions.
Messages: TypeAlias = Sequence[Mapping[str, Any]]

# A byte is a token at the most; some tokenizers spell a rare character out before they cut it.
_MOST_TOKENS_A_BYTE = 4
_MOST_TOKENS_ADDED = 16


class NotACountError(ValueError):
    """The reply to a question for tokens holds no number that can be true."""


class TokenizeApi(Protocol):
    """A server's way to count. Both methods raise what ``post`` raises, and NotACountError."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text`` within a prompt, with no token for the prompt's begin."""
        ...

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of a request's prompt. ``options`` are the request's other fields."""
        ...


class LlamaCppApi:
    """llama.cpp: ``/tokenize`` of a text, ``/apply-template`` to make a text of messages."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``; what reads as a special token is one, as in a chat."""
        return _believable(_length(await post("tokenize", {"content": text})), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template makes of ``messages``."""
        prompt = _field(await post("apply-template", {"messages": messages, **options}), "prompt")
        if not isinstance(prompt, str):
            raise NotACountError
        # As its chat endpoint does it: the tokenizer adds its first token if it has one.
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return _believable(_length(await post("tokenize", body)), prompt)


class VllmApi:
    """vLLM: ``/tokenize`` takes a text or messages."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``."""
        body = {"prompt": text, "add_special_tokens": False}
        return _believable(_field(await post("tokenize", body), "count"), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template makes of ``messages``."""
        body = {"messages": messages, "add_generation_prompt": True, **options}
        return _number(_field(await post("tokenize", body), "count"))


def is_busy(error: AishError) -> bool:
    """Return whether the server may well answer later: it was not reached, or overburdened."""
    status = error.data.get("status")
    if status is None:
        return not isinstance(error, InvalidArgument)
    # What came with a 2xx was no JSON; 501 says that the server will never do it.
    return isinstance(error, BackendUnavailable) and status >= 400 and status != 501


def _field(reply: Any, name: str) -> Any:
    return reply.get(name) if isinstance(reply, dict) else None


def _length(reply: Any) -> int:
    """Return how many tokens a reply lists."""
    tokens = _field(reply, "tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise NotACountError
    return len(tokens)


def _number(value: Any) -> int:
    """Return a count as it came; true is none, nor is a fraction."""
    if type(value) is not int or value < 0:
        raise NotACountError
    return value


def _believable(value: Any, text: str) -> int:
    """Return a count that ``text`` can have. White space alone may be nothing to a tokenizer."""
    tokens = _number(value)
    size = len(text.encode("utf-8", "replace"))
    too_many = tokens > _MOST_TOKENS_A_BYTE * size + _MOST_TOKENS_ADDED
    if too_many or (tokens == 0 and text.strip()):
        raise NotACountError
    return tokens
