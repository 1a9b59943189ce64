"""A part of a document as it is sent with a question: its text, and the definition around it.

Also the reverse: replacing a selection by a block of a reply.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, NamedTuple

from aish_lsp.context.budget import shortened
from aish_lsp.context.messages import Attached

#: Characters that are kept at each end of a text, for any budget.
EACH_END: Final = 24_000

#: Characters of a definition that is sent whole; only the first line of a longer one is sent.
_WHOLE_DEFINITION: Final = 6000


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place between two characters: line and character, from 0, in code points."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text, whose lines end with LF, and its ``path`` as in ``Attached``."""

    path: str
    text: str
    language: str = ""

    @property
    def lines(self) -> list[str]:
        """Its lines, without line ends; after a final line end there is an empty line."""
        return self.text.split("\n")


def selection(document: SourceText, start: Point, end: Point) -> list[Attached]:
    """Return the text between two places, and the definition around it if one is found.

    Places beyond the end mean the end. If both places are the same, the whole line is meant.
    Nothing is returned for blank text.
    """
    lines = document.lines
    start, end = (clamped(lines, point) for point in sorted((start, end)))
    if start == end:
        start, end = Point(start.line, 0), Point(start.line, len(lines[start.line]))
    text = between(lines, start, end)
    if not text.strip():
        return []
    # If it ends after a line end, the line that begins there is not included.
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
    """Return the language of a file, as far as its name tells it."""
    return PurePath(path).suffix.removeprefix(".")


def clamped(lines: Sequence[str], point: Point) -> Point:
    """Return ``point``, or the nearest one that exists."""
    if point.line >= len(lines):
        return Point(len(lines) - 1, len(lines[-1]))
    return Point(point.line, min(point.character, len(lines[point.line])))


def _definition(
    document: SourceText, lines: Sequence[str], first: int, last: int
) -> list[Attached]:
    definition = definition_around(lines, first, last)
    if definition is None:
        return []
    text = "\n".join(lines[definition.first : definition.last + 1])
    around = Attached(
        "definition",
        document.path,
        text,
        document.language,
        definition.first + 1,
        definition.last + 1,
    )
    if len(text) <= _WHOLE_DEFINITION:
        return [around]
    head = f"{lines[definition.first][:200]}\n[...]"
    return [replace(around, text=head, cut=True)]


# The definition around a piece of code, found by indentation and braces.
#
# No grammar is loaded: this only examines the lines above and below. If the layout of a text says
# nothing, no definition is found.

#: Characters of a line, and enclosing definitions, that are examined.
_LOOK: Final = 300
_MOST_HEADERS: Final = 20

_KEYWORDS: Final = (
    "class|def|defp|defmodule|defn|enum|extension|fn|fun|func|function|impl|interface|macro|method"
    "|module|namespace|object|package|proc|protocol|record|resource|struct|sub|trait|type|union"
)
_KEYWORD: Final = re.compile(rf"(?:^|[\s(=:])(?:{_KEYWORDS})\s+[\w$\"'(\[*<]|\bfunction\s*\(")
_CONTROL: Final = re.compile(
    r"[\s}]*(?:if|elif|else|for|foreach|while|until|do|switch|case|default|try|catch|except|finally"
    r"|with|match|when|unless|loop|unsafe|using|lock|synchronized|select|return|await|yield)\b"
)
#: ``name(...) {``, ``(...) => {``, ``) -> T {``.
_OPENS: Final = re.compile(r"\)[^;{}()]{0,80}\{\s*$|=>\s*\{\s*$")
_COMMENT: Final = re.compile(r"\s*(?://|#(?!\[)|--|\*|/\*|;|\")")
_DECORATOR: Final = re.compile(r"\s*(?:@\w|#\[)")
_CLOSER: Final = re.compile(r"\s*(?:[)\]}]|end\b|\{\s*$)")


class LineRange(NamedTuple):
    """Lines of a text, from 0, including the last one."""

    first: int
    last: int


def definition_around(lines: Sequence[str], first: int, last: int) -> LineRange | None:
    """Return the innermost definition that contains the lines from ``first`` to ``last``.

    Return None if none is found, or if it is exactly those lines.
    """
    filled = [number for number in range(first, last + 1) if lines[number].strip()]
    if not filled:
        return None
    level = min(_indent(lines[number]) for number in filled)
    if _is_header(lines, filled[0]) and _indent(lines[filled[0]]) == level:
        level += 1
    number = filled[0] + (_indent(lines[filled[0]]) < level)
    for _ in range(_MOST_HEADERS):
        header = _header_above(lines, number, level)
        if header is None:
            break
        definition = LineRange(_with_decorators(lines, header), _end(lines, header))
        if definition.last >= last and (definition.first < first or definition.last > last):
            return definition
        number, level = header, _indent(lines[header])
    return None


def _header_above(lines: Sequence[str], number: int, level: int) -> int | None:
    """Return the nearest header above a line that is indented less than ``level``."""
    opens = False
    while number and level:
        number -= 1
        line = lines[number]
        if not line.strip() or _COMMENT.match(line):
            continue
        indent = _indent(line)
        if indent >= level:
            continue
        if _CLOSER.match(line):
            # The last line of a header whose first line has the same indentation.
            opens = opens or line.rstrip().endswith("{")
            level = indent + 1
            continue
        if _is_header(lines, number) or (opens and "(" in line and not _CONTROL.match(line)):
            return number
        opens = False
        level = indent
    return None


def _is_header(lines: Sequence[str], number: int) -> bool:
    line = lines[number][:_LOOK]
    if _CONTROL.match(line) or _COMMENT.match(line):
        return False
    return _KEYWORD.search(line) is not None or _OPENS.search(line) is not None


def _end(lines: Sequence[str], header: int) -> int:
    """Return the last line of the definition that begins at ``header``."""
    indent, end = _indent(lines[header]), header
    for number in range(header + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if _indent(line) > indent:
            end = number
        elif _indent(line) == indent and _CLOSER.match(line):
            end = number
            if not line.rstrip().endswith(("{", ":", "(")):
                break
        else:
            break
    return end


def _with_decorators(lines: Sequence[str], header: int) -> int:
    """Return the first of the decorators right above a header, or the header."""
    indent = _indent(lines[header])
    while header and _DECORATOR.match(lines[header - 1]) and _indent(lines[header - 1]) == indent:
        header -= 1
    return header


def _indent(line: str) -> int:
    """Return the width of a line's indentation, with tab stops every eight columns."""
    white = line[: len(line) - len(line.lstrip())]
    return len(white.expandtabs(8))


#: Lines around a change that are shown with it.
_AROUND: Final = 2

#: The most lines on each side that are compared: more would take too long.
_MOST_COMPARED: Final = 2_000


def replacement(block: str, lines: Sequence[str], start: Point, end: Point) -> str:
    """Return ``block`` as it replaces a selection.

    It gets the indentation of the selected lines, since models often omit that, and it ends with a
    line end if the selection does.

    Args:
        block: the text, with LF as line ends.
        lines: the lines of the document.
        start: where the selection begins.
        end: where it ends.
    """
    last = end.line - (end.character == 0 and end.line > start.line)
    indent = _common_indent(lines[start.line : last + 1])
    own = _common_indent(block.split("\n"))
    new = [
        f"{indent}{line.removeprefix(own)}" if line.strip() else ""
        for line in block.removesuffix("\n").split("\n")
    ]
    before = lines[start.line][: start.character]
    # The text before the selection on its line stays.
    new[0] = new[0].lstrip() if before.strip() else new[0].removeprefix(before)
    ends_a_line = end.character == 0 and end.line > start.line
    return "\n".join(new) + ("\n" if ends_a_line else "")


def difference(lines: Sequence[str], new: str, start: Point, end: Point) -> list[str]:
    """Return what a replacement by ``new`` changes: lines marked with ``-``, ``+`` or a blank.

    Unchanged lines near a change are shown; ``...`` stands for others. ``lines`` are those of the
    document, and ``start`` and ``end`` enclose what is replaced.
    """
    first, last = max(0, start.line - _AROUND), end.line + 1 + _AROUND
    before = list(lines[first:last])
    replaced = lines[start.line][: start.character] + new + lines[end.line][end.character :]
    after = [*lines[first : start.line], *replaced.split("\n"), *lines[end.line + 1 : last]]
    if max(len(before), len(after)) > _MOST_COMPARED:
        return [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    shown = list(difflib.unified_diff(before, after, n=_AROUND, lineterm=""))[3:]
    return ["..." if line.startswith("@@") else line for line in shown]


def _common_indent(lines: Iterable[str]) -> str:
    """Return the white space that all non-blank lines begin with."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return os.path.commonprefix(indents)  # noqa: RUF071 - these are not paths
