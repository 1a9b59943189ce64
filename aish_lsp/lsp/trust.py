"""``aish.trust.*``: what the workspace's own configuration asks for, and what is granted of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aish_lsp.config.granting import asked_for, grant_by_consent

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import Target
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the trust commands."""
    server.bind("aish.trust.show", _show)
    server.bind("aish.trust.grant", _grant)
    server.bind("aish.trust.revoke", _revoke)


async def _show(call: Call, params: Target) -> object:
    workspace = await _settled(call, params)
    await asked_for(workspace.configuration)
    return _wire(workspace)


async def _grant(call: Call, params: Target) -> object:
    workspace = await _settled(call, params)
    if not await grant_by_consent(workspace.configuration, workspace.services.ask_user):
        call.server.tell("Nothing was granted: it was not confirmed.")
    workspace.changed()
    return _wire(workspace)


async def _revoke(call: Call, params: Target) -> object:
    workspace = await _settled(call, params)
    await asyncio.to_thread(workspace.configuration.revoke)
    workspace.changed()
    return _wire(workspace)


async def _settled(call: Call, params: Target) -> Workspace:
    """Return the workspace that is meant, with what the editor's settings are now."""
    workspace = call.server.workspaces.resolve(params)
    await call.server.configurations.settled(workspace.root)
    return workspace


def _wire(workspace: Workspace) -> dict[str, Any]:
    configuration = workspace.configuration
    requests = [
        {
            "what": request.what,
            "name": request.name,
            "asked": [{"key": key, "value": value} for key, value in request.asked],
            "hash": request.hash,
            "granted": request.granted,
        }
        for request in configuration.loaded.requests
    ]
    return {"trusted": configuration.trusted, "requests": requests}
