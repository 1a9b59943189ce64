"""``aish.model.*``: the models there are, and the one that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import ModelUseParams, Target
    from aish_lsp.server import AishServer
    from aish_lsp.workspace import Workspace


def setup(server: AishServer) -> None:
    """Bind the model commands."""

    async def listed(_call: Call, params: Target) -> object:
        return await _models(server.workspaces.resolve(params))

    async def use(_call: Call, params: ModelUseParams) -> object:
        workspace = server.workspaces.resolve(params)
        await workspace.use_model(params.name)
        return await _models(workspace)

    server.bind("aish.model.list", listed)
    server.bind("aish.model.use", use)


async def _models(workspace: Workspace) -> object:
    rows = await workspace.services.catalog.list(workspace.config)
    return {"active": workspace.active_model, "models": rows}
