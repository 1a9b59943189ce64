"""``aish.project.*``: the project as the model is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.project.tree import ProjectBlock

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import ProjectParams
    from aish_lsp.server import AishServer
    from aish_lsp.workspace import Workspace


def setup(server: AishServer) -> None:
    """Bind the project commands."""

    async def show(_call: Call, params: ProjectParams) -> ProjectBlock:
        workspace = server.workspaces.resolve(params)
        workspace.project.shape(params.depth, params.max_chars)
        return await _looked(workspace)

    async def off(call: Call, params: ProjectParams) -> ProjectBlock:
        server.workspaces.resolve(params).project.switch(on=False)
        return await show(call, params)

    async def on(call: Call, params: ProjectParams) -> ProjectBlock:
        server.workspaces.resolve(params).project.switch(on=True)
        return await show(call, params)

    server.bind("aish.project.show", show)
    server.bind("aish.project.refresh", show)
    server.bind("aish.project.off", off)
    server.bind("aish.project.on", on)


async def _looked(workspace: Workspace) -> ProjectBlock:
    """Look at the project and return what the prompt carries of it: nothing while it is off."""
    config = workspace.config.project
    if not workspace.project.shown(config):
        return ProjectBlock("", 0, truncated=False)
    await workspace.project.refresh(config, patience=None)
    return workspace.project.block
