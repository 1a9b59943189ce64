"""Brings text into the chat document by edits of the editor.

Editors differ in what they take: no edits at all, edits of the latest version only, edits for a
moment after a command; some claim more than they do. So an edit counts when the editor's own
document shows it. One is under way at a time, and the next is made for what the editor told last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from lsprotocol import types

from aish_lsp.chat.anchor import Anchor, Echo
from aish_lsp.chat.insertion import Change, Edit, Piece, Position
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.lsp.open_documents import ANSWER_TIMEOUT, OpenDocument, OpenDocuments, versioned

log = logging.getLogger(__name__)

#: Seconds between two edits.
EDIT_INTERVAL: Final = 0.1

#: Seconds in which an editor that has answered has to tell the change; eglot takes half a second,
#: Neovim 150 ms.
ECHO_TIMEOUT: Final = 2.0

#: As above, where an edit must not be sent again, since no version keeps it from being made twice.
#: A busy machine holds much up.
UNVERSIONED_ECHO_TIMEOUT: Final = 15.0

#: Seconds in which an editor has to tell a change that it is known to have made. Where a question
#: was the last that the user answered, eglot does not before the next key.
TELL_TIMEOUT: Final = 300.0

#: Seconds in which an editor that has closed the document may open it anew: so it reloads a file,
#: which must not be written to meanwhile.
REOPEN_TIMEOUT: Final = 0.5

#: Times that an edit is sent while the editor's document keeps changing under it: one who types
#: without a pause must not have the reply sent to the file instead.
_MOST_TRIES: Final = 50


class ChatEdits:
    """Makes edits in the editor's document of the file at ``path``, where ``anchor`` says.

    Attributes:
        is_silent: the editor heeds no versions, was sent an edit, and has told no change since: no
            other edit must be sent.
    """

    def __init__(self, path: Path, editor: OpenDocuments, anchor: Anchor) -> None:
        self._path = path
        self._editor = editor
        self._anchor = anchor
        self._echo = Echo(anchor, self._offset)
        # The document as of the last change that was told, and how often any was.
        self._shown = ""
        self._tellings = 0
        self._told = asyncio.Event()
        self._next_at = 0.0
        self.is_silent = False

    @property
    def document(self) -> OpenDocument | None:
        """The editor's document; None where it is not open."""
        return self._editor.document(self._path)

    @property
    def heeds_versions(self) -> bool:
        """Whether the editor makes no edit that is for another version."""
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
        """Wait until something has happened in the editor, for so many ``seconds`` at most."""
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
        """Have the editor bring ``batch`` into its document; return whether it did.

        Where to is settled anew for each try. The second refusal is final; but an edit that a
        change of the user's overtook was refused by the rules, and that does not count.
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

        ``claimed`` is a document of which the editor has said that it made this edit in it. Return
        what it says now.
        """
        self._shown = document.text
        step = self._anchor.plan(self._shown, batch)
        edit = step.edit
        is_nothing = edit == Edit(edit.start, edit.start, "")
        is_guarded = self._is_guarded(document)
        # Of another version something else may stand there: that is not to go.
        if is_nothing or (edit.end > edit.start and not is_guarded):
            self._echo.made = True
            return True
        start = self._position(self._shown[: edit.start])
        end = self._position(self._shown[: edit.end])
        self._echo.send(step, start, end, blind=not is_guarded)
        says_so = await self._answer(self._workspace_edit(document, start, end, edit.new))
        patience = ECHO_TIMEOUT
        if says_so is not False and not is_guarded:
            patience = UNVERSIONED_ECHO_TIMEOUT
        elif claimed == document and not says_so:
            # It refuses what it said that it made: it did, and its document is another now.
            patience = TELL_TIMEOUT
        elif says_so is None:
            patience = 0
        if self._echo.reloaded and self.heeds_versions:
            patience = ECHO_TIMEOUT
        await self._echoed(patience, says_so)
        return says_so

    async def _echoed(self, patience: float, says_so: bool | None) -> None:
        """Wait until it is known what became of the edit that was sent, or ``patience`` ends."""
        before = self._tellings

        def is_told() -> bool:
            # What an editor tells behind its answer has all that came before that.
            return says_so is not None and self._tellings > before

        await self.until(
            lambda: not self._echo.waits or self.document is None or is_told(), patience
        )
        if self._echo.waits and self.document is None:
            # What it opens anew may have it.
            await self.until(lambda: self.document is not None, REOPEN_TIMEOUT)
        if is_told() or says_so is False or self._echo.reloaded:
            self._echo.conclude(says_so=bool(says_so))

    async def _remove_stray(self) -> None:
        """Take back what an editor that was late to heed a version has put in a wrong place.

        It is asked to do so of this version alone: another edit at a wrong place could harm. So
        one that heeds none keeps it.
        """
        for _ in range(_MOST_TRIES):
            stray, document = self._echo.stray, self.document
            if stray is not None and document is None:
                # It may be opened anew, with that in it.
                return
            if stray is None or document is None or not self._is_guarded(document):
                break
            text = document.text
            if text != self._anchor.text:
                break
            log.info("the editor was changed under an edit: it is taken back and made anew")
            start, end = self._position(text[: stray.start]), self._position(text[: stray.end])
            await self._answer(self._workspace_edit(document, start, end, ""))
            # It is gone, or the change that overtook it is told.
            await self.until(partial(self._has_left, text), ECHO_TIMEOUT)
        self._echo.stray = None

    def _has_left(self, text: str) -> bool:
        """Return whether the editor's document holds something else than ``text`` by now."""
        return self._shown != text

    def _is_guarded(self, document: OpenDocument) -> bool:
        """Return whether an edit of ``document`` is made in this version of it, or not at all."""
        takes_none = document.version == 0 and self._editor.capabilities.takes_0_for_none
        return self.heeds_versions and not takes_none

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
