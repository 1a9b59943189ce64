"""The file tree as the model sees it: as much of it as fits, folders folded with their counts.

    ./
      README.md
      src/
        app.py
      tests/ … 214 files

Every entry is indented, so that no file name can stand where a heading of the prompt would.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aish_lsp.project.files import list_files
from aish_lsp.project.names import shown

#: A folder below the root with more entries stays folded: its count says more than its names.
LONGEST = 60

_TOP = "./"

#: Folders whose inside says nothing of the project, where no ignore rule leaves them out.
_NEVER_OPENED = frozenset(
    {".venv", "venv", "node_modules", "__pycache__", "vendor", "third_party", ".tox", ".nox"}
)


@dataclass(frozen=True, slots=True)
class ProjectBlock:
    """The tree's text, the number of files it was made from, and whether any is not in it."""

    block: str
    files: int
    truncated: bool


@dataclass(slots=True)
class _Folder:
    name: str
    level: int
    path: tuple[str, ...]
    files: list[str] = field(default_factory=list)
    folders: dict[str, _Folder] = field(default_factory=dict)
    total: int = 0

    def lines(self) -> list[str]:
        """Return a line for each entry: the folders, folded, and then the files."""
        indent = "  " * (self.level + 1)
        folders = [indent + folder.folded() for folder in self.in_order()]
        return folders + [indent + shown(name) for name in self.files]

    def in_order(self) -> list[_Folder]:
        """Return the folders inside, in the order in which they are shown."""
        return [self.folders[name] for name in sorted(self.folders)]

    def opened(self) -> str:
        """Return the folder's line when its entries follow."""
        return f"{shown(self.name)}/"

    def folded(self) -> str:
        """Return the folder's line when its entries do not follow."""
        return f"{self.opened()} … {_count(self.total)}"


async def project_block(root: Path, *, depth: int, max_chars: int) -> ProjectBlock:
    """Return the tree of ``root``: folders ``depth`` deep, ``max_chars`` characters at most.

    The same files give the same text. An empty folder, or one that is gone, gives an empty block.
    """
    listed = await list_files(root)
    block, whole = await asyncio.to_thread(tree, listed.files, depth=depth, max_chars=max_chars)
    return ProjectBlock(block, len(listed.files), truncated=listed.truncated or not whole)


def tree(files: Sequence[str], *, depth: int, max_chars: int) -> tuple[str, bool]:
    """Return the tree of ``files`` (as ``list_files`` gives them), and whether all are in it."""
    if not files:
        return "", True
    top = _grown(files)
    lines = [_TOP, *top.lines()]
    if depth < 1 or _length(lines) > max_chars:
        return "" if depth < 1 else _cut(top, lines, max_chars), False
    opened, whole = _opened(top, depth, max_chars - _length(lines))
    return "\n".join(_rendered(top, opened)), whole


def _grown(files: Sequence[str]) -> _Folder:
    """Return the top folder with all that is in it."""
    top = _Folder(_TOP, 0, ())
    for name in files:
        *above, last = name.removesuffix("/").split("/")
        folder = top
        folder.total += 1
        for part in above:
            if part not in folder.folders:
                folder.folders[part] = _Folder(part, folder.level + 1, (*folder.path, part))
            folder = folder.folders[part]
            folder.total += 1
        folder.files.append(f"{last}/" if name.endswith("/") else last)
    return top


def _cut(top: _Folder, lines: Sequence[str], room: int) -> str:
    """Return the first of the top folder's ``lines`` and how many files are in the others."""
    length = _length(lines)
    left_out = 0
    entries = [*top.in_order(), *top.files]
    for kept in range(len(entries) - 1, -1, -1):
        entry = entries[kept]
        left_out += entry.total if isinstance(entry, _Folder) else 1
        length -= len(lines[kept + 1]) + 1
        last = f"  … {_count(left_out, 'more ')}"
        if length + 1 + len(last) <= room:
            return "\n".join([*lines[: kept + 1], last])
    return ""


def _opened(top: _Folder, depth: int, room: int) -> tuple[set[tuple[str, ...]], bool]:
    """Return the paths of the folders to open within ``room``, and whether that is all of them."""
    opened: set[tuple[str, ...]] = set()
    whole = True
    waiting = [_priority(folder) for folder in top.folders.values()]
    heapq.heapify(waiting)
    while waiting:
        *_, folder = heapq.heappop(waiting)
        cost = _cost(folder)
        if folder.level >= depth or cost > room or not _worth_opening(folder):
            whole = False
            continue
        room -= cost
        opened.add(folder.path)
        for inner in folder.folders.values():
            heapq.heappush(waiting, _priority(inner))
    return opened, whole


def _priority(folder: _Folder) -> tuple[int, int, tuple[str, ...], _Folder]:
    """Return the key by which folders are opened: the shallow first, then the short."""
    return folder.level, len(folder.folders) + len(folder.files), folder.path, folder


def _worth_opening(folder: _Folder) -> bool:
    return folder.name not in _NEVER_OPENED and len(folder.folders) + len(folder.files) <= LONGEST


def _cost(folder: _Folder) -> int:
    """Return the characters that opening ``folder`` adds."""
    return (
        sum(len(line) + 1 for line in folder.lines()) + len(folder.opened()) - len(folder.folded())
    )


def _rendered(top: _Folder, opened: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of the tree with the folders in ``opened`` open."""
    waiting: list[_Folder | str] = [top]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            yield entry
            continue
        indent = "  " * entry.level
        if entry is not top and entry.path not in opened:
            yield indent + entry.folded()
            continue
        yield _TOP if entry is top else indent + entry.opened()
        files = [f"{indent}  {shown(name)}" for name in entry.files]
        waiting.extend(reversed([*entry.in_order(), *files]))


def _length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines) - 1


def _count(files: int, more: str = "") -> str:
    return f"{files} {more}file{'' if files == 1 else 's'}"
