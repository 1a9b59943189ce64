"""Stops a reply that runs in circles, as those of small models do.

A reply does where the same 50 characters stand ten times, one after the other or not, within 1,000
characters. Inside a fenced block, a table or a list, where much is alike by right, it takes forty
times, within 4,000.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.models.request import Finish, Reasoning, Text

if TYPE_CHECKING:
    from aish_lsp.models.request import ModelEvent

#: Characters that are compared.
GRAM: Final = 50

#: How often they may not stand there, and within how many characters.
MOST: Final = 10
WITHIN: Final = 1_000

#: The same inside a fenced block, a table or a list.
MOST_ALIKE: Final = 40
WITHIN_ALIKE: Final = 4_000

#: Characters of a line's start that tell what the line is.
_HEAD: Final = 40

_MARKS: Final = r"(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*"
_FENCE: Final = re.compile(rf"{_MARKS}(`{{3,}}|~{{3,}})(.*)")
_TABLE_OR_LIST: Final = re.compile(r"[ \t>]*(?:\||(?:[-*+]|\d{1,9}[.)])[ \t])")
#: A line that goes on with what the line before was, or may still become one of the above.
_GOES_ON: Final = re.compile(r"[ \t>]*(?:[-*+`~]{0,3}|\d{0,9}[.)]?)|[ \t]{2}.*")


async def guarded(
    stream: AsyncGenerator[ModelEvent, None],
) -> AsyncGenerator[ModelEvent, None]:
    """Yield a reply as it comes; one that runs in circles ends there, as ``repetition``.

    ``stream`` is closed before the end is told. Text and reasoning are looked at apart.
    """
    guards = {Text: RepetitionGuard(), Reasoning: RepetitionGuard()}
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Text | Reasoning):
                end = guards[type(event)].take(event.delta)
                if end is not None:
                    cut = replace(event, delta=event.delta[:end])
                    break
            yield event
        else:
            return
    yield cut
    yield Finish("repetition")


class RepetitionGuard:
    """Looks at a text that arrives in pieces; how it was split makes no difference."""

    def __init__(self) -> None:
        self._tail = ""
        self._at = 0
        #: Where each run of characters ended, those that overlap the one before left out; of the
        #: last ``WITHIN_ALIKE`` characters or so, and of as many before them.
        self._ends: dict[str, list[int]] = {}
        self._before: dict[str, list[int]] = {}
        self._place = _Place()

    def take(self, delta: str) -> int | None:
        """Take the next piece; return after how many of its characters the text runs in circles.

        None where it does not.
        """
        text = self._tail + delta
        begin = len(self._tail)
        looked = begin
        for end in range(max(begin + 1, GRAM), len(text) + 1):
            at = self._at + end - begin
            run = text[end - GRAM : end]
            ends = self._ends.get(run)
            if ends is None:
                ends = self._ends[run] = self._before.pop(run, [])
                if len(self._ends) > WITHIN_ALIKE:
                    self._before, self._ends = self._ends, {run: ends}
            if ends and at - ends[-1] < GRAM:
                continue
            ends.append(at)
            del ends[:-MOST_ALIKE]
            if len(ends) >= MOST:
                self._place.take(text[looked:end])
                looked = end
                if self._is_circle(run, ends):
                    return end - begin
        self._place.take(text[looked:])
        self._at += len(delta)
        self._tail = text[-(GRAM - 1) :]
        return None

    def _is_circle(self, run: str, ends: list[int]) -> bool:
        """Return whether ``run``, which has just ended once more, stands here too often."""
        at = ends[-1]
        if not self._place.is_alike():
            return at - ends[-MOST] + GRAM <= WITHIN
        # A wide table is mostly blanks and rules.
        told = len(ends) >= MOST_ALIKE and any(map(str.isalnum, run))
        return told and at - ends[-MOST_ALIKE] + GRAM <= WITHIN_ALIKE


class _Place:
    """What a text, as far as it has come, is in: a fenced block, a table or a list, or prose."""

    def __init__(self) -> None:
        self._head = ""
        self._fence = ""
        self._was_alike = False

    def take(self, text: str) -> None:
        """Take the next piece of the text."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._head += line[: _HEAD - len(self._head)]
            self._end_of_line()
        self._head += rest[: _HEAD - len(self._head)]

    def _end_of_line(self) -> None:
        fence = _FENCE.fullmatch(self._head)
        if fence is not None and not self._fence:
            self._fence = fence[1]
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
        self._was_alike = not self._fence and self._line_is_alike()
        self._head = ""

    def is_alike(self) -> bool:
        """Return whether much is alike here by right."""
        return bool(self._fence) or self._line_is_alike()

    def _line_is_alike(self) -> bool:
        if _TABLE_OR_LIST.match(self._head):
            return True
        return self._was_alike and _GOES_ON.fullmatch(self._head) is not None
