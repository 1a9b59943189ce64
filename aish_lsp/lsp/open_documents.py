"""The documents that the client has open, and its editor, as far as the chat document needs it.

A file that it has open is changed there: by ``workspace/applyEdit``, unsaved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument

from aish_lsp.chat.insertion import line_end_of
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.lsp.chat_edits import ANSWER_TIMEOUT, EditorCapabilities, OpenDocument
from aish_lsp.lsp.client import Client

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import EditOpen

logger = logging.getLogger(__name__)


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
            logger.info("the editor did not show the chat document: %s", type(error).__name__)


def _is_same(document: TextDocument, path: Path) -> bool:
    """Return whether ``document`` is of the file ``path``, reached by another spelling."""
    if document.path is None or Path(document.path).name.lower() != path.name.lower():
        return False
    try:
        return path.samefile(document.path)
    except OSError:
        return False


#: Gets the URI and what changed; no changes where the document was opened.
OnChange = Callable[[str, Sequence[types.TextDocumentContentChangeEvent]], None]


@dataclass(frozen=True, slots=True)
class OpenedDocument:
    """A document as the client has it.

    Attributes:
        uri: as the client spells it.
        text: its text, with LF for each line end.
        language: as the client calls it; may be empty.
        line_end: the line end that it uses.
        version: as the client has counted it.
    """

    uri: str
    text: str
    language: str
    line_end: str
    version: int | None


class OpenDocuments:
    """The texts of the open documents, and who is told when one changes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed: list[OnChange] = []
        self._saved: list[Callable[[str], None]] = []
        self._closed: list[Callable[[str], None]] = []

    def uris(self) -> list[str]:
        """Return the open documents, as the client spells them."""
        return [document.uri for document in self._client.workspace.text_documents.values()]

    def text(self, uri: str) -> str | None:
        """Return a document's text with LF for each line end, or None where it is not open."""
        # pygls' keys are decoded: that of "a%20b" is "a b".
        document = self._client.workspace.text_documents.get(unquote(uri))
        if document is None:
            return None
        return with_line_feeds(document.source)

    def of_file(self, path: Path) -> OpenedDocument | None:
        """Return the open document of ``path``, however the client spells its URI."""
        document = LspEditor(self._client).document(path)
        return None if document is None else self.opened(document.uri)

    def opened(self, uri: str) -> OpenedDocument | None:
        """Return an open document, or None where it is not open."""
        document = self._client.workspace.text_documents.get(unquote(uri))
        if document is None:
            return None
        source = document.source
        return OpenedDocument(
            document.uri,
            with_line_feeds(source),
            document.language_id or "",
            line_end_of(source),
            document.version,
        )

    def version(self, uri: str) -> int | None:
        """Return a document's version, as the client has counted it."""
        document = self._client.workspace.text_documents.get(unquote(uri))
        return document.version if document else None

    def width(self, text: str) -> int:
        """Return the length of ``text`` in the units agreed with the client."""
        return int(self._client.workspace.position_codec.client_num_units(text))

    def prefix(self, uri: str, at: types.Position) -> str:
        """Return the text of a document's line up to a position; empty where there is none."""
        lines = (self.text(uri) or "").split("\n")
        if at.line >= len(lines):
            return ""
        line = lines[at.line]
        return line[: self.characters(line, at.character)]

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of a line come before a place in the client's units."""
        position = self._client.workspace.position_codec.position_from_client_units(
            [line + "\n"], types.Position(0, units)
        )
        return min(position.character, len(line))

    def edit(self, uri: str, edits: Sequence[types.TextEdit]) -> types.WorkspaceEdit:
        """Return the edit of an open document, for this version of it where the client can tell."""
        if not LspEditor(self._client).capabilities.document_changes:
            return types.WorkspaceEdit(changes={uri: edits})
        version = types.OptionalVersionedTextDocumentIdentifier(uri, self.version(uri))
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(version, list(edits))])

    def on_change(self, callback: OnChange) -> None:
        """Have ``callback`` called when a document was opened or has changed."""
        self._changed.append(callback)

    def on_save(self, callback: Callable[[str], None]) -> None:
        """Have ``callback`` called with each document that was saved."""
        self._saved.append(callback)

    def on_close(self, callback: Callable[[str], None]) -> None:
        """Have ``callback`` called with each document that was closed."""
        self._closed.append(callback)

    def changed(
        self, uri: str, changes: Sequence[types.TextDocumentContentChangeEvent] = ()
    ) -> None:
        """Tell the followers."""
        for callback in self._changed:
            callback(uri, changes)

    def saved(self, uri: str) -> None:
        """Tell the followers."""
        for callback in self._saved:
            callback(uri)

    def closed(self, uri: str) -> None:
        """Tell the followers."""
        for callback in self._closed:
            callback(uri)


def setup(client: Client, documents: OpenDocuments) -> None:
    """Follow the client's documents."""

    @client.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _opened(params: types.DidOpenTextDocumentParams) -> None:
        client.workspace.put_text_document(params.text_document)
        documents.changed(params.text_document.uri)

    @client.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _changed(params: types.DidChangeTextDocumentParams) -> None:
        for change in params.content_changes:
            client.workspace.update_text_document(params.text_document, change)
        documents.changed(params.text_document.uri, params.content_changes)

    @client.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _saved(params: types.DidSaveTextDocumentParams) -> None:
        documents.saved(params.text_document.uri)

    @client.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _closed(params: types.DidCloseTextDocumentParams) -> None:
        client.workspace.remove_text_document(params.text_document.uri)
        documents.closed(params.text_document.uri)


def edit_open(editor: LspEditor, documents: OpenDocuments) -> EditOpen:
    """Return how to change one of ``documents``, which ``editor`` has open."""

    async def edit(path: Path, before: str, after: str) -> bool | None:
        document = editor.document(path)
        if document is None:
            return None
        if with_line_feeds(document.text) != before or not editor.capabilities.apply_edit:
            return False
        change = _change(editor, before, after, line_end_of(document.text))
        whole = documents.edit(document.uri, [change])
        try:
            return await editor.apply_edit(whole)
        except Exception as error:  # noqa: BLE001 - whatever went wrong there, it is not made
            logger.info("the client did not make an edit: %s", type(error).__name__)
            return False

    return edit


def _change(editor: LspEditor, before: str, after: str, line_end: str) -> types.TextEdit:
    """Return the edit of those lines alone that differ, so that cursors and marks stay."""
    old, new = before.split("\n"), after.split("\n")
    # The last line has no end: it is always among what is replaced.
    first = 0
    while first < min(len(old), len(new)) - 1 and old[first] == new[first]:
        first += 1
    same = 0
    while same < min(len(old), len(new)) - first - 1 and old[-1 - same] == new[-1 - same]:
        same += 1
    last = len(old) - 1 - same
    text = line_end.join(new[first : len(new) - same])
    place = types.Range(types.Position(first, 0), types.Position(last, editor.width(old[last])))
    return types.TextEdit(place, text)
