"""The file in which a workspace tells assistants how to work in it: AGENTS.md and its kin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aish_lsp.project.safe_read import read_head
from aish_lsp.text import without_hidden

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
    for name in NAMES:
        # Four bytes are the longest character; some more for what is stripped.
        head = read_head(root, name, max_chars * 4 + 4096)
        if head is None:
            continue
        text = without_hidden(head[0]).strip()
        if text:
            bounded = _bounded(text, max_chars, whole=head[1])
            return Instructions(name, bounded) if bounded else None
    return None


def _bounded(text: str, limit: int, *, whole: bool) -> str:
    """Return ``text``, or its beginning and CUT where it is longer than ``limit``."""
    if whole and len(text) <= limit:
        return text
    room = text[: max(limit - len(CUT) - 1, 0)]
    kept = room.rpartition("\n")[0] or room.rpartition(" ")[0] or room
    return f"{kept}\n{CUT}" if kept else ""
