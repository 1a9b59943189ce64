"""The files that a question may name: those of the workspace that no ignore rule leaves out."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from aish_lsp.project.files import FileList, list_files

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds after which the files are listed anew for somebody who types.
_FRESH: Final = 5.0


class FileNames:
    """The files of one workspace; none where no folder is open."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._listed = FileList(())
        self._at = float("-inf")
        self._listing: asyncio.Task[FileList] | None = None

    async def now(self) -> FileList:
        """Return the files that there are now."""
        if self.root is None:
            return FileList(())
        began = time.monotonic()
        self._listed = await list_files(self.root)
        self._at = began
        return self._listed

    async def lately(self) -> FileList:
        """Return the files that there were a moment ago, for proposals while somebody types.

        Older ones are returned as they are, and new ones looked for meanwhile: of a large folder
        nobody waits for the second list.
        """
        if self._listing is None and time.monotonic() - self._at > _FRESH:
            self._listing = asyncio.create_task(self.now(), name="list files")
            self._listing.add_done_callback(self._listing_done)
        if self._at == float("-inf") and self._listing is not None:
            await asyncio.wait([self._listing])
        return self._listed

    def _listing_done(self, task: asyncio.Task[FileList]) -> None:
        self._listing = None
        if not task.cancelled():
            # Retrieved, or asyncio complains of what nobody looked at.
            task.exception()

    async def aclose(self) -> None:
        """Stop looking."""
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.wait([self._listing])
