"""What is told of commands: those that a reply suggests, and the output of one that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from aish_lsp.foundation.events import Risk

#: Where a suggestion stands: on a ``CMD: `` line, or in a fenced block that names a shell.
Source: TypeAlias = Literal["cmd", "fence"]


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
class Output:
    """A piece of a running command's output."""

    kind: ClassVar[str] = "output"
    command_id: str
    stream: Literal["stdout", "stderr"]
    delta: str
