"""The autonomous loop, which pursues a goal in a session step by step, within limits.

This module has its state and interprets the model's replies; ``run`` and ``step`` do the work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.context.prompt import norris_block
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.shell.blocks import FenceScanner
from aish_lsp.shell.suggestions import suggestions_of, without_reasoning

if TYPE_CHECKING:
    from aish_lsp.agent.events import CommandInfo
    from aish_lsp.context.messages import Message
    from aish_lsp.shell.risk.approved import Approvable

#: What a model may say about its goal.
Said: TypeAlias = Literal["complete", "blocked"]

_GOAL: Final = re.compile(r"^GOAL: (complete|blocked)(?![^\s:])[ \t:]*", re.MULTILINE)

#: The most characters of a summary, and of all lines about steps that are no longer sent.
_LONGEST_SUMMARY: Final = 2_000
_LONGEST_LINES: Final = 1_500


@dataclass(slots=True)
class Pursuit:
    """A goal, and the run of the autonomous loop that pursues it.

    Attributes:
        goal: the goal, in the user's words.
        allow_caution: whether ``caution`` commands may run without asking if they can be undone.
        max_steps: the most steps of the run; None for what is configured.
        group: the undo group of all changes for the goal; empty before its first run.
        made: how many steps earlier runs of the ``group`` made for it.
        works: whether the confinement profile ``work``, which that needs, is available.
        said: what the user added, for the next step's message.
        steps: a line about each finished step, by the id of its exchange.
        allowed: the commands that the user has allowed during the run.
    """

    goal: str
    allow_caution: bool = False
    max_steps: int | None = None
    group: str = ""
    made: int = 0
    works: bool = False
    said: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    allowed: set[Approvable] = field(default_factory=set)
    _evicted_steps: list[str] = field(default_factory=list)

    @property
    def is_under_way(self) -> bool:
        """Whether a step was already made, so that the next message is the loop's."""
        return bool(self.made or self.steps)

    @property
    def acts_alone(self) -> bool:
        """Whether ``caution`` commands run without asking the user."""
        return self.allow_caution and self.works

    def block(self) -> str:
        """Return the block for the prompt: goal, rules, and the latest steps no longer sent."""
        left, first = _LONGEST_LINES, len(self._evicted_steps)
        while first and len(self._evicted_steps[first - 1]) <= left:
            first -= 1
            left -= len(self._evicted_steps[first])
        return norris_block(self.goal, self._evicted_steps[first:])

    def evicted(self, messages: Iterable[Message]) -> None:
        """Keep the line about each step whose messages were evicted."""
        lines = (self.steps.get(one.exchange, "") for one in messages if one.role == "user")
        self._evicted_steps += filter(None, lines)


def meant(commands: Iterable[CommandInfo], text: str) -> list[CommandInfo]:
    """Return the commands of a reply's `CMD: ` lines, except those in the model's reasoning."""
    counts = Counter(found.text for found in suggestions_of(without_reasoning(text)))
    meant_commands: list[CommandInfo] = []
    # Reasoning comes first, so of equal lines the last ones are meant.
    for info in reversed([*commands]):
        if info.source == "cmd" and counts[info.text]:
            counts[info.text] -= 1
            meant_commands.append(info)
    return meant_commands[::-1]


def goal_said(text: str, *, is_whole: bool = True) -> tuple[Said, str] | None:
    """Return whether a reply ends the goal, as (how, summary or reason); None if it does not.

    Only a line that begins with ``GOAL: `` counts, outside fenced blocks and reasoning. The last
    line of a reply that is not whole may be incomplete, and is ignored.
    """
    text = without_reasoning(text)
    fences, start = FenceScanner(lambda _: False), 0
    for match in _GOAL.finditer(text):
        fences.feed(text[start : match.start()])
        start = match.start()
        if not fences.is_open and (is_whole or "\n" in text[start:]):
            verdict: Said = "complete" if match[1] == "complete" else "blocked"
            return verdict, text[match.end() :].strip()[:_LONGEST_SUMMARY]
    return None
