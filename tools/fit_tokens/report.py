"""Writing what was found: the file of constants, and the tables of ``docs/tokens.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from aish_lsp.context.tokens import PLAIN_FEATURES, SCRIPT_FEATURES

Row = Sequence[object]


def constants(worth: Mapping[str, Sequence[float]], p99: Mapping[str, float]) -> str:
    """Return the text of ``token_constants.json``: a family is a line."""
    split = len(PLAIN_FEATURES)
    width = max(map(len, worth)) + 3

    def quoted(name: str) -> str:
        return f'"{name}":'

    def rows(values: Mapping[str, str]) -> str:
        return ",\n".join(f"    {quoted(name):{width}} {value}" for name, value in values.items())

    def numbers(begin: int, end: int | None) -> str:
        return rows(
            {
                name: f"[{', '.join(f'{value:.2f}' for value in values[begin:end])}]"
                for name, values in worth.items()
            }
        )

    errors = rows({name: f"{value:.2f}" for name, value in p99.items()})
    tables = {"plain": numbers(0, split), "scripts": numbers(split, None), "p99": errors}
    body = ",\n".join(f'  "{name}": {{\n{table}\n  }}' for name, table in tables.items())
    return f"{{\n{body}\n}}\n"


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
