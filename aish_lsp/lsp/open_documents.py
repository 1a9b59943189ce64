"""The documents that the client has open, for the features that follow them.

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

from aish_lsp.chat.insertion import line_end_of
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.lsp.editor import LspEditor

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import EditOpen
    from aish_lsp.lsp.client import Client

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
        documents.changed(params.text_document.uri)

    @client.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _changed(params: types.DidChangeTextDocumentParams) -> None:
        documents.changed(params.text_document.uri, params.content_changes)

    @client.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _saved(params: types.DidSaveTextDocumentParams) -> None:
        documents.saved(params.text_document.uri)

    @client.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _closed(params: types.DidCloseTextDocumentParams) -> None:
        documents.closed(params.text_document.uri)


logger = logging.getLogger(__name__)


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
