"""The autonomous loop: a goal pursued in a session step by step, within bounds.

This module holds its state and reads the model's replies; ``run`` and ``step`` pursue the goal.
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

#: What a model may say about its goal.
Said: TypeAlias = Literal["complete", "blocked"]

_GOAL: Final = re.compile(r"^GOAL: (complete|blocked)(?![^\s:])[ \t:]*", re.MULTILINE)

#: Characters of a summary, and of all lines about steps that are no longer sent.
_LONGEST_SUMMARY: Final = 2_000
_LONGEST_LINES: Final = 1_500


@dataclass(slots=True)
class Pursuit:
    """A run of the autonomous loop.

    Attributes:
        goal: what is to be reached.
        group: the group in which all changes are undone together.
        allow_caution: whether ``caution`` commands may run unasked if they can be undone.
        works: whether the confinement profile ``work`` is available for that.
        is_resumed: whether it continues a run that was stopped.
        said: what the user added, for the next step's message.
        steps: a line about each finished step, by its exchange.
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
        """Whether a step was made already, so that the next message is not the user's."""
        return self.is_resumed or bool(self.steps)

    @property
    def acts_alone(self) -> bool:
        """Whether ``caution`` commands run without asking."""
        return self.allow_caution and self.works

    def block(self) -> str:
        """Return the prompt's block: the goal, the rules, and lines about steps no longer sent."""
        room, first = _LONGEST_LINES, len(self._gone)
        while first and len(self._gone[first - 1]) <= room:
            first -= 1
            room -= len(self._gone[first])
        return norris_block(self.goal, self._gone[first:])

    def evicted(self, messages: Iterable[Message]) -> None:
        """Keep a line about each step that is no longer sent."""
        lines = (self.steps.get(one.exchange, "") for one in messages if one.role == "user")
        self._gone += filter(None, lines)


def meant(commands: Iterable[CommandInfo], text: str) -> list[CommandInfo]:
    """Return the `CMD: ` lines of a reply, except those in the model's reasoning."""
    said = Counter(found.text for found in suggestions_of(without_reasoning(text)))
    found: list[CommandInfo] = []
    # Reasoning comes first, so of equal lines the last ones count.
    for info in reversed([*commands]):
        if info.source == "cmd" and said[info.text]:
            said[info.text] -= 1
            found.append(info)
    return found[::-1]


def goal_said(text: str, *, is_whole: bool = True) -> tuple[Said, str] | None:
    """Return what a reply says about its goal, and the summary or reason; None if it says nothing.

    Only a line of its own counts, outside fenced blocks and the model's reasoning. If the reply is
    not whole, its last line may be incomplete, and is ignored.
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
