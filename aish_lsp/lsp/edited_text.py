"""A text that a client edits: it is kept in blocks, so that an edit costs what it touches.

Neither the size of the text nor that of its lines matters, nor which units the client counts in.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

#: Characters of a block.
_SIZE: Final = 2048
_LINE_END: Final = re.compile(r"\r\n|\r|\n")

#: Of each unit in which positions are counted, but characters: Python's codec and its bytes.
_CODECS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}


class _Place(NamedTuple):
    """A place in the text: the number of a block, and how many of its characters come before."""

    block: int
    at: int


class EditedText:
    """A text in which places are given as LSP does: by line, and by units within the line."""

    def __init__(self, text: str, encoding: str) -> None:
        self._codec = _CODECS.get(encoding)
        self._blocks: list[str] = []
        # Of each block: how many line ends it has, and how many units.
        self._ends: list[int] = []
        self._units: list[int] = []
        self._put(slice(0, 0), text)

    def __str__(self) -> str:
        return "".join(self._blocks)

    def replace(self, start: tuple[int, int], end: tuple[int, int], new: str) -> None:
        """Replace what is between two places, each a line and a number of units, by ``new``.

        A place beyond the end of its line is that end; one in a line that is not there is the end
        of the text. No number is negative.
        """
        sums = list(accumulate(self._ends, initial=0))
        first = self._place(*start, sums)
        last = first if start == end else max(first, self._place(*end, sums))
        begin, stop = first.block, last.block + 1
        before = "".join(self._blocks[begin : begin + 1])[: first.at]
        text = before + new + "".join(self._blocks[stop - 1 : stop])[last.at :]
        # CR and LF may come together there. Blocks that have become small are joined.
        if begin and (self._blocks[begin - 1].endswith("\r") or len(text) < _SIZE // 2):
            begin -= 1
            text = self._blocks[begin] + text
        if stop < len(self._blocks) and self._blocks[stop].startswith("\n"):
            text += self._blocks[stop]
            stop += 1
        self._put(slice(begin, stop), text)

    def _put(self, blocks: slice, text: str) -> None:
        """Put a text in the place of some blocks."""
        pieces = list(_pieces(text))
        self._blocks[blocks] = pieces
        self._ends[blocks] = [_count_ends(piece) for piece in pieces]
        self._units[blocks] = [self._width(piece) for piece in pieces]

    def _place(self, line: int, units: int, sums: Sequence[int]) -> _Place:
        """Return a place, given how many line ends come before each block and in all."""
        # The line begins in one block and ends in another; the last line ends after all of them.
        block, last = (bisect_left(sums, number) - 1 for number in (line, line + 1))
        at = 0
        if block < 0:
            block = 0
        elif block < len(self._blocks):
            at = _nth_end(self._blocks[block], line - sums[block])
        if block < last and units > (head := self._width(self._blocks[block][at:])):
            widths = list(accumulate(self._units[block + 1 : last], initial=head))
            passed = bisect_right(widths, units)
            block, at, units = block + passed, 0, units - widths[passed - 1]
        if block == len(self._blocks):
            return _Place(block, 0)
        text = self._blocks[block]
        end = _LINE_END.search(text, at) if block == last else None
        # No character takes less than one unit.
        rest = text[at : min(end.start() if end else len(text), at + units)]
        return _Place(block, at + self._characters(rest, units))

    def _width(self, text: str) -> int:
        if self._codec is None or text.isascii():
            return len(text)
        codec, width = self._codec
        return len(text.encode(codec)) // width

    def _characters(self, text: str, units: int) -> int:
        """Return how many whole characters of ``text`` are within the first ``units``."""
        if self._codec is None or text.isascii():
            return min(len(text), units)
        codec, width = self._codec
        return len(text.encode(codec)[: units * width].decode(codec, "ignore"))


def _pieces(text: str) -> Iterator[str]:
    """Divide a text into blocks, none of which ends between CR and LF."""
    start = 0
    while start < len(text):
        # With room to grow, so that not every insertion divides a block.
        stop = len(text) if len(text) <= start + 2 * _SIZE else start + _SIZE
        if text[stop - 1] == "\r" and text.startswith("\n", stop):
            stop += 1
        yield text[start:stop]
        start = stop


def _count_ends(text: str) -> int:
    return len(_LINE_END.findall(text)) if "\r" in text else text.count("\n")


def _nth_end(text: str, number: int) -> int:
    """Return where the line end with this number ends, from 1."""
    return next(islice(_LINE_END.finditer(text), number - 1, None)).end()
