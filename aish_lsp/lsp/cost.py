"""``aish.cost.*``: what was used and what it cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.conversation.report import CostReport
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import CostParams
    from aish_lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the cost commands."""

    async def show(_call: Call, params: CostParams) -> CostReport:
        workspace = server.workspaces.resolve(params)
        if params.all_sessions:
            return await asyncio.to_thread(workspace.next_request().cost_of_all_sessions)
        return workspace.next_request().cost()

    async def reset(call: Call, params: CostParams) -> CostReport:
        await server.workspaces.resolve(params).reset_costs()
        return await show(call, params)

    server.bind("aish.cost.show", show)
    server.bind("aish.cost.reset", reset)
