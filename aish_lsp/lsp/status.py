"""``aish/status``: the session that is shown, at a glance, to clients that asked for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aish_lsp.foundation.wire import to_wire

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.client import Client
    from aish_lsp.lsp.workspaces import Workspaces

#: Seconds between two ``aish/status`` notifications of a workspace.
_STATUS_PAUSE = 0.25


def setup(client: Client, workspaces: Workspaces) -> None:
    """Send ``aish/status`` to clients that asked for it."""
    workspaces.on_open(lambda workspace: _announce(client, workspace))


def _announce(client: Client, workspace: Workspace) -> None:
    """Tell the client of each change of status, at most four times a second."""
    waiting: asyncio.TimerHandle | None = None
    last: object = None

    def send() -> None:
        nonlocal waiting, last
        waiting = None
        status = to_wire(workspace.shown.status())
        if status != last:
            last = status
            client.notify("aish/status", status)

    def changed() -> None:
        nonlocal waiting
        if waiting is None and _wants_status(client):
            waiting = asyncio.get_running_loop().call_later(_STATUS_PAUSE, send)

    workspace.subscribe(changed)


def _wants_status(client: Client) -> bool:
    """Return whether the client asked for ``aish/status`` in its ``initializationOptions``."""
    params = client.initialize_params
    options = params.initialization_options if params else None
    section = options.get("aish") if isinstance(options, dict) else None
    return isinstance(section, dict) and section.get("status") is True
