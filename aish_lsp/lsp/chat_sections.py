"""The sections of a chat document: the user's headings and ours, and what stands under them.

Whether a message was typed where we saw it: a chat may have come with its folder, out of an archive
or from another machine, with a command under its last heading that somebody else has written.
Sending it looks the same. So what stood there before the editor showed it is not the user's word,
unless we saw it being typed in an earlier session: of that its hash is kept, in our data and not in
the workspace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aish_lsp.chat.insertion import Place, open_place, prompt_after
from aish_lsp.chat.markdown import AISH, YOU, escape_reply
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.foundation.files import read_file, write_atomic
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


logger = logging.getLogger(__name__)

_VERSION: Final = 1


class TypedMessage:
    """Follows the message under the open heading of one chat.

    ``path`` is the file that remembers it over a restart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # What stood under the heading when the editor showed it, while none of it was deleted.
        self._found = ""

    def found(self, message: str) -> None:
        """Take note of what stands there as an editor opens the chat."""
        self._found = message

    @property
    def follows(self) -> bool:
        """Whether ``changed`` is to be called: something was found that may not be the user's."""
        return bool(self._found)

    def changed(self, message: str) -> None:
        """Take note of what stands there after an edit; behind nothing, all is typed."""
        if not message:
            self._found = ""

    async def was_seen(self, message: str, *, is_open: bool) -> bool:
        """Return whether ``message`` was typed in an editor that we serve, now or before.

        Args:
            message: what stands under the heading.
            is_open: whether an editor has the chat open, and so tells each edit.
        """
        if is_open and not self._found:
            return True
        known = await asyncio.to_thread(self._kept)
        if known != _digest(self._found if is_open else message):
            return False
        self._found = ""
        return True

    async def keep(self, message: str) -> None:
        """Remember ``message`` over a restart, if it was seen."""
        if message and await self.was_seen(message, is_open=True):
            try:
                await asyncio.to_thread(self._keep, message)
            except AishError as error:
                # What it costs is a question.
                logger.info("the draft of the chat is not remembered: %s", error.message)

    def _keep(self, message: str) -> None:
        if (digest := _digest(message)) != self._kept():
            write_atomic(self._path, json.dumps({"version": _VERSION, "draft": digest}) + "\n")

    def _kept(self) -> str | None:
        """Return the hash of the message that was seen last; None where nobody knows."""
        try:
            document: Any = json.loads(read_file(self._path))
        except (AishError, ValueError, RecursionError):
            return None
        known = isinstance(document, Mapping) and document.get("version") == _VERSION
        return document.get("draft") if known else None


def _digest(message: str) -> str:
    return hashlib.sha256(message.encode(errors="surrogatepass")).hexdigest()
