"""``aish.session.*``: the sessions that are open, and those that can be gone back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.foundation.wire import to_wire
from aish_lsp.sessions.history import history

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from aish_lsp.agent.sessions import Resumed
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import (
        SessionHistoryParams,
        SessionListParams,
        SessionNewParams,
        SessionParams,
        SessionResumeParams,
        SessionSaveParams,
    )
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the session commands."""

    async def listed(_call: Call, params: SessionListParams) -> object:
        sessions = server.workspaces.resolve(params).sessions
        if not (params.query or "").strip():
            return {"sessions": await sessions.all()}
        found = await sessions.search(params.query or "")
        return {"sessions": [to_wire(one.session) | {"snippet": one.snippet} for one in found]}

    async def new(_call: Call, params: SessionNewParams) -> object:
        session = await server.workspaces.resolve(params).sessions.new(show=params.show)
        return {"id": session.id}

    async def resume(_call: Call, params: SessionResumeParams) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        resumed = await workspace.sessions.resume(params.id)
        for notice in resumed.notices:
            server.tell(notice)
        return {"id": resumed.session.id, "turns": resumed.turns}

    async def save(_call: Call, params: SessionSaveParams) -> object:
        session = await server.workspaces.session(params)
        name = await session.workspace.sessions.save(session, params.name)
        return {"id": session.id, "name": name}

    async def delete(_call: Call, params: SessionParams) -> object:
        deleted = await server.workspaces.resolve(params).sessions.delete(params.id)
        return {"deleted": int(deleted)}

    async def shown(_call: Call, params: SessionHistoryParams) -> object:
        session = await server.workspaces.session(params)
        loaded = await session.workspace.sessions.history(params.id or session.id)
        for notice in loaded.notices[:1]:
            server.tell(notice)
        return {"turns": history(loaded)}

    server.workspaces.on_open(lambda workspace: _begin(server, workspace))
    server.bind("aish.session.list", listed)
    server.bind("aish.session.new", new)
    server.bind("aish.session.resume", resume)
    server.bind("aish.session.save", save)
    server.bind("aish.session.delete", delete)
    server.bind("aish.session.history", shown)


def _begin(server: AishServer, workspace: Workspace) -> None:
    """Go on with the last session of a workspace that was opened, where that is configured."""

    async def tell(beginning: Coroutine[Any, Any, Resumed | None]) -> None:
        resumed = await beginning
        for notice in resumed.notices if resumed else ():
            server.tell(notice)

    # What the editor's settings say counts, too.
    settled = server.configurations.settled(workspace.root)
    server.spawn(tell(workspace.sessions.begin(settled)), "begin with the last session")
