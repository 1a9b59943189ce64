"""The workspace's memory and the user's, taken together."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aish_lsp.foundation.errors import InvalidArgument, NotFound, StoreUnavailable
from aish_lsp.memory.scopes import MemoryScopes


@pytest.fixture
def scopes(tmp_path: Path) -> MemoryScopes:
    return MemoryScopes.open(tmp_path / "user.jsonl", tmp_path / "ws.jsonl")


def line(item_id: int, ts: str, content: str) -> str:
    record = {"id": item_id, "ts": ts, "kind": "fact", "content": content}
    return json.dumps(record) + "\n"


def test_both_scopes_are_merged_newest_first(tmp_path: Path, scopes: MemoryScopes) -> None:
    (tmp_path / "user.jsonl").write_text(
        line(1, "2026-01-01T00:00:00Z", "oldest") + line(2, "2026-01-03T00:00:00Z", "newest")
    )
    (tmp_path / "ws.jsonl").write_text(line(1, "2026-01-02T00:00:00Z", "middle"))
    assert [item.content for item in scopes.items()] == ["newest", "middle", "oldest"]
    assert [item.scope for item in scopes.items()] == ["user", "workspace", "user"]
    assert [item.content for item in scopes.items("workspace")] == ["middle"]


def test_an_id_that_fits_both_scopes_needs_the_scope(scopes: MemoryScopes) -> None:
    scopes.store("user").add("fact", "of the user")
    scopes.store("workspace").add("fact", "of the workspace")
    with pytest.raises(InvalidArgument, match="say which scope") as caught:
        scopes.forget(1)
    assert caught.value.data == {"path": "scope"}
    with pytest.raises(InvalidArgument, match="say which scope"):
        scopes.edit(1, "x")
    assert scopes.forget(1, "user") == 1
    assert [item.content for item in scopes.items()] == ["of the workspace"]
    assert scopes.forget(1) == 1
    assert scopes.items() == ()


def test_an_id_that_is_not_active_is_forgotten_zero_times(scopes: MemoryScopes) -> None:
    assert scopes.forget(7) == 0
    scopes.store("user").add("fact", "x")
    assert (scopes.forget(1), scopes.forget(1)) == (1, 0)
    with pytest.raises(NotFound, match="no item 1"):
        scopes.edit(1, "y")


def test_edit_finds_the_scope(scopes: MemoryScopes) -> None:
    scopes.store("user").add("fact", "x")
    assert scopes.edit(1, "y") == 2
    assert [(item.scope, item.content) for item in scopes.items()] == [("user", "y")]


def test_clear_takes_one_scope_or_both(scopes: MemoryScopes) -> None:
    for content in ("a", "b"):
        scopes.store("user").add("fact", content)
        scopes.store("workspace").add("fact", content)
    assert scopes.clear("user") == 2
    assert scopes.clear() == 2
    assert scopes.items() == ()


def test_an_unknown_scope_is_refused(scopes: MemoryScopes) -> None:
    for call in (lambda: scopes.items("team"), lambda: scopes.forget(1, "team")):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="workspace, user"):
            call()


def test_old_items_are_hidden_and_not_deleted(tmp_path: Path, scopes: MemoryScopes) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    (tmp_path / "ws.jsonl").write_text(
        line(1, "2020-01-01T00:00:00Z", "old") + line(2, f"{yesterday:%Y-%m-%dT%H:%M:%SZ}", "new")
    )
    scopes.prune_older_than_days = 30
    assert [item.content for item in scopes.items()] == ["new"]
    assert scopes.forget(1) == 1
    scopes.prune_older_than_days = None
    assert [item.content for item in scopes.items()] == ["new"]


def test_a_file_that_cannot_be_read_is_told_once_and_the_other_scope_stands(
    tmp_path: Path, scopes: MemoryScopes
) -> None:
    (tmp_path / "user.jsonl").write_text('{"meta": {"version": 2}}\n')
    scopes.store("workspace").add("fact", "x")
    (trouble,) = scopes.refresh()
    assert "newer version" in trouble
    assert scopes.refresh() == []
    assert [item.content for item in scopes.items()] == ["x"]
    with pytest.raises(StoreUnavailable, match="newer version"):
        scopes.items("user")


def test_refresh_sees_what_other_processes_did(tmp_path: Path, scopes: MemoryScopes) -> None:
    assert scopes.refresh() == []
    other = MemoryScopes.open(tmp_path / "user.jsonl", tmp_path / "ws.jsonl")
    other.store("user").add("fact", "x")
    assert scopes.refresh() == []
    assert [item.content for item in scopes.items()] == ["x"]
