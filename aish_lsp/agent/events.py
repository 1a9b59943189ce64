"""What a front end is told while a turn or a command runs, and its form on the wire.

The names and fields are the public contract: docs/protocol.md is generated from these classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

Risk: TypeAlias = Literal["safe", "caution", "destructive"]
Level: TypeAlias = Literal["info", "warning", "error"]

#: Where a suggestion stands: on a ``CMD: `` line, or in a fenced block that names a shell.
Source: TypeAlias = Literal["cmd", "fence"]

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


@dataclass(frozen=True, slots=True)
class Route:
    """Which class of question this is taken for, and why the model was chosen."""

    class_: str
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of a turn; tokens as of the request that is about to be sent."""

    kind: ClassVar[str] = "start"
    turn_id: str
    model: str
    route: Route
    context_tokens: int
    token_budget: int


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
class CommandInfo:
    """A suggested command, of one line or, in a fence, of several.

    ``line`` and ``endLine`` are its first and last line in the reply's text, from 0, those of its
    fence included. With ``placeholders`` it is to be edited before it can run.
    """

    id: str
    text: str
    line: int
    end_line: int
    source: Source
    placeholders: tuple[str, ...]
    risk: Risk
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A suggestion of the reply is complete: its ``CMD: `` line, or its fence."""

    kind: ClassVar[str] = "command"
    command: CommandInfo


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool call changed its state."""

    kind: ClassVar[str] = "tool"
    call_id: str
    server: str
    name: str
    arguments: str
    status: Literal["pending", "running", "done", "failed", "denied"]
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of a running command's output."""

    kind: ClassVar[str] = "output"
    command_id: str
    stream: Literal["stdout", "stderr"]
    delta: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the autonomous loop."""

    kind: ClassVar[str] = "step"
    number: int
    goal: str
    status: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know and that does not make the turn fail."""

    kind: ClassVar[str] = "notice"
    level: Level
    message: str


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
class End:
    """The last event. ``error`` is ``{"kind", "message"}`` where something broke off."""

    kind: ClassVar[str] = "end"
    finish_reason: FinishReason
    error: dict[str, Any] | None = None


Event: TypeAlias = Start | Text | Reasoning | Command | Tool | Output | Step | Notice | Usage | End


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

    An event gets its ``kind`` as the first key; what is inside of something has none. Keys of
    mappings stay as they are.

    Raises:
        TypeError: it has no form in JSON.
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
