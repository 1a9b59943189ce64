"""What a session's calls were estimated at, what they really used, and what they cost."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from aish_lsp.context.report import (
    Accuracy,
    ContextReport,
    LastCall,
    accuracy,
    context_report,
)
from aish_lsp.context.usage import Category, UsageTotals

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.measure import Measure
    from aish_lsp.models.events import Usage

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
        """Compare the size that a request was sent with to what its server reported of it."""
        self._last_calls[preset.name] = LastCall(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
            at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            model=preset.name,
        )
        compared = accuracy(size.total, usage.input_tokens)
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
        """Return the report of the next request, with what the model's last call came to."""
        return context_report(
            size,
            limit,
            last_call=self._last_calls.get(preset.name),
            accuracy=self._accuracy.get(preset.name),
            compactions=self._compactions,
            tokenizer=tokenizer,
        )
