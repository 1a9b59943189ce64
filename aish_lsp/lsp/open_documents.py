"""The documents that the client has open, and how its editor shows and changes them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument

from aish_lsp.chat.insertion import Edit, line_end_of
from aish_lsp.chat.markdown import ClientPosition
from aish_lsp.context.selection import Point
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.opening import is_same_file
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import can, client_name, declared

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.operations.ask import Position


#: Seconds within which an editor must answer an edit.
ANSWER_TIMEOUT: Final = 5.0

#: A key as the first lines of a chat may name it.
_KEY: Final = re.compile(r"[^`\x00-\x1f\x7f-\xa0\u2028\u2029]{1,20}")


@dataclass(frozen=True, slots=True)
class EditorCapabilities:
    """What a client can do.

    Attributes:
        apply_edit: it makes edits that we ask for.
        document_changes: it checks the version that an edit is for.
        show_document: it shows files.
        takes_0_for_none: it treats version 0, that of a document just loaded, as no version.
        keys: the chat's keys in it, by what they do: ``send``, ``stop``, ``help``.
    """

    apply_edit: bool = False
    document_changes: bool = False
    show_document: bool = False
    takes_0_for_none: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document as the client has it.

    Attributes:
        uri: as the client spells it.
        source: its text as the client has it, with its own line ends.
        version: the client's number for it.
        language: the client's name for its language; may be empty.
    """

    uri: str
    source: str
    version: int | None
    language: str = ""

    @property
    def text(self) -> str:
        """Its text, with LF for each line end."""
        return with_line_feeds(self.source)

    @property
    def line_end(self) -> str:
        """The line end that the document uses."""
        return line_end_of(self.source)


#: Takes the URI and the changes; no changes if the document was opened.
OnChange = Callable[[str, Sequence[types.TextDocumentContentChangeEvent]], None]


class OpenDocuments:
    """The open documents, and the editor that shows them.

    Attributes:
        on_change: is called when a document is opened or changes.
        on_save, on_close: is called with each document that is saved, or closed.
    """

    def __init__(self, server: BaseServer) -> None:
        self._server = server
        self.on_change: list[OnChange] = []
        self.on_save: list[Callable[[str], object]] = []
        self.on_close: list[Callable[[str], object]] = []

    @property
    def capabilities(self) -> EditorCapabilities:
        """What the client can do, as it said in ``initialize``."""
        declared = can(self._server, "workspace.workspace_edit.document_changes")
        # Neovim does not say so, but refuses an edit for an older version other than 0.
        is_bare_neovim = not declared and client_name(self._server) == "Neovim"
        return EditorCapabilities(
            apply_edit=can(self._server, "workspace.apply_edit"),
            document_changes=declared or is_bare_neovim,
            show_document=can(self._server, "window.show_document.support"),
            takes_0_for_none=is_bare_neovim,
            keys=self._keys(),
        )

    def _keys(self) -> Mapping[str, str]:
        """Return the keys that the client says its chat has, less what could not be one."""
        declared_keys = declared(self._server, "keys")
        keys = declared_keys.items() if isinstance(declared_keys, Mapping) else ()
        return {name: key for name, key in keys if isinstance(key, str) and _KEY.fullmatch(key)}

    def uris(self) -> list[str]:
        """Return the open documents, as the client spells them."""
        return [document.uri for document in self._server.workspace.text_documents.values()]

    def opened(self, uri: str) -> OpenDocument | None:
        """Return an open document, or None if it is not open."""
        # pygls' keys are decoded: that of "a%20b" is "a b".
        return _opened(self._server.workspace.text_documents.get(unquote(uri)))

    def document(self, path: Path) -> OpenDocument | None:
        """Return the open document of the file ``path``, under whatever name it is open."""
        documents = self._server.workspace.text_documents
        return self.opened(path.as_uri()) or _opened(
            next((document for document in documents.values() if _is_same(document, path)), None)
        )

    def has_open(self, path: Path) -> bool:
        """Return whether the file ``path`` is open, under its own name."""
        return self.opened(path.as_uri()) is not None

    def text(self, uri: str) -> str | None:
        """Return a document's text with LF for each line end, or None if it is not open."""
        document = self._server.workspace.text_documents.get(unquote(uri))
        return document.text if document else None

    def width(self, text: str) -> int:
        """Return the length of ``text`` in the units agreed with the client."""
        return int(self._server.workspace.position_codec.client_num_units(text))

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of ``line`` come before a place in those units."""
        codec = self._server.workspace.position_codec
        position = codec.position_from_client_units([f"{line}\n"], types.Position(0, units))
        return min(position.character, len(line))

    def point(self, lines: Sequence[str], at: types.Position | ClientPosition | Position) -> Point:
        """Return a client's position in characters; a line after the text is kept as it is."""
        line = max(0, at.line)
        if line >= len(lines):
            return Point(line, 0)
        return Point(line, self.characters(lines[line], at.character))

    def position(self, lines: Sequence[str], point: Point) -> types.Position:
        """Return a place in ``lines`` in the client's units."""
        before = lines[point.line][: point.character] if point.line < len(lines) else ""
        return types.Position(point.line, self.width(before))

    def prefix(self, uri: str, at: types.Position) -> str:
        """Return the text of a document's line up to a position; empty if there is no such line."""
        lines = (self.text(uri) or "").split("\n")
        if at.line >= len(lines):
            return ""
        line = lines[at.line]
        return line[: self.characters(line, at.character)]

    def edit(self, uri: str, edits: Sequence[types.TextEdit]) -> types.WorkspaceEdit:
        """Return an edit of an open document, for its version if the client checks versions."""
        document = self.opened(uri)
        if document is None or not self.capabilities.document_changes:
            return types.WorkspaceEdit(changes={uri: edits})
        return versioned(document, *edits)

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        """Ask the client to make ``edit``; return whether it says that it did.

        Raises:
            Exception: the client answered with an error, or not in time.
        """
        # Without a label: Neovim would print it with each edit.
        params = types.ApplyWorkspaceEditParams(edit)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            result = await self._server.workspace_apply_edit_async(params)
        return getattr(result, "applied", None) is True

    def show(self, path: Path, line: int) -> None:
        """Ask the client to show ``path``, the cursor on ``line``; do not wait for its answer."""
        cursor = types.Position(line, 0)
        params = types.ShowDocumentParams(
            path.as_uri(), take_focus=True, selection=types.Range(cursor, cursor)
        )
        asking = self._server.window_show_document_async(params)
        self._server.spawn(self._server.answer_of(asking, ANSWER_TIMEOUT), "show a document")

    def changed(
        self, uri: str, changes: Sequence[types.TextDocumentContentChangeEvent] = ()
    ) -> None:
        """Call the callbacks for changes."""
        for callback in self.on_change:
            callback(uri, changes)


def versioned(document: OpenDocument, *edits: types.TextEdit) -> types.WorkspaceEdit:
    """Return an edit of this version of a document only."""
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, edits)])


def text_edit(documents: OpenDocuments, document: OpenDocument, edit: Edit) -> types.TextEdit:
    """Return an edit of a document's text in the client's units and line ends."""

    def end_of(before: str) -> types.Position:
        last_line = before[before.rfind("\n") + 1 :]
        return types.Position(before.count("\n"), documents.width(last_line))

    start, end = end_of(document.text[: edit.start]), end_of(document.text[: edit.end])
    return types.TextEdit(types.Range(start, end), edit.new.replace("\n", document.line_end))


def _opened(document: TextDocument | None) -> OpenDocument | None:
    if document is None:
        return None
    return OpenDocument(document.uri, document.source, document.version, document.language_id or "")


def _is_same(document: TextDocument, path: Path) -> bool:
    """Return whether ``document`` is the file ``path`` under whatever name."""
    document_path = path_of(document.uri)
    return document_path is not None and is_same_file(document_path, path)


def setup(server: BaseServer, documents: OpenDocuments) -> None:
    """Follow the client's documents, which pygls keeps."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _opened(params: types.DidOpenTextDocumentParams) -> None:
        documents.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _changed(params: types.DidChangeTextDocumentParams) -> None:
        documents.changed(params.text_document.uri, params.content_changes)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _saved(params: types.DidSaveTextDocumentParams) -> None:
        for callback in documents.on_save:
            callback(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _closed(params: types.DidCloseTextDocumentParams) -> None:
        for callback in documents.on_close:
            callback(params.text_document.uri)
