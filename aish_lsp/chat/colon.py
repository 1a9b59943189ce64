"""The ``:`` commands of the chat: their table, how one is read, found, completed and explained."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.shell.fences import Block, fenced_blocks

_COMMAND: Final = re.compile(r":(?P<name>\S*)[^\S\r\n]*(?P<argument>[^\r\n]*)")

#: A line with nothing but names of files on it, or nothing at all.
_MENTIONS: Final = re.compile(r'(?:\s*@(?:"[^"\n]+"(?::\S+)?|\S+))*\s*')

C = TypeVar("C")

#: Takes a context and the argument as it was typed; returns the answer, Markdown.
Handler: TypeAlias = Callable[[C, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class ColonCommand:
    """A ``:`` command as the user typed it."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Colon(Generic[C]):
    """A row of the table.

    Attributes:
        name: without its colon.
        usage: its argument for people: ``[NAME]``, ``list|add``; empty where it takes none.
        help: one line.
        choices: the words that its argument may begin with.
        handler: what carries it out.
    """

    name: str
    usage: str
    help: str
    choices: tuple[str, ...]
    handler: Handler[C]


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


class ColonRegistry(Generic[C]):
    """The table of ``:`` commands; each is added by ``@registry.colon(...)`` on its handler."""

    def __init__(self) -> None:
        self._rows: dict[str, Colon[C]] = {}

    def colon(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - what the row calls it
        usage: str = "",
        choices: Sequence[str] = (),
    ) -> Callable[[Handler[C]], Handler[C]]:
        """Return a decorator that adds its handler to the table as ``:name``."""

        def add(handler: Handler[C]) -> Handler[C]:
            assert name not in self._rows, f":{name} is there twice"
            self._rows[name] = Colon(name, usage, help, tuple(choices), handler)
            return handler

        return add

    def __iter__(self) -> Iterator[Colon[C]]:
        return iter(self._rows.values())

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def find(self, name: str) -> Colon[C]:
        """Return the row of ``:name``.

        Raises:
            NotFound: there is none; the message names the nearest ones.
        """
        row = self._rows.get(name)
        if row is not None:
            return row
        near = difflib.get_close_matches(name.casefold(), self._rows)
        meant = f" Did you mean {' or '.join(f'`:{other}`' for other in near)}?" if near else ""
        shown = name[:40].replace("`", "'")
        raise NotFound(f"There is no command `:{shown}`.{meant} `:help` lists all.")

    async def run(self, context: C, command: ColonCommand) -> str:
        """Carry ``command`` out; return its answer, Markdown that is not escaped yet.

        Raises:
            NotFound: there is no such command.
            InvalidArgument: it takes no argument and has one.
            AishError: whatever its handler refuses.
        """
        row = self.find(command.name)
        if command.argument and not row.usage:
            raise InvalidArgument(f"`:{row.name}` takes no argument. Type it alone on its line.")
        return await row.handler(context, command.argument)


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


def block_of(argument: str) -> Block | None:
    """Return the fenced block that an argument is; None where it is, or holds, something else."""
    text = with_line_feeds(argument).strip("\n")
    blocks = fenced_blocks(text)
    whole = (0, text.count("\n"))
    return blocks[0] if [(block.first, block.last) for block in blocks] == [whole] else None


@dataclass(frozen=True, slots=True)
class CommandBelow:
    """A command that is the last line of a message; ``alone``: the rest is mentions at most."""

    command: ColonCommand
    alone: bool


def command_below(message: str, registry: ColonRegistry[C]) -> CommandBelow | None:
    """Return the command, one that there is, in the last line of ``message``, below other lines."""
    *above, last = message.rstrip().splitlines() or [""]
    command = parse(last)
    if command is None or command.name not in registry:
        return None
    return CommandBelow(command, all(_MENTIONS.fullmatch(line) for line in above))


def help_text(registry: ColonRegistry[C]) -> str:
    """Return the table as a Markdown list, with how a command is told from a question."""
    rows = "".join(f"- `{_heading(row)}`: {row.help}\n" for row in registry)
    return f"""{rows}
A command is a message of one line. Below lines that only name files (`@src/app.py`) it is carried
out too; below any other text you are asked whether the command or a question is meant.
"""


def complete(
    registry: ColonRegistry[C],
    line_prefix: str,
    argument_values: Mapping[str, Sequence[str]],
) -> list[Completion]:
    """Return what may stand at the cursor: a command's name, or the next word of its argument.

    Args:
        registry: the table.
        line_prefix: the line up to the cursor.
        argument_values: words by the command that they may follow, as it is typed without its
            colon: ``{"model": names, "memory forget": ids}``.
    """
    if not line_prefix.startswith(":"):
        return []
    *typed, word = line_prefix[1:].split(" ")
    if not typed:
        return [
            Completion(_heading(row), f":{row.name}{' ' if row.usage else ''}", row.help, 0)
            for row in registry
            if row.name.startswith(word)
        ]
    typed = [part for part in typed if part]
    row = next((row for row in registry if typed[:1] == [row.name]), None)
    if row is None:
        return []
    choices = row.choices if len(typed) == 1 else ()
    words = dict.fromkeys((*choices, *argument_values.get(" ".join(typed), ())))
    start = len(line_prefix) - len(word)
    return [Completion(value, value, row.help, start) for value in words if value.startswith(word)]


def _heading(row: Colon[C]) -> str:
    """Return a command with its usage."""
    return f":{row.name} {row.usage}".rstrip()
