"""The events that front ends receive while a turn or a command runs.

Their names and fields are the public protocol: docs/protocol.md is generated from these classes. A
model's events are defined in ``models/``, a command's in ``shell/``; ``Event`` is their union.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from aish_lsp.foundation.events import End, FinishReason, Level, Usage
from aish_lsp.models.request import Reasoning, Text
from aish_lsp.shell.suggestions import Command, CommandInfo, Output

__all__ = [
    "Command",
    "CommandInfo",
    "End",
    "Event",
    "FinishReason",
    "Notice",
    "Output",
    "Reasoning",
    "Route",
    "Start",
    "Step",
    "StepStatus",
    "Text",
    "Tool",
    "Usage",
]


ToolStatus: TypeAlias = Literal["pending", "running", "done", "failed", "denied"]


@dataclass(frozen=True, slots=True)
class Route:
    """The class that the question was put into, and why the model was chosen."""

    class_: str
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of a turn; the tokens are those of the request that is about to be sent."""

    kind: ClassVar[str] = "start"
    turn_id: str
    model: str
    route: Route
    context_tokens: int
    token_budget: int


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool call changed its state.

    ``title`` says on one line what is being done, or was done; ``diff`` is a built-in tool's change
    of a file, as the lines of a unified diff without its heading.
    """

    kind: ClassVar[str] = "tool"
    call_id: str
    server: str
    name: str
    arguments: str
    status: ToolStatus
    title: str
    result: str | None = None
    diff: str | None = None


StepStatus: TypeAlias = Literal["planned", "running", "done", "failed", "denied", "stopped"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the autonomous loop changed its state.

    ``plan`` is what the model said before its first command or call; ``exit_code`` is the exit
    status of the last command that was run in it.
    """

    kind: ClassVar[str] = "step"
    number: int
    goal: str
    status: StepStatus
    plan: str = ""
    command_ids: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to the user about something that does not make the turn fail."""

    kind: ClassVar[str] = "notice"
    level: Level
    message: str


Event: TypeAlias = Start | Text | Reasoning | Command | Tool | Output | Step | Notice | Usage | End
