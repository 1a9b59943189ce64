"""Text of others as it may stand in an answer: visible, bounded, and never a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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


def quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line behind a mark, so that a ``CMD: `` in it is no suggestion."""
    for line in lines:
        yield f"> {shortened(plain_line(line))}"
