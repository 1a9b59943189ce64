"""The language server: its parts, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

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
from aish_lsp.lsp.client import Client, CommandSpec
from aish_lsp.lsp.commands import OperationCommands
from aish_lsp.lsp.configuration import Configurations
from aish_lsp.lsp.extension import ExtensionCommands
from aish_lsp.lsp.open_documents import OpenDocuments, edit_open
from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.questions import ClientLookUp, Questions, terminal_reader
from aish_lsp.lsp.selection_actions import Replacing, selection_actions
from aish_lsp.lsp.selections import Selections
from aish_lsp.lsp.workspaces import Workspaces

logger = logging.getLogger(__name__)


class AishServer(Client):
    """Serves one client.

    Attributes:
        documents: the open documents.
        services: what all workspaces share.
        workspaces: the folders' contexts.
        chats: the folders' chat documents.
        selections: the parts of documents that the client has asked about lately.
    """

    def __init__(self, commands: Mapping[str, CommandSpec]) -> None:
        super().__init__(commands)
        self.documents = OpenDocuments(self)
        questions = Questions(self, self.documents)
        self.services = Services(
            questions.ask_user,
            open_text=self._open_text,
            choose=questions.choose,
            edit_open=edit_open(self.documents),
            look_up=ClientLookUp(self, self.documents),
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
        open_documents.setup(self, self.documents)

    def _open_workspace(self, root: Path | None) -> Workspace:
        return Workspace(root, self.services, self.configurations.of(root))

    def _open_text(self, path: Path) -> str | None:
        document = self.documents.document(path)
        return None if document is None else document.text


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
    ExtensionCommands(operations).bind()


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


#: The features by name, in the order in which they are switched on; each is given what it uses.
FEATURES: Final[Mapping[str, Callable[[AishServer], object]]] = {
    "configuration": lambda server: configuration.setup(
        server, server.configurations, server.workspaces
    ),
    "workspaces": lambda server: workspaces.setup(server, server.workspaces),
    "client note": lambda server: configuration.note_client(server, server.workspaces),
    "operations": _wire_operations,
    "chats": lambda server: chats.setup(
        server, server.documents, server.workspaces, server.chats, server.configurations
    ),
    "actions": _wire_actions,
    "project": lambda server: workspaces.FileWatch(server, server.workspaces, server.documents),
    "status": lambda server: configuration.send_status(server, server.workspaces),
}


def create_server() -> AishServer:
    """Return a server with all its features; a feature that fails is logged and left out."""
    server = AishServer(COMMANDS)
    for name, wire in FEATURES.items():
        set_up(server, name, wire)
    return server


def set_up(server: AishServer, name: str, wire: Callable[[AishServer], object]) -> None:
    """Switch a feature on; log it if that fails."""
    try:
        wire(server)
    except Exception:
        logger.exception("the feature %s is left out", name)
