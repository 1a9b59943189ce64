"""Stops a reply that runs in circles, as those of small models do.

A reply does where the same 50 characters stand ten times, one after the other or not, within 1,000
characters. Inside a fenced block, a table or a list, where much is alike by right, it takes forty
times, within 4,000.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.models.events import Finish, Reasoning, Text

if TYPE_CHECKING:
    from aish_lsp.models.events import ModelEvent

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
        #: Where each run of characters ended, those that overlap the one before left out.
        self._ends: dict[str, deque[int]] = {}
        self._order: deque[tuple[int, str]] = deque()
        self._place = _Place()

    def take(self, delta: str) -> int | None:
        """Take the next piece; return after how many of its characters the text runs in circles.

        None where it does not.
        """
        text = self._tail + delta
        before = len(self._tail)
        for index in range(len(delta)):
            self._at += 1
            self._place.take(delta[index])
            end = before + index + 1
            if end >= GRAM and self._repeats(text[end - GRAM : end]):
                return index + 1
        self._tail = text[-(GRAM - 1) :]
        return None

    def _repeats(self, run: str) -> bool:
        """Take down that ``run`` ends here; return whether that is once too often."""
        while self._order and self._order[0][0] <= self._at - WITHIN_ALIKE:
            _, old = self._order.popleft()
            self._ends[old].popleft()
            if not self._ends[old]:
                del self._ends[old]
        ends = self._ends.setdefault(run, deque())
        if ends and self._at - ends[-1] < GRAM:
            return False
        ends.append(self._at)
        self._order.append((self._at, run))
        if len(ends) < MOST:
            return False
        if not self._place.is_alike():
            return self._at - ends[-MOST] + GRAM <= WITHIN
        # A wide table is mostly blanks and rules.
        told = len(ends) >= MOST_ALIKE and any(map(str.isalnum, run))
        return told and self._at - ends[-MOST_ALIKE] + GRAM <= WITHIN_ALIKE


class _Place:
    """What a text, as far as it has come, is in: a fenced block, a table or a list, or prose."""

    def __init__(self) -> None:
        self._head = ""
        self._fence = ""
        self._was_alike = False

    def take(self, character: str) -> None:
        """Take the next character of the text."""
        if character != "\n":
            if len(self._head) < _HEAD:
                self._head += character
            return
        fence = _FENCE.fullmatch(self._head)
        if self._fence:
            closes = fence is not None and fence[1].startswith(self._fence)
            if closes and fence is not None and not fence[2].strip():
                self._fence = ""
        elif fence is not None:
            self._fence = fence[1]
        self._was_alike = not self._fence and self._line_is_alike()
        self._head = ""

    def is_alike(self) -> bool:
        """Return whether much is alike here by right."""
        return bool(self._fence) or self._line_is_alike()

    def _line_is_alike(self) -> bool:
        if _TABLE_OR_LIST.match(self._head):
            return True
        return self._was_alike and _GOES_ON.fullmatch(self._head) is not None
