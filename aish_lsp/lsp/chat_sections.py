"""The sections of a chat document: the user's headings and ours, and what is written under them.

This module also knows whether we saw a message being typed. A chat may have come with its folder,
out of an archive or from another machine, with a command under its last heading that somebody else
wrote. Sending that looks the same. So what was there before the editor showed it does not count as
the user's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.markdown import (
    AISH,
    YOU,
    escape_reply,
    last_heading,
    lines_of,
    open_heading,
    prompt_after,
    quote,
)
from aish_lsp.chat.transcript import left_behind
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.operations.markdown import FENCE, open_fence

if TYPE_CHECKING:
    from aish_lsp.foundation.job import JobTable

#: What is written below a reply that an earlier server began and never finished.
_CUT_OFF: Final = (
    "aish-lsp ended while writing this; what you had typed without sending it is kept above."
)


class ChatSections:
    """Where the open heading is that the user writes under, and whether a section is being written.

    Attributes:
        heading: the line of that heading; None if it is not known.
        lock: held while a section is being written.
        unanswered: how many messages were sent whose answer has no heading in the document yet.
        proposed: what ``put`` last put under the heading, as it is there.
    """

    def __init__(self, writer: ChatWriter) -> None:
        self._writer = writer
        self.heading: int | None = None
        self.lock = asyncio.Lock()
        self.unanswered = 0
        self.proposed = ""

    async def put(self, prompt: str) -> None:
        """Put ``prompt`` under the open heading, in place of one that was put there before.

        Raises:
            Busy: the user has an unsent message there.
            StoreUnavailable: the document cannot be read or written.
        """
        text = await self._writer.text()
        self.heading = open_heading(text)
        present = prompt_after(text, self.heading)
        if present in ("", self.proposed):
            self._writer.replace(present, prompt if present else f"{prompt}\n")
            await self._writer.flush()
            present = prompt_after(await self._writer.text(), self.heading)
        if present != prompt:
            raise Busy(
                f"You have an unsent message under the last `{YOU}`. Send it or delete it,"
                " then try again."
            )
        self.proposed = prompt

    def message(self, text: str) -> str:
        """Return what the user wrote.

        Raises:
            Busy: it is being sent already, or something is being written.
            NotFound: there is no heading to write under.
        """
        if self.unanswered:
            raise Busy("A message is being sent already. Wait for its reply.")
        if self.lock.locked() and self.heading is None and open_heading(text) is None:
            raise Busy(f"aish is still writing here. A new `{YOU}` follows: write below that.")
        return prompt_after(text, self.heading)

    async def _write_prompt(self, prompt: str) -> bool:
        """Write a message that is not in the document yet, under its own heading.

        If there is a draft under the open heading, the message goes above it: the draft is still
        the next one. Return whether there is.
        """
        message = escape_reply(prompt.rstrip() + "\n")
        try:
            draft = prompt_after(await self._writer.text(), self.heading)
        except AishError:
            message = f"{YOU}\n\n{message}"
            draft = ""
        if draft:
            self._writer.insert(f"{YOU}\n\n{message}")
        else:
            self._writer.begin(message)
        return bool(draft)

    async def open(self, fresh: str, jobs: JobTable, *, has_begun: bool) -> bool:
        """Write a heading for the user if there is none.

        Args:
            fresh: what an empty document begins with.
            jobs: what runs.
            has_begun: whether this server has written here before. If not, the remarks that an
                earlier one left on what no longer runs are removed first.

        Returns:
            Whether an earlier server never finished what it was writing.
        """
        async with self.lock:
            # The editor may have read the file before its last heading was written.
            text = await self._writer.text_as_written()
            if not has_begun:
                # Below the heading is what the user typed, whatever it quotes.
                above = "\n".join(lines_of(text)[: open_heading(text)])
                for remark in left_behind(above, jobs.__contains__):
                    self._writer.withdraw(remark)
                await self._writer.flush()
                text = await self._writer.text_as_written()
            heading = open_heading(text)
            fence = open_fence("\n".join(lines_of(text)[:heading]))
            # What was cut off may have left a code block open; above a heading, an output's.
            if fence and (heading is None or fence == FENCE):
                self._writer.insert(f"{fence}\n")
            # If this server has written here, the editor has yet to read its heading.
            is_cut_off = heading is None and not has_begun and last_heading(text) is not None
            if heading is None:
                cut_off = f"{quote(_CUT_OFF)}\n" if is_cut_off else ""
                self._writer.begin(f"{cut_off}{YOU}\n\n" if text.strip() else fresh)
            await self._writer.flush()
            return is_cut_off

    @asynccontextmanager
    async def answer(self, prompt: str | None, waiting: str = "") -> AsyncIterator[None]:
        """Hold the document while an answer is written under our heading.

        Everything above that heading is answered, and is not read again. Below the answer comes a
        new heading for the user, above what they may have typed there in the meantime, unless a
        draft of theirs below already has one. ``prompt`` is a message that is not in the document
        yet. Until the document is free, it shows the remark ``waiting``.
        """
        waiting = waiting if self.lock.locked() else ""
        if waiting:
            self._writer.remark(waiting)
        try:
            await self.lock.acquire()
        finally:
            if waiting:
                self._writer.withdraw(waiting)
                await self._writer.settle()
        try:
            is_above = await self._begin(prompt)
            try:
                yield
            finally:
                if not is_above:
                    self._writer.append(f"{YOU}\n\n", apart=True)
            await self.keep_heading()
        finally:
            self.lock.release()

    async def _begin(self, prompt: str | None) -> bool:
        """Write our heading; return whether it is above a draft, which keeps the open one."""
        try:
            is_above = prompt is not None and await self._write_prompt(prompt)
            self.heading = None
            if is_above:
                self._writer.append(f"{AISH}\n\n", apart=True)
            else:
                self._writer.begin(f"{AISH}\n\n")
            await self._writer.settle()
        finally:
            self.unanswered -= 1
        return is_above

    async def keep_heading(self) -> None:
        """Wait until everything is written, and note the line of the open heading.

        There may be none, if a section was written again at the end, below the heading of a draft.
        """
        await self._writer.flush()
        self.heading = open_heading(await self._writer.text_as_written())
        if self.heading is None:
            self._writer.begin(f"{YOU}\n\n")
            await self._writer.flush()
            self.heading = open_heading(await self._writer.text_as_written())


class TypedMessage:
    """Follows the message under the open heading of one chat."""

    def __init__(self) -> None:
        # What was under the heading when the editor showed it; empty once all of it was deleted,
        # or if it is what was typed and saved before.
        self._found = ""
        self._saved = ""

    def found(self, message: str) -> None:
        """Note what is there when an editor opens the chat."""
        self._found = "" if message == self._saved else message

    @property
    def follows(self) -> bool:
        """Whether ``changed`` is to be called: something was found that may not be the user's."""
        return bool(self._found)

    def changed(self, message: str) -> None:
        """Note what is there after an edit; once nothing is, all that follows is typed."""
        if not message:
            self._found = ""

    def saved(self, message: str) -> None:
        """Note what is there when the chat is saved: the editor may close it and open it again."""
        if not self._found:
            self._saved = message

    def was_seen(self, message: str, *, is_open: bool) -> bool:
        """Return whether ``message`` was typed in an editor that we serve.

        Args:
            message: what is under the heading.
            is_open: whether an editor has the chat open, and so reports each edit.
        """
        return not self._found if is_open else message == self._saved
