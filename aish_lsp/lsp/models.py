"""``aish.model.*``: the models there are, and the one that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.chat.model_adding import add_model
from aish_lsp.lsp.ask import refuse_unshown
from aish_lsp.lsp.questions import can_choose

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import ModelAddParams, ModelUseParams, SessionTarget
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the model commands."""

    async def listed(_call: Call, params: SessionTarget) -> object:
        return await _models(await reloaded(params))

    async def reloaded(params: SessionTarget) -> Session:
        """Return the session; its configuration may have been written a moment ago."""
        session = await server.workspaces.session(params)
        for trouble in await session.workspace.reload():
            server.tell(trouble)
        return session

    async def use(_call: Call, params: ModelUseParams) -> object:
        session = await reloaded(params)
        await session.use_model(params.name)
        return await _models(session)

    async def add(_call: Call, params: ModelAddParams) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        session = await workspace.sessions.named(params.session)
        added = ""
        if params.choice is None and not can_choose(server):
            # What there is to choose from is shown in the chat, and how to go on there.
            refuse_unshown(session)
            await server.chats.of(workspace).send(":model add")
        else:
            done = await add_model(session, params.choice or "")
            server.tell(done.told)
            added = done.name
        return {"added": added or None, **await _models(session)}

    server.bind("aish.model.list", listed)
    server.bind("aish.model.add", add)
    server.bind("aish.model.use", use)


async def _models(session: Session) -> dict[str, object]:
    workspace = session.workspace
    rows = await workspace.services.catalog.list(workspace.config)
    return {"active": session.active_model, "models": rows}
