"""Writes into the chat document of one workspace: by edits of the editor, or into the file.

Editors differ in what they take: no edits at all, edits of the latest version only, edits for a
moment after a command; some claim more than they do. So an edit counts only once the editor's own
document shows it. One is under way at a time, and the next is made for what the editor told last.
What an editor does not take as an edit is written to the file, which it reloads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from lsprotocol import types

from aish_lsp.chat.anchor import Anchor, Echo
from aish_lsp.chat.file import LARGEST, ChatFile, too_large
from aish_lsp.chat.insertion import (
    Change,
    Edit,
    Piece,
    Position,
    last_place,
    line_end_of,
)
from aish_lsp.chat.markdown import FIRST_TEXT, YOU
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import well_formed, with_line_feeds
from aish_lsp.lsp.open_documents import ANSWER_TIMEOUT, OpenDocument, OpenDocuments, versioned

log = logging.getLogger(__name__)

#: Seconds in which an editor has to open the document that it was asked to show.
OPEN_TIMEOUT: Final = 2.0

#: How many texts of the document are remembered, to tell that a file holds an earlier one.
_REMEMBERED: Final = 1000

#: Seconds between two edits.
EDIT_INTERVAL: Final = 0.1

#: Seconds in which an editor that has answered an edit has to tell the change; eglot takes half a
#: second, Neovim 150 ms.
ECHO_TIMEOUT: Final = 2.0

#: The same for an edit that must not be sent again, since no version keeps it from being made
#: twice. A busy machine may be slow.
UNVERSIONED_ECHO_TIMEOUT: Final = 15.0

#: Seconds in which an editor has to tell a change that it is known to have made. If the user has
#: just answered a question, eglot tells nothing before the next key.
TELL_TIMEOUT: Final = 300.0

#: Seconds in which an editor that has closed the document may open it again. Some reload a file so,
#: and it must not be written meanwhile.
REOPEN_TIMEOUT: Final = 0.5

#: How often an edit is sent while the editor's document keeps changing under it: the reply must not
#: go to the file instead just because the user types without a pause.
_MOST_TRIES: Final = 50


class ChatWriter:
    """Grows the chat document of the workspace at ``root``, one edit at a time.

    Appended text comes right behind what was appended before it, wherever the user's own edits have
    moved that; so what the user types below a reply stays below it. ``begin`` starts again at the
    end of the document, ``insert`` above the heading that the user writes under.
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
        """Make the folder and the file if they are missing, without waiting for an editor.

        Raises:
            StoreUnavailable: they cannot be made, or what is there must not be used.
        """
        document = self._edits.document
        if document is not None and len(document.text) > LARGEST:
            raise too_large(self.path)
        await asyncio.to_thread(self._file.ensure, is_open=document is not None)

    async def ensure(self) -> None:
        """Do what ``make`` does, and write a heading to write under if there is none.

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
        """Return the text of the document: the editor's if it is open there, else the file's.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        document = self._edits.document
        return document.text if document else await asyncio.to_thread(self._file.read)

    async def text_as_written(self) -> str:
        """Return the text with all that was written, even what the editor has yet to load.

        Raises:
            StoreUnavailable: as ``text``.
        """
        document = self._editor.document(self.path)
        if document is None or self._lags(document):
            return await asyncio.to_thread(self._file.read)
        return document.text

    async def show(self) -> None:
        """Ask the editor to show the document's end, if it can; its answer is not waited for.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if not self._editor.capabilities.show_document:
            return
        text = with_line_feeds(await self.text())
        # Not every editor has a line behind the last line end: Neovim fails there.
        self._editor.show(self.path, text.removesuffix("\n").count("\n"))
        self._opens_until = monotonic() + OPEN_TIMEOUT

    def begin(self, text: str) -> None:
        """Write ``text`` at the end of the document, after a blank line."""
        self._add(Piece(well_formed(text), apart=True, goes="to the end"))

    def insert(self, text: str) -> None:
        """Write ``text`` above the heading that the user writes under, with blank lines around it.

        If there is no such heading, since a reply is being written, it comes at the end.
        """
        self._add(Piece(well_formed(text), apart=True, goes="above"))

    def replace(self, standing: str, text: str) -> None:
        """Write ``text`` under the open heading in place of ``standing``, which may be empty.

        Nothing is written if something else stands there by then, or if the editor heeds no
        versions and anything stands there.
        """
        self._add(Piece(well_formed(text), apart=True, goes="in place", standing=standing))

    def append(self, text: str, *, apart: bool = False) -> None:
        """Write ``text`` behind what was written before; ``apart``: after a blank line."""
        if text:
            self._add(Piece(well_formed(text), apart, goes="on"))

    def remark(self, text: str) -> None:
        """Write a line above the open heading, or at the end; ``withdraw`` removes it.

        Nothing is written if the editor heeds no versions: another text might be removed then.
        """
        if self._edits.heeds_versions or not self._editor.capabilities.apply_edit:
            self._add(Piece(well_formed(text), apart=True, goes="remark"))

    def withdraw(self, text: str) -> None:
        """Remove a remark, if it still stands there as it was written, and only once."""
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
        """Wait until nothing waits to be written; the next ``flush`` raises a failure."""
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
        """Take the next pieces that go to one place."""
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
        """Return the editor's document; if it was closed a moment ago, wait for it."""
        seconds = self._reopens_until - monotonic()
        await self._edits.until(self._is_open, seconds)
        return self._edits.document

    def _is_open(self) -> bool:
        return self._edits.document is not None

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
            await self._edits.until(self._is_open, self._opens_until - monotonic())
        document = self._edits.document
        self._opens_documents = document is not None
        return document

    async def _write_by_edits(self, batch: list[Piece]) -> bool:
        """Have the editor insert ``batch``; return whether it did."""
        if not await self._bring_up_to_date():
            return False
        if not await self._edits.insert(batch):
            return False
        self._file_is_ahead = False
        return True

    async def _bring_up_to_date(self) -> bool:
        """Have the editor insert what was written to the file after the editor had read it.

        Return False if it does not.
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
        """Return whether the editor has yet to load what was last written to the file."""
        self._note_loaded(document.text)
        return self._file_is_ahead

    def _note_loaded(self, text: str) -> None:
        """Note that the editor's document holds ``text``: it may have loaded the file."""
        if not self._file_is_ahead or self._was_replaced(text):
            return
        if text.startswith(self._anchor.text.rstrip("\n")):
            self._file_is_ahead = False

    def _was_replaced(self, text: str) -> bool:
        """Return whether the file held ``text`` before what it holds now.

        If something was removed at its end, the earlier text begins with the later one.
        """
        ends = text, text.removesuffix("\n")
        return self._anchor.text not in ends and any(hash(end) in self._wrote for end in ends)

    def _supersedes(self, document: OpenDocument, on_disk: str) -> bool:
        """Return whether a document's text is later than the file's.

        It is not if somebody else has written the file: that must not be lost. Nor is it if it only
        has a line end more: an editor that loads a file without a last line end adds one.
        """
        text, saved = document.text, with_line_feeds(on_disk)
        if text in (saved, f"{saved}\n"):
            return False
        return hash(saved) in self._held or text.startswith(saved.rstrip("\n"))

    async def _write_to_file(self, batch: list[Piece]) -> None:
        """Write ``batch`` into the file.

        If the document is open, the file gets its text too, unless somebody else has written the
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
        # What the editor told meanwhile is about its document, not about the file.
        self._anchor.text = text
        self._anchor.offset, self._anchor.section, self._anchor.is_unsure = known
        self._anchor.wrote(insertion)
        self._held.append(hash(self._anchor.text))
        self._wrote.append(hash(self._anchor.text))
        self._file_is_ahead = self._to_be_loaded is not None


class ChatEdits:
    """Makes edits in the editor's document of the file at ``path``, at the place of ``anchor``.

    Attributes:
        is_silent: the editor heeds no versions, was sent an edit, and has told no change since. No
            other edit may be sent.
    """

    def __init__(self, path: Path, editor: OpenDocuments, anchor: Anchor) -> None:
        self._path = path
        self._editor = editor
        self._anchor = anchor
        self._echo = Echo(anchor, self._offset)
        # The document as of the last change that was told, and the number of those.
        self._shown = ""
        self._tellings = 0
        self._told = asyncio.Event()
        self._next_at = 0.0
        self.is_silent = False

    @property
    def document(self) -> OpenDocument | None:
        """The editor's document; None if it is not open."""
        return self._editor.document(self._path)

    @property
    def heeds_versions(self) -> bool:
        """Whether the editor refuses an edit that is for another version of its document."""
        return self._editor.capabilities.document_changes

    def changed(self, changes: Sequence[Change]) -> None:
        """Follow what the editor told of its document; no changes where it opened or closed it."""
        document = self.document
        now = None if document is None else document.text
        if not changes:
            self._echo.reopened(now)
        for change in changes:
            new = with_line_feeds(change.text)
            if change.start is None or change.end is None:
                edit = Edit(0, len(self._shown), new)
            else:
                start, end = (self._offset(self._shown, at) for at in (change.start, change.end))
                edit = Edit(start, end, new)
            self._echo.changed(self._shown, edit)
            self._shown = edit.made_in(self._shown)
        self._shown = now or ""
        self._tellings += 1
        self.is_silent = False
        self._told.set()

    async def until(self, happened: Callable[[], bool], seconds: float) -> None:
        """Wait until something has happened in the editor, for at most ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not happened():
                    self._told.clear()
                    await self._told.wait()

    async def pace(self) -> None:
        """Wait until the next edit may be sent."""
        await asyncio.sleep(self._next_at - monotonic())
        self._next_at = monotonic() + EDIT_INTERVAL

    async def insert(self, batch: list[Piece]) -> bool:
        """Have the editor insert ``batch`` into its document; return whether it did.

        Each try determines the place again. The second refusal is final; but a refusal does not
        count if a change of the user's came first, since the editor then had to refuse.
        """
        refusals = 0
        claimed: OpenDocument | None = None
        for number in range(_MOST_TRIES):
            if number:
                await self.pace()
            await self._remove_stray()
            document = self.document
            if document is None:
                break
            says_so = await self._try(document, batch, claimed)
            if self._echo.made:
                return True
            if self._echo.waits and says_so is not False and not self._is_guarded(document):
                # It may still come, and must not come twice.
                self.is_silent = True
                break
            claimed = document if says_so else None
            now = self.document
            refusals += now is not None and now.version == document.version
            if refusals == 2:
                break
        await self._remove_stray()
        self._echo.give_up()
        return False

    async def _try(
        self, document: OpenDocument, batch: list[Piece], claimed: OpenDocument | None
    ) -> bool | None:
        """Send ``batch`` once, and wait until it is known what became of it.

        ``claimed`` is the document in which the editor said before that it had made this edit.
        Return what it says now.
        """
        self._shown = document.text
        insertion = self._anchor.plan(self._shown, batch)
        edit = insertion.edit
        is_nothing = edit == Edit(edit.start, edit.start, "")
        is_guarded = self._is_guarded(document)
        # In another version something else may stand there, which must not be removed.
        if is_nothing or (edit.end > edit.start and not is_guarded):
            self._echo.made = True
            return True
        start = self._position(self._shown[: edit.start])
        end = self._position(self._shown[: edit.end])
        self._echo.send(insertion, start, end, blind=not is_guarded)
        says_so = await self._answer(self._workspace_edit(document, start, end, edit.new))
        patience = ECHO_TIMEOUT
        if says_so is not False and not is_guarded:
            patience = UNVERSIONED_ECHO_TIMEOUT
        elif claimed == document and not says_so:
            # It refuses what it said that it made: so it made it, and its document has changed.
            patience = TELL_TIMEOUT
        elif says_so is None:
            patience = 0
        if self._echo.reloaded and self.heeds_versions:
            patience = ECHO_TIMEOUT
        await self._echoed(patience, says_so)
        return says_so

    async def _echoed(self, patience: float, says_so: bool | None) -> None:
        """Wait until it is known what became of the edit, but no longer than ``patience``."""
        before = self._tellings

        def is_told() -> bool:
            # Whatever an editor tells after its answer includes all changes before that.
            return says_so is not None and self._tellings > before

        await self.until(
            lambda: not self._echo.waits or self.document is None or is_told(), patience
        )
        if self._echo.waits and self.document is None:
            # The document may be opened again with the edit in it.
            await self.until(lambda: self.document is not None, REOPEN_TIMEOUT)
        if is_told() or says_so is False or self._echo.reloaded:
            self._echo.conclude(says_so=bool(says_so))

    async def _remove_stray(self) -> None:
        """Remove what the editor has inserted in a wrong place, being late to heed a version.

        It is asked to do so in this version only, since another misplaced edit could do harm. So
        an editor that heeds no versions keeps that text.
        """
        for _ in range(_MOST_TRIES):
            stray, document = self._echo.stray, self.document
            if stray is not None and document is None:
                # It may be opened again, with that text in it.
                return
            if stray is None or document is None or not self._is_guarded(document):
                break
            text = document.text
            if text != self._anchor.text:
                break
            log.info("the editor was changed under an edit: it is taken back and made anew")
            start, end = self._position(text[: stray.start]), self._position(text[: stray.end])
            await self._answer(self._workspace_edit(document, start, end, ""))
            # Wait until it is gone, or the change that came first is told.
            await self.until(partial(self._has_left, text), ECHO_TIMEOUT)
        self._echo.stray = None

    def _has_left(self, text: str) -> bool:
        """Return whether the editor's document no longer holds ``text``."""
        return self._shown != text

    def _is_guarded(self, document: OpenDocument) -> bool:
        """Return whether an edit of ``document`` is made in this very version, or not at all."""
        takes_none = document.version == 0 and self._editor.capabilities.takes_0_for_none
        return self.heeds_versions and not takes_none

    async def _answer(self, edit: types.WorkspaceEdit) -> bool | None:
        """Return whether the editor says that it made ``edit``; None if it does not answer."""
        try:
            return await asyncio.wait_for(self._editor.apply_edit(edit), ANSWER_TIMEOUT)
        except TimeoutError:
            log.info("the editor did not answer an edit in time")
            return None
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the file remains
            log.info("the editor did not answer an edit: %s", type(error).__name__)
            return False

    def _workspace_edit(
        self, document: OpenDocument, start: Position, end: Position, new: str
    ) -> types.WorkspaceEdit:
        """Return the edit of ``document`` that puts ``new`` from ``start`` to ``end``."""
        new = new.replace("\n", document.line_end)
        edit = types.TextEdit(types.Range(types.Position(*start), types.Position(*end)), new)
        if not self.heeds_versions:
            return types.WorkspaceEdit(changes={document.uri: [edit]})
        return versioned(document, edit)

    def _offset(self, text: str, at: Position) -> int:
        """Return the offset in ``text`` of a position in the client's units, at most its end."""
        begin = 0
        for _ in range(at.line):
            begin = text.find("\n", begin) + 1
            if begin == 0:
                return len(text)
        end = text.find("\n", begin)
        line = text[begin:] if end < 0 else text[begin:end]
        return begin + self._editor.characters(line, at.character)

    def _position(self, before: str) -> Position:
        """Return the position in the document at which its beginning, ``before``, ends."""
        last_line = before[before.rfind("\n") + 1 :]
        return Position(before.count("\n"), self._editor.width(last_line))
