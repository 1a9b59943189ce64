"""Whether the message of a chat was typed where we saw it.

A chat may have come with its folder, out of an archive or from another machine, with a command
under its last heading that somebody else has written. Sending it looks the same. So what stood
there before the editor showed it is not the user's word, unless we saw it being typed in an earlier
session: of that its hash is kept, in our data and not in the workspace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import read_file, write_atomic

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
