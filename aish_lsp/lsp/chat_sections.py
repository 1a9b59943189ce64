"""The sections of a chat document: the user's headings and ours, and what stands under them."""

from __future__ import annotations

import asyncio

from aish_lsp.chat.markdown import AISH, YOU, escape_reply
from aish_lsp.chat.place import Place, open_place, prompt_after
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.lsp.chat_writer import ChatWriter


class ChatSections:
    """Where the open heading is, which the user writes under, and who writes a section now.

    Attributes:
        place: that heading, where it is known.
        lock: held by who writes a section.
        unanswered: messages that were sent and whose answer's heading is not in the document yet.
    """

    def __init__(self, writer: ChatWriter) -> None:
        self._writer = writer
        self.place: Place | None = None
        self.lock = asyncio.Lock()
        self.unanswered = 0

    def message(self, text: str) -> str:
        """Return what the user wrote.

        Raises:
            Busy: it is being sent already, or something is being written.
            NotFound: there is no heading to write under.
        """
        if self.unanswered:
            raise Busy("A message is being sent already. Wait for its reply.")
        if self.lock.locked() and self.place is None and open_place(text) is None:
            raise Busy(f"aish is still writing here. A new `{YOU}` follows: write below that.")
        return prompt_after(text, self.place)

    async def _write_prompt(self, prompt: str) -> bool:
        """Write a message that does not stand in the document yet, under a heading of its own.

        Where a draft stands under the open heading, it comes above that: the draft is still the
        next message. Return whether it does.
        """
        message = escape_reply(prompt.rstrip() + "\n")
        try:
            draft = prompt_after(await self._writer.text(), self.place)
        except AishError:
            message = f"{YOU}\n\n{message}"
            draft = ""
        if draft:
            self._writer.insert(f"{YOU}\n\n{message}")
        else:
            self._writer.begin(message)
        return bool(draft)

    async def begin(self, prompt: str | None) -> bool:
        """Write our heading: what stands above it is answered, and is not read again.

        Return whether that is above a draft of the user's, which keeps the open heading.
        """
        try:
            is_above = prompt is not None and await self._write_prompt(prompt)
            self.place = None
            if is_above:
                self._writer.append(f"{AISH}\n\n", apart=True)
            else:
                self._writer.begin(f"{AISH}\n\n")
            await self._writer.settle()
        finally:
            self.unanswered -= 1
        return is_above

    def write_heading(self) -> None:
        """Write a new heading for the user, above what they may have typed below meanwhile."""
        self._writer.append(f"{YOU}\n\n", apart=True)

    async def close(self, *, is_above: bool) -> None:
        """Write a new heading, unless a draft below has one, and keep its place."""
        if not is_above:
            self.write_heading()
        await self.keep_place()

    async def keep_place(self) -> None:
        """Wait until all is written, and keep the place of the open heading.

        There may be none: what was written anew at the end left the one of a draft above it.
        """
        await self._writer.flush()
        self.place = open_place(await self._writer.text_as_written())
        if self.place is None:
            self._writer.begin(f"{YOU}\n\n")
            await self._writer.flush()
            self.place = open_place(await self._writer.text_as_written())
