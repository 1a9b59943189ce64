"""What a session's calls were estimated at, what they really used, and what they cost."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

from aish_lsp.conversation.report import (
    Accuracy,
    ContextReport,
    CostReport,
    LastCall,
    accuracy,
    context_report,
    cost_report,
)
from aish_lsp.conversation.usage import Category, UsageTotals

if TYPE_CHECKING:
    from aish_lsp.config.schema import Cost, Preset
    from aish_lsp.conversation.budget import Limits, Measure
    from aish_lsp.models.events import Usage


class Meter:
    """Keeps the numbers of one session. Tokens, and dollars."""

    def __init__(self) -> None:
        self.usage = UsageTotals()
        self._estimated: int | None = None
        self._last_call: LastCall | None = None
        self._accuracy: Accuracy | None = None
        self._compactions = 0

    def request_sent(self, size: Measure, *, evicted: bool) -> None:
        """Note the size that the request which now leaves was measured at."""
        self._estimated = size.total
        self._compactions += evicted

    def call_ended(
        self, preset: Preset, category: Category, usage: Usage, *, estimated: bool
    ) -> Usage:
        """Add a call; return its usage with its cost. ``estimated``: the server told none."""
        cost = self.usage.add(preset.name, category, usage, preset)
        if not estimated and category == "main":
            self._last_call = LastCall(
                input=usage.input_tokens,
                output=usage.output_tokens,
                reasoning=usage.reasoning_tokens,
                cache_read=usage.cache_read_tokens,
                cache_write=usage.cache_write_tokens,
                at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                model=preset.name,
            )
            if self._estimated is not None:
                self._accuracy = accuracy(self._estimated, usage.input_tokens)
        return replace(usage, cost=cost)

    def context(self, size: Measure, limit: Limits, new_since: int) -> ContextReport:
        """Return the report of the next request; ``new_since``: messages since the last call."""
        return context_report(
            size,
            limit,
            last_call=self._last_call,
            accuracy=self._accuracy,
            new_since=new_since,
            compactions=self._compactions,
        )

    def cost(self, thresholds: Cost, size: Measure, limit: Limits) -> CostReport:
        """Return what the session has used and cost."""
        return cost_report(self.usage, thresholds, size.total, limit.budget)
