"""Finds the commands that a reply suggests, while it streams in.

A suggestion is a line that begins in column 0 with exactly ``CMD: `` and has something other than
white space behind it, inside a fence or out; or a complete fenced block that is tagged as a
shell's, all of whose lines are one command.

What is told of commands: those that a reply suggests, and the output of one that runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from aish_lsp.shell.blocks import PREFIX, Block, FenceScanner, is_code, is_shell, shell_block

if TYPE_CHECKING:
    from aish_lsp.foundation.events import Risk


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A suggested command, with its first line in the reply's text, from 0, and how many it has.

    ``text`` of a line is what stands behind ``CMD: ``, spaces at its end included, without the line
    end. ``shell`` is the one that the command is for, empty for the user's own.
    """

    text: str
    line: int
    lines: int = 1
    source: Source = "cmd"
    shell: str = ""
    placeholders: tuple[str, ...] = ()

    @property
    def end_line(self) -> int:
        """Its last line."""
        return self.line + self.lines - 1

    def repeats(self, other: FoundCommand) -> bool:
        """Return whether this line says what ``other``, a fence before it, says already."""
        is_pair = (self.source, other.source) == ("cmd", "fence")
        return is_pair and self.text.strip() == other.text.strip()


def suggestions_of(text: str) -> list[FoundCommand]:
    """Return what a whole reply suggests; a line takes the place of a fence that it repeats."""
    scanner = SuggestionScanner()
    found: list[FoundCommand] = []
    for command in [*scanner.feed(text), *scanner.finish()]:
        add(found, command)
    return found


def add(commands: list[FoundCommand], command: FoundCommand) -> int:
    """Add ``command``, or put it where the fence stands that it repeats; return its index."""
    for index, other in enumerate(commands):
        if command.repeats(other):
            commands[index] = command
            return index
    commands.append(command)
    return len(commands) - 1


class SuggestionScanner:
    r"""Scans a text that arrives in pieces; how it was split makes no difference.

    Only ``\n`` ends a line. One ``\r`` right before the line end, or at the end of the text,
    belongs to the line end. Any other ``\r`` stays in the command, where it is seen: a terminal
    would let what follows it overwrite what stands before.

    Of a line that is not a suggestion, and stands in no shell's fence, no more is kept than it
    takes to tell. With ``fences`` false, fences suggest nothing.
    """

    def __init__(self, *, fences: bool = True) -> None:
        self._line = 0
        self._may_be_command = True
        self._pieces: list[str] = []
        self._kept = 0
        self._fences = FenceScanner(is_shell) if fences else None
        self._said: set[str] = set()

    def feed(self, delta: str) -> list[FoundCommand]:
        """Take the next piece of the text; return the commands whose last lines it completes."""
        found: list[FoundCommand] = []
        start = 0
        while (end := delta.find("\n", start)) >= 0:
            self._take(delta, start, end)
            found += self._end_of_line()
            if self._fences:
                found += self._in(self._fences.feed(delta[start : end + 1]))
            self._line += 1
            start = end + 1
        self._take(delta, start, len(delta))
        if self._fences:
            # No line ends here.
            found += self._in(self._fences.feed(delta[start:]))
        return found

    def finish(self) -> list[FoundCommand]:
        """Return what a last line without a line end suggests; the text is over."""
        found = self._end_of_line()
        return found + (self._in(self._fences.finish()) if self._fences else [])

    def _take(self, delta: str, start: int, end: int) -> None:
        """Add ``delta[start:end]`` to the line, unless the line is known to be no suggestion."""
        if not self._may_be_command or start == end:
            return
        missing = len(PREFIX) - self._kept
        if missing > 0:
            head = delta[start : min(end, start + missing)]
            if not PREFIX.startswith(head, self._kept):
                self._may_be_command = False
                self._pieces.clear()
                return
        self._pieces.append(delta[start:end])
        self._kept += end - start

    def _end_of_line(self) -> list[FoundCommand]:
        line = "".join(self._pieces)
        self._pieces.clear()
        self._kept = 0
        self._may_be_command = True
        text = line[len(PREFIX) :].removesuffix("\r")
        if not text.strip():
            return []
        self._said.add(text.strip())
        return [FoundCommand(text, self._line)]

    def _in(self, blocks: Iterable[Block]) -> list[FoundCommand]:
        """Return the commands of blocks, but for those that ``CMD: `` lines have said already.

        Where another block seems to begin in one, its end was forgotten: prose may stand in it.
        """
        found = []
        for block in blocks:
            if any(line.lstrip().startswith(block.fence) for line in block.text.split("\n")):
                continue
            command = shell_block(block.info, block.text)
            if command is not None and not self._is_said(command.text):
                found.append(
                    FoundCommand(
                        command.text,
                        block.first,
                        block.last - block.first + 1,
                        "fence",
                        command.shell,
                        command.placeholders,
                    )
                )
        return found

    def _is_said(self, text: str) -> bool:
        """Return whether ``CMD: `` lines, in the block or before it, say the same."""
        lines = filter(is_code, text.split("\n"))
        return text.strip() in self._said or all(line.strip() in self._said for line in lines)


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
