"""What a model's reply is made of, whichever wire protocol it came over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from aish_lsp.foundation.events import FinishReason, Usage

__all__ = [
    "Finish",
    "FinishReason",
    "ModelEvent",
    "Reasoning",
    "ReasoningMetadata",
    "Text",
    "ToolCall",
    "Usage",
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
class Finish:
    """The reply is over. Always the last event of a stream that did not raise."""

    reason: FinishReason


ModelEvent: TypeAlias = Text | Reasoning | ToolCall | ReasoningMetadata | Usage | Finish
