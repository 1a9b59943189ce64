"""Writes into the chat document of one workspace: by edits of the editor, or into the file.

Editors differ in what they take: no edits at all, edits of the latest version only, edits for a
moment after a command; some claim more than they do. So an edit counts when the editor's own
document shows it, and what an editor does not take is written to the file, which it reloads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lsprotocol import types

from aish_lsp.chat.file import LARGEST, ChatFile, too_large
from aish_lsp.chat.insertion import Insertion, Piece, compose, line_end_of
from aish_lsp.chat.markdown import FIRST_TEXT, YOU
from aish_lsp.chat.place import last_place
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

#: Seconds between two looks at the editor's document, while an edit is under way.
_ECHO_POLL: Final = 0.01

#: Times that an edit is sent while the editor's document keeps changing under it.
_MOST_TRIES: Final = 5


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
        self._tail = ""
        self._takes_edits = True
        self._opens_documents = True
        self._opens_until = 0.0
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
        self._opens_until = asyncio.get_running_loop().time() + OPEN_TIMEOUT

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

    async def flush(self) -> None:
        """Wait until all is written.

        Raises:
            StoreUnavailable: some of it could not be written and is not in the document.
        """
        await self.settle()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

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
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_at - loop.time())
        self._next_at = loop.time() + EDIT_INTERVAL

    def _take(self) -> list[Piece]:
        """Return the pieces that go to one place."""
        pieces = self._pieces
        end = next((n for n, piece in enumerate(pieces) if n and piece.goes != "on"), len(pieces))
        batch, self._pieces = pieces[:end], pieces[end:]
        return batch

    async def _write(self, batch: list[Piece]) -> None:
        """Bring ``batch`` into the document.

        Raises:
            StoreUnavailable: it could not be written.
        """
        document = self._editor.document(self.path)
        if document is None and (batch[0].goes in ("to the end", "in place") or self._is_opening()):
            document = await self._opened()
        if document and self._takes_edits and self._editor.capabilities.apply_edit:
            if await self._write_by_edits(batch):
                return
            document = self._editor.document(self.path)
            if document:
                log.info("the editor does not take edits: the chat goes to its file")
                self._takes_edits = False
        await asyncio.to_thread(self._write_to_file, batch, document)

    def _is_opening(self) -> bool:
        """Return whether the editor was asked to show the document a moment ago."""
        return asyncio.get_running_loop().time() <= self._opens_until

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
        missing = await self._missing()
        if missing:
            if not await self._insert(lambda text: Insertion(len(text), missing)):
                return False
            await self._pace()
        return await self._insert(lambda text: compose(text, self._tail, batch))

    async def _missing(self) -> str:
        """Return what was written to the file after the editor had read it."""
        document = self._editor.document(self.path)
        if document is None or not self._lags(document):
            return ""
        text = with_line_feeds(document.text)
        on_disk = with_line_feeds(await asyncio.to_thread(self._file.read))
        return on_disk.removeprefix(text) if on_disk.startswith(text) else ""

    def _lags(self, document: OpenDocument) -> bool:
        """Return whether the editor has not loaded what was written to the file last."""
        return self._file_is_ahead and self._tail not in with_line_feeds(document.text)

    async def _insert(self, plan: Callable[[str], Insertion]) -> bool:
        """Have the editor make the edit that ``plan`` gives for its text; return whether it did.

        The plan is made anew for each try. The second refusal is final; but an edit that a change
        of the user's overtook was refused by the rules, and that does not count.
        """
        refusals = 0
        claimed: OpenDocument | None = None
        for number in range(_MOST_TRIES):
            if number:
                await self._pace()
            document = self._editor.document(self.path)
            if document is None:
                return False
            text = with_line_feeds(document.text)
            insertion = plan(text)
            if not insertion.text:
                return True
            says_so = await self._answer(self._workspace_edit(document, text, insertion))
            patience = self._patience(says_so)
            believed = patience > 0 and says_so is not False
            if claimed == document and not says_so:
                # It refuses what it said that it made: it did, and its document is another now.
                patience, believed = TELL_TIMEOUT, True
            claimed = document if says_so else None
            if await self._is_made(document, text, insertion, patience, believed=believed):
                self._tail = insertion.tail_in(text)
                self._file_is_ahead = False
                return True
            now = self._editor.document(self.path)
            refusals += now is not None and now.version == document.version
            if refusals == 2:
                break
        return False

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

    async def _is_made(
        self,
        before: OpenDocument,
        text: str,
        insertion: Insertion,
        patience: float,
        *,
        believed: bool,
    ) -> bool:
        """Return whether the edit is in the editor's document.

        The next edit must not be made from a text without it, so its change is waited for, for
        ``patience`` seconds. If the document did change, it may be ``believed`` without.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        begin = insertion.made_in(text)
        tail = insertion.tail_in(text)
        while True:
            now = self._editor.document(self.path)
            if now is None:
                return believed
            shown = with_line_feeds(now.text)
            if shown != text and (shown.startswith(begin) or shown.count(tail) > text.count(tail)):
                return True
            if loop.time() >= deadline:
                return believed and now.version != before.version
            await asyncio.sleep(_ECHO_POLL)

    def _workspace_edit(
        self, document: OpenDocument, text: str, insertion: Insertion
    ) -> types.WorkspaceEdit:
        """Return ``insertion`` into ``document``, whose text is ``text``, as LSP has it."""
        begin = self._position(text[: insertion.offset])
        end = self._position(text[: insertion.offset + insertion.removes])
        new_text = insertion.text + insertion.behind
        new_text = new_text.replace("\n", line_end_of(document.text))
        edits = [types.TextEdit(types.Range(begin, end), new_text)]
        if not self._editor.capabilities.document_changes:
            return types.WorkspaceEdit(changes={document.uri: edits})
        identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, edits)])

    def _position(self, before: str) -> types.Position:
        """Return where ``before``, the start of the document, ends."""
        last_line = before[before.rfind("\n") + 1 :]
        return types.Position(before.count("\n"), self._editor.width(last_line))

    def _write_to_file(self, batch: list[Piece], document: OpenDocument | None) -> None:
        """Write ``batch`` into the file. It blocks.

        Where the document is open, the file gets its text too: the user may not have saved it, and
        the editor is about to load the file.

        Raises:
            StoreUnavailable: the file cannot be read or written, or must not be used.
        """
        on_disk = self._file.read()
        base = on_disk if document is None or self._lags(document) else document.text
        text, line_end = with_line_feeds(base), line_end_of(base)
        insertion = compose(text, self._tail, batch)
        if not insertion.text:
            return
        if base == on_disk and insertion.offset == len(text):
            self._file.append(insertion.text.replace("\n", line_end))
        else:
            self._file.replace(insertion.whole_in(text).replace("\n", line_end))
        self._tail = insertion.tail_in(text)
        self._file_is_ahead = True
