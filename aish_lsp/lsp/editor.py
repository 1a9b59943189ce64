"""The client's editor, as far as the chat document needs it."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument

from aish_lsp.lsp.chat_edits import ANSWER_TIMEOUT, EditorCapabilities, OpenDocument
from aish_lsp.lsp.client import Client

log = logging.getLogger(__name__)


class LspEditor:
    """Implements ``chat_writer.Editor`` over the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def capabilities(self) -> EditorCapabilities:
        """What the client can do, as it said in ``initialize``."""
        able = self._client.client_capabilities
        workspace, window = able.workspace, able.window
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
        params = self._client.initialize_params
        info = params.client_info if params else None
        return info is not None and info.name == "Neovim"

    def document(self, path: Path) -> OpenDocument | None:
        """Return the open document of ``path``, however the client spells its URI."""
        documents = self._client.workspace.text_documents
        document = documents.get(unquote(path.as_uri())) or next(
            (document for document in documents.values() if _is_same(document, path)), None
        )
        if document is None:
            return None
        return OpenDocument(document.uri, document.source, document.version)

    def width(self, text: str) -> int:
        """Return the length of ``text`` in the units agreed with the client."""
        return int(self._client.workspace.position_codec.client_num_units(text))

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of ``line`` come before a place in those units."""
        codec = self._client.workspace.position_codec
        position = codec.position_from_client_units([f"{line}\n"], types.Position(0, units))
        return min(position.character, len(line))

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        """Have the client make ``edit``; return whether it says that it did.

        Raises:
            Exception: the client answered with an error, or not in time.
        """
        # No label: Neovim would print it with each edit.
        params = types.ApplyWorkspaceEditParams(edit)
        result = await self._client.request("workspace/applyEdit", params, ANSWER_TIMEOUT)
        return getattr(result, "applied", None) is True

    def show(self, path: Path, line: int) -> None:
        """Ask the client to show ``path``, the cursor on ``line``; its answer is not waited for."""
        self._client.spawn(self._show(path, line), "show the chat document")

    async def _show(self, path: Path, line: int) -> None:
        cursor = types.Position(line, 0)
        params = types.ShowDocumentParams(
            path.as_uri(), take_focus=True, selection=types.Range(cursor, cursor)
        )
        try:
            await self._client.request("window/showDocument", params, ANSWER_TIMEOUT)
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
