"""One request to a model, independent of any protocol; the events of its reply; what goes back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.models.address import server_name

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the reply's text. The pieces, joined, are exactly the text."""

    kind: ClassVar[str] = "text"
    delta: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's reasoning, which is never scanned for commands."""

    kind: ClassVar[str] = "reasoning"
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call, put together from its pieces; ``arguments`` is JSON text as it came."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ReasoningMetadata:
    """What must go back with the reasoning, but only to the provider that it came from."""

    provider: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply is over. Always the last event of a stream that did not raise."""

    reason: FinishReason


ModelEvent: TypeAlias = Text | Reasoning | ToolCall | ReasoningMetadata | Usage | Finish


@dataclass(frozen=True, slots=True)
class StoredReasoning:
    """An earlier reply's reasoning, with what its provider wants back."""

    text: str
    provider: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message as the model is to see it.

    The first message of a request is ``system``; then ``user`` and ``assistant`` alternate;
    ``tool`` follows the assistant message that contains its call.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: StoredReasoning | None = None


def reply_limit(preset: Preset) -> int:
    """Return the most tokens that a reply may have, by ``extra_body`` or else by the preset."""
    own = preset.extra_body
    names = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
    if preset.provider == "gemini":
        own, names = own.get("generationConfig") or {}, ["maxOutputTokens"]
    for name in names:
        limit = own.get(name) if isinstance(own, dict) else None
        if type(limit) is int and limit > 0:
            return limit
    return preset.max_output_tokens


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool that the model may call; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that one call needs. ``max_output_tokens`` overrides the preset's."""

    preset: Preset
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    max_output_tokens: int | None = None


class Model(Protocol):
    """An adapter for one wire protocol."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply.

        Closing the generator (or cancelling the task that reads it) closes the connection at once.

        Raises:
            BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
            BackendRejected: the server refused; the message holds its own words.
        """
        ...


# Where a reply's reasoning came from, and whether it goes back with the next request.

# Protocols that many servers speak, and the metadata whose presence makes reasoning go back.
_RETURNED = {
    "openai": ("reasoning_details", "reasoning_field"),
    "openai-responses": ("output",),
}


def reasoning_source(preset: Preset) -> str:
    """Return whose reasoning comes with a reply from ``preset``; it goes back to nobody else.

    For OpenAI's protocols, which many servers speak, that is the server, otherwise the provider.
    """
    return server_name(preset.endpoint) if preset.provider in _RETURNED else preset.provider


def goes_back(reasoning: StoredReasoning, preset: Preset) -> bool:
    """Return whether a request to ``preset`` carries this reasoning of an earlier reply.

    Over OpenAI's protocols it does if it came with parts to return (OpenRouter's
    ``reasoning_details``, encrypted content) or led to a call; other plain reasoning is not sent
    again. Over Anthropic's and Gemini's it does if it was signed by the same server: a signature is
    valid nowhere else. Over others it does unless it has neither text nor metadata.
    """
    if reasoning.provider != reasoning_source(preset):
        return False
    returned = _RETURNED.get(preset.provider)
    if returned is not None:
        return any(reasoning.metadata.get(name) for name in returned)
    if preset.provider in {"anthropic", "gemini"}:
        here = server_name(preset.endpoint)
        return bool(reasoning.metadata) and reasoning.metadata.get("server", here) == here
    return bool(reasoning.text or reasoning.metadata)
