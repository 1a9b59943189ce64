"""``aish-lsp memory``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.cli import main

REMEMBERED = "Remembered as item 1. The model knows it from your next question on.\n"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class Terminal:
    """Runs ``aish-lsp memory``; keeps what the last one wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        try:
            code = main(["memory", *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str, code: int = 0) -> Any:
        assert self(*arguments, "--json") == code
        return json.loads(self.out)


@pytest.fixture
def memory(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_life_of_an_item(memory: Terminal) -> None:
    assert memory.json("add", "We deploy with make ship", "--tag", "ops") == {
        "id": 1,
        "duplicate": False,
    }
    assert memory.json("add", "we deploy with MAKE ship.") == {"id": 1, "duplicate": True}
    assert memory.json("edit", "1", "We deploy with just ship") == {"id": 2}
    [item] = memory.json("list")["items"]
    assert item.pop("ts")
    assert item == {
        "id": 2,
        "kind": "fact",
        "content": "We deploy with just ship",
        "tags": ["ops"],
        "source": {"how": "user"},
        "scope": "workspace",
        "injected": True,
    }
    assert memory.json("forget", "2") == {"forgotten": 1}
    assert memory.json("compact") == {"removed": 4}
    assert memory.json("list") == {"items": []}
    assert memory.err == ""


def test_a_text_needs_no_quotes(memory: Terminal) -> None:
    memory("add", "we", "use", "tabs", "--kind", "pref")
    memory("edit", "1", "we", "use", "spaces")
    memory("list")
    assert memory.out.endswith("we use spaces\n")


def test_what_people_read(memory: Terminal) -> None:
    assert memory("add", "Terse\x1b[31m answers", "--kind", "pref", "--scope", "user") == 0
    assert (memory.out, memory.err) == (REMEMBERED, "")
    memory("add", "We deploy with make ship", "--tag", "ops")
    assert memory("list") == 0
    lines = [line.split(maxsplit=4) for line in memory.out.splitlines()]
    # Of one second or of two: in either order.
    assert sorted((*line[:2], *line[3:]) for line in lines) == [
        ("1", "user", "pref", "Terse\\x1b[31m answers"),
        ("1", "workspace", "fact", "We deploy with make ship #ops"),
    ]
    assert memory("list", "--scope", "user", "--query", "TERSE") == 0
    assert len(memory.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["forget", "9"], "no item 9"),
        (["edit", "9", "x"], "no item 9"),
        (["add", " "], "empty"),
        (["add", "password=hunter2"], "force"),
        (["import", "nosuch.jsonl"], "nosuch.jsonl"),
        (["import", "."], "directory"),
    ],
)
def test_a_failure_exits_with_1_and_tells_why(
    memory: Terminal, arguments: list[str], told: str
) -> None:
    assert memory(*arguments) == 1
    assert memory.out == ""
    assert told in memory.err
    assert told in memory.json(*arguments, code=1)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn"],
        ["add"],
        ["forget", "x"],
        ["add", "x", "--kind", "rumor"],
        ["list", "--scope", "team"],
    ],
)
def test_misuse_exits_with_2(memory: Terminal, arguments: list[str]) -> None:
    assert memory(*arguments) == 2
    assert memory.out == ""
    assert "usage: aish-lsp memory" in memory.err


def test_an_id_in_both_scopes_needs_the_scope(memory: Terminal) -> None:
    memory("add", "w")
    memory("add", "u", "--scope", "user")
    assert memory("forget", "1") == 1
    assert "say which scope" in memory.err
    assert memory("forget", "1", "--scope", "user") == 0
    assert [item["content"] for item in memory.json("list")["items"]] == ["w"]


def test_clear_wants_a_yes(memory: Terminal) -> None:
    memory("add", "w")
    memory("add", "u", "--scope", "user")
    assert memory("clear") == 1
    assert "--yes" in memory.err
    assert memory.json("clear", "--yes", "--scope", "user") == {"forgotten": 1}
    assert memory.json("clear", "--yes") == {"forgotten": 1}
    assert memory.json("clear") == {"forgotten": 0}


def test_export_and_import(memory: Terminal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory("add", "größer", "--tag", "t")
    assert memory("export") == 0
    export = memory.out
    (root / "items.jsonl").write_text(export + '{"kind": "fact", "content": "password=hunter2"}\n')
    other = root / "other"
    other.mkdir()
    assert memory("import", "items.jsonl", "--workspace", "other") == 1
    assert memory.out.splitlines()[0] == "items.jsonl:2: added as item 1 (workspace)"
    assert memory.out.splitlines()[1].startswith("items.jsonl:3: refused: This looks like")
    assert memory.err == "aish-lsp: 1 added, 1 refused\n"
    stdin = io.TextIOWrapper(io.BytesIO(export.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    told = memory.json("import", "-", "--workspace", "other")
    assert (told["added"], told["lines"][0]["outcome"]) == (0, "duplicate")
    assert memory.json("import", "items.jsonl", "--force")["added"] == 1


def test_the_configured_file_and_age_hold(memory: Terminal, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[memory]\npath = "notes.jsonl"\nprune_older_than_days = 30\n'
    )
    old = {"id": 1, "ts": "2020-01-01T00:00:00Z", "kind": "fact", "content": "old"}
    (tmp_path / "notes.jsonl").write_text(json.dumps(old) + "\nbad line\n")
    assert memory("add", "new") == 0
    assert "line 2" in memory.err
    assert [item["content"] for item in memory.json("list")["items"]] == ["new"]
    assert "new" in (tmp_path / "notes.jsonl").read_text()


def test_an_imported_time_is_written_in_our_format(
    memory: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = b'{"kind": "fact", "content": "old", "ts": "0001-02-03T4:5:6Z"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    assert memory("import", "-") == 0
    [item] = memory.json("list")["items"]
    assert item["ts"] == "0001-02-03T04:05:06Z"
