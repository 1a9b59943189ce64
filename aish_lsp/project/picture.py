"""The picture of the project that the prompt carries: the file tree and the instruction file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aish_lsp.project.instructions import read_instructions
from aish_lsp.project.tree import ProjectBlock, project_block

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.config.schema import Project
    from aish_lsp.project.instructions import Instructions

#: Seconds that a turn waits for a new picture; after that it goes with the one there is.
_PATIENCE = 3.0

#: Characters of the instruction file that are read.
_INSTRUCTIONS_CHARS = 8000


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a picture was asked for, where it differs from the configuration."""

    depth: int | None = None
    max_chars: int | None = None


class ProjectPicture:
    """One workspace's picture. Off by the user's word, or where the configuration says so."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._switched: bool | None = None
        self._shape = Shape()
        self._stale = False
        self._block = ProjectBlock("", 0, truncated=False)
        self._instructions: Instructions | None = None
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def block(self) -> ProjectBlock:
        """The file tree as of the last refresh."""
        return self._block

    @property
    def instructions(self) -> Instructions | None:
        """The instruction file as of the last refresh."""
        return self._instructions

    def switch(self, *, on: bool) -> None:
        """Show the project to the model, or do not."""
        self._switched = on

    def shape(self, depth: int | None, max_chars: int | None) -> None:
        """Keep another depth or size for the pictures that follow."""
        wanted = Shape(
            self._shape.depth if depth is None else depth,
            self._shape.max_chars if max_chars is None else max_chars,
        )
        if wanted != self._shape:
            self._shape = wanted
            self._stale = True

    def shown(self, config: Project) -> bool:
        """Return whether the prompt carries the picture."""
        return config.auto_tree if self._switched is None else self._switched

    async def refresh(self, config: Project, *, patience: float | None = _PATIENCE) -> None:
        """Look at the project anew; with ``patience`` (seconds) keep the old picture meanwhile."""
        if self._root is None:
            return
        if self._stale or self._refreshing is None or self._refreshing.done():
            self._stale = False
            await self.aclose()
            self._refreshing = asyncio.create_task(self._look(self._root, config))
        await asyncio.wait([self._refreshing], timeout=patience)
        if self._refreshing.done():
            await self._refreshing

    async def _look(self, root: Path, config: Project) -> None:
        self._block = await project_block(
            root,
            depth=config.depth if self._shape.depth is None else self._shape.depth,
            max_chars=config.max_chars if self._shape.max_chars is None else self._shape.max_chars,
        )
        self._instructions = await asyncio.to_thread(read_instructions, root, _INSTRUCTIONS_CHARS)

    async def aclose(self) -> None:
        """Stop looking."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
