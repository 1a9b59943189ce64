"""Writes into the chat document of one workspace: by edits of the editor, or into the file.

Editors differ in what they take: no edits at all, edits of the latest version only, edits for a
moment after a command; some claim more than they do. So an edit counts when the editor's own
document shows it, and what an editor does not take is written to the file, which it reloads. Where
a reply goes on is known by every change that the editor tells, never by what looks alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from lsprotocol import types

from aish_lsp.chat.anchor import Anchor, Edit
from aish_lsp.chat.file import LARGEST, ChatFile, too_large
from aish_lsp.chat.insertion import Insertion, Piece, anew, compose, line_end_of
from aish_lsp.chat.markdown import FIRST_TEXT, YOU
from aish_lsp.chat.place import Change, Position, last_place
from aish_lsp.errors import AishError
from aish_lsp.text import well_formed, with_line_feeds

log = logging.getLogger(__name__)

#: Seconds between two edits.
EDIT_INTERVAL: Final = 0.1

#: Seconds in which an editor has to answer an edit.
ANSWER_TIMEOUT: Final = 5.0

#: Seconds in which it then has to tell the change; eglot takes half a second, Neovim 150 ms.
ECHO_TIMEOUT: Final = 2.0

#: As above, of an editor that edits are sent to without a version (Neovim): one that it has made
#: and not told of yet would be made twice if it were sent again. A busy machine holds much up.
UNVERSIONED_ECHO_TIMEOUT: Final = 15.0

#: Seconds in which an editor has to tell a change that it is known to have made. Where a question
#: was the last that the user answered, eglot does not before the next key.
TELL_TIMEOUT: Final = 300.0

#: Seconds in which an editor has to open the document that it was asked to show.
OPEN_TIMEOUT: Final = 2.0

#: Seconds in which an editor that has closed the document may open it anew: so it reloads a file,
#: which must not be written to meanwhile.
REOPEN_TIMEOUT: Final = 0.5

#: Seconds between two looks at the editor's document, while an edit is under way.
_ECHO_POLL: Final = 0.01

#: Texts of the document by which a file is known to be an earlier one of it.
_REMEMBERED: Final = 1000

#: Times that an edit is sent while the editor's document keeps changing under it: one who types
#: without a pause must not have the reply sent to the file instead.
_MOST_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class EditorCapabilities:
    """What a client says that it can do."""

    apply_edit: bool = False
    document_changes: bool = False
    show_document: bool = False


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document as the editor has it; ``uri`` is the editor's own spelling."""

    uri: str
    text: str
    version: int | None


class Editor(Protocol):
    """The client, as far as the chat document needs it."""

    @property
    def capabilities(self) -> EditorCapabilities:
        """What the client can do."""

    def document(self, path: Path) -> OpenDocument | None:
        """Return the document of a file, or None where it is not open."""

    def width(self, text: str) -> int:
        """Return the length of ``text`` in the units of the client's positions."""

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of ``line`` come before a place in those units."""

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        """Have the client make ``edit``; return whether it says that it did.

        Raises:
            Exception: the client answered with an error, or not at all.
        """

    def show(self, path: Path, line: int) -> None:
        """Ask the client to show a file, the cursor on ``line``; its answer is not waited for."""


class ChatWriter:
    """Grows the chat document of the workspace at ``root``, one edit at a time.

    Text that is appended comes right behind what was appended before it, wherever the user's own
    edits have moved that; so what the user types below a reply stays below it. ``begin`` starts
    anew at the end of the document, ``insert`` above the heading that the user writes under.
    """

    def __init__(self, root: Path, editor: Editor) -> None:
        self._file = ChatFile(root)
        self._editor = editor
        self._pieces: list[Piece] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: AishError | None = None
        self._next_at = 0.0
        self._anchor = Anchor(self._offset)
        # The editor's document as of the last change that it told.
        self._shown = ""
        self._takes_edits = True
        self._opens_documents = True
        self._opens_until = 0.0
        self._reopens_until = 0.0
        # What the document and the file have held, as hashes.
        self._held: deque[int] = deque(maxlen=_REMEMBERED)
        # The last text went to the file, which the editor may not have loaded since.
        self._file_is_ahead = False

    @property
    def path(self) -> Path:
        """The file of the document."""
        return self._file.path

    async def ensure(self) -> None:
        """Make the folder, the file, and a heading to write under, where they are missing.

        To be called before a turn or a command writes.

        Raises:
            StoreUnavailable: they cannot be made, or what is there must not be used.
        """
        document = self._editor.document(self.path)
        if document is not None and len(document.text) > LARGEST:
            raise too_large(self.path)
        await asyncio.to_thread(self._file.ensure, is_open=document is not None)
        text = await self.text()
        if last_place(text) is None:
            self.begin(f"{YOU}\n\n" if text.strip() else FIRST_TEXT)
            await self.flush()

    async def text(self) -> str:
        """Return the document: the editor's where it is open, else the file's.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        document = self._editor.document(self.path)
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
        # What follows a last line end is no line to all editors: Neovim fails there.
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

        Nothing is written where something else stands there by then.
        """
        self._add(Piece(well_formed(text), apart=True, goes="in place", standing=standing))

    def append(self, text: str, *, apart: bool = False) -> None:
        """Write ``text`` behind what was written before; ``apart``: after a blank line."""
        if text:
            self._add(Piece(well_formed(text), apart, goes="on"))

    def remark(self, text: str) -> None:
        """Write a line above the open heading, or at the end, until ``withdraw`` takes it away."""
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
        document = self._editor.document(self.path)
        now = "" if document is None else with_line_feeds(document.text)
        if not changes:
            self._anchor.reopened()
            self._reopens_until = monotonic() + REOPEN_TIMEOUT
        for change in changes:
            new = with_line_feeds(change.text)
            if change.start is None or change.end is None:
                edit = Edit(0, len(self._shown), new)
            else:
                start, end = (self._offset(self._shown, at) for at in (change.start, change.end))
                edit = Edit(start, end, new)
            self._anchor.changed(self._shown, edit)
            self._shown = edit.made_in(self._shown)
        self._shown = now
        self._held.append(hash(now))
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
            await self._pace()
            batch = self._take()
            try:
                await self._write(batch)
            except AishError as error:
                log.warning("the chat document was not written: %s", error.message)
                self._failure = error

    async def _pace(self) -> None:
        """Wait until the next edit may be sent."""
        await asyncio.sleep(self._next_at - monotonic())
        self._next_at = monotonic() + EDIT_INTERVAL

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
        while document and self._takes_edits and self._editor.capabilities.apply_edit:
            if await self._write_by_edits(batch):
                return
            document = await self._shown_again()
            if document and not self._reopened_lately():
                log.info("the editor does not take edits: the chat goes to its file")
                self._takes_edits = False
        await self._write_to_file(batch)

    def _reopened_lately(self) -> bool:
        """Return whether the editor has closed or opened the document a moment ago."""
        return monotonic() <= self._reopens_until

    async def _shown_again(self) -> OpenDocument | None:
        """Return the editor's document; wait for it where it was closed a moment ago."""
        seconds = self._reopens_until - monotonic()
        await self._until(lambda: self._editor.document(self.path) is not None, seconds)
        return self._editor.document(self.path)

    def _is_opening(self) -> bool:
        """Return whether the editor was asked to show the document a moment ago."""
        return monotonic() <= self._opens_until

    async def _opened(self) -> OpenDocument | None:
        """Have the editor open the document; return it, or None where it does not in time.

        A file that is written while the editor opens it is newer than what the editor has read: the
        user would be asked which of the two to keep. An editor that failed once is not waited for.

        Raises:
            StoreUnavailable: the file cannot be read, or must not be used.
        """
        if not self._is_opening():
            await self.show()
        while (document := self._editor.document(self.path)) is None:
            if not self._opens_documents or not self._is_opening():
                break
            await asyncio.sleep(_ECHO_POLL)
        self._opens_documents = document is not None
        return document

    async def _write_by_edits(self, batch: list[Piece]) -> bool:
        """Have the editor insert ``batch``; return False where it does not."""
        if not await self._bring_up_to_date():
            return False
        return await self._insert(batch)

    async def _bring_up_to_date(self) -> bool:
        """Have the editor insert what was written to the file after it had read that.

        Return False where it does not.
        """
        document = self._editor.document(self.path)
        if document is None or not self._lags(document):
            return True
        text = with_line_feeds(document.text)
        on_disk = with_line_feeds(await asyncio.to_thread(self._file.read))
        if on_disk != self._anchor.text or not on_disk.startswith(text):
            return True
        known = self._anchor.offset, self._anchor.section
        missing = Piece(on_disk.removeprefix(text), apart=False, goes="to the end")
        if not await self._insert([missing]):
            return False
        if self._anchor.text.removesuffix("\n") == on_disk.removesuffix("\n"):
            self._anchor.offset, self._anchor.section = known
        await self._pace()
        return True

    def _lags(self, document: OpenDocument) -> bool:
        """Return whether the editor has not loaded what was written to the file last."""
        self._note_loaded(with_line_feeds(document.text))
        return self._file_is_ahead

    def _note_loaded(self, text: str) -> None:
        """Take note that the editor's document holds ``text``: it may have loaded the file."""
        if self._file_is_ahead and text.startswith(self._anchor.text.rstrip("\n")):
            self._file_is_ahead = False

    def _supersedes(self, document: OpenDocument, on_disk: str) -> bool:
        """Return whether a document's text is a later one than the file's.

        It is not where somebody else has written the file: that must not be lost.
        """
        text, saved = with_line_feeds(document.text), with_line_feeds(on_disk)
        return hash(saved) in self._held or text.startswith(saved.rstrip("\n"))

    def _plan(self, text: str, batch: list[Piece]) -> tuple[Insertion, bool]:
        """Return what brings ``batch`` into ``text``, and whether it goes on with a section."""
        self._anchor.settle(text)
        goes_on = batch[0].goes == "on"
        if goes_on and self._anchor.lost:
            batch, goes_on = [anew(self._anchor.section), *batch], False
        return compose(text, batch, self._anchor.offset), goes_on

    async def _insert(self, batch: list[Piece]) -> bool:
        """Have the editor bring ``batch`` into its document; return whether it did.

        Where to is settled anew for each try. The second refusal is final; but an edit that a
        change of the user's overtook was refused by the rules, and that does not count.
        """
        refusals = 0
        claimed: OpenDocument | None = None
        for number in range(_MOST_TRIES):
            if number:
                await self._pace()
            await self._remove_stray()
            document = self._editor.document(self.path)
            if document is None:
                return False
            text = self._shown = with_line_feeds(document.text)
            insertion, goes_on = self._plan(text, batch)
            if not insertion.text and not insertion.removes:
                return True
            start = self._position(text[: insertion.offset])
            end = self._position(text[: insertion.offset + insertion.removes])
            is_remark = batch[0].is_remark
            self._anchor.send(insertion, start, end, goes_on=goes_on, is_remark=is_remark)
            new = insertion.text + insertion.behind
            # Of another version something else may stand there: that is not to go.
            edit = self._workspace_edit(document, start, end, new, versioned=not new)
            says_so = await self._answer(edit)
            patience = self._patience(says_so)
            if claimed == document and not says_so:
                # It refuses what it said that it made: it did, and its document is another now.
                patience = TELL_TIMEOUT
            claimed = document if says_so else None
            if says_so is False:
                # It may have refused what a change overtook that it tells of only later; or have
                # made it all the same, and failed at what comes behind that.
                await self._until(partial(self._has_left, text), ECHO_TIMEOUT)
            if await self._is_made(patience):
                self._file_is_ahead = False
                return True
            now = self._editor.document(self.path)
            refusals += now is not None and now.version == document.version
            if refusals == 2:
                break
        await self._remove_stray()
        return False

    async def _remove_stray(self) -> None:
        """Take back what an editor without versions has put where its place was before a change.

        It is asked to do so of this version alone: another edit at a wrong place could harm.
        """
        for _ in range(_MOST_TRIES):
            stray, document = self._anchor.stray, self._editor.document(self.path)
            if stray is None or document is None:
                break
            text = with_line_feeds(document.text)
            if text != self._anchor.text:
                break
            log.info("the editor was changed under an edit: it is taken back and made anew")
            start, end = self._position(text[: stray.start]), self._position(text[: stray.end])
            await self._answer(self._workspace_edit(document, start, end, "", versioned=True))
            # It is gone, or the change that overtook it is told.
            await self._until(partial(self._has_left, text), ECHO_TIMEOUT)
        self._anchor.stray = None

    def _has_left(self, text: str) -> bool:
        """Return whether the editor's document holds something else than ``text`` by now."""
        return self._shown != text

    @staticmethod
    async def _until(happened: Callable[[], bool], seconds: float) -> None:
        """Wait until something has happened in the editor, for so many ``seconds`` at most."""
        deadline = monotonic() + seconds
        while monotonic() < deadline:
            if happened():
                break
            await asyncio.sleep(_ECHO_POLL)

    def _patience(self, says_so: bool | None) -> float:
        """Return the seconds to wait for an edit's change, by what the editor says of it."""
        if not self._editor.capabilities.document_changes:
            # Neovim says no also where it made the edit and failed at what comes behind that.
            return ECHO_TIMEOUT if says_so is False else UNVERSIONED_ECHO_TIMEOUT
        return ECHO_TIMEOUT if says_so else 0

    async def _answer(self, edit: types.WorkspaceEdit) -> bool | None:
        """Return whether the editor says that it made ``edit``; None where it does not answer."""
        try:
            return await asyncio.wait_for(self._editor.apply_edit(edit), ANSWER_TIMEOUT)
        except TimeoutError:
            log.info("the editor did not answer an edit in time")
            return None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, there is the file
            log.info("the editor did not answer an edit: %s", type(error).__name__)
            return False

    async def _is_made(self, patience: float) -> bool:
        """Return whether the edit that was sent is in its place in the editor's document.

        The next edit must not be made from a text without it, so its change is waited for, for
        ``patience`` seconds.
        """
        await self._until(
            lambda: not self._anchor.waits or self._editor.document(self.path) is None, patience
        )
        document = self._editor.document(self.path)
        if document is not None:
            self._anchor.arrived_in(with_line_feeds(document.text))
        made = not self._anchor.waits and self._anchor.stray is None
        self._anchor.recall()
        return made

    def _workspace_edit(
        self,
        document: OpenDocument,
        start: Position,
        end: Position,
        new: str,
        *,
        versioned: bool = False,
    ) -> types.WorkspaceEdit:
        """Return the edit of ``document`` that puts ``new`` from ``start`` to ``end``."""
        new = new.replace("\n", line_end_of(document.text))
        edits = [types.TextEdit(types.Range(types.Position(*start), types.Position(*end)), new)]
        if not self._editor.capabilities.document_changes and not versioned:
            return types.WorkspaceEdit(changes={document.uri: edits})
        identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, edits)])

    def _offset(self, text: str, at: Position) -> int:
        """Return the place in ``text`` of a position in the client's units, or the end."""
        begin = 0
        for _ in range(at.line):
            begin = text.find("\n", begin) + 1
            if begin == 0:
                return len(text)
        end = text.find("\n", begin)
        line = text[begin:] if end < 0 else text[begin:end]
        return begin + self._editor.characters(line, at.character)

    def _position(self, before: str) -> Position:
        """Return where ``before``, the start of the document, ends."""
        last_line = before[before.rfind("\n") + 1 :]
        return Position(before.count("\n"), self._editor.width(last_line))

    async def _write_to_file(self, batch: list[Piece]) -> None:
        """Write ``batch`` into the file.

        Where the document is open, the file gets its text too, unless somebody else has written the
        file: the user may not have saved it, and the editor is about to load the file.

        Raises:
            StoreUnavailable: the file cannot be read or written, or must not be used.
        """
        while True:
            on_disk = await asyncio.to_thread(self._file.read)
            document = self._editor.document(self.path)
            base = on_disk
            if document and not self._lags(document) and self._supersedes(document, on_disk):
                base = document.text
            text, line_end = with_line_feeds(base), line_end_of(base)
            insertion, goes_on = self._plan(text, batch)
            if not insertion.text and not insertion.removes:
                return
            end = insertion.text.replace("\n", line_end)
            whole = insertion.whole_in(text).replace("\n", line_end)
            appends = base == on_disk and insertion.offset == len(text)
            if await asyncio.to_thread(
                self._file.write, on_disk, end if appends else whole, appends=appends
            ):
                break
        if batch[0].is_remark:
            self._anchor.remarked(insertion)
        else:
            self._anchor.wrote(insertion, goes_on=goes_on)
        self._held.append(hash(self._anchor.text))
        self._file_is_ahead = True
