"""The fenced code blocks of a text in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"([ \t]{0,12})(`{3,}|~{3,})[ \t]*(.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what follows its fence, its text, and its lines in the whole, from 0.

    The text ends with LF, and is without the indentation of the fence.
    """

    info: str
    text: str
    first: int
    last: int


def fenced_blocks(text: str) -> list[Block]:
    """Return the blocks of ``text``, its lines ended by LF; one that is never closed is none."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    first = 0
    inner: list[str] = []
    for number, line in enumerate(text.split("\n")):
        fence = _FENCE.fullmatch(line)
        if opened is None:
            # Of backticks no other may follow on the line: that is code within a line.
            if fence and not (fence[2][0] == "`" and "`" in fence[3]):
                opened, first, inner = fence, number, []
        elif fence and fence[2].startswith(opened[2]) and not fence[3]:
            body = "".join(f"{line}\n" for line in inner)
            found.append(Block(opened[3].strip(), body, first, number))
            opened = None
        else:
            inner.append(_without_indent(line, len(opened[1])))
    return found


def _without_indent(line: str, width: int) -> str:
    """Return a line without as many blanks as the fence was indented by, where it has them."""
    blanks = len(line) - len(line.lstrip(" \t"))
    return line[min(blanks, width) :]
