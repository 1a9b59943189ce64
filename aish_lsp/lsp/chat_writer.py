"""Writes into the chat document of one workspace: by edits of the editor, or into the file.

What an editor does not take as an edit is written to the file, which it reloads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from aish_lsp.chat.anchor import Anchor
from aish_lsp.chat.file import LARGEST, ChatFile, too_large
from aish_lsp.chat.insertion import Change, Piece, last_place, line_end_of
from aish_lsp.chat.markdown import FIRST_TEXT, YOU
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import well_formed, with_line_feeds
from aish_lsp.lsp.chat_edits import REOPEN_TIMEOUT, ChatEdits
from aish_lsp.lsp.open_documents import OpenDocument, OpenDocuments

log = logging.getLogger(__name__)

#: Seconds in which an editor has to open the document that it was asked to show.
OPEN_TIMEOUT: Final = 2.0

#: Texts of the document by which a file is known to be an earlier one of it.
_REMEMBERED: Final = 1000


class ChatWriter:
    """Grows the chat document of the workspace at ``root``, one edit at a time.

    Text that is appended comes right behind what was appended before it, wherever the user's own
    edits have moved that; so what the user types below a reply stays below it. ``begin`` starts
    anew at the end of the document, ``insert`` above the heading that the user writes under.
    """

    def __init__(self, root: Path, editor: OpenDocuments) -> None:
        self._file = ChatFile(root)
        self._editor = editor
        self._pieces: list[Piece] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: AishError | None = None
        self._anchor = Anchor()
        self._edits = ChatEdits(self.path, editor, self._anchor)
        self._takes_edits = True
        self._opens_documents = True
        self._opens_until = 0.0
        self._reopens_until = 0.0
        # What the document and the file have held, as hashes.
        self._held: deque[int] = deque(maxlen=_REMEMBERED)
        # What we have written to the file.
        self._wrote: deque[int] = deque(maxlen=_REMEMBERED)
        # The last text went to the file, which the editor may not have loaded since.
        self._file_is_ahead = False
        # What is being written to the file, as a hash; None once the editor has loaded that.
        self._to_be_loaded: int | None = None

    @property
    def path(self) -> Path:
        """The file of the document."""
        return self._file.path

    async def make(self) -> None:
        """Make the folder and the file, where they are missing; an editor is waited for by none.

        Raises:
            StoreUnavailable: they cannot be made, or what is there must not be used.
        """
        document = self._edits.document
        if document is not None and len(document.text) > LARGEST:
            raise too_large(self.path)
        await asyncio.to_thread(self._file.ensure, is_open=document is not None)

    async def ensure(self) -> None:
        """As ``make``, with a heading to write under.

        To be called before a turn or a command writes.

        Raises:
            StoreUnavailable: they cannot be made, or what is there must not be used.
        """
        await self.make()
        text = await self.text()
        if last_place(text) is None:
            self.begin(f"{YOU}\n\n" if text.strip() else FIRST_TEXT)
            await self.flush()

    async def text(self) -> str:
        """Return the document: the editor's where it is open, else the file's.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        document = self._edits.document
        return document.text if document else await asyncio.to_thread(self._file.read)

    async def text_as_written(self) -> str:
        """Return the document with all that was written, also what the editor has yet to load.

        Raises:
            StoreUnavailable: as ``text``.
        """
        document = self._editor.document(self.path)
        if document is None or self._lags(document):
            return await asyncio.to_thread(self._file.read)
        return document.text

    async def show(self) -> None:
        """Ask the editor to show the document's end, if it can; it need not answer.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if not self._editor.capabilities.show_document:
            return
        text = with_line_feeds(await self.text())
        # What follows a last line end is not a line to all editors: Neovim fails there.
        self._editor.show(self.path, text.removesuffix("\n").count("\n"))
        self._opens_until = monotonic() + OPEN_TIMEOUT

    def begin(self, text: str) -> None:
        """Write ``text`` at the end of the document, after a blank line."""
        self._add(Piece(well_formed(text), apart=True, goes="to the end"))

    def insert(self, text: str) -> None:
        """Write ``text`` above the heading that the user writes under, blank lines around it.

        Where there is none, since a reply is being written, it comes at the end of the document.
        """
        self._add(Piece(well_formed(text), apart=True, goes="above"))

    def replace(self, standing: str, text: str) -> None:
        """Write ``text`` under the open heading in place of ``standing``, or of nothing if empty.

        Nothing is written where something else stands there by then, or where the editor heeds no
        versions and something stands there at all.
        """
        self._add(Piece(well_formed(text), apart=True, goes="in place", standing=standing))

    def append(self, text: str, *, apart: bool = False) -> None:
        """Write ``text`` behind what was written before; ``apart``: after a blank line."""
        if text:
            self._add(Piece(well_formed(text), apart, goes="on"))

    def remark(self, text: str) -> None:
        """Write a line above the open heading, or at the end, until ``withdraw`` takes it away.

        Not where the editor heeds no versions: what is taken away then might be another text.
        """
        if self._edits.heeds_versions or not self._editor.capabilities.apply_edit:
            self._add(Piece(well_formed(text), apart=True, goes="remark"))

    def withdraw(self, text: str) -> None:
        """Take a remark away, if it stands there as it was written, and once."""
        self._add(Piece(well_formed(text), apart=False, goes="away"))

    async def flush(self) -> None:
        """Wait until all is written.

        Raises:
            StoreUnavailable: some of it could not be written and is not in the document.
        """
        await self.settle()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def changed(self, changes: Sequence[Change]) -> None:
        """Follow what the editor told of its document; no changes where it opened or closed it."""
        self._edits.changed(changes)
        document = self._edits.document
        now = "" if document is None else document.text
        if not changes:
            self._reopens_until = monotonic() + REOPEN_TIMEOUT
            self._opens_documents = self._opens_documents or document is not None
        self._held.append(hash(now))
        if hash(now.rstrip("\n")) == self._to_be_loaded:
            self._to_be_loaded = None
        self._note_loaded(now)

    async def settle(self) -> None:
        """Wait until nothing waits to be written; a failure is left to the next ``flush``."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """Drop what is not written yet."""
        self._pieces.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain(), name="chat writer")

    async def _drain(self) -> None:
        """Write until nothing waits."""
        while self._pieces:
            await self._edits.pace()
            batch = self._take()
            try:
                await self._write(batch)
            except AishError as error:
                log.warning("the chat document was not written: %s", error.message)
                self._failure = error

    def _take(self) -> list[Piece]:
        """Return the pieces that go to one place."""
        pieces = self._pieces
        end = next((n for n, piece in enumerate(pieces) if n and piece.goes != "on"), len(pieces))
        if pieces[0].is_remark:
            end = 1
        batch, self._pieces = pieces[:end], pieces[end:]
        return batch

    async def _write(self, batch: list[Piece]) -> None:
        """Bring ``batch`` into the document.

        Raises:
            StoreUnavailable: it could not be written.
        """
        document = await self._shown_again()
        if document is None and (batch[0].goes in ("to the end", "in place") or self._is_opening()):
            document = await self._opened()
        while document and self._can_be_edited():
            if await self._write_by_edits(batch):
                return
            document = await self._shown_again()
            if document and self._can_be_edited() and not self._reopened_lately():
                log.info("the editor does not take edits: the chat goes to its file")
                self._takes_edits = False
        await self._write_to_file(batch)

    def _can_be_edited(self) -> bool:
        """Return whether the editor takes edits, as far as is known."""
        can_edit = self._editor.capabilities.apply_edit
        return can_edit and self._takes_edits and not self._edits.is_silent

    def _reopened_lately(self) -> bool:
        """Return whether the editor has closed or opened the document a moment ago."""
        return monotonic() <= self._reopens_until

    async def _shown_again(self) -> OpenDocument | None:
        """Return the editor's document; wait for it where it was closed a moment ago."""
        seconds = self._reopens_until - monotonic()
        await self._edits.until(self._is_open, seconds)
        return self._edits.document

    def _is_open(self) -> bool:
        return self._edits.document is not None

    def _is_opening(self) -> bool:
        """Return whether the editor was asked to show the document a moment ago."""
        return monotonic() <= self._opens_until

    async def _opened(self) -> OpenDocument | None:
        """Have the editor open the document; return it, or None where it does not in time.

        A file that is written while the editor opens it is newer than what the editor has read: the
        user would be asked which of the two to keep. An editor that failed once is not asked and
        not waited for again, until it has the document open.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if self._opens_documents:
            if not self._is_opening():
                await self.show()
            await self._edits.until(self._is_open, self._opens_until - monotonic())
        document = self._edits.document
        self._opens_documents = document is not None
        return document

    async def _write_by_edits(self, batch: list[Piece]) -> bool:
        """Have the editor insert ``batch``; return False where it does not."""
        if not await self._bring_up_to_date():
            return False
        if not await self._edits.insert(batch):
            return False
        self._file_is_ahead = False
        return True

    async def _bring_up_to_date(self) -> bool:
        """Have the editor insert what was written to the file after it had read that.

        Return False where it does not.
        """
        document = self._edits.document
        if document is None or not self._lags(document):
            return True
        text = document.text
        on_disk = with_line_feeds(await asyncio.to_thread(self._file.read))
        if on_disk != self._anchor.text or not on_disk.startswith(text):
            return True
        known = self._anchor.offset, self._anchor.section
        missing = Piece(on_disk.removeprefix(text), apart=False, goes="to the end")
        if not await self._edits.insert([missing]):
            return False
        if self._anchor.text.removesuffix("\n") == on_disk.removesuffix("\n"):
            self._anchor.offset, self._anchor.section = known
        await self._edits.pace()
        return True

    def _lags(self, document: OpenDocument) -> bool:
        """Return whether the editor has not loaded what was written to the file last."""
        self._note_loaded(document.text)
        return self._file_is_ahead

    def _note_loaded(self, text: str) -> None:
        """Take note that the editor's document holds ``text``: it may have loaded the file."""
        if not self._file_is_ahead or self._was_replaced(text):
            return
        if text.startswith(self._anchor.text.rstrip("\n")):
            self._file_is_ahead = False

    def _was_replaced(self, text: str) -> bool:
        """Return whether the file held ``text`` before what it holds now.

        Where something was taken away at its end, the text before begins with the one after.
        """
        ends = text, text.removesuffix("\n")
        return self._anchor.text not in ends and any(hash(end) in self._wrote for end in ends)

    def _supersedes(self, document: OpenDocument, on_disk: str) -> bool:
        """Return whether a document's text is a later one than the file's.

        It is not where somebody else has written the file: that must not be lost. Nor where it has
        but a line end more: an editor that loads a file which stops within a line tells one.
        """
        text, saved = document.text, with_line_feeds(on_disk)
        if text in (saved, f"{saved}\n"):
            return False
        return hash(saved) in self._held or text.startswith(saved.rstrip("\n"))

    async def _write_to_file(self, batch: list[Piece]) -> None:
        """Write ``batch`` into the file.

        Where the document is open, the file gets its text too, unless somebody else has written the
        file: the user may not have saved it, and the editor is about to load the file.

        Raises:
            StoreUnavailable: the file cannot be read or written, or must not be used.
        """
        while True:
            on_disk = await asyncio.to_thread(self._file.read)
            document = self._edits.document
            base = on_disk
            if document and not self._lags(document) and self._supersedes(document, on_disk):
                base = document.source
            text, line_end = with_line_feeds(base), line_end_of(base)
            insertion = self._anchor.plan(text, batch)
            known = self._anchor.offset, self._anchor.section, self._anchor.is_unsure
            if insertion.edit.made_in(text) == text:
                return
            end = insertion.text.replace("\n", line_end)
            whole = insertion.edit.made_in(text).replace("\n", line_end)
            appends = base == on_disk and insertion.offset == len(text)
            self._to_be_loaded = hash(insertion.edit.made_in(text).rstrip("\n"))
            if await asyncio.to_thread(
                self._file.write, on_disk, end if appends else whole, appends=appends
            ):
                break
        # What the editor told while it was written is of its document, not of the file.
        self._anchor.text = text
        self._anchor.offset, self._anchor.section, self._anchor.is_unsure = known
        self._anchor.wrote(insertion)
        self._held.append(hash(self._anchor.text))
        self._wrote.append(hash(self._anchor.text))
        self._file_is_ahead = self._to_be_loaded is not None
