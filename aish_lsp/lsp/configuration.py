"""What the client says about itself: who it is, and its settings as they change.

Who it is goes into the log that ``aish-lsp doctor --report`` shows. A client that asks for it is
sent ``aish/status``: a summary of the session that is shown.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from aish_lsp import __version__
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import escaped
from aish_lsp.lsp import logs
from aish_lsp.lsp.base_server import can, declares

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.agent.services import Services
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.workspaces import Workspaces

logger = logging.getLogger(__name__)

#: Seconds within which a client must send its settings, or answer that it will report changes.
_ANSWER = 60.0

#: Seconds for which a question or a command waits for the settings.
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class _Pull:
    """A request for the client's settings, and the loop time until which others wait for it."""

    task: asyncio.Task[None]
    until: float


class Configurations:
    """The configurations of a client's folders, each with the client's settings for that folder."""

    def __init__(self, server: BaseServer, services: Services) -> None:
        self._server = server
        self._services = services
        self._of: dict[Path | None, Configuration] = {}
        self._pulls: dict[Path | None, _Pull] = {}
        self._pushed: Any = None

    def of(self, root: Path | None) -> Configuration:
        """Return the configuration of a folder, created on its first use."""
        if root not in self._of:
            configuration = Configuration(root, self._services.trust, self._services.environ)
            params = self._server.initialize_params
            if params is not None:
                configuration.initialize(params.initialization_options)
            configuration.update("workspace/configuration", self._pushed)
            self._of[root] = configuration
            self._pull(root, configuration)
        return self._of[root]

    def forget(self, root: Path | None) -> None:
        """Drop the configuration of a folder that was closed."""
        self._of.pop(root, None)
        pull = self._pulls.pop(root, None)
        if pull is not None:
            pull.task.cancel()

    async def settled(self, root: Path | None) -> None:
        """Wait at most a few seconds until the client has sent its current settings."""
        pull = self._pulls.get(root)
        if pull is not None:
            left = max(0.0, pull.until - asyncio.get_running_loop().time())
            await asyncio.wait([pull.task], timeout=left)

    def pull(self) -> None:
        """Ask the client again for the settings of every folder."""
        for root, configuration in self._of.items():
            self._pull(root, configuration)

    def push(self, settings: Any) -> None:
        """Use the settings sent by a client that cannot be asked for them."""
        self._pushed = settings.get("aish") if isinstance(settings, dict) else None
        for configuration in self._of.values():
            configuration.update("workspace/configuration", self._pushed)

    def _pull(self, root: Path | None, configuration: Configuration) -> None:
        if not can(self._server, "workspace.configuration"):
            return
        if root in self._pulls:
            # Its answer would be older than the answer to this request.
            self._pulls[root].task.cancel()
        task = self._server.spawn(self._ask(root, configuration), "ask for the settings")
        self._pulls[root] = _Pull(task, asyncio.get_running_loop().time() + _PATIENCE)

    async def _ask(self, root: Path | None, configuration: Configuration) -> None:
        item = types.ConfigurationItem(root.as_uri() if root else None, "aish")
        params = types.ConfigurationParams([item])
        asking = self._server.workspace_configuration_async(params)
        answer = await self._server.answer_of(asking, _ANSWER)
        # Without an answer, the known settings stay in force.
        if isinstance(answer, list | tuple) and len(answer) == 1:
            configuration.update("workspace/configuration", answer[0])


def setup(server: BaseServer, configurations: Configurations, workspaces: Workspaces) -> None:
    """Follow the client's settings."""

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def _changed(params: types.DidChangeConfigurationParams) -> None:
        if can(server, "workspace.configuration"):
            configurations.pull()
        else:
            configurations.push(params.settings)

    workspaces.on_close(lambda workspace: configurations.forget(workspace.root))

    @server.feature(types.INITIALIZED)
    async def _initialized(_params: types.InitializedParams) -> None:
        await _register(server)


async def _register(server: BaseServer) -> None:
    """Ask the client to report changes of its settings, if it has to be asked."""
    if not can(server, "workspace.did_change_configuration.dynamic_registration"):
        return
    method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
    options = types.DidChangeConfigurationRegistrationOptions("aish")
    params = types.RegistrationParams([types.Registration("aish-settings", method, options)])
    await server.answer_of(server.client_register_capability_async(params), _ANSWER)


#: Seconds between two ``aish/status`` notifications of a workspace.
_STATUS_PAUSE = 0.25


def send_status(server: BaseServer, workspace: Workspace) -> None:
    """Send ``aish/status`` at its changes, at most four times a second, to a client that asked."""
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
        if waiting is None and declares(server, "status"):
            waiting = asyncio.get_running_loop().call_later(_STATUS_PAUSE, send)

    workspace.subscribe(changed)


def note_client(server: BaseServer, workspaces: Workspaces) -> None:
    """Log who the client is once it uses a workspace; before that there is nothing to report."""
    logged = False

    def note(_workspace: Workspace) -> None:
        nonlocal logged
        params = server.initialize_params
        if not logged and params is not None:
            logged = True
            info = params.client_info
            name = (
                f"{info.name} {info.version or ''}".strip() if info else "a client without a name"
            )
            logs.keep(f"client: {escaped(name)[:80]} (aish-lsp {__version__})")

    workspaces.on_open(note)
