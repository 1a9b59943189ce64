"""Files that decide what runs later: editors, git, shells and others read them by themselves.

The table is ``protected.toml``. The classifier, the tools that write, the profile ``work`` and undo
all ask it.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        reader: the programs that read such a file.
        when: at what time they read it.
        names: the files and folders, each a path whose parts may be patterns.
        in_dependencies: whether it holds inside the folders of dependencies, too.
    """

    reader: str
    when: str
    names: tuple[str, ...]
    in_dependencies: bool = False

    @property
    def reason(self) -> str:
        """Why nobody but the user may write such a file, for the user: *it* ..."""
        return f"decides what runs, as {self.reader} can read it {self.when}"


@dataclass(frozen=True, slots=True)
class _Table:
    """The table, with each name under its last part: its parts, and its row."""

    rows: tuple[Row, ...]
    dependencies: frozenset[str]
    manifests: frozenset[str]
    plain: dict[str, list[tuple[tuple[str, ...], Row]]]
    patterns: list[tuple[re.Pattern[str], tuple[str, ...], Row]]


@cache
def _table() -> _Table:
    found = tomllib.loads(Path(__file__).with_name("protected.toml").read_text("utf-8"))
    rows = tuple(Row(**row | {"names": tuple(row["names"])}) for row in found["rows"])
    table = _Table(
        rows,
        frozenset(map(_folded, found["dependencies"])),
        frozenset(found["manifests"]),
        {},
        [],
    )
    for row in rows:
        for name in row.names:
            parts = tuple(map(_folded, name.split("/")))
            if "*" in parts[-1]:
                table.patterns.append((re.compile(fnmatch.translate(parts[-1])), parts, row))
            else:
                table.plain.setdefault(parts[-1], []).append((parts, row))
    return table


def rows() -> tuple[Row, ...]:
    """Return the table."""
    return _table().rows


def manifests() -> frozenset[str]:
    """Return the names of the files beside which a missing file is protected, too."""
    return _table().manifests


def protected_by(name: str) -> Row | None:
    """Return the row that protects a file or folder, or a folder that it is in; None if none does.

    ``name`` is its path, relative to the work tree. An absolute one, or one that begins with ``~``,
    counts as outside the folders of dependencies. As some file systems do, it ignores case,
    characters that are not seen, and dots at the end.
    """
    table = _table()
    parts = [part for part in map(_folded, name.split("/")) if part]
    is_relative = name[:1] not in {"/", "~"}
    inside = False
    for at, part in enumerate(parts):
        row = _row_of(part, parts[:at])
        if row is not None and (row.in_dependencies or not inside):
            return row
        inside = inside or (is_relative and part in table.dependencies)
    return None


def _row_of(last: str, before: Sequence[str]) -> Row | None:
    """Return the row whose name ends with ``last``, if the parts ``before`` it match, too."""
    rows: list[tuple[tuple[str, ...], Row]] = _table().plain.get(last, [])
    for parts, row in (*rows, *_by_pattern(last)):
        above = parts[:-1]
        if not above or tuple(before[-len(above) :]) == above:
            return row
    return None


@lru_cache(maxsize=4096)
def _by_pattern(last: str) -> tuple[tuple[tuple[str, ...], Row], ...]:
    return tuple((parts, row) for one, parts, row in _table().patterns if one.match(last))


def _folded(name: str) -> str:
    """Return the part of a path as a file system sees it that ignores what nobody sees."""
    if name.isascii():
        return name.lower().rstrip(". ")
    seen = (char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", "".join(seen).casefold()).rstrip(". ")
