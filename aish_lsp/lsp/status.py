"""``aish.status`` and ``aish/status``: a session at a glance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aish_lsp.foundation.wire import to_wire

if TYPE_CHECKING:
    from aish_lsp.agent.session import Status
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import SessionTarget
    from aish_lsp.lsp.server import AishServer

#: Seconds between two ``aish/status`` notifications of a workspace.
_STATUS_PAUSE = 0.25


def setup(server: AishServer) -> None:
    """Bind the command, and send ``aish/status`` to clients that asked for it."""

    async def status(_call: Call, params: SessionTarget) -> Status:
        return (await server.workspaces.session(params)).status()

    server.bind("aish.status", status)
    server.workspaces.on_open(lambda workspace: _announce(server, workspace))


def _announce(server: AishServer, workspace: Workspace) -> None:
    """Tell the client of each change of status, at most four times a second."""
    waiting: asyncio.TimerHandle | None = None
    last: object = None

    def send() -> None:
        nonlocal waiting, last
        waiting = None
        status = to_wire(workspace.shown.status())
        if status != last:
            last = status
            server.protocol.notify("aish/status", status)

    def changed() -> None:
        nonlocal waiting
        if waiting is None and _wants_status(server):
            waiting = asyncio.get_running_loop().call_later(_STATUS_PAUSE, send)

    workspace.subscribe(changed)


def _wants_status(server: AishServer) -> bool:
    """Return whether the client asked for ``aish/status`` in its ``initializationOptions``."""
    params = server.initialize_params
    options = params.initialization_options if params else None
    section = options.get("aish") if isinstance(options, dict) else None
    return isinstance(section, dict) and section.get("status") is True
