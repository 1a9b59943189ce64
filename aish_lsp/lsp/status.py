"""``aish/status``: the session that is shown, at a glance, to clients that asked for it.

And a line about the client in the log that ``aish-lsp doctor --report`` shows.
"""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING

from aish_lsp import __version__
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import escaped
from aish_lsp.lsp import logs

if TYPE_CHECKING:
    from lsprotocol import types

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


def note_client(client: Client, workspaces: Workspaces) -> None:
    """Note the client once it uses a workspace: until then nothing can have gone wrong."""
    noted = False

    def note(_workspace: Workspace) -> None:
        nonlocal noted
        params = client.initialize_params
        if not noted and params is not None:
            noted = True
            logs.keep(f"client: {describe(params)}")

    workspaces.on_open(note)


def describe(params: types.InitializeParams) -> str:
    """Return who the client is and what of ours it can do, in one line."""
    info, client = params.client_info, params.capabilities
    name = f"{info.name} {info.version or ''}".strip() if info else "it does not say its name"
    workspace, window, document = client.workspace, client.window, client.text_document
    show = window.show_document if window else None
    ask = window.show_message if window else None
    able = {
        "applyEdit": bool(workspace and workspace.apply_edit),
        "codeLens": bool(document and document.code_lens),
        "configuration": bool(workspace and workspace.configuration),
        "showDocument": bool(show and show.support),
        "showMessageRequest": bool(ask and ask.message_action_item),
        "workDoneProgress": bool(window and window.work_done_progress),
        "workspaceFolders": bool(workspace and workspace.workspace_folders),
    }
    can = ", ".join(what for what, yes in able.items() if yes) or "none of it"
    cannot = ", ".join(what for what, yes in able.items() if not yes) or "nothing"
    versions = f"aish-lsp {__version__}, Python {platform.python_version()}"
    return f"{escaped(name)[:80]} ({versions}); can {can}; lacks {cannot}"
