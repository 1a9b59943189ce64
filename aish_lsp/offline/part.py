"""A part of an answer: a sentence, quoted lines, commands, and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aish_lsp.offline.quoting import plain_line, quoted

#: The one line about other models.
CONNECT: Final = (
    "I am aish's offline model and know everyday tasks by heart; `aish-lsp doctor` says how to "
    "connect a real one."
)


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, quoted lines, commands and a note; they stand in this order."""

    sentence: str
    commands: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()
    note: str = ""

    def lines(self) -> Iterable[str]:
        """Yield the lines; none but a command begins as one."""
        yield plain_line(self.sentence)
        yield from quoted(self.quote)
        yield from (f"CMD: {plain_line(command)}" for command in self.commands)
        if self.note:
            yield plain_line(self.note)
