"""The fenced code blocks of a text in Markdown, whole or while it streams in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

#: What may stand before a fence: the marks of the quotes and of the list items that it stands in.
_MARKS: Final = r"(?:[ \t]{0,12}(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]{0,12}"
_OPENING: Final = re.compile(rf"({_MARKS})(`{{3,}}|~{{3,}})[ \t]*(.*)")
_CLOSING: Final = re.compile(r"[ \t]{0,12}(`{3,}|~{3,})[ \t]*")
_QUOTE: Final = re.compile(r"[ \t]{0,12}> ?")

#: Characters of a line that are looked at outside a block. No opening line is longer.
_LONGEST_OPENING: Final = 1000


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what follows its fence, its text, and its lines in the whole, from 0.

    The text ends with LF, and is without the indentation of the fence and the marks of the quotes
    that it stands in. ``fence`` are the backticks or tildes that open it.
    """

    info: str
    text: str
    first: int
    last: int
    fence: str


def fenced_blocks(text: str) -> list[Block]:
    """Return the blocks of ``text``, its lines ended by LF; one that is never closed is none."""
    scanner = FenceScanner()
    return [*scanner.feed(text), *scanner.finish()]


class FenceScanner:
    """Finds the blocks of a text that arrives in pieces; how it was split makes no difference.

    Only a block whose info string is ``wanted`` is found; of what is in another, and of what stands
    in none, nothing is kept.
    """

    def __init__(self, wanted: Callable[[str], bool] = lambda _: True) -> None:
        self._wanted = wanted
        self._number = 0
        self._pieces: list[str] = []
        self._kept = 0
        self._open: _Open | None = None

    def feed(self, delta: str) -> Iterator[Block]:
        """Take the next piece of the text; yield the blocks that it completes."""
        start = 0
        while (end := delta.find("\n", start)) >= 0:
            self._take(delta, start, end)
            yield from self._end_of_line()
            self._number += 1
            start = end + 1
        self._take(delta, start, len(delta))

    def finish(self) -> Iterator[Block]:
        """Yield the block that a last line without a line end closes; the text is over."""
        yield from self._end_of_line()

    def _take(self, delta: str, start: int, end: int) -> None:
        """Add ``delta[start:end]`` to the line, or what may count of it."""
        if self._open is None or not self._open.is_wanted:
            end = min(end, start + _LONGEST_OPENING - self._kept)
        if start < end:
            self._pieces.append(delta[start:end])
            self._kept += end - start

    def _end_of_line(self) -> Iterator[Block]:
        line = "".join(self._pieces)
        self._pieces.clear()
        self._kept = 0
        opened = self._open
        inner = opened.without_marks(line) if opened else None
        if opened is None or inner is None:
            # A quote that ends leaves the block in it unfinished.
            self._open = self._opening(line)
        elif opened.is_closed_by(inner):
            self._open = None
            if opened.is_wanted:
                yield Block(opened.info, opened.text(), opened.first, self._number, opened.fence)
        elif opened.is_wanted:
            opened.lines.append(inner)

    def _opening(self, line: str) -> _Open | None:
        match = _OPENING.match(line)
        # Of backticks no other may follow on the line: that is code within a line.
        if match is None or (match[2][0] == "`" and "`" in match[3]):
            return None
        info = match[3].strip()
        return _Open(info, match[1], match[2], self._number, self._wanted(info), [])


@dataclass(frozen=True, slots=True)
class _Open:
    """A block that is not closed yet: its fence, the ``marks`` before that, its lines so far."""

    info: str
    marks: str
    fence: str
    first: int
    is_wanted: bool
    lines: list[str]

    def without_marks(self, line: str) -> str | None:
        """Return a line without the marks of the quotes; None where it does not stand in them."""
        for _ in range(self.marks.count(">")):
            quote = _QUOTE.match(line)
            if quote is None:
                return None
            line = line[quote.end() :]
        return line

    def is_closed_by(self, line: str) -> bool:
        """Return whether a line, without its marks, is the end of the block."""
        closing = _CLOSING.fullmatch(line.removesuffix("\r"))
        return closing is not None and closing[1].startswith(self.fence)

    def text(self) -> str:
        """Return the lines without as many blanks as the fence was indented by, where they are."""
        _, quote, rest = self.marks.rpartition(">")
        width = len(rest.removeprefix(" ") if quote else rest)
        return "".join(f"{_without_indent(line, width)}\n" for line in self.lines)


def _without_indent(line: str, width: int) -> str:
    blanks = len(line) - len(line.lstrip(" \t"))
    return line[min(blanks, width) :]
