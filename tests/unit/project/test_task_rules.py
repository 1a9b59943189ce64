"""The table of what runs if something is there: each row of it can be read."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aish_lsp.project import manifests
from aish_lsp.project.manifests import _FINDERS
from aish_lsp.project.manifests.entries import READERS
from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.manifests.rules import (
    ENTRY_NAMES,
    RULES,
    Rank,
    Row,
    Substitutions,
    rule_tasks,
)

CONDITIONS = {"word", "without", "also", "file", "unless", "executable", "key"}
KEYS = CONDITIONS | {
    *("files", "rank", "otherwise", "captures", "only", "exists", "source"),
    *("runner", "reader", "names", "unnamed", "but"),
}
#: The words that functions give, besides those of the table.
GIVEN = {
    *("file", "name", "all_of_it", "all_files", "modules", "others", "format", "which", "image"),
    *("python", "prefix", "pre_commit", "tox", "uvicorn", "flask", "streamlit"),
}
GROUPS = {
    name: rows for name, rows in RULES.items() if name not in ("words", "python_requirements")
}
ROWS = [(name, row) for name, rows in GROUPS.items() for row in rows]


def templates(row: dict[str, Any]) -> Iterator[str]:
    """Yield the commands of a row."""
    for intent in (*ENTRY_NAMES, "runner"):
        entry = row.get(intent, "")
        yield entry["command"] if isinstance(entry, dict) else entry


def test_a_row_has_known_keys_words_readers_and_patterns() -> None:
    for group, row in ROWS:
        assert row.keys() <= KEYS | ENTRY_NAMES.keys(), (group, row)
        assert row.get("rank", "OWN") in Rank.__members__, (group, row)
        assert row.get("reader", "just") in READERS, (group, row)
        for part in (
            row,
            *(row[intent] for intent in ENTRY_NAMES if isinstance(row.get(intent), dict)),
        ):
            for name in ("word", "without", "captures"):
                re.compile(part.get(name, ""))
        for template in templates(row):
            names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
            assert names <= GIVEN | RULES["words"].keys(), (group, template)


def test_every_group_is_used_by_a_finder_or_a_function() -> None:
    named = {finder for finder in _FINDERS if isinstance(finder, str)}
    folder = Path(manifests.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    assert named <= GROUPS.keys()
    assert all(name in named or f'"{name}"' in code for name in GROUPS)


def test_every_word_has_a_last_resort_or_is_asked_for_where_it_has_one(tmp_path: Path) -> None:
    words = Substitutions(Manifests(tmp_path))
    assert {name: words[name] for name in RULES["words"]}["python_manager"] == "pip"


def test_otherwise_is_what_the_rule_before_did_not_give(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"file": "one", "test": "one"},
        {"otherwise": True, "file": "two", "test": "two"},
        {"otherwise": True, "test": "three"},
    ]
    for present, command in (("one", "one"), ("two", "two"), ("nothing", "three")):
        folder = tmp_path / present
        folder.mkdir()
        (folder / present).touch()
        [task] = rule_tasks(Manifests(folder), rows)
        assert task.command == command
