"""Measuring a request and keeping it within its budget (context.md; seed: aish-context-lua).

``measure`` is the one place that says how large a request is: the display, the eviction and the
request itself use its value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from aish_lsp.conversation.prompt import Blocks, messages
from aish_lsp.conversation.tokens import count
from aish_lsp.errors import OverBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from aish_lsp.config.schema import Compress, Context, Preset
    from aish_lsp.conversation.turns import Conversation, Turn
    from aish_lsp.models.request import Message

#: The window, and the budget, of a model that nobody knows anything about (the seed's 4096).
UNKNOWN_WINDOW = 4096

#: Tokens that a chat template puts around each message, and around the whole.
MESSAGE_OVERHEAD = 4
REQUEST_OVERHEAD = 3

#: Characters of a command's output that are kept at each end when nothing else is left to give.
_CUT = 400


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request to one model must fit into. Tokens."""

    window: int
    output_reserve: int
    budget: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the tokens of a request go; the parts add up to its total."""

    system: int = 0
    memory: int = 0
    project: int = 0
    summary: int = 0
    instructions: int = 0
    tools: int = 0
    messages: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """The sum of the parts."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a request in tokens, and whether it was counted or estimated."""

    total: int
    breakdown: Breakdown
    basis: Literal["actual", "estimated"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that fits: its messages, its size, and what was given up for it."""

    messages: tuple[Message, ...]
    measure: Measure
    evicted: tuple[Turn, ...]
    cut: tuple[str, ...]


def limits(preset: Preset, context: Context, told_window: int | None) -> Limits:
    """Return the limits of ``preset``; ``told_window`` is what its server says, if it does.

    The effective budget is the smaller of the configured one and what the reply leaves of the
    window; a reply reserve as large as the window leaves one token, so that the error that
    follows is about the budget.
    """
    window = preset.context_window or told_window or UNKNOWN_WINDOW
    room = max(1, window - preset.max_output_tokens)
    wanted = preset.token_budget or context.token_budget or room
    return Limits(window, preset.max_output_tokens, min(wanted, room))


def measure(blocks: Blocks, sent: tuple[Message, ...]) -> Measure:
    """Return the size of the request made of ``blocks`` and the messages after the system one."""
    parts = blocks.in_force()
    breakdown = Breakdown(
        system=count(parts.base) + count(parts.norris) + MESSAGE_OVERHEAD + REQUEST_OVERHEAD,
        memory=count(parts.background),
        project=count(parts.tree),
        summary=count(parts.summary),
        instructions=count(parts.instructions),
        messages=sum(message_tokens(message) for message in sent if message.role != "system"),
        reasoning=sum(count(m.reasoning.text) for m in sent if m.reasoning is not None),
    )
    return Measure(breakdown.total, breakdown, "estimated")


def message_tokens(message: Message) -> int:
    """Return the tokens of one message with its calls and its own overhead."""
    calls = sum(count(call.name) + count(call.arguments) for call in message.tool_calls)
    return MESSAGE_OVERHEAD + count(message.content) + calls


def prepare(
    conversation: Conversation,
    blocks: Blocks,
    preset: Preset,
    context: Context,
    limit: Limits,
) -> Prepared:
    """Make the next request fit, evicting whole exchanges from ``conversation``.

    The current user turn is never evicted. When nothing is left to evict, command output is cut
    to its head and tail, then ``[project]`` goes, then ``[background]``.

    Raises:
        OverBudget: it still does not fit. Nothing was lost but what was evicted before.
    """
    evicted = _evict(conversation, blocks, preset, context, limit)
    turns = conversation.turns
    cut: list[str] = []
    for name, give in _LAST_RESORTS:
        sent = messages(blocks, turns, preset, context.compress)
        size = measure(blocks, sent)
        if size.total <= limit.budget:
            return Prepared(sent, size, tuple(evicted), tuple(cut))
        blocks, turns = give(blocks, turns)
        cut.append(name)
    sent = messages(blocks, turns, preset, context.compress)
    size = measure(blocks, sent)
    if size.total > limit.budget:
        raise _over_budget(size, limit)
    return Prepared(sent, size, tuple(evicted), tuple(cut))


def _evict(
    conversation: Conversation, blocks: Blocks, preset: Preset, context: Context, limit: Limits
) -> list[Turn]:
    """Evict the oldest exchanges in one pass; return their turns."""
    turns = conversation.turns
    sent = messages(blocks, turns, preset, context.compress)
    total = measure(blocks, sent).total
    if len(turns) <= context.max_turns and total <= limit.budget:
        return []
    sizes = _turn_sizes(turns, preset, context.compress, blocks)
    target = context.low_water * limit.budget
    end = 0
    for start, stop in list(conversation.exchanges())[:-1]:
        if len(turns) - end <= context.max_turns and total <= target:
            break
        total -= sum(sizes[start:stop])
        end = stop
    return conversation.evict(end)


def _turn_sizes(turns: list[Turn], preset: Preset, compress: Compress, blocks: Blocks) -> list[int]:
    """Return what each turn adds to a request; 0 for those a compressed request leaves out."""
    plain = replace(preset, local_compress=False, use_tool_role=True)
    rendered = messages(blocks, turns, plain, compress)[1:]
    sizes = [message_tokens(message) for message in rendered]
    if preset.local_compress:
        kept = len(messages(blocks, turns, replace(preset, use_tool_role=True), compress)) - 1
        sizes[: len(sizes) - kept] = [0] * (len(sizes) - kept)
    return sizes


def _cut_outputs(blocks: Blocks, turns: list[Turn]) -> tuple[Blocks, list[Turn]]:
    """Cut tool results and command output to head and tail."""
    return blocks, [
        replace(
            turn,
            content=_head_and_tail(turn.content) if turn.role == "tool" else turn.content,
            exec=tuple(replace(out, output=_head_and_tail(out.output)) for out in turn.exec),
        )
        for turn in turns
    ]


def _head_and_tail(text: str) -> str:
    """Return ``text`` without its middle where that makes it shorter."""
    left_out = len(text) - 2 * _CUT
    if left_out <= 40:
        return text
    return f"{text[:_CUT]}\n[... {left_out} characters left out ...]\n{text[-_CUT:]}"


def _without_project(blocks: Blocks, turns: list[Turn]) -> tuple[Blocks, list[Turn]]:
    return replace(blocks, tree="", instructions=""), turns


def _without_background(blocks: Blocks, turns: list[Turn]) -> tuple[Blocks, list[Turn]]:
    return replace(blocks, background=""), turns


_LAST_RESORTS: tuple[tuple[str, Callable[[Blocks, list[Turn]], tuple[Blocks, list[Turn]]]], ...] = (
    ("command output", _cut_outputs),
    ("[project]", _without_project),
    ("[background]", _without_background),
)


def _over_budget(size: Measure, limit: Limits) -> OverBudget:
    """Return the error that names the blocks and their sizes."""
    parts = {
        field.name: getattr(size.breakdown, field.name)
        for field in fields(size.breakdown)
        if getattr(size.breakdown, field.name)
    }
    named = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
    data: dict[str, Any] = {"total": size.total, "tokenBudget": limit.budget, "breakdown": parts}
    return OverBudget(
        f"The question needs {size.total} tokens ({named}) and the budget is {limit.budget}. "
        "Ask a shorter question, choose a model with a larger window (:model), or raise "
        "context.token_budget and models.NAME.context_window.",
        **data,
    )
