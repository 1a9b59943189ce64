"""Tokens and dollars of a session, by model and category (seed: aish-context-lua, Phase 7)."""

from __future__ import annotations

import logging
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.context.measure import Accuracy, ContextReport, LastCall
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import CostCap
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.jsonl import now
from aish_lsp.foundation.text import count_of
from aish_lsp.models.address import is_loopback
from aish_lsp.models.prices import price_of
from aish_lsp.models.providers import reply_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import Cost, Preset, Price
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.measure import Measure

logger = logging.getLogger(__name__)

Category: TypeAlias = Literal["main", "summary", "memory", "norris", "route"]

#: The most tokens or dollars of a call; damaged numbers must not spoil the sums.
MOST: Final = 10**15
_BOUNDS: Final = {"minimum": 0, "maximum": MOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """One call: tokens, and dollars (None: not known, or a local model).

    ``input`` includes what was cached, and ``output`` includes reasoning; ``estimated`` is set if
    the server gave no numbers. ``category`` is main, summary, memory, norris or route.
    """

    ts: str
    session: str
    model: str
    provider: str
    category: str
    input: int = field(metadata=_BOUNDS)
    output: int = field(metadata=_BOUNDS)
    reasoning: int = field(default=0, metadata=_BOUNDS)
    cache_read: int = field(default=0, metadata=_BOUNDS)
    cache_write: int = field(default=0, metadata=_BOUNDS)
    cost: float | None = field(default=None, metadata=_BOUNDS)
    local: bool = False
    estimated: bool = False

    @property
    def usage(self) -> Usage:
        """What the call used."""
        cached = self.cache_read, self.cache_write
        return Usage(self.input, self.output, self.reasoning, *cached, self.cost)


def tokens_of(usage: Usage) -> dict[str, int]:
    """Return a call's tokens by their names in aish's files and reports."""
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
    }


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One model's usage in one category. ``cost`` is null if it is not known."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    calls: int = 0
    cost: float | None = 0.0
    local: bool = False
    unpriced: bool = False

    def plus(self, other: SlotReport) -> SlotReport:
        """Return the sum of both.

        One ``local`` or ``unpriced`` call marks the sum: a missing cost is not 0 dollars.
        """
        cost = (self.cost or 0.0) + (other.cost or 0.0)
        local, unpriced = self.local or other.local, self.unpriced or other.unpriced
        return SlotReport(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            calls=self.calls + other.calls,
            cost=None if cost == 0 and (local or unpriced) else cost,
            local=local,
            unpriced=unpriced,
        )


@dataclass(slots=True)
class UsageTotals:
    """The totals of a session, with warnings that are given once each until a reset."""

    models: dict[str, dict[str, SlotReport]] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set, init=False)

    @classmethod
    def of(cls, calls: Iterable[UsageRecord]) -> UsageTotals:
        """Return the sum of recorded calls."""
        totals = cls()
        for call in calls:
            totals._add(call.model, call.category, call.usage, local=call.local)
        return totals

    def add(self, preset: Preset, category: Category, usage: Usage) -> Usage:
        """Add one call; return its usage with its cost in dollars, None if it has none."""
        usage = replace(usage, cost=call_cost(usage, preset))
        free = is_local(preset) and usage.cost is None
        self._add(preset.name, category, usage, local=free)
        return usage

    def _add(self, model: str, category: str, usage: Usage, *, local: bool) -> None:
        call = SlotReport(
            **tokens_of(usage),
            calls=1,
            cost=usage.cost,
            local=local,
            unpriced=usage.cost is None and not local,
        )
        categories = self.models.setdefault(model, {})
        categories[category] = categories.get(category, SlotReport()).plus(call)

    def total(self) -> SlotReport:
        """Return the sum of all slots."""
        total = SlotReport()
        for categories in self.models.values():
            for slot in categories.values():
                total = total.plus(slot)
        return total

    def cost(self) -> float:
        """Return the dollars of all calls whose cost is known."""
        return self.total().cost or 0.0

    def warnings(self, thresholds: Cost) -> list[str]:
        """Return the warnings due now, one for each threshold that was passed."""
        total, spent = self.total(), self.cost()
        warnings = []
        dollars, tokens = thresholds.warn_at_dollars, thresholds.warn_at_tokens
        if dollars is not None and spent > dollars and "dollars" not in self._warned:
            self._warned.add("dollars")
            warnings.append(f"This session has cost ${spent:.4f}, more than ${dollars:g}.")
        used = total.input + total.output
        if tokens is not None and used > tokens and "tokens" not in self._warned:
            self._warned.add("tokens")
            warnings.append(f"This session has used {used:,} tokens, more than {tokens:,}.")
        return warnings

    def reset(self) -> None:
        """Zero the numbers and let the warnings be given again."""
        self.models.clear()
        self._warned.clear()


def is_local(preset: Preset) -> bool:
    """Return whether the model runs on this machine, so that a call costs no dollars."""
    return preset.provider == "offline" or is_loopback(preset.endpoint)


def price_for(preset: Preset, tokens: int) -> Price | None:
    """Return the price for a request of ``tokens``: the preset's own, else the table's."""
    return preset.price or price_of(preset, tokens)


def call_cost(usage: Usage, preset: Preset) -> float | None:
    """Return a call's cost in dollars, as the server reports it or else by the model's price."""
    if usage.cost is not None:
        return usage.cost
    price = price_for(preset, usage.input_tokens)
    return None if price is None else _priced(usage, price)


def check_cap(used: UsageTotals, thresholds: Cost, preset: Preset, tokens: int) -> None:
    """Check that a request of ``tokens``, with the longest possible reply, stays below the cap.

    Raises:
        CostCap: it may not, or its price is not known.
    """
    cap = thresholds.cap_at_dollars
    price = price_for(preset, tokens)
    if cap is None or (price is None and is_local(preset)):
        return
    if price is None:
        raise CostCap(
            f"There is a cap of ${cap:g} a session, and the price of the model {preset.name} is"
            f" not known. Set models.{preset.name}.price, for example {{input = 0.15, output ="
            " 0.60} (dollars a million tokens), or remove cost.cap_at_dollars.",
            capAtDollars=cap,
        )
    spent = used.cost()
    # A provider may write the whole request to its cache, for which some charge more.
    written = tokens if (price.cache_write or 0) > price.input else 0
    most = _priced(Usage(tokens, reply_limit(preset), cache_write_tokens=written), price)
    if spent + most > cap:
        raise CostCap(
            f"This question may cost ${most:.4f}. With ${spent:.4f} spent, that is over the"
            f" session's cap of ${cap:g}. Raise cost.cap_at_dollars, reset the costs"
            " (`:cost reset`), or choose a cheaper or a local model (`:model NAME`).",
            capAtDollars=cap,
            spent=spent,
            estimate=most,
        )


def request_cost(preset: Preset, tokens: int) -> float:
    """Return the dollars for a request of ``tokens`` without its reply; 0 if not known."""
    price = price_for(preset, tokens)
    return _priced(Usage(tokens, 0), price) if price is not None else 0.0


def _priced(usage: Usage, price: Price) -> float:
    """Return the cost in dollars; prices are for a million tokens, and differ for cached input."""
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    micro = (
        fresh * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.output_tokens * price.output
    )
    return micro / 1_000_000


def context_line(total: int, budget: int | None) -> str:
    """Return the cost view's last line; ``budget`` is None if it is not known yet."""
    if budget is None:
        return f"[estimated session ctx: {total} tokens; token_budget unknown]"
    percent = round(100 * total / budget)
    return f"[estimated session ctx: {total} tokens; token_budget={budget} ({percent}% used)]"


# What a session has cost, as data and as a page to read.


@dataclass(frozen=True, slots=True)
class CostReport:
    """What a session has used. ``line`` is the cost view's last line."""

    models: dict[str, dict[str, SlotReport]]
    total: SlotReport
    warn_at_dollars: float | None
    warn_at_tokens: int | None
    cap_at_dollars: float | None
    line: str


def cost_report(usage: UsageTotals, thresholds: Cost, total: int, budget: int | None) -> CostReport:
    """Return the report of a session; ``total`` and ``budget`` are the context's, in tokens.

    ``budget`` is None if it is not known yet.
    """
    return CostReport(
        models={model: dict(categories) for model, categories in usage.models.items()},
        total=usage.total(),
        warn_at_dollars=thresholds.warn_at_dollars,
        warn_at_tokens=thresholds.warn_at_tokens,
        cap_at_dollars=thresholds.cap_at_dollars,
        line=context_line(total, budget),
    )


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
    share = round(100 * slot.cache_read / max(slot.input, 1))
    cached = f" ({share} % from a cache)" if slot.cache_read else ""
    calls = count_of(slot.calls, "call")
    return f"{calls}, {slot.input:,} in{cached}, {slot.output:,} out, {price}"


# The estimated and the actual size of a session's calls, and their cost.


class Meter:
    """Keeps the tokens and the dollars of one session.

    Args:
        usage: what it has used before.
        compactions: how many times messages were evicted before.
    """

    def __init__(self, usage: UsageTotals | None = None, compactions: int = 0) -> None:
        self.usage = usage or UsageTotals()
        self._verified: dict[str, tuple[LastCall, Accuracy]] = {}
        self._compactions = compactions

    def evicted(self) -> None:
        """Note that messages were evicted from the conversation."""
        self._compactions += 1

    def verified(self, preset: Preset, usage: Usage, size: Measure) -> None:
        """Compare the size of a request when it was sent with what its server reported."""
        call = LastCall(**tokens_of(usage), at=now(), model=preset.name)
        estimated, actual = size.total, usage.input_tokens
        error = estimated - actual
        compared = Accuracy(estimated, actual, error, round(100 * error / max(1, actual), 1))
        self._verified[preset.name] = call, compared
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
        call, compared = self._verified.get(preset.name, (None, None))
        return ContextReport(
            total=size.total,
            token_budget=limit.budget,
            context_window=limit.window,
            output_reserve=limit.output_reserve,
            free=max(0, limit.budget - size.total),
            percent=round(100 * size.total / limit.budget, 1),
            basis=size.basis,
            breakdown=size.breakdown,
            last_call=call,
            new_since=size.new_since,
            accuracy=compared,
            compactions=self._compactions,
            tokenizer=tokenizer,
        )
