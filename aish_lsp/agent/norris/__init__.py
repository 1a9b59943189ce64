"""The autonomous loop: a goal pursued in a session step by step, within bounds.

Its rounds, its commands and its prompt go by what is here; ``run`` and ``step`` pursue it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.context.prompt import norris_block
from aish_lsp.context.summary import without_reasoning
from aish_lsp.shell.blocks import FenceScanner
from aish_lsp.shell.suggestions import suggestions_of

if TYPE_CHECKING:
    from aish_lsp.agent.events import CommandInfo
    from aish_lsp.context.messages import Message

#: What a model says of its goal.
Said: TypeAlias = Literal["complete", "blocked"]

_GOAL: Final = re.compile(r"^GOAL: (complete|blocked)(?![^\s:])[ \t:]*", re.MULTILINE)

#: Characters of a summary, and of all lines on steps that are not sent any more.
_LONGEST_SUMMARY: Final = 2_000
_LONGEST_LINES: Final = 1_500


@dataclass(slots=True)
class Pursuit:
    """A run of the autonomous loop.

    Attributes:
        goal: what is to be reached.
        group: what all that it changes is undone together with.
        allow_caution: whether what is ``caution`` may run unasked, where it can be undone.
        works: whether the profile ``work`` can be had for that.
        is_resumed: whether it goes on with one that was stopped.
        said: what the user added, for the next step's message.
        steps: a line on each step that is over, by its exchange.
    """

    goal: str
    group: str
    allow_caution: bool = False
    works: bool = False
    is_resumed: bool = False
    said: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    _gone: list[str] = field(default_factory=list)

    @property
    def is_under_way(self) -> bool:
        """Whether a step was made, so that the next question is not one of the user's."""
        return self.is_resumed or bool(self.steps)

    @property
    def acts_alone(self) -> bool:
        """Whether what is ``caution`` goes on without a question."""
        return self.allow_caution and self.works

    def block(self) -> str:
        """Return the prompt's block: the goal, the rules, and the steps that are not sent."""
        room, first = _LONGEST_LINES, len(self._gone)
        while first and len(self._gone[first - 1]) <= room:
            first -= 1
            room -= len(self._gone[first])
        return norris_block(self.goal, self._gone[first:])

    def evicted(self, messages: Iterable[Message]) -> None:
        """Keep a line of each step that is sent no more."""
        lines = (self.steps.get(one.exchange, "") for one in messages if one.role == "user")
        self._gone += filter(None, lines)


def meant(commands: Iterable[CommandInfo], text: str) -> list[CommandInfo]:
    """Return the `CMD: ` lines of a reply, but for what the model has only thought aloud."""
    said = Counter(found.text for found in suggestions_of(without_reasoning(text)))
    found: list[CommandInfo] = []
    # What was thought comes first.
    for info in reversed([*commands]):
        if info.source == "cmd" and said[info.text]:
            said[info.text] -= 1
            found.append(info)
    return found[::-1]


def goal_said(text: str, *, is_whole: bool = True) -> tuple[Said, str] | None:
    """Return what a reply says of its goal, and the summary or the reason; None for nothing.

    It counts on a line of its own, outside of fenced blocks and of what the model thinks aloud. Of
    a reply that is not whole, the last line may be half of one, and says nothing.
    """
    text = without_reasoning(text)
    fences, start = FenceScanner(lambda _: False), 0
    for found in _GOAL.finditer(text):
        for _ in fences.feed(text[start : found.start()]):
            pass
        start = found.start()
        if not fences.is_open and (is_whole or "\n" in text[start:]):
            said: Said = "complete" if found[1] == "complete" else "blocked"
            return said, text[found.end() :].strip()[:_LONGEST_SUMMARY]
    return None
