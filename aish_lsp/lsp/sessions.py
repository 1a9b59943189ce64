"""``aish.session.*``: the session that is open, and those that can be gone back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.events import to_wire
from aish_lsp.sessions.history import history

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import (
        SessionHistoryParams,
        SessionListParams,
        SessionParams,
        SessionSaveParams,
        Target,
    )
    from aish_lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the session commands."""

    async def listed(_call: Call, params: SessionListParams) -> object:
        sessions = server.workspaces.resolve(params).sessions
        if not (params.query or "").strip():
            return {"sessions": await sessions.all()}
        found = await sessions.search(params.query or "")
        return {"sessions": [to_wire(one.session) | {"snippet": one.snippet} for one in found]}

    async def new(_call: Call, params: Target) -> object:
        return {"id": await server.workspaces.resolve(params).sessions.new()}

    async def resume(_call: Call, params: SessionParams) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        resumed = await workspace.sessions.resume(params.id)
        for notice in resumed.notices:
            server.tell(notice)
        return {"id": resumed.id, "turns": resumed.turns}

    async def save(_call: Call, params: SessionSaveParams) -> object:
        sessions = server.workspaces.resolve(params).sessions
        name = await sessions.save(params.name)
        return {"id": sessions.open_id, "name": name}

    async def delete(_call: Call, params: SessionParams) -> object:
        deleted = await server.workspaces.resolve(params).sessions.delete(params.id)
        return {"deleted": int(deleted)}

    async def shown(_call: Call, params: SessionHistoryParams) -> object:
        loaded = await server.workspaces.resolve(params).sessions.history(params.id)
        for notice in loaded.notices[:1]:
            server.tell(notice)
        return {"turns": history(loaded)}

    server.bind("aish.session.list", listed)
    server.bind("aish.session.new", new)
    server.bind("aish.session.resume", resume)
    server.bind("aish.session.save", save)
    server.bind("aish.session.delete", delete)
    server.bind("aish.session.history", shown)
