"""The picture of the project that the prompt carries: tree, tasks and instruction files.

Instruction files are those that tell assistants how to work in a workspace, such as AGENTS.md.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.opening import read_head
from aish_lsp.foundation.text import without_hidden
from aish_lsp.project.current import CurrentFiles
from aish_lsp.project.tree import INSTRUCTIONS, ProjectBlock, tree

if TYPE_CHECKING:
    from aish_lsp.config.schema import ProjectSettings

#: Seconds that a turn waits for a new picture before it uses the old one.
_PATIENCE = 3.0

#: Characters that are read of the instruction file, and of all nested ones together.
_INSTRUCTIONS_CHARS = 8000
_NESTED_CHARS = 4000

#: The longest line of tasks, in characters.
_TASKS_CHARS = 400


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a picture may be: its depth in folders and its length in characters."""

    depth: int
    max_chars: int


class ProjectPicture:
    """The picture of one workspace. The user or the configuration can switch it off.

    Attributes:
        files: the files that it is made from; None if no folder is open.
        block: the file tree as of the last refresh.
        tasks: what can be run here as of then, on one line; empty if nothing is known.
        instructions: as of then, the workspace's instruction file and those for the focus file.
    """

    def __init__(self, root: Path | None) -> None:
        self.files = CurrentFiles(root) if root is not None else None
        self.block = ProjectBlock("", 0, truncated=False)
        self.tasks = ""
        self.instructions: tuple[Instructions, ...] = ()
        self._root = root
        self._switched: bool | None = None
        self._depth: int | None = None
        self._max_chars: int | None = None
        self._wanted = Shape(0, 0)
        self._drawn: Shape | None = None
        self._focus_file: Path | None = None
        self._look: asyncio.Task[None] | None = None
        self._look_begun = False

    def set_focus_file(self, path: Path) -> None:
        """Also show the instruction files for ``path``, until another file has the focus.

        They stay in the prompt for later questions that name no file, because no server can cache a
        prompt whose beginning changes with each turn.
        """
        self._focus_file = path

    def switch(self, *, on: bool) -> None:
        """Choose whether the model sees the project, whatever the configuration says."""
        self._switched = on

    def shape(self, depth: int | None, max_chars: int | None) -> None:
        """Set the depth or size of the pictures that follow, instead of the configured ones."""
        self._depth = self._depth if depth is None else depth
        self._max_chars = self._max_chars if max_chars is None else max_chars

    def shown(self, config: ProjectSettings) -> bool:
        """Return whether the prompt carries the picture."""
        return config.auto_tree if self._switched is None else self._switched

    def renew(self) -> None:
        """Make the next refresh scan the whole folder, whatever is known about it."""
        if self.files is not None:
            self.files.renew()

    async def refresh(self, config: ProjectSettings, *, patience: float | None = _PATIENCE) -> None:
        """Look at the project again; if it takes longer than ``patience``, keep the old picture."""
        if self._root is None or self.files is None:
            return
        self._wanted = Shape(
            config.depth if self._depth is None else self._depth,
            config.max_chars if self._max_chars is None else self._max_chars,
        )
        if self._look is None or self._look.done() or self._look_begun:
            # A look that has begun may miss the latest changes; one that still waits will not.
            self._look_begun = False
            self._look = asyncio.create_task(self._look_anew(self._look, self._root, self.files))
        look = self._look
        await asyncio.wait([look], timeout=patience)
        if look.done():
            await look

    async def _look_anew(
        self, before: asyncio.Task[None] | None, root: Path, files: CurrentFiles
    ) -> None:
        if before is not None:
            try:
                await asyncio.wait([before])
            except asyncio.CancelledError:
                before.cancel()
                await asyncio.wait([before])
                raise
        self._look_begun = True
        shape = self._wanted
        has_changed, text = await asyncio.gather(
            files.update(), asyncio.to_thread(_told, root, self._focus_file)
        )
        if has_changed or shape != self._drawn:
            await self._draw(files, shape)
        self.instructions, self.tasks = text

    async def _draw(self, files: CurrentFiles, shape: Shape) -> None:
        async with files.lock:
            listing = files.listing
            drawn = await asyncio.to_thread(
                tree,
                listing.names,
                depth=shape.depth,
                max_chars=shape.max_chars,
                recent=files.recent,
            )
            truncated = listing.truncated or not drawn.whole
            self.block = ProjectBlock(drawn.text, len(listing.names), truncated)
        files.watch_over(drawn.opened)
        self._drawn = shape

    async def aclose(self) -> None:
        """Stop looking."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])


# The files that a question may name: those of the workspace that no ignore rule excludes.

#: Seconds after which the list of files is refreshed while the user types, and seconds that the
#: user waits for the first list.
_FRESH = 2.0
_FIRST_LIST = 2.0


class FileNames:
    """The files of one workspace, as its picture knows them; none if no folder is open."""

    def __init__(
        self, root: Path | None, picture: ProjectPicture, config: Callable[[], ProjectSettings]
    ) -> None:
        self.root = root
        self._picture = picture
        self._config = config
        self._looked_at = float("-inf")

    async def left_out(self, paths: Iterable[str]) -> set[str]:
        """Return those of ``paths`` that do not belong to the project.

        These are ignored, a repository's own files, or in a nested repository. The paths are
        relative, and exist.
        """
        files = self._picture.files
        assert files is not None, "no folder is open"
        await self._refresh()
        return await files.left_out(paths)

    async def names(self) -> Sequence[str]:
        """Return the current names of the project's files, sorted."""
        files = self._picture.files
        if files is None:
            return ()
        await self._refresh()
        return files.listing.names

    async def ignores(self, path: str) -> bool:
        """Return whether a new file with this relative path would be ignored."""
        files = self._picture.files
        await self._refresh()
        return files is not None and await files.ignores(path)

    async def lately(self) -> Sequence[str]:
        """Return the known names, sorted, for proposals while the user types.

        The user does not wait for a refresh of a large folder: slightly old names are good enough.
        """
        files = self._picture.files
        if files is None:
            return ()
        is_known = bool(files.listing.names)
        if not is_known or time.monotonic() - self._looked_at > _FRESH:
            self._looked_at = time.monotonic()
            await self._refresh(0.0 if is_known else _FIRST_LIST)
        return files.listing.names

    async def _refresh(self, patience: float | None = None) -> None:
        # Refreshing only the list would hide new and deleted files from the picture.
        await self._picture.refresh(self._config(), patience=patience)


def _told(root: Path, focus_file: Path | None) -> tuple[tuple[Instructions, ...], str]:
    """Return the instruction files, and the tasks on one line."""
    from aish_lsp.project.manifests import find_tasks, tasks_line  # noqa: PLC0415 - many modules

    own = read_instructions(root, _INSTRUCTIONS_CHARS)
    nested = nested_instructions(root, focus_file, _NESTED_CHARS) if focus_file is not None else ()
    if own is not None:
        nested = (own, *(inner for inner in nested if inner.text != own.text))
    return nested, tasks_line(find_tasks(root), _TASKS_CHARS)


#: The instruction files that a folder inside may also have, for its own files.
_NESTED_NAMES = tuple(name for name in INSTRUCTIONS if "/" not in name)

#: Folders that are searched, from the file's own upwards.
_LEVELS = 20

#: The last line of a text that was cut.
CUT = "…"


@dataclass(frozen=True, slots=True)
class Instructions:
    """An instruction file's name, relative to the workspace, and its text."""

    name: str
    text: str


def read_instructions(root: Path, max_chars: int) -> Instructions | None:
    """Return the workspace's instruction file, at most ``max_chars`` characters of it.

    A longer one is cut, after a whole line if possible, and ends in CUT. Files that are empty,
    binary or unreadable, or that lead out of the workspace, are skipped.
    """
    return _first(root, "", INSTRUCTIONS, max_chars)


def nested_instructions(root: Path, at: Path, max_chars: int) -> tuple[Instructions, ...]:
    """Return the instruction files between ``root`` and the file ``at``, the nearest one last.

    The one in ``root`` itself is not included. Together they have at most ``max_chars`` characters,
    which go to the nearest first. There are none for a file outside ``root``.
    """
    top = Path(os.path.realpath(root))
    folder = Path(os.path.realpath(at.parent))
    if not folder.is_relative_to(top):
        return ()
    instructions: list[Instructions] = []
    inner = [one for one in (folder, *folder.parents) if one != top and one.is_relative_to(top)]
    for one in inner[:_LEVELS]:
        prefix = f"{one.relative_to(top).as_posix()}/"
        read = _first(top, prefix, _NESTED_NAMES, max_chars)
        # A link to one that is there already says nothing new.
        if read is not None and all(read.text != other.text for other in instructions):
            instructions.append(read)
            max_chars -= len(read.text)
    return tuple(reversed(instructions))


def _first(root: Path, prefix: str, names: Sequence[str], max_chars: int) -> Instructions | None:
    """Return the first of the files ``prefix`` + name that has any text."""
    for name in names:
        # A character has at most four bytes; the rest is for what is stripped.
        head = read_head(root, prefix + name, max_chars * 4 + 4096)
        if head is None:
            continue
        text = without_hidden(head[0]).strip()
        if text:
            bounded = _bounded(text, max_chars, whole=head[1])
            return Instructions(prefix + name, bounded) if bounded else None
    return None


def _bounded(text: str, limit: int, *, whole: bool) -> str:
    """Return ``text``, or its beginning and CUT if it is longer than ``limit``."""
    if whole and len(text) <= limit:
        return text
    room = text[: max(limit - len(CUT) - 1, 0)]
    shortened = room.rpartition("\n")[0] or room.rpartition(" ")[0] or room
    return f"{shortened}\n{CUT}" if shortened else ""
