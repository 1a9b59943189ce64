"""Tokens and dollars of a session, by model and category (seed: aish-context-lua, Phase 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.foundation.errors import CostCap
from aish_lsp.foundation.events import Usage
from aish_lsp.models.address import is_loopback
from aish_lsp.models.prices import price_of
from aish_lsp.models.request import reply_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import Cost, Preset, Price

Category: TypeAlias = Literal["main", "summary", "memory", "norris", "route"]

#: No call has more tokens or dollars than this; damaged numbers must not make endless sums.
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


@dataclass(slots=True)
class Slot:
    """What one model has used for one category.

    ``local`` and ``unpriced`` stay set after one such call: a missing cost is not 0 dollars.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    calls: int = 0
    cost: float = 0.0
    local: bool = False
    unpriced: bool = False

    def add(self, other: Slot) -> None:
        """Add another slot's numbers and marks."""
        self.input += other.input
        self.output += other.output
        self.reasoning += other.reasoning
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.calls += other.calls
        self.cost += other.cost
        self.local |= other.local
        self.unpriced |= other.unpriced


@dataclass(slots=True)
class UsageTotals:
    """The totals of a session, with warnings that are given once each until a reset."""

    models: dict[str, dict[str, Slot]] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set, init=False)

    @classmethod
    def of(cls, calls: Iterable[UsageRecord]) -> UsageTotals:
        """Return the sum of recorded calls."""
        totals = cls()
        for call in calls:
            slot = Slot(
                input=call.input,
                output=call.output,
                reasoning=call.reasoning,
                cache_read=call.cache_read,
                cache_write=call.cache_write,
                calls=1,
                cost=call.cost or 0.0,
                local=call.local,
                unpriced=call.cost is None and not call.local,
            )
            totals._add(call.model, call.category, slot)
        return totals

    def add(self, model: str, category: Category, usage: Usage, preset: Preset) -> float | None:
        """Add one call; return its cost in dollars, or None if it has none."""
        cost = call_cost(usage, preset)
        local = is_local(preset)
        slot = Slot(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
            calls=1,
            cost=cost or 0.0,
            local=local and cost is None,
            unpriced=not local and cost is None,
        )
        self._add(model, category, slot)
        return cost

    def _add(self, model: str, category: str, slot: Slot) -> None:
        self.models.setdefault(model, {}).setdefault(category, Slot()).add(slot)

    def total(self) -> Slot:
        """Return the sum of all slots."""
        total = Slot()
        for categories in self.models.values():
            for slot in categories.values():
                total.add(slot)
        return total

    def warnings(self, thresholds: Cost) -> list[str]:
        """Return the warnings due now, one for each threshold that was passed."""
        total = self.total()
        said = []
        dollars, tokens = thresholds.warn_at_dollars, thresholds.warn_at_tokens
        if dollars is not None and total.cost > dollars and "dollars" not in self._warned:
            self._warned.add("dollars")
            said.append(f"This session has cost ${total.cost:.4f}, more than ${dollars:g}.")
        used = total.input + total.output
        if tokens is not None and used > tokens and "tokens" not in self._warned:
            self._warned.add("tokens")
            said.append(f"This session has used {used:,} tokens, more than {tokens:,}.")
        return said

    def reset(self) -> None:
        """Zero the numbers and let the warnings be given again."""
        self.models.clear()
        self._warned.clear()


def is_local(preset: Preset) -> bool:
    """Return whether the model runs on this machine, so that a call costs no dollars."""
    return preset.provider == "offline" or is_loopback(preset.endpoint)


def price_for(preset: Preset, tokens: int) -> Price | None:
    """Return the price for a request of so many tokens: the preset's own, else the table's."""
    return preset.price or price_of(preset, tokens)


def call_cost(usage: Usage, preset: Preset) -> float | None:
    """Return one call's cost in dollars: as the server reports it, else by the model's price."""
    if usage.cost is not None:
        return usage.cost
    price = price_for(preset, usage.input_tokens)
    return None if price is None else _priced(usage, price)


def check_cap(used: UsageTotals, thresholds: Cost, preset: Preset, tokens: int) -> None:
    """Check that a request of ``tokens``, with the longest reply to it, stays below the cap.

    Raises:
        CostCap: it might not, or its price is not known.
    """
    cap = thresholds.cap_at_dollars
    price = price_for(preset, tokens)
    if cap is None or (price is None and is_local(preset)):
        return
    if price is None:
        raise CostCap(
            f"There is a cap of ${cap:g} a session, and the price of the model {preset.name} is"
            f" not known. Set models.{preset.name}.price, for example {{input = 0.15, output ="
            " 0.60}} (dollars a million tokens), or remove cost.cap_at_dollars.",
            capAtDollars=cap,
        )
    spent = used.total().cost
    # A provider may write all of it to its cache, for which some charge more.
    written = tokens if (price.cache_write or 0) > price.input else 0
    most = _priced(Usage(tokens, reply_limit(preset), cache_write_tokens=written), price)
    if spent + most > cap:
        raise CostCap(
            f"This question may cost ${most:.4f}. With ${spent:.4f} spent, that is over the"
            f" session's cap of ${cap:g}. Raise cost.cap_at_dollars, reset the costs (:cost"
            " reset), or choose a cheaper or a local model (:model).",
            capAtDollars=cap,
            spent=spent,
            estimate=most,
        )


def request_cost(preset: Preset, tokens: int) -> float:
    """Return the dollars for a request of ``tokens`` without its reply; 0 if not known."""
    price = price_for(preset, tokens)
    return _priced(Usage(tokens, 0), price) if price is not None else 0.0


def _priced(usage: Usage, price: Price) -> float:
    """Return the cost in dollars; a price is for a million tokens, cached input has its own."""
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
