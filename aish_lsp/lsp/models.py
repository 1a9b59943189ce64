"""``aish.model.*``: the models there are, and the one that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.chat.model_adding import add_model
from aish_lsp.lsp.questions import can_choose

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import ModelAddParams, ModelUseParams, Target
    from aish_lsp.server import AishServer
    from aish_lsp.workspace import Workspace


def setup(server: AishServer) -> None:
    """Bind the model commands."""

    async def listed(_call: Call, params: Target) -> object:
        return await _models(await reloaded(params))

    async def reloaded(params: Target) -> Workspace:
        """Return the workspace; its configuration may have been written a moment ago."""
        workspace = server.workspaces.resolve(params)
        for trouble in await workspace.reload():
            server.tell(trouble)
        return workspace

    async def use(_call: Call, params: ModelUseParams) -> object:
        workspace = await reloaded(params)
        await workspace.use_model(params.name)
        return await _models(workspace)

    async def add(_call: Call, params: ModelAddParams) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        added = ""
        if params.choice is None and not can_choose(server):
            # What there is to choose from is shown in the chat, and how to go on there.
            await server.chats.of(workspace).send(":model add")
        else:
            done = await add_model(workspace, params.choice or "")
            server.tell(done.told)
            added = done.name
        return {"added": added or None, **await _models(workspace)}

    server.bind("aish.model.list", listed)
    server.bind("aish.model.add", add)
    server.bind("aish.model.use", use)


async def _models(workspace: Workspace) -> dict[str, object]:
    rows = await workspace.services.catalog.list(workspace.config)
    return {"active": workspace.active_model, "models": rows}
