"""Writes into the chat document of one workspace: by edits of the editor, or into the file.

Editors differ in what they accept: no edits at all, edits of the latest version only, edits for a
moment after a command; some claim more than they do. So an edit counts only once the editor's own
document shows it. Only one edit is in flight at a time; the next one applies to what the editor
reported last. What an editor does not accept as an edit is written to the file, which it reloads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from aish_lsp.chat.file import LARGEST, ChatFile, too_large
from aish_lsp.chat.insertion import Anchor, Piece, line_end_of
from aish_lsp.chat.markdown import Change
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import well_formed, with_line_feeds
from aish_lsp.lsp.chat_edits import ChatEdits
from aish_lsp.lsp.open_documents import OpenDocument, OpenDocuments

log = logging.getLogger(__name__)

#: Seconds within which an editor must open the document that it was asked to show.
OPEN_TIMEOUT: Final = 2.0

#: How many texts of the document are remembered, to recognize an earlier one in the file.
_REMEMBERED: Final = 1000


class ChatWriter:
    """Grows the chat document of the workspace at ``root``, one edit at a time.

    Appended text goes right after what was appended before it, wherever the user's own edits have
    moved that; so what the user types below a reply stays below it. ``begin`` starts again at the
    end of the document, ``insert`` above the heading that the user writes under.
    """

    def __init__(self, root: Path, editor: OpenDocuments, name: str = "chat.md") -> None:
        self._file = ChatFile(root, name, editor.capabilities.keys)
        self._editor = editor
        self._pieces: list[Piece] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: AishError | None = None
        self._anchor = Anchor()
        self._edits = ChatEdits(self.path, editor, self._anchor)
        self._takes_edits = True
        self._opens_documents = True
        self._opens_until = 0.0
        # Hashes of the texts that the document and the file have had.
        self._held: deque[int] = deque(maxlen=_REMEMBERED)
        # What was last written to the file, without its last line ends; None if the editor has it.
        self._to_be_loaded: str | None = None

    @property
    def path(self) -> Path:
        """The file of the document."""
        return self._file.path

    @property
    def document(self) -> OpenDocument | None:
        """The document in the editor; None if it is not open there."""
        return self._edits.document

    async def make(self) -> None:
        """Create the folder and the file if they are missing, without waiting for an editor.

        Raises:
            StoreUnavailable: they cannot be created, or what is there must not be used.
        """
        document = self.document
        if document is not None and len(document.text) > LARGEST:
            raise too_large(self.path)
        await asyncio.to_thread(self._file.ensure, is_open=document is not None)

    async def text(self) -> str:
        """Return the text of the document: the editor's if it is open there, else the file's.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        document = self.document
        return document.text if document else await asyncio.to_thread(self._file.read)

    async def text_as_written(self) -> str:
        """Return the text with all that was written, even what the editor has yet to load.

        Raises:
            StoreUnavailable: as ``text``.
        """
        document = self.document
        if document is not None and self._to_be_loaded is None:
            return document.text
        on_disk = await asyncio.to_thread(self._file.read)
        # While an editor saves, the file may be empty for a moment.
        return on_disk or ("" if document is None else document.text)

    async def show(self) -> None:
        """Ask the editor to show the document's end, if it can; do not wait for its answer.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if not self._editor.capabilities.show_document:
            return
        text = with_line_feeds(await self.text())
        # Not every editor has a line after the last line end: Neovim fails there.
        self._editor.show(self.path, text.removesuffix("\n").count("\n"))
        self._opens_until = monotonic() + OPEN_TIMEOUT

    def begin(self, text: str) -> None:
        """Write ``text`` at the end of the document, after a blank line."""
        self._add(Piece(well_formed(text), apart=True, goes="to the end"))

    def insert(self, text: str) -> None:
        """Write ``text`` above the heading that the user writes under, with blank lines around it.

        If there is no such heading, because a reply is being written, it goes at the end.
        """
        self._add(Piece(well_formed(text), apart=True, goes="above"))

    def replace(self, present: str, text: str) -> None:
        """Write ``text`` under the open heading in place of ``present``, which may be empty.

        Nothing is written if there is something else by then, or if there is anything and the
        editor does not check versions.
        """
        self._add(Piece(well_formed(text), apart=True, goes="in place", standing=present))

    def append(self, text: str, *, apart: bool = False) -> None:
        """Write ``text`` after what was written before; ``apart``: after a blank line."""
        if text:
            self._add(Piece(well_formed(text), apart, goes="on"))

    def remark(self, text: str) -> None:
        """Write a line above the open heading, or at the end; ``withdraw`` removes it.

        Nothing is written if the editor does not check versions: the wrong text might be removed.
        """
        if self._edits.checks_versions or not self._editor.capabilities.apply_edit:
            self._add(Piece(well_formed(text), apart=True, goes="remark"))

    def withdraw(self, text: str) -> None:
        """Remove a remark once, if it is still there as it was written."""
        self._add(Piece(well_formed(text), apart=False, goes="away"))

    async def flush(self) -> None:
        """Wait until everything is written.

        Raises:
            StoreUnavailable: some of it could not be written, and is not in the document.
        """
        await self.settle()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def changed(self, changes: Sequence[Change]) -> None:
        """Follow what the editor reports of its document; no changes if it opened or closed it."""
        self._edits.changed(changes)
        document = self.document
        self._opens_documents = self._opens_documents or (not changes and document is not None)
        self._note_loaded()
        self._held.append(_digest("" if document is None else document.text))

    def _note_loaded(self) -> None:
        """Note whether the editor has loaded what was last written to the file.

        If the end of the file was removed, an earlier text also begins with what was written.
        """
        document, written = self.document, self._to_be_loaded
        if document is None or written is None or not document.text.startswith(written):
            return
        if document.text.rstrip("\n") == written or _digest(document.text) not in self._held:
            self._to_be_loaded = None

    async def settle(self) -> None:
        """Wait until everything is written; a failure is raised by the next ``flush``."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """Discard what is not written yet."""
        self._pieces.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain(), name="chat writer")

    async def _drain(self) -> None:
        """Write until the queue is empty."""
        while self._pieces:
            await self._edits.pace()
            batch = self._take()
            try:
                await self._write(batch)
            except AishError as error:
                log.warning("the chat document was not written: %s", error.message)
                self._failure = error

    def _take(self) -> list[Piece]:
        """Take the next pieces that go to the same place."""
        pieces = self._pieces
        end = next((n for n, piece in enumerate(pieces) if n and piece.goes != "on"), len(pieces))
        if pieces[0].is_remark:
            end = 1
        batch, self._pieces = pieces[:end], pieces[end:]
        return batch

    async def _write(self, batch: list[Piece]) -> None:
        """Write ``batch`` into the document.

        Raises:
            StoreUnavailable: it could not be written.
        """
        document = await self._edits.shown_again()
        if document is None and (batch[0].goes in ("to the end", "in place") or self._is_opening()):
            document = await self._opened()
        while document and self._can_be_edited():
            if await self._write_by_edits(batch):
                return
            document = await self._edits.shown_again()
            if document and self._can_be_edited() and not self._edits.was_reopened_lately:
                log.info("the editor does not make edits: the chat is written to its file")
                self._takes_edits = False
        await self._write_to_file(batch)

    def _can_be_edited(self) -> bool:
        """Return whether the editor makes edits, as far as is known."""
        can_edit = self._editor.capabilities.apply_edit
        return can_edit and self._takes_edits and not self._edits.is_silent

    def _is_opening(self) -> bool:
        """Return whether the editor was asked to show the document a moment ago."""
        return monotonic() <= self._opens_until

    async def _opened(self) -> OpenDocument | None:
        """Ask the editor to open the document; return it, or None if it does not open in time.

        A file that is written while the editor opens it is newer than what the editor has read: the
        user would be asked which of the two to keep. An editor that failed to open it once is not
        asked or waited for again until it has the document open.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if self._opens_documents:
            if not self._is_opening():
                await self.show()
            await self._edits.until_open(self._opens_until - monotonic())
        document = self.document
        self._opens_documents = document is not None
        return document

    async def _write_by_edits(self, batch: list[Piece]) -> bool:
        """Ask the editor to insert ``batch``; return whether it did."""
        if not await self._bring_up_to_date():
            return False
        if not await self._edits.insert(batch):
            return False
        self._to_be_loaded = None
        return True

    async def _bring_up_to_date(self) -> bool:
        """Ask the editor to insert what was written to the file after the editor had read it.

        Return False if it does not.
        """
        document = self.document
        if document is None or self._to_be_loaded is None:
            return True
        text = document.text
        on_disk = with_line_feeds(await asyncio.to_thread(self._file.read))
        is_known = on_disk == self._anchor.text
        if not is_known or on_disk == text or not on_disk.startswith(text):
            return True
        section, offset = self._anchor.section, self._anchor.offset
        missing = Piece(on_disk.removeprefix(text), apart=False, goes="to the end")
        if not await self._edits.insert([missing]):
            return False
        self._anchor.resume(section, None if offset is None else on_disk[offset:])
        await self._edits.pace()
        return True

    def _supersedes(self, document: OpenDocument, on_disk: str) -> bool:
        """Return whether a document's text is later than the file's.

        It is not if another program has written the file: that must not be lost. Nor is it if it
        only has one more line end: some editors add one to a file that ends without it.
        """
        text, saved = document.text, with_line_feeds(on_disk)
        if text in (saved, f"{saved}\n"):
            return False
        return _digest(saved) in self._held or text.startswith(saved.rstrip("\n"))

    async def _write_to_file(self, batch: list[Piece]) -> None:
        """Write ``batch`` into the file.

        If the document is open, the file gets its text too, unless another program has written the
        file: the user may not have saved it, and the editor is about to load the file.

        Raises:
            StoreUnavailable: the file cannot be read or written, or must not be used.
        """
        while True:
            on_disk = await asyncio.to_thread(self._file.read)
            document = self.document
            base = on_disk
            is_loaded = self._to_be_loaded is None or not on_disk
            if document and is_loaded and self._supersedes(document, on_disk):
                base = document.source
            text, line_end = with_line_feeds(base), line_end_of(base)
            insertion = self._anchor.plan(text, batch)
            anchor = self._anchor.offset, self._anchor.section, self._anchor.is_unsure
            whole = insertion.edit.made_in(text)
            if whole == text:
                return
            appends = base == on_disk and insertion.offset == len(text)
            new = (insertion.text if appends else whole).replace("\n", line_end)
            is_written = False
            before, self._to_be_loaded = self._to_be_loaded, whole.rstrip("\n")
            try:
                is_written = await asyncio.to_thread(
                    self._file.write, on_disk, new, appends=appends
                )
            finally:
                if not is_written:
                    self._to_be_loaded = before
            if is_written:
                self._note_loaded()
                break
        # What the editor has reported since is about its document, not about the file.
        self._anchor.text = text
        self._anchor.offset, self._anchor.section, self._anchor.is_unsure = anchor
        self._anchor.wrote(insertion)
        self._held.append(_digest(whole))


def _digest(text: str) -> int:
    """Return a hash of ``text`` without the line ends at its end, since some editors add one."""
    return hash(text.rstrip("\n"))
