"""The language server: its parts put together, and what features use of it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.exceptions import JsonRpcException

from aish_lsp import __version__
from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.lsp import (
    chats,
    configuration,
    open_documents,
    suggestions,
    workspaces,
)
from aish_lsp.lsp.chats import ChatDocuments, checklist_actions
from aish_lsp.lsp.client import CommandSpec, CommandTable, Handler, Progress
from aish_lsp.lsp.commands import OperationCommands
from aish_lsp.lsp.configuration import Configurations
from aish_lsp.lsp.extension import ChatLines, Completions
from aish_lsp.lsp.lifecycle import GRACE, Lifecycle
from aish_lsp.lsp.messages import MessageId, Outbox
from aish_lsp.lsp.open_documents import LspEditor, OpenDocuments, edit_open
from aish_lsp.lsp.overrides import TEXT_SYNC, AishProtocol, Host
from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.questions import (
    ClientLookUp,
    OpenQuestions,
    asker,
    chooser,
    terminal_reader,
)
from aish_lsp.lsp.selection_actions import Replacing, selection_actions
from aish_lsp.lsp.selections import Selections
from aish_lsp.lsp.workspaces import Workspaces

logger = logging.getLogger(__name__)

#: Seconds in which a client answers that it will show a progress.
CREATE_PROGRESS = 10.0


class AishServer(Host):
    """Serves one client, and is the ``Client`` of the features.

    Attributes:
        outbox: what waits to be sent; None while nobody is connected.
        documents: the open documents.
        services: what all workspaces share.
        workspaces: the folders' contexts.
        chats: the folders' chat documents.
        selections: what the client has asked about lately.
    """

    protocol: AishProtocol

    def __init__(self, commands: Mapping[str, CommandSpec]) -> None:
        self.commands = CommandTable(commands)
        self.lifecycle = Lifecycle()
        self.outbox: Outbox | None = None
        self.initialize_params: types.InitializeParams | None = None
        self.documents = OpenDocuments(self)
        self.questions = OpenQuestions()
        self.services = Services(
            asker(self, self.questions),
            open_text=self._open_text,
            choose=chooser(self, self.questions),
            edit_open=edit_open(LspEditor(self), self.documents),
            look_up=ClientLookUp(self),
            read_terminal=terminal_reader(self),
            tools_of=tools_of,
        )
        self.configurations = Configurations(self, self.services)
        # Not the keys: pygls has decoded them, and "a%23b" would lead to the folder "a".
        self.workspaces = Workspaces(
            lambda: [folder.uri for folder in self.workspace.folders.values()], self._open_workspace
        )
        self.selections = Selections(self, self.documents)
        self.chats = ChatDocuments(self, self.documents, self.workspaces, self.selections)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._shutdown_hooks: list[Callable[[], Awaitable[object]]] = []
        self._stopping: asyncio.Task[None] | None = None
        super().__init__(
            "aish-lsp",
            __version__,
            text_document_sync_kind=TEXT_SYNC,
            protocol_cls=AishProtocol,
            converter_factory=get_converter,
        )

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``; see CommandTable.bind."""
        self.commands.bind(name, handler)

    def _open_workspace(self, root: Path | None) -> Workspace:
        return Workspace(root, self.services, self.configurations.of(root))

    def _open_text(self, path: Path) -> str | None:
        document = self.documents.of_file(path)
        return None if document is None else document.text

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self.protocol.notify(method, params)

    def tell(self, message: str, *, error: bool = False) -> None:
        """Show ``message`` to the user, beside whatever they do."""
        kind = types.MessageType.Error if error else types.MessageType.Info
        self.window_show_message(types.ShowMessageParams(kind, message))

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background; what it raises is logged. The shutdown cancels it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)
        return task

    def _spawned_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)

    async def request(self, method: str, params: object, timeout: float) -> Any:  # noqa: ASYNC109 - raises TimeoutError
        """Ask the client; return its answer as lsprotocol's type for it.

        Raises:
            TimeoutError: it did not answer within ``timeout`` seconds.
            JsonRpcException: it answered with an error, or with what is not an answer to
            ``method``.
        """
        async with asyncio.timeout(timeout):
            return await self.protocol.send_request_async(method, params)

    def send_progress(self, token: MessageId, value: Mapping[str, Any]) -> None:
        """Send ``value``, plain JSON data, under a progress token."""
        self.protocol.send_progress(token, value)

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress of our own; silent where the client shows none.

        It may be reported on and ended at once: nothing waits for the client.
        """
        window = self.protocol.client_capabilities.window
        if window is None or not window.work_done_progress:
            return Progress.silent()
        token = str(uuid.uuid4())
        self.protocol.on_token_cancel(token, on_cancel)
        forget = partial(self.protocol.forget_token, token, on_cancel)
        progress = Progress(title, partial(self.send_progress, token), closed=forget)
        self.spawn(self._open_progress(token, progress), f"progress {title}")
        return progress

    async def _open_progress(self, token: str, progress: Progress) -> None:
        params = types.WorkDoneProgressCreateParams(token)
        try:
            await self.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, CREATE_PROGRESS)
        except (TimeoutError, JsonRpcException):
            logger.info("the client does not show a progress that it was asked to show")
        else:
            progress.open()

    async def drained(self) -> None:
        """Wait while the client is more than about a megabyte behind."""
        if self.outbox is not None:
            await self.outbox.drained()

    def on_shutdown(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Call ``hook`` once when the server stops, after the running commands were cancelled."""
        self._shutdown_hooks.append(hook)

    async def stop_work(self) -> None:
        """Cancel what runs and let it record what it has, for GRACE seconds at most."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_work())
        await asyncio.shield(self._stopping)

    async def _stop_work(self) -> None:
        # A third is left to the hooks where a command does not end.
        await self.protocol.stop_requests(GRACE * 2 / 3)
        for task in list(self._tasks):
            task.cancel()
        hooks = [asyncio.ensure_future(hook()) for hook in self._shutdown_hooks]
        waiting = [*hooks, *self._tasks]
        if not waiting:
            return
        await asyncio.wait(waiting, timeout=GRACE / 3)
        for hook in hooks:
            if hook.done() and not hook.cancelled() and (error := hook.exception()) is not None:
                logger.error("a shutdown hook failed", exc_info=error)


def _wire_operations(server: AishServer) -> None:
    operations = OperationCommands(
        server,
        server.services,
        server.configurations,
        server.documents,
        server.workspaces,
        server.chats,
        server.selections,
    )
    operations.bind()
    ChatLines(operations).bind()
    Completions(operations).bind()


def _wire_actions(server: AishServer) -> None:
    documents, folders, conversations = server.documents, server.workspaces, server.chats
    replacing = Replacing(
        server, documents, server.selections, conversations, server.services.ask_user
    )
    server.bind("aish.selection.replace", replacing.replace)
    documents.on_change(server.selections.changed)
    others = (
        partial(checklist_actions, documents, conversations),
        replacing.actions,
        partial(selection_actions, documents, folders, conversations),
    )
    suggestions.setup(server, documents, folders, conversations, others)


#: What is switched on, by name and in this order: each feature is given what it uses.
FEATURES: Final[Mapping[str, Callable[[AishServer], None]]] = {
    "configuration": lambda server: configuration.setup(
        server, server.configurations, server.workspaces
    ),
    "documents": lambda server: open_documents.setup(server, server.documents),
    "workspaces": lambda server: workspaces.setup(server, server.workspaces),
    "client note": lambda server: configuration.note_client(server, server.workspaces),
    "operations": _wire_operations,
    "chats": lambda server: chats.setup(
        server, server.documents, server.workspaces, server.chats, server.configurations
    ),
    "actions": _wire_actions,
    "project": lambda server: workspaces.follow_projects(
        server, server.workspaces, server.documents
    ),
    "status": lambda server: configuration.send_status(server, server.workspaces),
}


def create_server() -> AishServer:
    """Return a server with all its features; one that fails is logged and left out."""
    server = AishServer(COMMANDS)
    for name, wire in FEATURES.items():
        set_up(server, name, wire)
    return server


def set_up(server: AishServer, name: str, wire: Callable[[AishServer], None]) -> None:
    """Switch a feature on; log it where it fails."""
    try:
        wire(server)
    except Exception:
        logger.exception("the feature %s is left out", name)
