"""The files in which a workspace tells assistants how to work in it: AGENTS.md and its kin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aish_lsp.foundation.text import without_hidden
from aish_lsp.project.safe_read import read_head

#: Where such files lie, the most general first; only the first that says something is read.
NAMES = (
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    ".github/copilot-instructions.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".rules",
    ".junie/guidelines.md",
    "CONVENTIONS.md",
)

#: Those that may lie in a folder of it too, for what is in that.
_NESTED_NAMES = tuple(name for name in NAMES if "/" not in name)

#: Folders, from that of a file up, that are looked into.
_LEVELS = 20

#: The last line of a text that was cut.
CUT = "…"


@dataclass(frozen=True, slots=True)
class Instructions:
    """An instruction file's name, relative to the workspace, and its text."""

    name: str
    text: str


def read_instructions(root: Path, max_chars: int) -> Instructions | None:
    """Return the workspace's instruction file, ``max_chars`` characters of it at most.

    A longer one is cut, behind a whole line where there is one, and ends in CUT. Files that are
    empty, binary, unreadable, or that lead out of the workspace are passed over.
    """
    return _first(root, "", NAMES, max_chars)


def nested_instructions(root: Path, at: Path, max_chars: int) -> tuple[Instructions, ...]:
    """Return the instruction files between ``root`` and the file ``at``, the nearest one last.

    That of ``root`` itself is not among them. Together they have ``max_chars`` characters at most;
    where that is too little the nearest ones have it. None for a file that lies elsewhere.
    """
    top = Path(os.path.realpath(root))
    folder = Path(os.path.realpath(at.parent))
    if not folder.is_relative_to(top):
        return ()
    found: list[Instructions] = []
    inner = [one for one in (folder, *folder.parents) if one != top and one.is_relative_to(top)]
    for one in inner[:_LEVELS]:
        prefix = f"{one.relative_to(top).as_posix()}/"
        read = _first(top, prefix, _NESTED_NAMES, max_chars)
        # One that a link repeats says nothing new.
        if read is not None and all(read.text != other.text for other in found):
            found.append(read)
            max_chars -= len(read.text)
    return tuple(reversed(found))


def _first(root: Path, prefix: str, names: Sequence[str], max_chars: int) -> Instructions | None:
    """Return the first of the files ``prefix`` and a name that says something."""
    for name in names:
        # Four bytes are the longest character; some more for what is stripped.
        head = read_head(root, prefix + name, max_chars * 4 + 4096)
        if head is None:
            continue
        text = without_hidden(head[0]).strip()
        if text:
            bounded = _bounded(text, max_chars, whole=head[1])
            return Instructions(prefix + name, bounded) if bounded else None
    return None


def _bounded(text: str, limit: int, *, whole: bool) -> str:
    """Return ``text``, or its beginning and CUT where it is longer than ``limit``."""
    if whole and len(text) <= limit:
        return text
    room = text[: max(limit - len(CUT) - 1, 0)]
    kept = room.rpartition("\n")[0] or room.rpartition(" ")[0] or room
    return f"{kept}\n{CUT}" if kept else ""
