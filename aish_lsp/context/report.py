"""What the context contains and what a session has cost, as data and as pages to read."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.context.usage import Category, Slot, UsageTotals, context_line
from aish_lsp.foundation.jsonl import now
from aish_lsp.foundation.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aish_lsp.config.schema import Cost, Preset
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.measure import Breakdown, Measure
    from aish_lsp.context.usage import UsageTotals
    from aish_lsp.foundation.events import Usage
    from aish_lsp.models.request import RequestMessage

_BAR = 32


@dataclass(frozen=True, slots=True)
class LastCall:
    """Tokens of the last call, as its server reported them."""

    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    at: str
    model: str


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far the estimate of the last call was off."""

    estimated: int
    actual: int
    error_tokens: int
    error_percent: float


@dataclass(frozen=True, slots=True)
class ContextReport:
    """Where the tokens of the next request go. All numbers but ``percent`` are tokens.

    ``basis`` is actual if the server has counted all but the ``new_since`` tokens of messages that
    came after its last call; ``tokenizer`` says what counts the rest: heuristic, or endpoint.
    """

    total: int
    token_budget: int
    context_window: int
    output_reserve: int
    free: int
    percent: float
    basis: Literal["actual", "estimated"]
    breakdown: Breakdown
    last_call: LastCall | None
    new_since: int
    accuracy: Accuracy | None
    compactions: int
    tokenizer: str


#: What each part of a request is, to the user.
_PARTS: Final = {
    "system": "what aish is told to be and do",
    "memory": "what you had it remember",
    "project": "the file tree and the project's tasks",
    "summary": "what was said earlier, summarized",
    "instructions": "the project's own instructions, like AGENTS.md",
    "tools": "what the model can call",
    "messages": "questions, replies and outputs",
    "reasoning": "the model's own thoughts, sent back to it",
}


def context_page(
    report: ContextReport, sent: Sequence[RequestMessage], tools: Mapping[str, int]
) -> str:
    """Return the report as a page: a bar, the parts, and what it means.

    ``sent`` is the request itself: its characters are what the count is compared with. ``tools``
    are the servers whose tools are offered, and about how many tokens their schemas take.
    """
    characters = sum(len(message.content) for message in sent)
    used = min(_BAR, round(_BAR * report.total / report.token_budget))
    bar = "█" * used + "░" * (_BAR - used)
    share = f"{report.total:,} / {report.token_budget:,} tokens ({report.percent:.0f} %)"
    parts = {name: getattr(report.breakdown, name) for name in _PARTS}
    what = dict(_PARTS)
    if len(tools) > 1:
        what["tools"] += f": {', '.join(f'{name} {tokens:,}' for name, tokens in tools.items())}"
    rows = [(name, tokens, what[name]) for name, tokens in parts.items() if tokens]
    rows.append(("free", report.free, "then the oldest questions go into the summary"))
    lines = [
        "```",
        f"Context  {share}  {bar}",
        "",
        *(f"  {name:<13}{tokens:>9,}  {about}" for name, tokens, about in rows),
        "",
        (
            f"The model takes {report.context_window:,} tokens at once;"
            f" {report.output_reserve:,} of them are kept for its reply."
        ),
        *_grounds(report),
        f"By the rule of thumb, four characters a token, it would be {characters // 4:,}.",
        "```",
    ]
    return "\n".join(lines)


def _grounds(report: ContextReport) -> list[str]:
    """Return the lines that say how reliable the numbers are, and what has happened so far."""
    call, compared = report.last_call, report.accuracy
    lines = []
    if report.basis == "actual":
        new = f", but for {report.new_since:,} tokens that are new" if report.new_since else ""
        lines.append(f"The total was counted by the model's server{new}.")
    elif report.tokenizer == "endpoint":
        lines.append("The total was counted with the model's own tokenizer.")
    else:
        error = f"; the last one was off by {abs(compared.error_percent):.1f} %" if compared else ""
        lines.append(f"The total is an estimate{error}.")
    if call is not None:
        lines.append(f"The last question took {call.input:,} in, {call.output:,} out.")
    if report.compactions:
        times = "once" if report.compactions == 1 else f"{report.compactions} times"
        lines.append(f"The oldest questions made room for new ones {times} so far.")
    return lines


@dataclass(frozen=True, slots=True)
class CostReport:
    """What a session has used. ``line`` is the cost view's last line."""

    models: dict[str, dict[str, SlotReport]]
    total: SlotReport
    warn_at_dollars: float | None
    warn_at_tokens: int | None
    cap_at_dollars: float | None
    line: str


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One model's usage in one category. ``cost`` is null if it is not known."""

    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    calls: int
    cost: float | None
    local: bool
    unpriced: bool


def cost_report(usage: UsageTotals, thresholds: Cost, total: int, budget: int | None) -> CostReport:
    """Return the report of a session; ``total`` and ``budget`` are the context's, in tokens.

    ``budget`` is None where nobody knows it yet.
    """
    return CostReport(
        models={
            model: {category: _slot_report(slot) for category, slot in categories.items()}
            for model, categories in usage.models.items()
        },
        total=_slot_report(usage.total()),
        warn_at_dollars=thresholds.warn_at_dollars,
        warn_at_tokens=thresholds.warn_at_tokens,
        cap_at_dollars=thresholds.cap_at_dollars,
        line=context_line(total, budget),
    )


def _slot_report(slot: Slot) -> SlotReport:
    unknown = slot.cost == 0 and (slot.local or slot.unpriced)
    return SlotReport(**asdict(slot) | {"cost": None if unknown else slot.cost})


def cost_page(report: CostReport, *, detail: bool) -> str:
    """Return the report as a page; ``detail`` adds a row for each model and category."""
    total = report.total
    lines = ["```", f"Session: {_calls(total)}"]
    if detail:
        for model, categories in report.models.items():
            lines.extend(f"  {model}  {name}  {_calls(slot)}" for name, slot in categories.items())
        lines.append(report.line)
    return "\n".join([*lines, "```"])


def _calls(slot: SlotReport) -> str:
    if slot.cost is not None and not slot.unpriced:
        price = f"${slot.cost:.6f}" + (", and calls that cost nothing" if slot.local else "")
    elif slot.cost is not None:
        price = f"${slot.cost:.6f}, and calls whose price is not known"
    else:
        price = "price not known" if slot.unpriced else "free (on this machine)"
    return f"{count_of(slot.calls, 'call')}, {slot.input:,} in, {slot.output:,} out, {price}"


# What a session's calls were estimated at, what they really used, and what they cost.

logger = logging.getLogger(__name__)


class Meter:
    """Keeps the numbers of one session. Tokens, and dollars.

    Args:
        usage: what it has used before.
        compactions: how many times messages were evicted before.
    """

    def __init__(self, usage: UsageTotals | None = None, compactions: int = 0) -> None:
        self.usage = usage or UsageTotals()
        self._last_calls: dict[str, LastCall] = {}
        self._accuracy: dict[str, Accuracy] = {}
        self._compactions = compactions

    def evicted(self) -> None:
        """Note that messages were evicted from the conversation."""
        self._compactions += 1

    def call_ended(self, preset: Preset, category: Category, usage: Usage) -> Usage:
        """Add a call, its tokens reported or estimated; return its usage with its cost."""
        return replace(usage, cost=self.usage.add(preset.name, category, usage, preset))

    def verified(self, preset: Preset, usage: Usage, size: Measure) -> None:
        """Compare the size of a request when it was sent with what its server reported."""
        self._last_calls[preset.name] = LastCall(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
            at=now(),
            model=preset.name,
        )
        estimated, actual = size.total, usage.input_tokens
        error = estimated - actual
        compared = Accuracy(estimated, actual, error, round(100 * error / max(1, actual), 1))
        self._accuracy[preset.name] = compared
        logger.info(
            "%s: estimated %d tokens (%s), actual %d, error %+d (%+.1f %%)",
            preset.name,
            compared.estimated,
            size.basis,
            compared.actual,
            compared.error_tokens,
            compared.error_percent,
        )

    def context(
        self, size: Measure, limit: Limits, preset: Preset, tokenizer: str
    ) -> ContextReport:
        """Return the report of the next request, with the numbers of the model's last call."""
        return ContextReport(
            total=size.total,
            token_budget=limit.budget,
            context_window=limit.window,
            output_reserve=limit.output_reserve,
            free=max(0, limit.budget - size.total),
            percent=round(100 * size.total / limit.budget, 1),
            basis=size.basis,
            breakdown=size.breakdown,
            last_call=self._last_calls.get(preset.name),
            new_since=size.new_since,
            accuracy=self._accuracy.get(preset.name),
            compactions=self._compactions,
            tokenizer=tokenizer,
        )
