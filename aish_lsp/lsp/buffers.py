"""The editor's texts and the files on the disk: edits, saving, and telling of changes.

A text that was as saved is saved after an edit of ours, if the client saves files when it is asked
(``initializationOptions.aish.files``). For another client such a file is changed on the disk, and
its editor reloads it. A text that holds unsaved changes is edited, and stays unsaved. A text that
holds none, and whose file has changed since the editor read it, does not count: the file does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from aish_lsp.chat.insertion import Edit
from aish_lsp.foundation.files import stamp_of
from aish_lsp.foundation.opening import read_regular
from aish_lsp.foundation.ports import Buffers, EditOutcome
from aish_lsp.foundation.text import escaped, one_line, with_line_feeds
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import declares
from aish_lsp.lsp.open_documents import ANSWER_TIMEOUT, text_edit
from aish_lsp.lsp.protocol import ChangedFiles, SaveRequest

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.open_documents import OpenDocument, OpenDocuments

#: Seconds within which a client must save files; a formatter may run before.
_SAVE_PATIENCE: Final = 20.0
#: Seconds after which what a client says it has done must be seen.
_SEEN_WITHIN: Final = 2.0
#: The most bytes of a file that is compared with the editor's text.
_LARGEST: Final = 16 << 20

_BOM: Final = "\ufeff"


class EditorBuffers(Buffers):
    """Implements ``ports.Buffers`` and ``ports.EditOpen`` over the client."""

    def __init__(self, server: BaseServer, documents: OpenDocuments) -> None:
        self._server = server
        self._documents = documents
        # The documents that an edit of ours changed and that were not saved since.
        self._touched: set[str] = set()
        self._saving: set[str] = set()
        # What the file of each open document was like when the editor last read or wrote it.
        self._stamps: dict[str, tuple[int, ...]] = {}
        # The hash of a document's text, and its file's stamp, when both were last seen to be alike.
        self._alike: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._compared: set[str] = set()
        self._changed = asyncio.Event()
        documents.on_change.append(lambda uri, changes: self._on_change(uri, is_opened=not changes))
        documents.on_save.append(self._on_save)
        documents.on_close.append(self._on_close)

    def can_save(self) -> bool:
        """Return whether the client declares that it saves files and reloads changed ones."""
        return declares(self._server, "files")

    def took_saved(self, uri: str) -> bool:
        """Return whether a document that was just saved was so because we asked for it, once."""
        is_ours = uri in self._saving
        self._saving.discard(uri)
        return is_ours

    def text(self, path: Path) -> str | None:
        """Return the text of a file as the editor has it; None if the file on the disk counts."""
        document = self._documents.document(path)
        return None if document is None or self._is_behind(document) else document.text

    async def open_text(self, path: Path) -> str | None:
        """Implement ``ports.OpenText``."""
        return self.text(path)

    def _is_behind(self, document: OpenDocument) -> bool:
        """Return whether a document has no unsaved changes, and its file has changed since."""
        text, stamp = self._alike.get(document.uri, (0, ()))
        now = _stamp(document.uri)
        return bool(stamp and now) and now != stamp and text == hash(document.text)

    async def edit(self, path: Path, before: str, after: str) -> EditOutcome:
        """Replace the text of a file that the client has open; see ``ports.EditOpen``."""
        document = self._documents.document(path)
        if document is None or self._is_behind(document):
            return EditOutcome("on disk")
        is_saved = await asyncio.to_thread(_is_on_disk, document)
        if is_saved and not self.can_save() and document.text == before:
            return EditOutcome("on disk")
        if reason := await self._refusal(document, before, after):
            return EditOutcome("refused", reason)
        self._touched.add(document.uri)
        if is_saved and await self.save([path]):
            return EditOutcome("saved")
        return EditOutcome("unsaved")

    async def _refusal(self, document: OpenDocument, before: str, after: str) -> str:
        """Have the client make a change; return why it did not, empty if its text shows it."""
        if document.text != before:
            return "its text there has changed in the meantime"
        if not self._documents.capabilities.apply_edit:
            return "it has unsaved changes, and the editor does not accept edits"
        # Only what differs, so that cursors and marks are kept.
        least = Edit(0, len(before), after).least(before)
        change = text_edit(self._documents, document, least)
        edit = self._documents.edit(document.uri, [change])
        return await self.make(document.uri, edit, after)

    async def make(self, uri: str, edit: types.WorkspaceEdit, after: str) -> str:
        """Have the client make an edit; return why it did not, empty if its text shows it."""
        params = types.ApplyWorkspaceEditParams(edit)
        asking = self._server.workspace_apply_edit_async(params)
        answer = await self._server.answer_of(asking, ANSWER_TIMEOUT)
        said_so = getattr(answer, "applied", None) is True
        if said_so:
            await self._until_text(uri, after)
        if self._documents.text(uri) == after:
            return ""
        reason = getattr(answer, "failure_reason", None)
        if isinstance(reason, str) and reason.strip():
            return f"the editor says: {escaped(one_line(reason))[:200]}"
        return (
            "the editor says that it made the edit, but its text is different"
            if said_so
            else "it refused"
        )

    async def _until_text(self, uri: str, text: str) -> None:
        """Wait until a document has a text, for a limited time."""
        try:
            async with asyncio.timeout(_SEEN_WITHIN):
                while self._documents.text(uri) not in (text, None):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    async def unsaved(self) -> list[Path]:
        """Return the open files that an edit of ours changed, and that are not saved."""
        open_now = [(uri, self._documents.opened(uri)) for uri in sorted(self._touched)]
        unsaved = []
        for uri, document in open_now:
            path = path_of(uri)
            if document is None or path is None or await asyncio.to_thread(_is_on_disk, document):
                self._touched.discard(uri)
            elif ".aish" not in path.parts:
                unsaved.append(path)
        return unsaved

    async def save(self, paths: Sequence[Path]) -> list[Path]:
        """Have the client save files; return those whose text is then on the disk."""
        documents = [self._documents.document(path) for path in paths]
        uris = [document.uri for document in documents if document is not None]
        if not uris or not self.can_save():
            return []
        self._saving |= set(uris)
        request = SaveRequest(tuple(uris))
        asking = self._server.protocol.send_request_async("aish/save", request)
        await self._server.answer_of(asking, _SAVE_PATIENCE)
        # The notification that they are saved may come after the answer.
        loop = asyncio.get_running_loop()
        loop.call_later(_SEEN_WITHIN, self._saving.difference_update, uris)
        saved = []
        for path in paths:
            document = self._documents.document(path)
            if document is not None and await asyncio.to_thread(_is_on_disk, document):
                self._touched.discard(document.uri)
                self._stamps[document.uri] = _stamp(document.uri)
                saved.append(path)
        return saved

    def files_changed(self) -> None:
        """Tell the client which of its open files have changed on the disk since it read them."""
        if not self.can_save():
            return
        stamps = {uri: _stamp(uri) for uri in self._documents.uris()}
        changed = [uri for uri, stamp in stamps.items() if self._stamps.get(uri) != stamp]
        self._stamps = stamps
        if changed:
            self._server.protocol.notify("aish/changed", ChangedFiles(tuple(sorted(changed))))

    def _on_change(self, uri: str, *, is_opened: bool) -> None:
        stamp = _stamp(uri)
        if is_opened:
            self._stamps[uri] = stamp
        # An editor that has read a changed file again tells of a change like any other.
        if is_opened or stamp != self._alike.get(uri, (0, ()))[1]:
            self._compare(uri)
        self._changed.set()

    def _on_save(self, uri: str) -> None:
        self._stamps[uri] = _stamp(uri)
        self._compare(uri)

    def _compare(self, uri: str) -> None:
        """Note in the background whether a document is like its file."""
        if uri not in self._compared:
            self._compared.add(uri)
            self._server.spawn(self._compare_now(uri), "compare a document with its file")

    async def _compare_now(self, uri: str) -> None:
        try:
            # What changes meanwhile is compared, too.
            seen: OpenDocument | None = None
            while (document := self._documents.opened(uri)) and document != seen:
                seen, stamp = document, _stamp(uri)
                if await asyncio.to_thread(_is_on_disk, document) and stamp == _stamp(uri):
                    self._alike[uri] = hash(document.text), stamp
        finally:
            self._compared.discard(uri)

    def _on_close(self, uri: str) -> None:
        self._touched.discard(uri)
        self._stamps.pop(uri, None)
        self._alike.pop(uri, None)


def _stamp(uri: str) -> tuple[int, ...]:
    """Return what differs once a document's file has been written or replaced."""
    path = path_of(uri)
    try:
        return stamp_of(path.stat()) if path is not None else ()
    except (OSError, ValueError):
        return ()


def _is_on_disk(document: OpenDocument) -> bool:
    """Return whether a document's text is what its file holds. Blocks."""
    return _text_on_disk(document.uri) == document.text.removeprefix(_BOM)


def _text_on_disk(uri: str) -> str | None:
    """Return the text of a document's file; None if it is too large or not UTF-8. Blocks."""
    path = path_of(uri)
    data = read_regular(path.resolve(), _LARGEST + 1) if path is not None else None
    if data is None or len(data) > _LARGEST:
        return None
    try:
        return with_line_feeds(data.decode("utf-8").removeprefix(_BOM))
    except UnicodeDecodeError:
        return None
