"""Measuring a request and keeping it within its budget (context.md; seed: aish-context-lua).

``measure`` is the one place that says how large a request is: the display, the eviction and the
request itself use its value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from aish_lsp.conversation.prompt import messages
from aish_lsp.conversation.tokens import count
from aish_lsp.errors import OverBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aish_lsp.config.schema import Context, Preset
    from aish_lsp.conversation.prompt import Blocks
    from aish_lsp.conversation.turns import Conversation, Turn
    from aish_lsp.models.request import Message

#: The window, and the budget, of a model that nobody knows anything about (the seed's 4096).
UNKNOWN_WINDOW = 4096

#: Tokens that a chat template puts around each message, and around the whole.
MESSAGE_OVERHEAD = 4
REQUEST_OVERHEAD = 3

#: How many texts' counts are remembered.
_REMEMBERED = 1 << 14

#: By length and hash, so that no text is kept alive; two that differ in neither are not to be met.
_counts: dict[tuple[int, int], int] = {}

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
    """Return the size of the request made of ``blocks`` and of the messages ``sent``.

    What the system message holds beside its parts, headings and blank lines, counts as ``system``.
    """
    parts = blocks.in_force()
    memory, project = _tokens(parts.background), _tokens(parts.tree)
    instructions, summary = _tokens(parts.instructions), _tokens(parts.summary)
    framed = _tokens(blocks.text()) - memory - project - instructions - summary
    breakdown = Breakdown(
        system=max(0, framed) + MESSAGE_OVERHEAD + REQUEST_OVERHEAD,
        memory=memory,
        project=project,
        summary=summary,
        instructions=instructions,
        messages=sum(message_tokens(message) for message in sent if message.role != "system"),
        reasoning=sum(reasoning_tokens(message) for message in sent),
    )
    return Measure(breakdown.total, breakdown, "estimated")


def _tokens(text: str) -> int:
    """Return ``count`` of a text; of one that was counted before, from memory.

    The same turns and blocks are measured at each question and at each change of the status.
    """
    key = len(text), hash(text)
    counted = _counts.get(key)
    if counted is None:
        counted = count(text)
        if len(_counts) >= _REMEMBERED:
            _counts.clear()
        _counts[key] = counted
    return counted


def message_tokens(message: Message) -> int:
    """Return the tokens of one message with its calls and its own overhead, less its reasoning."""
    calls = sum(_tokens(call.name) + _tokens(call.arguments) for call in message.tool_calls)
    return MESSAGE_OVERHEAD + _tokens(message.content) + calls


def reasoning_tokens(message: Message) -> int:
    """Return the tokens of the reasoning that goes back with a message."""
    return 0 if message.reasoning is None else _tokens(message.reasoning.text)


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
        OverBudget: it still does not fit. Nothing is evicted then.
    """
    sent = messages(blocks, conversation.turns, preset, context.compress)
    end = _evicted(conversation, sent, measure(blocks, sent).total, context, limit)
    for form in _forms(blocks, conversation.turns[end:]):
        sent = messages(form.blocks, form.turns, preset, context.compress)
        size = measure(form.blocks, sent)
        if size.total <= limit.budget:
            return Prepared(sent, size, tuple(conversation.evict(end)), form.cut)
    raise _over_budget(size, limit)


def _evicted(
    conversation: Conversation,
    sent: tuple[Message, ...],
    total: int,
    context: Context,
    limit: Limits,
) -> int:
    """Return how many turns, all of the oldest exchanges, have to go. One pass."""
    turns = len(conversation.turns)
    if turns <= context.max_turns and total <= limit.budget:
        return 0
    exchanges = list(conversation.exchanges())
    sizes = _exchange_sizes(sent)
    # A compressed request holds the last exchanges only: what it leaves out has no size.
    sizes = [0] * (len(exchanges) - len(sizes)) + sizes
    target = context.low_water * limit.budget
    evicted = 0
    for (_, end), size in zip(exchanges[:-1], sizes, strict=False):
        if turns - evicted <= context.max_turns and total <= target:
            break
        total -= size
        evicted = end
    return evicted


def _exchange_sizes(sent: tuple[Message, ...]) -> list[int]:
    """Return the tokens of each exchange of a request."""
    sizes: list[int] = []
    for message in sent:
        if message.role == "user":
            sizes.append(0)
        if sizes:
            sizes[-1] += message_tokens(message) + reasoning_tokens(message)
    return sizes


@dataclass(frozen=True, slots=True)
class _Form:
    """A request as it could be made, and the names of what was given up for it."""

    blocks: Blocks
    turns: list[Turn]
    cut: tuple[str, ...] = ()


def _forms(blocks: Blocks, turns: list[Turn]) -> Iterator[_Form]:
    """Yield the whole request, then forms of it with ever more given up."""
    form = _Form(blocks.in_force(), turns)
    yield form
    shorter = [_with_cut_output(turn) for turn in turns]
    without_project = replace(form.blocks, tree="", instructions="")
    for name, less in (
        ("command output", form.blocks),
        ("[project]", without_project),
        ("[background]", replace(without_project, background="")),
    ):
        if less != form.blocks or shorter != form.turns:
            form = _Form(less, shorter, (*form.cut, name))
            yield form


def _with_cut_output(turn: Turn) -> Turn:
    """Cut a tool's result and commands' output to head and tail."""
    return replace(
        turn,
        content=_head_and_tail(turn.content) if turn.role == "tool" else turn.content,
        exec=tuple(replace(out, output=_head_and_tail(out.output)) for out in turn.exec),
    )


def _head_and_tail(text: str) -> str:
    """Return ``text`` without its middle where that makes it shorter."""
    left_out = len(text) - 2 * _CUT
    if left_out <= 40:
        return text
    return f"{text[:_CUT]}\n[... {left_out} characters left out ...]\n{text[-_CUT:]}"


def _over_budget(size: Measure, limit: Limits) -> OverBudget:
    """Return the error that names the blocks and their sizes."""
    parts = {
        field.name: getattr(size.breakdown, field.name)
        for field in fields(size.breakdown)
        if getattr(size.breakdown, field.name)
    }
    named = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
    return OverBudget(
        f"The question needs {size.total} tokens ({named}) and the budget is {limit.budget}. "
        "Ask a shorter question, choose a model with a larger window (:model), or raise "
        "context.token_budget and models.NAME.context_window.",
        total=size.total,
        tokenBudget=limit.budget,
        breakdown=parts,
    )
