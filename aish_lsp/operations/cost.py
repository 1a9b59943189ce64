"""``cost.*``: what was used and what it cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aish_lsp.context.report import CostReport, cost_page
from aish_lsp.context.usage import UsageTotals
from aish_lsp.operations.operation import Answer, Line, Place, SessionTarget, operation


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParams(SessionTarget):
    """``detail`` adds a row a model; ``all_sessions`` adds the sessions before this one."""

    detail: bool = False
    all_sessions: bool = False


def _read_detail(_place: Place, _argument: str) -> CostParams:
    return CostParams(detail=True)


@operation(
    "cost.show",
    CostParams,
    Line("cost", help="what was used and what it cost"),
    Line("cost detail", read=_read_detail),
    shows=True,
)
async def show(place: Place, params: CostParams) -> Answer[CostReport]:
    """What was used and what it cost.

    `models` is `{NAME: {CATEGORY: {input, output, reasoning, cacheRead, cacheWrite, calls, cost,
    local, unpriced}}}`, and `total` is one of these.

    Raises:
        StoreUnavailable: what earlier sessions used cannot be read.
    """
    upcoming = place.session.next_request()
    if params.all_sessions:
        calls = await asyncio.to_thread(place.session.recorder.usage_of_all_sessions)
        report = upcoming.cost_of(UsageTotals.of(calls))
    else:
        report = upcoming.cost()
    return Answer(report, cost_page(report, detail=params.detail))


@operation("cost.reset", CostParams, Line("cost reset"))
async def reset(place: Place, params: CostParams) -> Answer[CostReport]:
    """Count this session's use from nothing."""
    await place.session.reset_costs()
    return await show(place, params)
