"""What is made of the tables is kept next to the bytecode, and made again when that is needed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aish_lsp.offline import ranking as index
from aish_lsp.offline.table import table


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give Python a folder of its own for what it compiles."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


def kept(prefix: Path) -> Path:
    """Return the one file that is kept."""
    (path,) = [path for path in prefix.rglob("*") if path.is_file()]
    return path


def test_it_is_made_once(prefix: Path) -> None:
    make = Maker()
    assert [index._compiled(make) for _ in range(3)] == [1, 1, 1]
    assert kept(prefix).name == f"ranking.{sys.implementation.cache_tag}.pickle"


def test_it_is_made_again_when_a_source_has_changed(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker()
    index._compiled(make)
    sources = index._sources()
    assert {"git-history.toml", "words.toml", "table.py"} <= {name for name, _, _ in sources}
    changed = [(name, size, time + (name == "git-history.toml")) for name, size, time in sources]
    monkeypatch.setattr(index, "_sources", lambda: changed)
    assert [index._compiled(make) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-5], id="cut short"),
        pytest.param(lambda data: b"\xff" + data, id="not a pickle"),
        pytest.param(lambda data: pickle.dumps(None), id="another's"),
        pytest.param(lambda data: b"cno.such.module\nThing\n.", id="of a class that is gone"),
    ],
)
def test_a_broken_file_is_replaced(prefix: Path, broken: Callable[[bytes], bytes]) -> None:
    make = Maker()
    index._compiled(make)
    kept(prefix).write_bytes(broken(kept(prefix).read_bytes()))
    assert [index._compiled(make) for _ in range(2)] == [2, 2]


def test_where_nothing_can_be_written_it_is_made_each_time(prefix: Path) -> None:
    (prefix / "compiled").write_text("a file where the folder would be")
    make = Maker()
    assert [index._compiled(make) for _ in range(2)] == [1, 2]


def test_nothing_is_written_where_python_writes_no_bytecode(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    make = Maker()
    assert [index._compiled(make) for _ in range(2)] == [1, 2]
    assert not list(prefix.iterdir())


def test_it_is_the_same_when_it_is_loaded() -> None:
    made = index.Ranking(table())
    loaded = pickle.loads(pickle.dumps(made))
    assert loaded.table.titles == made.table.titles
    assert list(loaded.table.phrasings) == list(made.table.phrasings)
    assert list(loaded.table.intents) == list(made.table.intents)
    assert loaded.weights == made.weights
    terms = ["delete", "folder", "{folder}"]
    assert loaded.nearest(terms, 20) == made.nearest(terms, 20)
    assert loaded.share(100, "file") == made.share(100, "file")
