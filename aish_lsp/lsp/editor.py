"""The client of a pygls server, as far as the chat document needs it."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from aish_lsp.lsp.chat_edits import ANSWER_TIMEOUT, EditorCapabilities, OpenDocument

log = logging.getLogger(__name__)


class Server(Protocol):
    """What is needed of the server."""

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """The client's capabilities."""

    @property
    def initialize_params(self) -> types.InitializeParams | None:
        """What the client sent with ``initialize``."""

    @property
    def workspace(self) -> Workspace:
        """The folders and the open documents."""

    async def request(self, method: str, params: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the server's
        """Send a request; return the client's result.

        Raises:
            Exception: the client answered with an error, or not within ``timeout`` seconds.
        """

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> object:
        """Run ``work`` in the background, until the server stops."""


class LspEditor:
    """Implements ``chat_writer.Editor`` over a server that a client is connected to."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def capabilities(self) -> EditorCapabilities:
        """What the client can do, as it said in ``initialize``."""
        client = self._server.client_capabilities
        workspace, window = client.workspace, client.window
        edit = workspace.workspace_edit if workspace else None
        show = window.show_document if window else None
        says_so = bool(edit and edit.document_changes)
        # Neovim heeds versions and does not say so: only newer ones, and none of 0.
        is_bare_neovim = not says_so and self._is_neovim()
        return EditorCapabilities(
            apply_edit=bool(workspace and workspace.apply_edit),
            document_changes=says_so or is_bare_neovim,
            show_document=bool(show and show.support),
            takes_0_for_none=is_bare_neovim,
        )

    def _is_neovim(self) -> bool:
        """Return whether the client is Neovim."""
        params = self._server.initialize_params
        info = params.client_info if params else None
        return info is not None and info.name == "Neovim"

    def document(self, path: Path) -> OpenDocument | None:
        """Return the open document of ``path``, however the client spells its URI."""
        documents = self._server.workspace.text_documents
        document = documents.get(unquote(path.as_uri())) or next(
            (document for document in documents.values() if _is_same(document, path)), None
        )
        if document is None:
            return None
        return OpenDocument(document.uri, document.source, document.version)

    def width(self, text: str) -> int:
        """Return the length of ``text`` in the units agreed with the client."""
        return int(self._server.workspace.position_codec.client_num_units(text))

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of ``line`` come before a place in those units."""
        codec = self._server.workspace.position_codec
        position = codec.position_from_client_units([f"{line}\n"], types.Position(0, units))
        return min(position.character, len(line))

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        """Have the client make ``edit``; return whether it says that it did.

        Raises:
            Exception: the client answered with an error, or not in time.
        """
        # No label: Neovim would print it with each edit.
        params = types.ApplyWorkspaceEditParams(edit)
        result = await self._server.request("workspace/applyEdit", params, ANSWER_TIMEOUT)
        return getattr(result, "applied", None) is True

    def show(self, path: Path, line: int) -> None:
        """Ask the client to show ``path``, the cursor on ``line``; its answer is not waited for."""
        self._server.spawn(self._show(path, line), "show the chat document")

    async def _show(self, path: Path, line: int) -> None:
        cursor = types.Position(line, 0)
        params = types.ShowDocumentParams(
            path.as_uri(), take_focus=True, selection=types.Range(cursor, cursor)
        )
        try:
            await self._server.request("window/showDocument", params, ANSWER_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - the chat goes on unseen, whatever it is
            log.info("the editor did not show the chat document: %s", type(error).__name__)


def _is_same(document: TextDocument, path: Path) -> bool:
    """Return whether ``document`` is of the file ``path``, reached by another spelling."""
    if document.path is None or Path(document.path).name.lower() != path.name.lower():
        return False
    try:
        return path.samefile(document.path)
    except OSError:
        return False
