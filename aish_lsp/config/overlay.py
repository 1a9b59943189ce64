"""What a workspace's own configuration may say by itself, and what it needs a grant for.

The same holds for ``.aish.toml`` and for settings that an editor may have taken from the workspace.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aish_lsp.config.keys import leaves, lookup, nested
from aish_lsp.foundation.validate import without
from aish_lsp.foundation.wording import dotted

#: Tables whose entries are one thing each: they are granted, and replaced, as a whole. Half of a
#: stranger's preset in one of the user's could send the user's key to the stranger's address.
WHOLE: Final = (("models",), ("tools", "servers"))

#: Keys that no grant lets a workspace set.
USERS_ALONE: Final = (("safety", "confine"),)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A workspace's own configuration, parted by trust.

    Attributes:
        harmless: the tables that count without a grant.
        asked: each further key, by its dotted path, with the value asked for.
        hash: names exactly what is asked for; any change of it is another hash.
    """

    harmless: dict[str, Any]
    asked: tuple[tuple[str, Any], ...]
    hash: str


def part(data: Mapping[str, Any], base: Mapping[str, Any]) -> Overlay:
    """Return valid ``data`` parted by trust.

    What says the same as ``base``, the plain data in force without it, asks for nothing: editors
    send their settings' defaults too.
    """
    harmless: dict[tuple[str, ...], Any] = {}
    asked: dict[tuple[str, ...], Any] = {}
    for path, value in _units(data):
        present, current = lookup(base, path)
        if _harmless(path, value, current):
            harmless[path] = value
        elif not present or current != value:
            within = isinstance(value, Mapping) and value
            asked.update(leaves(value, path) if within else [(path, value)])
    # In full, however long: a grant is for what was seen.
    told = tuple((dotted(path, limit=sys.maxsize), value) for path, value in asked.items())
    text = json.dumps(sorted(asked.items()), sort_keys=True, allow_nan=False)
    return Overlay(nested(harmless), told, hashlib.sha256(text.encode()).hexdigest())


def _harmless(path: tuple[str, ...], value: Any, current: Any) -> bool:
    if path == ("context", "max_turns"):
        return bool(value <= current)
    return path[0] == "project" or path == ("memory", "inject_max_chars")


def _units(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value by path, and each entry of the WHOLE tables as one."""
    for table in WHOLE:
        _, entries = lookup(data, table)
        for name, entry in (entries or {}).items():
            yield (*table, name), entry
    rest = without(data, WHOLE)
    assert isinstance(rest, Mapping)
    for path, value in leaves(rest):
        # An empty table adds nothing.
        if value != {}:
            yield path, value
