"""A part of an answer: a sentence, quoted lines, commands, and what can go wrong.

Text of others stands in it visible, bounded, and never as a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aish_lsp.foundation.text import one_line, without_hidden

#: Characters of one line.
_LINE_LIMIT = 300

#: What a terminal takes for colors, also where its first character was stripped on the way.
_COLORS = re.compile(r"\x1b?\[[0-9;]{0,20}m")


def plain_line(text: str) -> str:
    """Return ``text`` as one visible line."""
    line = without_hidden(one_line(_COLORS.sub("", text)))
    return line.replace("\t", " ").strip()


def shortened(line: str) -> str:
    """Return the beginning of a long line."""
    return line if len(line) <= _LINE_LIMIT else f"{line[:_LINE_LIMIT]}…"


def _quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line behind a mark, so that a ``CMD: `` in it is no suggestion."""
    for line in lines:
        yield f"> {shortened(plain_line(line))}"


#: The one line about other models.
CONNECT: Final = (
    "I am aish's offline model and know everyday tasks by heart; `aish-lsp doctor` says how to "
    "connect a real one."
)

#: Commands that act on the shell which they are typed in, or tell of it: run in another, they do
#: nothing there.
_OF_ONE_SHELL: Final = re.compile(
    r"(?:cd|pushd|popd|export|unset|alias|unalias|history|source|\.|set|shopt|umask|ulimit|jobs|fg|bg"
    r"|disown|exit|logout|deactivate|eval|exec|fc|nvm\s+use|conda\s+(?:de)?activate)(?=\s|$)|echo\s+\"?\$[?!]|(?:sudo\s+)?!\S"
)
_IN_YOUR_TERMINAL: Final = (
    "Type it in your own terminal; run from here, it would change nothing there:"
)


def acts_on_its_shell(command: str) -> bool:
    """Return whether ``command`` does what it does to the shell that it is typed in."""
    return _OF_ONE_SHELL.match(command) is not None


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, quoted lines, commands and a note; they stand in this order."""

    sentence: str
    commands: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()
    note: str = ""

    def lines(self) -> Iterable[str]:
        """Yield the lines; none but a command that can be run from here begins as one."""
        yield plain_line(self.sentence)
        yield from _quoted(self.quote)
        for command in self.commands:
            if acts_on_its_shell(command):
                yield from (_IN_YOUR_TERMINAL, "```sh", plain_line(command), "```")
            else:
                yield f"CMD: {plain_line(command)}"
        if self.note:
            yield plain_line(self.note)
