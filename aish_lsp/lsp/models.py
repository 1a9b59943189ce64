"""``aish.model.*``: the models there are, and the one that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import ModelUseParams, Target
    from aish_lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the model commands."""

    async def listed(_call: Call, params: Target) -> object:
        workspace = server.workspaces.resolve(params)
        rows = await workspace.services.catalog.list(workspace.config)
        return {"active": workspace.active_model, "models": rows}

    async def use(_call: Call, params: ModelUseParams) -> object:
        return {"name": await server.workspaces.resolve(params).use_model(params.name)}

    server.bind("aish.model.list", listed)
    server.bind("aish.model.use", use)
