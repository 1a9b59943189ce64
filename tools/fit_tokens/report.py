"""Writing what was found: the module of constants, and the tables of ``docs/tokens.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from aish_lsp.context.tokens import PLAIN_FEATURES, SCRIPT_FEATURES

Row = Sequence[object]

_MODULE = '''"""What each feature of a text is worth in tokens, by the tokenizer's family.

Written by ``python tools/fit_tokens --write``; ``docs/tokens.md`` shows the same. The columns are
those of ``PLAIN_FEATURES`` and ``SCRIPT_FEATURES`` in ``tokens.py``.
"""

# fmt: off
# ruff: noqa: E501 - a family is a line
PLAIN: dict[str, tuple[float, ...]] = {
%s
}

SCRIPTS: dict[str, tuple[float, ...]] = {
%s
}

#: By how much of the estimate the real count is above it, in 99 of 100 texts at most.
P99: dict[str, float] = {
%s
}
'''


def module(worth: Mapping[str, Sequence[float]], p99: Mapping[str, float]) -> str:
    """Return the source of ``token_constants.py``."""
    split = len(PLAIN_FEATURES)

    def rows(begin: int, end: int | None) -> str:
        width = max(map(len, worth)) + 3
        lines = []
        for family, values in worth.items():
            numbers = ", ".join(f"{value:.2f}" for value in values[begin:end])
            name = f'"{family}":'
            lines.append(f"    {name:{width}} ({numbers}),")
        return "\n".join(lines)

    errors = "\n".join(f'    "{family}": {value:.2f},' for family, value in p99.items())
    return _MODULE % (rows(0, split), rows(split, None), errors)


def constants_table(worth: Mapping[str, Sequence[float]]) -> str:
    """Return the constants for people, a row for each feature."""
    names = PLAIN_FEATURES + SCRIPT_FEATURES
    body = [
        [name, *(f"{values[index]:.2f}" for values in worth.values())]
        for index, name in enumerate(names)
    ]
    return table(["", *worth], body)


def table(head: Row, body: Sequence[Row]) -> str:
    """Return a table in Markdown, its columns after the first to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *body)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        return f"| {' | '.join((first, *rest))} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(cells[0]), line(rule), *map(line, cells[1:])])


def replace_sections(page: Path, sections: Mapping[str, str]) -> None:
    """Put each text between its two marks (``<!-- name -->``, ``<!-- /name -->``) in ``page``.

    Raises:
        ValueError: the page lacks a mark.
    """
    text = page.read_text(encoding="utf-8")
    for name, content in sections.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, found = marks.subn(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", text)  # noqa: B023 - called at once
        if not found:
            raise ValueError(f"{page} has no place for {name}")
    page.write_text(text, encoding="utf-8")
