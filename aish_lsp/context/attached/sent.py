"""What went along with a question, for those who show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aish_lsp.context.turns import Attached
from aish_lsp.foundation.text import escaped

_IN_WORDS = {
    "selection": "{}",
    "definition": "the definition around it ({})",
    "problems": "the problems reported there",
    "file": "{}",
}


@dataclass(frozen=True, slots=True)
class SentAlong:
    """Text that went along: its kind, its path, its lines (from 1; 0: all), whether it was cut."""

    kind: str
    path: str
    first: int
    last: int
    cut: bool

    def __str__(self) -> str:
        """Return it in words."""
        place = Attached("file", escaped(self.path), "", "", self.first, self.last).place
        said = _IN_WORDS[self.kind].format(place)
        if not self.cut:
            return said
        # Of a long definition the first line goes alone.
        return f"{said}, cut {'short' if self.kind == 'definition' else 'to its head and tail'}"


def sent_along(attached: Iterable[Attached]) -> tuple[SentAlong, ...]:
    """Return what is told of what is attached to a question."""
    return tuple(
        SentAlong(part.kind, part.path, part.first, part.last, part.cut) for part in attached
    )
