"""Asks the editor to insert text into its own document of the chat, and checks the outcome.

The changes that an editor reports show the outcome of an edit that we sent to it. An editor that
checks versions makes the edit before any other change, or not at all. Any other editor makes it in
whatever text it has at that time, possibly in the wrong place: the change that it reports shows
that, and the edit is undone. So an edit counts only once the editor's own document shows it.
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

from aish_lsp.chat.insertion import (
    Anchor,
    Edit,
    Insertion,
    Piece,
    followed,
    is_same,
    relocated,
    shifted,
)
from aish_lsp.chat.markdown import Change, ClientPosition
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import line_start, with_line_feeds
from aish_lsp.lsp.open_documents import (
    ANSWER_TIMEOUT,
    OpenDocument,
    OpenDocuments,
    text_edit,
    versioned,
)

log = logging.getLogger(__name__)

#: Seconds between two edits.
EDIT_INTERVAL: Final = 0.1

#: Seconds within which an editor that has answered an edit must report the change; eglot takes half
#: a second, Neovim 150 ms.
ECHO_TIMEOUT: Final = 2.0

#: The same for an edit that must not be sent again, since without a version it could be made
#: twice. A busy machine may be slow.
UNVERSIONED_ECHO_TIMEOUT: Final = 15.0

#: Seconds within which an editor must report a change that it is known to have made. If the user
#: has just answered a question, eglot reports nothing before the next key.
TELL_TIMEOUT: Final = 300.0

#: Seconds within which an editor that has closed the document may open it again. Some reload a file
#: this way, and the file must not be written during that time.
REOPEN_TIMEOUT: Final = 0.5

#: How often an edit is sent while the editor's document keeps changing: the reply must not go to
#: the file instead just because the user types without a pause.
_MOST_TRIES: Final = 50


@dataclass(slots=True)
class _Sent:
    """An edit on its way to the editor.

    It replaces a ``range`` of the text ``base``.

    Attributes:
        blind: the editor may make it in another text.
        wanted: where its place is now; None if it must no longer be made. The anchor knows the
            place of an edit that continues a section.
        reloaded: the document has been opened again since.
        overtaken: another change came first, so the edit was refused, unless its version number is
            used again.
    """

    insertion: Insertion
    base: str
    range: types.Range
    blind: bool
    wanted: int | None
    reloaded: bool = False
    overtaken: bool = False


class ChatEdits:
    """Makes edits in the editor's document of the file at ``path``, at the place of ``anchor``.

    It follows all that the editor reports of the document, for the anchor and for the one edit that
    is on its way.

    Attributes:
        is_silent: the editor does not check versions, was sent an edit, and has reported no change
            since: no other edit may be sent.
    """

    def __init__(self, path: Path, editor: OpenDocuments, anchor: Anchor) -> None:
        self._path = path
        self._editor = editor
        self._anchor = anchor
        self._sent: _Sent | None = None
        # An edit of the anchor's text that removes what was inserted in the wrong place.
        self._stray: Edit | None = None
        # Whether the last edit was made in the right place.
        self._made = False
        # The document as of the last change that was reported, and how many there were.
        self._shown = ""
        self._reports = 0
        self._changed = asyncio.Event()
        self._next_at = 0.0
        self._reopens_until = 0.0
        self.is_silent = False

    @property
    def document(self) -> OpenDocument | None:
        """The editor's document; None if it is not open."""
        return self._editor.document(self._path)

    @property
    def checks_versions(self) -> bool:
        """Whether the editor refuses an edit that is for another version of its document."""
        return self._editor.capabilities.document_changes

    @property
    def was_reopened_lately(self) -> bool:
        """Whether the editor has closed or opened the document a moment ago."""
        return monotonic() <= self._reopens_until

    async def until(self, happened: Callable[[], bool], seconds: float) -> None:
        """Wait until something has happened in the editor, for at most ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not happened():
                    self._changed.clear()
                    await self._changed.wait()

    async def until_open(self, seconds: float) -> OpenDocument | None:
        """Wait until the editor has the document open, for at most ``seconds``; return it."""
        await self.until(lambda: self.document is not None, seconds)
        return self.document

    async def shown_again(self) -> OpenDocument | None:
        """Return the editor's document; if it was closed a moment ago, wait for it."""
        return await self.until_open(self._reopens_until - monotonic())

    async def pace(self) -> None:
        """Wait until the next edit may be sent."""
        await asyncio.sleep(self._next_at - monotonic())
        self._next_at = monotonic() + EDIT_INTERVAL

    async def insert(self, batch: list[Piece]) -> bool:
        """Ask the editor to insert ``batch`` into its document; return whether it did.

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
            answer = await self._try(document, batch, claimed)
            if self._made:
                return True
            if self._is_pending and answer is not False and not self._is_guarded(document):
                # It may still come, and must not come twice.
                self.is_silent = True
                break
            claimed = document if answer else None
            now = self.document
            refusals += now is not None and now.version == document.version
            if refusals == 2:
                break
        await self._remove_stray()
        self._sent = None
        return False

    async def _try(
        self, document: OpenDocument, batch: list[Piece], claimed: OpenDocument | None
    ) -> bool | None:
        """Send ``batch`` once, and wait until its outcome is known.

        ``claimed`` is the document in which the editor said earlier that it had made this edit.
        Return its answer now.
        """
        text = self._shown = document.text
        insertion = self._anchor.plan(text, batch)
        edit = insertion.edit
        is_guarded = self._is_guarded(document)
        # In another version there may be something else there, which must not be removed.
        self._made = edit.made_in(text) == text or (edit.end > edit.start and not is_guarded)
        if self._made:
            return True
        change = text_edit(self._editor, document, edit)
        sent = _Sent(insertion, text, change.range, not is_guarded, edit.start)
        self._sent = sent
        self._anchor.is_unsure = insertion.part == "goes on"
        answer = await self._answer(document, change)
        patience = ECHO_TIMEOUT
        if answer is not False and not is_guarded:
            patience = UNVERSIONED_ECHO_TIMEOUT
        elif claimed == document and not answer:
            # It refuses an edit that it claimed to have made: so it did make it, and its document
            # has changed.
            patience = TELL_TIMEOUT
        if sent.reloaded and self.checks_versions:
            patience = ECHO_TIMEOUT
        await self._wait_for_outcome(patience, answer)
        return answer

    async def _wait_for_outcome(self, patience: float, answer: bool | None) -> None:
        """Wait until the outcome of the edit is known, but at most ``patience`` seconds."""
        before = self._reports

        def has_reported() -> bool:
            # Whatever an editor reports after its answer includes all earlier changes.
            return answer is not None and self._reports > before

        await self.until(
            lambda: not self._is_pending or self.document is None or has_reported(), patience
        )
        if self._is_pending:
            # The document may be opened again with the edit in it.
            await self.shown_again()
        sent = self._sent
        if sent is None or not sent.blind:
            return
        if has_reported() or answer is False or sent.reloaded:
            # No further change can show the outcome.
            self._sent = None
            if answer and not sent.reloaded and not self._is_in(sent, self._anchor.text):
                self._give_up(sent)

    # The outcome of the edit

    def changed(self, changes: Sequence[Change]) -> None:
        """Follow what the editor reports of its document; no changes if it opened or closed it."""
        document = self.document
        now = None if document is None else document.text
        if not changes:
            self._reopens_until = monotonic() + REOPEN_TIMEOUT
            self._reopened(now)
        for change in changes:
            start, end = 0, len(self._shown)
            if change.start is not None and change.end is not None:
                start = self._offset(self._shown, change.start)
                is_insertion = change.end == change.start
                end = start if is_insertion else self._offset(self._shown, change.end)
            edit = Edit(start, end, with_line_feeds(change.text))
            self._follow(self._shown, edit)
            self._shown = edit.made_in(self._shown)
        self._shown = now or ""
        self._reports += 1
        self.is_silent = False
        self._changed.set()

    @property
    def _is_pending(self) -> bool:
        """Whether the outcome of the edit that was sent is still unknown."""
        return self._sent is not None and not self._sent.overtaken

    def _reopened(self, text: str | None) -> None:
        """Note that the editor has opened the document again, or closed it (None)."""
        if text not in (None, self._anchor.text):
            self._stray = None
        sent = self._sent
        if sent is None or (text is not None and self._is_in(sent, text)):
            return
        # Its version number may be used again, for another text.
        sent.blind, sent.reloaded, sent.overtaken, sent.wanted = True, True, False, None

    def _follow(self, before: str, edit: Edit) -> None:
        """Follow a change of the editor's document, which held ``before``."""
        sent, after = self._sent if self._is_pending else None, edit.made_in(before)
        if sent is not None:
            start, end = (self._offset(before, at) for at in (sent.range.start, sent.range.end))
            made = Edit(start, end, sent.insertion.edit.new)
            if is_same(after, made.made_in(before)):
                self._arrived(sent, before, after, made)
                return
            if not sent.blind and self._overtaken(sent, before, after):
                return
        edit = edit.least(before)
        if sent is not None and sent.wanted is not None:
            # What was inserted at exactly that place may belong before it.
            is_lost = edit.start <= sent.wanted <= edit.end
            sent.wanted = None if is_lost else shifted(sent.wanted, 0, before, edit)
        if before == self._anchor.text:
            self._anchor.changed(edit)
            if self._stray is not None:
                # In repeated text, the editor may report that another part of it was removed.
                is_gone = after == self._stray.made_in(before)
                self._stray = None if is_gone else followed(self._stray, edit)

    def _arrived(self, sent: _Sent, before: str, after: str, made: Edit) -> None:
        """Note that the edit was ``made`` in ``before``, which became ``after``.

        Its place is right if it is the wanted one, or if ``before`` is the text that the edit was
        for: the document may have been opened again in between.
        """
        self._sent, self._anchor.is_unsure = None, False
        self._anchor.settle(before)
        goes_on = sent.insertion.part == "goes on"
        wanted = self._anchor.offset if goes_on else sent.wanted
        self._made = made.start == wanted or before == sent.base
        if self._made:
            self._anchor.wrote(sent.insertion, made.start)
        else:
            self._anchor.changed(made)
            new = Edit(made.start, made.start + len(made.new), "")
            self._stray = None if sent.insertion.removes else new
        self._anchor.text = after

    def _overtaken(self, sent: _Sent, before: str, after: str) -> bool:
        """Note that ``before``, the text that the edit is for, became ``after`` by another change.

        So the edit was refused, unless the editor reports both as one change. Return whether that
        is possible.
        """
        if self._is_in(sent, after):
            return True
        # It is kept: only an answer can show that it will not be made.
        sent.overtaken, sent.wanted = True, None
        edit = sent.insertion.edit
        above, below = f"{before[: edit.start]}{edit.new}", f"{edit.new}{before[edit.end :]}"
        if not edit.new or not (
            (after.startswith(above) and not before.startswith(above))
            or (after.endswith(below) and not before.endswith(below))
        ):
            return False
        self._anchor.settle(after)
        self._give_up(sent)
        return True

    def _is_in(self, sent: _Sent, text: str) -> bool:
        """Return whether the edit is certainly in ``text``; if so, note that it was made."""
        # The user may have typed the same text, in the same place.
        if sent.insertion.part == "remark" or text == sent.base:
            return False
        whole = sent.insertion.edit.made_in(sent.base)
        position = relocated(whole, sent.insertion.offset + len(sent.insertion.text), text)
        if position is None:
            return False
        self._sent, self._made = None, True
        self._anchor.arrived(sent.insertion, text, position)
        return True

    def _give_up(self, sent: _Sent) -> None:
        """Note that it cannot be known whether and where the edit was made."""
        if sent.insertion.part == "remark":
            self._made = True
        else:
            self._anchor.offset = None

    async def _remove_stray(self) -> None:
        """Remove what the editor has inserted in the wrong place.

        It is asked to do so in the current version only, since another misplaced edit could do
        harm. So an editor that does not check versions keeps that text.
        """
        for _ in range(_MOST_TRIES):
            stray, document = self._stray, self.document
            if stray is not None and document is None:
                # It may be opened again, with that text in it.
                return
            if stray is None or document is None or not self._is_guarded(document):
                break
            text = document.text
            if text != self._anchor.text:
                break
            log.info("the document changed before an edit: the edit is undone and made again")
            await self._answer(document, text_edit(self._editor, document, stray))
            # Wait until it is gone, or until a change that came first is reported.
            await self.until(partial(self._has_left, text), ECHO_TIMEOUT)
        self._stray = None

    def _has_left(self, text: str) -> bool:
        """Return whether the editor's document no longer holds ``text``."""
        return self._shown != text

    # What is sent

    def _is_guarded(self, document: OpenDocument) -> bool:
        """Return whether an edit of ``document`` is made in exactly this version, or not at all."""
        takes_none = document.version == 0 and self._editor.capabilities.takes_0_for_none
        return self.checks_versions and not takes_none

    async def _answer(self, document: OpenDocument, change: types.TextEdit) -> bool | None:
        """Return whether the editor says that it made ``change``; None if it does not answer."""
        edit = types.WorkspaceEdit(changes={document.uri: [change]})
        if self.checks_versions:
            edit = versioned(document, change)
        try:
            return await asyncio.wait_for(self._editor.apply_edit(edit), ANSWER_TIMEOUT)
        except TimeoutError:
            log.info("the editor did not answer an edit in time")
            return None
        except Exception as error:  # noqa: BLE001 - whatever went wrong, there is still the file
            log.info("the editor did not answer an edit: %s", type(error).__name__)
            return False

    def _offset(self, text: str, at: ClientPosition | types.Position) -> int:
        """Return the offset in ``text`` of a position in the client's units, at most its end."""
        begin = line_start(text, at.line)
        end = text.find("\n", begin)
        line = text[begin:] if end < 0 else text[begin:end]
        return begin + self._editor.characters(line, at.character)
