"""What a model's reply is made of, whichever wire protocol it came over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

FinishReason: TypeAlias = Literal[
    "stop", "length", "tool", "refusal", "cancelled", "timeout", "denied", "error"
]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the reply's text. The pieces, joined, are exactly the text."""

    kind: ClassVar[str] = "text"
    delta: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's reasoning. Never scanned for commands."""

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
    """What must go back with the reasoning to the provider it came from, and to no other."""

    provider: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the server reported them.

    ``input_tokens`` includes the cached ones; ``output_tokens`` includes the reasoning.
    ``cost`` is in dollars, or None where the server does not tell.
    """

    kind: ClassVar[str] = "usage"
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply is over. Always the last event of a stream that did not raise."""

    reason: FinishReason


ModelEvent: TypeAlias = Text | Reasoning | ToolCall | ReasoningMetadata | Usage | Finish
