"""A guard against endless repetition, as the replies of small models sometimes have it.

A text repeats itself if the same 50 characters occur 10 times within 1,000 characters, adjacent or
not. In a fenced block, a table or a list, where repetition is normal, the limit is 40 times within
4,000 characters.
"""

from __future__ import annotations

import re
from typing import Final

from aish_lsp.shell.blocks import FenceScanner

#: Characters that are compared.
GRAM: Final = 50

#: Half as many: of the blocks that the text consists of, one is in each run of ``GRAM``.
BLOCK: Final = GRAM // 2

#: How many times they occur in a repetitive text, and within how many characters.
MOST: Final = 10
WITHIN: Final = 1_000

#: The same in a fenced block, a table or a list.
MOST_ALIKE: Final = 40
WITHIN_ALIKE: Final = 4_000

#: Characters at the start of a line that show what kind of line it is.
_HEAD: Final = 40

_TABLE_OR_LIST: Final = re.compile(r"[ \t>]*(?:\||(?:[-*+]|\d{1,9}[.)])[ \t])")
#: A line that continues the one before, or may still become one of the above.
_CONTINUES: Final = re.compile(r"[ \t>]*(?:[-*+`~]{0,3}|\d{0,9}[.)]?)|[ \t]{2}.*")


class RepetitionGuard:
    """Detects repetition in a text that arrives in pieces, however it is split."""

    def __init__(self) -> None:
        # The last ``WITHIN_ALIKE`` characters.
        self._tail = ""
        self._length = 0
        self._is_frequent = False
        self._place = _TextState()

    def take(self, delta: str) -> int | None:
        """Add the next piece; return after how many of its characters the text repeats itself.

        None if it does not.
        """
        text = self._tail + delta
        begin = looked = len(self._tail)
        start = self._length - begin
        self._length += len(delta)
        end = begin + 1
        while end <= len(text):
            # Most texts do not repeat themselves, so not each run is searched for. Each contains
            # one of the blocks that the whole text consists of, which occurs as often.
            into_block = (start + end) % BLOCK
            if not into_block:
                self._is_frequent = _times(text, end, BLOCK, WITHIN_ALIKE) >= MOST
            next_block = min(end + BLOCK - into_block, len(text) + 1)
            for at in range(end, next_block) if self._is_frequent else ():
                if _times(text, at, GRAM, WITHIN_ALIKE) >= MOST:
                    self._place.take(text[looked:at])
                    looked = at
                    if self._is_repetition(text, at):
                        return at - begin
            end = next_block
        self._place.take(text[looked:])
        self._tail = text[-WITHIN_ALIKE:]
        return None

    def _is_repetition(self, text: str, end: int) -> bool:
        """Return whether the run before ``end`` occurs too often for the place that it is in."""
        if not self._place.is_repetitive():
            return _times(text, end, GRAM, WITHIN) >= MOST
        run = text[end - GRAM : end]
        # A wide table consists mostly of blanks and rules.
        if run[-1].isspace() or not any(map(str.isalnum, run)):
            return False
        # The items of a deep list are only alike with all of their indentation.
        length = GRAM
        if run[0] in " \t":
            length = end + 1 - len(text[: end - GRAM].rstrip(" \t"))
        return _times(text, end, length, WITHIN_ALIKE) >= MOST_ALIKE


def _times(text: str, end: int, length: int, within: int) -> int:
    """Return how often the last ``length`` characters occur in the last ``within``.

    Both are those before ``end``; overlaps do not count.
    """
    return text.count(text[max(0, end - length) : end], max(0, end - within), end)


class _TextState:
    """What the end of the text is in: a fenced block, a table or a list, or prose."""

    def __init__(self) -> None:
        self._head = ""
        self._fences = FenceScanner(lambda _: False)
        self._was_repetitive = False

    def take(self, text: str) -> None:
        """Add the next piece of the text."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._head += line[: _HEAD - len(self._head)]
            self._was_repetitive = self._line_is_repetitive()
            self._head = ""
        self._head += rest[: _HEAD - len(self._head)]
        self._fences.feed(text)

    def is_repetitive(self) -> bool:
        """Return whether repetition is normal here."""
        return self._fences.is_open or self._line_is_repetitive()

    def _line_is_repetitive(self) -> bool:
        if _TABLE_OR_LIST.match(self._head):
            return True
        return self._was_repetitive and _CONTINUES.fullmatch(self._head) is not None
