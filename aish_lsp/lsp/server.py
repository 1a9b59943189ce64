"""The language server: its parts, put together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

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
from aish_lsp.lsp.client import Client
from aish_lsp.lsp.commands import Commands
from aish_lsp.lsp.configuration import Configurations
from aish_lsp.lsp.open_documents import OpenDocuments, edit_open
from aish_lsp.lsp.protocol import COMMANDS, CommandSpec
from aish_lsp.lsp.questions import ClientLookUp, Questions, terminal_reader
from aish_lsp.lsp.selection_actions import Replacing, selection_actions
from aish_lsp.lsp.selections import Selections
from aish_lsp.lsp.workspaces import Workspaces


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


def create_server() -> AishServer:
    """Return a server with all its features."""
    server = AishServer(COMMANDS)
    documents, folders, conversations = server.documents, server.workspaces, server.chats
    configuration.setup(server, server.configurations, folders)
    workspaces.setup(server, folders)
    configuration.note_client(server, folders)
    commands = Commands(
        server,
        server.services,
        server.configurations,
        documents,
        folders,
        conversations,
        server.selections,
    )
    commands.bind()
    chats.setup(server, documents, folders, conversations, server.configurations)
    _offer_actions(server)
    workspaces.FileWatch(server, folders, documents)
    configuration.send_status(server, folders)
    return server


def _offer_actions(server: AishServer) -> None:
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
