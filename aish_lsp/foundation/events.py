"""Types shared by the events of models and of commands, and the event that ends each stream.

``to_wire`` returns the form of events and other data on the wire: plain JSON, camelCase keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from aish_lsp.foundation.dataclass import dataclass

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
    """An event of a job; ``kind`` is its name on the wire.

    Consecutive events that differ only in their ``delta`` are pieces of one text.
    """

    kind: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call as reported by the server.

    ``input_tokens`` includes cached tokens; ``output_tokens`` includes reasoning. ``cost`` is in
    dollars, or None if the server does not report it.
    """

    kind: ClassVar[str] = "usage"
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None

    def plus(self, other: Usage) -> Usage:
        """Return the sum; calls without a cost do not count toward the cost."""
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
    """The last event. ``error`` is ``{"kind", "message"}`` if an error ended the work."""

    kind: ClassVar[str] = "end"
    finish_reason: FinishReason
    error: dict[str, Any] | None = None


def camel_case(name: str) -> str:
    """Return ``some_name`` as ``someName``; a trailing underscore is dropped."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def _fields(cls: type) -> tuple[tuple[str, str], ...]:
    """Return (attribute, wire name) of each field of a dataclass."""
    return tuple((field.name, camel_case(field.name)) for field in dataclasses.fields(cls))


def to_wire(value: Any) -> Any:
    """Return ``value`` as plain JSON data: dataclasses become objects with camelCase keys.

    ``kind`` becomes the first key of an event; nested values have none. Keys of mappings stay as
    they are.

    Raises:
        TypeError: it cannot be represented in JSON.
    """
    wire = _plain(value)
    kind = getattr(value, "kind", None)
    if isinstance(kind, str) and isinstance(wire, dict) and "kind" not in wire:
        return {"kind": kind, **wire}
    return wire


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, field)) for field, name in _fields(type(value))}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    msg = f"{type(value).__name__} has no form on the wire"
    raise TypeError(msg)
