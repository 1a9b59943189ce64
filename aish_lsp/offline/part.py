"""A part of an answer: a sentence, quoted lines, commands, and what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aish_lsp.offline.quoting import plain_line, quoted

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
        yield from quoted(self.quote)
        for command in self.commands:
            if acts_on_its_shell(command):
                yield from (_IN_YOUR_TERMINAL, "```sh", plain_line(command), "```")
            else:
                yield f"CMD: {plain_line(command)}"
        if self.note:
            yield plain_line(self.note)
