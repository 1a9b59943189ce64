"""The ``:`` commands of the chat, made from the operations: how one is read, found, completed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.operations.operation import Line, Operation
from aish_lsp.operations.run import block_of

_COMMAND: Final = re.compile(r":(?P<name>\S*)[^\S\r\n]*(?P<argument>[^\r\n]*)")

#: A line with nothing but names of files on it, or nothing at all.
_MENTIONS: Final = re.compile(r'(?:\s*@(?:"[^"\n]+"(?::\S+)?|\S+))*\s*')


@dataclass(frozen=True, slots=True)
class ColonCommand:
    """A ``:`` command as the user typed it."""

    name: str
    argument: str


class Found(NamedTuple):
    """What a command means: an operation, the line that it is written by, and its argument."""

    operation: Operation
    line: Line
    argument: str


@dataclass(frozen=True, slots=True)
class Row:
    """All lines that begin with one word.

    Attributes:
        name: that word, without its colon.
        lines: the operations, each with how it is written.
    """

    name: str
    lines: tuple[tuple[Operation, Line], ...]

    @property
    def help(self) -> str:
        """What it does, in one line."""
        return next((line.help for _, line in self.lines if line.help), "")

    @property
    def verbs(self) -> tuple[str, ...]:
        """The words that its argument may begin with."""
        choices = (choice for _, line in self.lines for choice in line.choices)
        return tuple(filter(None, (*(_verb(line) for _, line in self.lines), *choices)))

    @property
    def usage(self) -> str:
        """Its argument for people: ``[NAME]``, ``list|add``; empty where it takes none."""
        rows = [f"{_verb(line)} {line.usage}".strip() for _, line in self.lines]
        told = "|".join(filter(None, rows))
        may_be_bare = "" in rows and told
        return f"[{told}]" if may_be_bare else told

    def find(self, argument: str) -> Found:
        """Return what is meant by ``argument``.

        Raises:
            InvalidArgument: nothing is; the message says what is accepted.
        """
        verb, _, rest = argument.partition(" ")
        for operation, line in self.lines:
            if verb and _verb(line) == verb:
                if rest.strip() and not line.usage:
                    raise InvalidArgument(f"`:{line.words}` takes no argument.")
                return Found(operation, line, rest.strip())
        bare = [(operation, line) for operation, line in self.lines if not _verb(line)]
        bare.sort(key=lambda found: bool(found[1].usage), reverse=bool(argument))
        if bare and (bare[0][1].usage or not argument):
            return Found(*bare[0], argument)
        if len(self.lines) == 1:
            raise InvalidArgument(f"`:{self.name}` takes no argument. Type it alone on its line.")
        rows = (f"`:{line.words} {line.usage}".rstrip() + "`" for _, line in self.lines)
        raise InvalidArgument(f"Use one of {', '.join(rows)}.")


def _verb(line: Line) -> str:
    return line.words.partition(" ")[2]


class Rows:
    """The table: a row for each first word."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        lines: dict[str, list[tuple[Operation, Line]]] = {}
        for operation in operations:
            for line in operation.lines:
                lines.setdefault(line.words.partition(" ")[0], []).append((operation, line))
        self.rows = {name: Row(name, tuple(found)) for name, found in lines.items()}

    def find(self, command: ColonCommand) -> Found:
        """Return what a command means.

        Raises:
            NotFound: there is no such command; the message names the nearest ones.
            InvalidArgument: it does not take such an argument.
        """
        row = self.rows.get(command.name)
        if row is not None:
            return row.find(command.argument)
        near = difflib.get_close_matches(command.name.casefold(), self.rows)
        meant = f" Did you mean {' or '.join(f'`:{other}`' for other in near)}?" if near else ""
        shown = command.name[:40].replace("`", "'")
        raise NotFound(f"There is no command `:{shown}`.{meant} `:help` lists all.")


@dataclass(frozen=True, slots=True)
class Completion:
    """A proposal.

    Attributes:
        label: what the list shows.
        insert: what replaces the line from ``start`` up to the cursor.
        detail: one line of help.
        start: characters of the line before ``insert``.
    """

    label: str
    insert: str
    detail: str
    start: int


def parse(message: str) -> ColonCommand | None:
    """Return the command that ``message`` is, or None: it is a question.

    A command is a single line that begins with ``:`` in its first column; blank lines around it do
    not count. ``:run`` may have a fenced block below it, and nothing else: its argument.
    """
    message = message.strip("\r\n").rstrip()
    match = _COMMAND.fullmatch(message)
    if match:
        return ColonCommand(match["name"], match["argument"])
    first, _, rest = message.partition("\n")
    if first.rstrip() == ":run" and block_of(rest):
        return ColonCommand("run", rest)
    return None


def run_block(text: str, shell: str) -> str:
    """Return the command that runs ``text``, of several lines maybe, by ``shell`` (or the own)."""
    fence = max([*re.findall("`{3,}", text), "``"], key=len) + "`"
    return f":run\n{fence}{shell or 'shell'}\n{text}\n{fence}"


@dataclass(frozen=True, slots=True)
class CommandBelow:
    """A command that is the last line of a message; ``alone``: the rest is mentions at most."""

    command: ColonCommand
    alone: bool


def command_below(message: str, table: Rows) -> CommandBelow | None:
    """Return the command, one that there is, in the last line of ``message``, below other lines."""
    *above, last = message.rstrip().splitlines() or [""]
    command = parse(last)
    if command is None or command.name not in table.rows:
        return None
    return CommandBelow(command, all(_MENTIONS.fullmatch(line) for line in above))


def help_text(table: Rows) -> str:
    """Return the table as a Markdown list, with how a command is told from a question."""
    rows = "".join(f"- `{heading(row)}`: {row.help}\n" for row in table.rows.values())
    return f"""{rows}
A command is a message of one line. Below lines that only name files (`@src/app.py`) it is carried
out too; below any other text you are asked whether the command or a question is meant.
"""


def complete(
    table: Rows, line_prefix: str, argument_values: Mapping[str, Sequence[str]]
) -> list[Completion]:
    """Return what may stand at the cursor: a command's name, or the next word of its argument.

    Args:
        table: the commands.
        line_prefix: the line up to the cursor.
        argument_values: words by the command that they may follow, as it is typed without its
            colon: ``{"model": names, "memory forget": ids}``.
    """
    if not line_prefix.startswith(":"):
        return []
    *typed, word = line_prefix[1:].split(" ")
    if not typed:
        return [
            Completion(heading(row), f":{row.name}{' ' if row.usage else ''}", row.help, 0)
            for row in table.rows.values()
            if row.name.startswith(word)
        ]
    typed = [part for part in typed if part]
    row = table.rows.get(typed[0]) if typed else None
    if row is None:
        return []
    verbs = row.verbs if len(typed) == 1 else ()
    words = dict.fromkeys((*verbs, *argument_values.get(" ".join(typed), ())))
    start = len(line_prefix) - len(word)
    return [Completion(value, value, row.help, start) for value in words if value.startswith(word)]


def heading(row: Row) -> str:
    """Return a command with its usage."""
    return f":{row.name} {row.usage}".rstrip()
