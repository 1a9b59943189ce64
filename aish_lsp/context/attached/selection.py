"""A part of a document as it goes with a question: its text, and the definition around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from aish_lsp.context.attached.definition import definition_around
from aish_lsp.context.shortening import shortened
from aish_lsp.context.turns import Attached

#: Characters of both ends of one text that are kept, whatever the budget.
EACH_END: Final = 24_000

#: Characters of a definition that goes as a whole; of a longer one only the first line does.
_WHOLE_DEFINITION: Final = 6000


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place between two characters: line and character, from 0, in code points."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Document:
    """A text and what it is called: ``path`` as in ``Attached``. Its lines end with LF."""

    path: str
    text: str
    language: str = ""

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends; an empty one follows a last line end."""
        return self.text.split("\n")


def selection(document: Document, start: Point, end: Point) -> list[Attached]:
    """Return what stands between two places, and the definition around it where one is seen.

    Places behind the end mean the end. Where both are the same, the whole line is meant. Nothing is
    returned of blanks.
    """
    lines = document.lines
    start, end = (clamped(lines, point) for point in sorted((start, end)))
    if start == end:
        start, end = Point(start.line, 0), Point(start.line, len(lines[start.line]))
    text = between(lines, start, end)
    if not text.strip():
        return []
    # Where it ends behind a line end, the line that begins there is not in it.
    last = end.line - (end.character == 0 and end.line > start.line)
    selected = Attached(
        "selection", document.path, text, document.language, start.line + 1, last + 1
    )
    return [shortened(selected, EACH_END), *_definition(document, lines, start.line, last)]


def between(lines: Sequence[str], start: Point, end: Point) -> str:
    """Return the text from ``start`` to ``end``."""
    if start.line == end.line:
        return lines[start.line][start.character : end.character]
    inner = lines[start.line + 1 : end.line]
    return "\n".join(
        (lines[start.line][start.character :], *inner, lines[end.line][: end.character])
    )


def language_of(path: str) -> str:
    """Return what a file is written in, as far as its name says."""
    return PurePath(path).suffix.removeprefix(".")


def clamped(lines: Sequence[str], point: Point) -> Point:
    """Return ``point``, or the nearest one that there is."""
    if point.line >= len(lines):
        return Point(len(lines) - 1, len(lines[-1]))
    return Point(point.line, min(point.character, len(lines[point.line])))


def _definition(document: Document, lines: Sequence[str], first: int, last: int) -> list[Attached]:
    found = definition_around(lines, first, last)
    if found is None:
        return []
    text = "\n".join(lines[found.first : found.last + 1])
    around = Attached(
        "definition", document.path, text, document.language, found.first + 1, found.last + 1
    )
    if len(text) <= _WHOLE_DEFINITION:
        return [around]
    head = f"{lines[found.first][:200]}\n[...]"
    return [replace(around, text=head, cut=True)]
