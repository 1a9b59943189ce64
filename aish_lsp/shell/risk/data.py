"""The data that the classifier works by: what ``tables.json`` holds, and the constants of texts.

``./dev docs`` makes ``tables.json`` from the TOML files here, which take 20 times as long to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.events import Risk

#: Characters: nobody reads through a longer command before running it. Up to this length, the
#: parser recovers from errors in about a tenth of a second, whatever the text is.
LONGEST: Final = 4000

#: Stands for text that is not known; it cannot occur in a command.
UNKNOWN: Final = "\0"
#: Begins a word that may become any number of words, and so any options.
MANY: Final = UNKNOWN * 2

SAFE: Final = 0
CAUTION: Final = 1
DESTRUCTIVE: Final = 2

#: The words for the levels, by level.
LEVELS: Final[tuple[Risk, ...]] = ("safe", "caution", "destructive")


@cache
def _tables() -> dict[str, dict[str, Any]]:
    with Path(__file__).with_name("tables.json").open("rb") as file:
        tables: dict[str, dict[str, Any]] = json.load(file)
    return tables


def table(name: str) -> dict[str, Any]:
    """Return what ``NAME.toml`` in this folder holds, where code reads it as it is.

    ``commands`` is what ``tables`` and ``writers.toml`` hold, by the names of commands.
    """
    return _tables()[name]


def names_of(match: str) -> tuple[str, ...]:
    """Return the names of the commands that ``match`` is about; empty if it is no pattern."""
    head = match.split(maxsplit=1)[:1]
    return tuple(head[0].casefold().split("|")) if head and head[0][0] not in "-!{" else ()


#: The fields that a row may have besides its ``match`` and its level.
_RULE_FIELDS: Final = ("reason", "confine", "rights")


def rows_by_name(groups: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows, each a match, a level and what else is in its group; and the numbers by name.

    Each of the ``groups`` has a level, a reason, and one ``match`` or several. ``globs`` are the
    patterns of names.
    """
    rows: list[Any] = []
    names: dict[str, dict[str, Any]] = {}
    globs: list[tuple[str, int]] = []
    for group in groups:
        matches = group["match"]
        level = LEVELS.index(group["risk"])
        fields = {key: group[key] for key in _RULE_FIELDS if key in group}
        for match in [matches] if isinstance(matches, str) else matches:
            for name in names_of(match):
                if "*" in name:
                    globs.append((name, len(rows)))
                else:
                    names.setdefault(name, {}).setdefault("rows", []).append(len(rows))
            rows.append((match, level, fields))
    return {"rows": rows, "names": names, "globs": globs}
