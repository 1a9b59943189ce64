"""``aish.cost.*``: what was used and what it cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.context.report import CostReport
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import CostParams
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the cost commands."""

    async def show(_call: Call, params: CostParams) -> CostReport:
        upcoming = (await server.workspaces.session(params)).next_request()
        if params.all_sessions:
            return await asyncio.to_thread(upcoming.cost_of_all_sessions)
        return upcoming.cost()

    async def reset(call: Call, params: CostParams) -> CostReport:
        await (await server.workspaces.session(params)).reset_costs()
        return await show(call, params)

    server.bind("aish.cost.show", show)
    server.bind("aish.cost.reset", reset)
