"""``aish.cost.*``: what was used and what it cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aish_lsp.context.usage import UsageTotals

if TYPE_CHECKING:
    from aish_lsp.context.report import CostReport
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import CostParams
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the cost commands."""

    async def show(_call: Call, params: CostParams) -> CostReport:
        session = await server.workspaces.session(params)
        upcoming = session.next_request()
        if params.all_sessions:
            calls = await asyncio.to_thread(session.recorder.usage_of_all_sessions)
            return upcoming.cost_of(UsageTotals.of(calls))
        return upcoming.cost()

    async def reset(call: Call, params: CostParams) -> CostReport:
        await (await server.workspaces.session(params)).reset_costs()
        return await show(call, params)

    server.bind("aish.cost.show", show)
    server.bind("aish.cost.reset", reset)
