"""The table's files: what a stranger reads and changes, and how a mistake in one is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from aish_lsp.offline import table as offline_table
from aish_lsp.offline.table import FOLDER, table

FILES = sorted([*FOLDER.glob("*.toml"), *FOLDER.parent.glob("*.toml")])

GOOD = """\
title = "Files"

[[intent]]
name = "list"
does = "Lists the files."
ask = '''
list the files
show the files in {folder}
'''
run = "ls {folder}"
"""


def test_a_table_is_short_enough_in_lines_and_bytes_to_be_read_and_merged() -> None:
    for path in FILES:
        assert max(map(len, path.read_text().split("\n"))) <= 200, path.name
        assert path.stat().st_size < 40 * 1024, path.name


def test_each_name_is_in_the_table_once() -> None:
    names = Counter(intent.name for intent in table().intents)
    assert [name for name, times in names.items() if times > 1] == []


@pytest.fixture
def read_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(offline_table, "FOLDER", tmp_path)
    table.cache_clear()
    yield tmp_path / "files.toml"
    table.cache_clear()


def test_a_table_file_without_a_mistake_is_read(read_from: Path) -> None:
    read_from.write_text(GOOD)
    assert [intent.name for intent in table().intents] == ["list"]
    assert len(table().phrasings) == 2


@pytest.mark.parametrize(
    ("right", "wrong", "line", "says"),
    [
        ("files in {folder}", "files in {fodler}", 8, "no such kind of slot: fodler"),
        ('run = "ls', 'runs = "ls', 4, "unknown: runs"),
        ('files."', "files.", 5, ""),
        ("does =", "done =", 4, "unknown: done"),
    ],
)
def test_a_mistake_in_a_table_file_is_told_with_its_line(
    read_from: Path, right: str, wrong: str, line: int, says: str
) -> None:
    assert right in GOOD
    read_from.write_text(GOOD.replace(right, wrong))
    with pytest.raises(ValueError, match=rf"files\.toml.*line {line}\b.*{says}"):
        table()
