"""The files that a question may name: those of the workspace that no ignore rule leaves out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.config.schema import Project
    from aish_lsp.project.files import Listing
    from aish_lsp.project.picture import ProjectPicture

#: Seconds after which there is a new look for somebody who types, and that they wait for the first.
_FRESH: Final = 2.0
_PATIENCE: Final = 2.0


class FileNames:
    """The files of one workspace, as its picture knows them; none where no folder is open."""

    def __init__(
        self, root: Path | None, picture: ProjectPicture, config: Callable[[], Project]
    ) -> None:
        self.root = root
        self._picture = picture
        self._config = config
        self._looked_at = float("-inf")
        self._look: asyncio.Task[None] | None = None

    async def left_out(self, paths: Iterable[str]) -> set[str]:
        """Return those of ``paths``, relative and there, that do not belong to the project.

        They are ignored, a repository's own, or in a repository inside.
        """
        files = self._picture.files
        assert files is not None, "no folder is open"
        await self._refresh()
        listing = files.listing
        doubtful = [path for path in paths if not _belongs(listing, path)]
        if any(not listing.known.is_folded(path) for path in doubtful):
            # Nobody may have told of a new one yet.
            files.changed(path for path in doubtful if not listing.known.is_folded(path))
            await self._refresh()
        return {path for path in doubtful if not _belongs(files.listing, path)}

    async def lately(self) -> Sequence[str]:
        """Return the names that are known, sorted, for proposals while somebody types.

        Nobody waits for a new look at a large folder: what was known a moment ago is as good.
        """
        files = self._picture.files
        if files is None:
            return ()
        is_looking = self._look is not None and not self._look.done()
        if not is_looking and time.monotonic() - self._looked_at > _FRESH:
            self._looked_at = time.monotonic()
            self._look = asyncio.create_task(self._refresh(), name="look for files")
        if self._look is not None and not files.listing.known.names:
            await asyncio.wait([self._look], timeout=_PATIENCE)
        return files.listing.known.names

    async def _refresh(self) -> None:
        # Not the list alone: the picture would not hear of what came and went.
        await self._picture.refresh(self._config(), patience=None)

    async def aclose(self) -> None:
        """Stop looking."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])


def _belongs(listing: Listing, path: str) -> bool:
    """Return whether a file that is there is one of the project."""
    if path in listing.known:
        return True
    # Of a list that is not whole the rules decide.
    unknown = listing.truncated or listing.known.is_folded(path)
    rules = listing.ignore_files
    in_repository = ".git" in path.split("/")
    return unknown and rules is not None and not in_repository and not rules.ignores(path)
