"""The words that a model's events and a command's share, and how each stream of them ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

Risk: TypeAlias = Literal["safe", "caution", "destructive"]
Level: TypeAlias = Literal["info", "warning", "error"]

FinishReason: TypeAlias = Literal[
    "stop",
    "length",
    "tool",
    "refusal",
    "repetition",
    "cancelled",
    "timeout",
    "denied",
    "error",
]


class Event(Protocol):
    """What a job tells; ``kind`` is its name on the wire.

    Events that are alike but for their ``delta``, where they have one, are pieces of one text.
    """

    kind: ClassVar[str]


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

    def plus(self, other: Usage) -> Usage:
        """Return both together; their cost is that of the calls that have one."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True)
class End:
    """The last event. ``error`` is ``{"kind", "message"}`` where something broke off."""

    kind: ClassVar[str] = "end"
    finish_reason: FinishReason
    error: dict[str, Any] | None = None
