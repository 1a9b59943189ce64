"""Markdown that quotes others: fences that a text cannot close, and what is too long cut in two."""

from __future__ import annotations

import re
from typing import Final

from aish_lsp.foundation.wording import count_of
from aish_lsp.shell.output import SHOWN_CHARACTERS, SHOWN_LINES

#: The fence around an output whose end is not known yet: longer than the one that people write.
FENCE: Final = "````"

_HEAD_LINES: Final = 40
_TAIL_LINES: Final = SHOWN_LINES - _HEAD_LINES

#: A line that opens a fenced block, or closes one: its indent, its fence, what follows that.
_FENCE_LINE: Final = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)", re.MULTILINE)


class HeadAndTail:
    """Streams the head of a text, and at its end the tail; how much is between is told there.

    What is not longer than ``SHOWN_LINES`` and ``SHOWN_CHARACTERS`` is streamed whole.
    """

    def __init__(self) -> None:
        self._lines = _HEAD_LINES
        self._room = SHOWN_CHARACTERS // 2
        self._line_is_open = False
        self._tail = ""
        self._lines_out = 0
        self._characters_out = 0

    def feed(self, text: str) -> str:
        """Return what of ``text`` belongs to the head."""
        end = 0
        while self._lines and self._room and end < len(text):
            stop = text.find("\n", end) + 1 or len(text)
            taken = min(stop - end, self._room)
            self._lines -= text[end + taken - 1] == "\n"
            self._room -= taken
            end += taken
        if end:
            self._line_is_open = text[end - 1] != "\n"
        self._tail += text[end:]
        if len(self._tail) > 2 * SHOWN_CHARACTERS:
            self._shorten()
        return text[:end]

    def finish(self) -> str:
        """Return the tail, a line before it that says what is left out, if something is."""
        self._shorten()
        if not self.left_out:
            return self._tail
        line_end = "\n" if self._line_is_open else ""
        return f"{line_end}[aish: {self.left_out} left out]\n{self._tail}"

    @property
    def left_out(self) -> str:
        """What is left out by now: lines, or where they are very long, characters."""
        if self._lines_out:
            return count_of(self._lines_out, "line")
        return count_of(self._characters_out, "character") if self._characters_out else ""

    def _shorten(self) -> None:
        """Leave out what cannot belong to the tail any more."""
        lines = self._tail.splitlines(keepends=True)
        surplus = sum(map(len, lines[:-_TAIL_LINES]))
        if len(self._tail) - surplus > SHOWN_CHARACTERS // 2:
            surplus = len(self._tail) - SHOWN_CHARACTERS // 2
        self._lines_out += self._tail.count("\n", 0, surplus)
        self._characters_out += surplus
        self._tail = self._tail[surplus:]


def head_and_tail(text: str) -> str:
    """Return ``text`` as ``HeadAndTail`` streams it."""
    shortened = HeadAndTail()
    return shortened.feed(text) + shortened.finish()


def fence_for(text: str) -> str:
    """Return a fence that ``text`` cannot close: longer than any run of backticks in it."""
    runs = re.findall("`+", text)
    return max((*(f"{run}`" for run in runs), FENCE), key=len)


def open_fence(text: str) -> str:
    """Return the line that closes the fenced block in which ``text`` ends; empty where in none.

    It is indented as the block's first line, so that it closes the block of a list's item too.
    """
    indent = fence = ""
    for match in _FENCE_LINE.finditer(text):
        rest = match[3]
        if not fence:
            if match[2][0] == "~" or "`" not in rest:
                indent, fence = match[1], match[2]
        elif match[2].startswith(fence) and not rest.strip(" \t"):
            fence = ""
    return f"{indent}{fence}" if fence else ""
