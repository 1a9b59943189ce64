"""A block of a reply made to stand where something was selected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from aish_lsp.context.attached.selection import Point

#: Lines around a change that are shown with it.
_AROUND: Final = 2

#: Lines on a side beyond which nobody looks for what they have in common: it takes too long.
_MOST_COMPARED: Final = 2_000


def replacement(block: str, lines: Sequence[str], start: Point, end: Point) -> str:
    """Return ``block`` as it takes the place of what is selected.

    It is indented as the selected lines are, whatever its own indentation, since models leave that
    out as often as not; and it ends with a line end where the selection does.

    Args:
        block: the text, LF at its line ends.
        lines: those of the document.
        start: where the selection begins.
        end: where it ends.
    """
    last = end.line - (end.character == 0 and end.line > start.line)
    indent = _indent(lines[start.line : last + 1])
    own = _indent(block.split("\n"))
    new = [
        f"{indent}{line.removeprefix(own)}" if line.strip() else ""
        for line in block.removesuffix("\n").split("\n")
    ]
    before = lines[start.line][: start.character]
    # What stands before the selection on its line stays there.
    new[0] = new[0].lstrip() if before.strip() else new[0].removeprefix(before)
    ends_a_line = end.character == 0 and end.line > start.line
    return "\n".join(new) + ("\n" if ends_a_line else "")


def difference(lines: Sequence[str], new: str, start: Point, end: Point) -> list[str]:
    """Return what putting ``new`` there changes: lines marked by ``-``, ``+`` or a blank.

    Unchanged lines are shown where they stand near a change; ``...`` stands for others. ``lines``
    are the document's, ``start`` and ``end`` what is replaced in it.
    """
    first, last = max(0, start.line - _AROUND), end.line + 1 + _AROUND
    before = list(lines[first:last])
    replaced = lines[start.line][: start.character] + new + lines[end.line][end.character :]
    after = [*lines[first : start.line], *replaced.split("\n"), *lines[end.line + 1 : last]]
    if max(len(before), len(after)) > _MOST_COMPARED:
        return [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    shown = list(difflib.unified_diff(before, after, n=_AROUND, lineterm=""))[3:]
    return ["..." if line.startswith("@@") else line for line in shown]


def _indent(lines: Iterable[str]) -> str:
    """Return the blanks that all lines begin with that say something."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shortest = min(indents, key=len, default="")
    while not all(indent.startswith(shortest) for indent in indents):
        shortest = shortest[:-1]
    return shortest
