"""One memory.jsonl: its format, its ids, and what other processes and people do to it."""

from __future__ import annotations

import gc
import json
import os
import stat
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation import jsonl
from aish_lsp.foundation.errors import InvalidArgument, NotFound, StoreUnavailable
from aish_lsp.memory import store as memory_store
from aish_lsp.memory.store import AddedItem, MemoryStore

TS = "2026-05-13T19:01:01Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def contents(store: MemoryStore) -> list[str]:
    store.refresh()
    return [item.content for item in store.items()]


def write(path: Path, *records: dict[str, Any] | str) -> None:
    path.parent.mkdir(exist_ok=True)
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{text}\n" for text in texts))


def fact(item_id: int, content: str, ts: str = TS) -> dict[str, Any]:
    return {"id": item_id, "ts": ts, "kind": "fact", "content": content}


# The format


def test_the_lines_are_those_of_the_contract(path: Path) -> None:
    store = MemoryStore(path)
    source = {"session": "s", "how": "user"}
    assert store.add("fact", "Deploy: make ship", tags=["ops"], source=source) == AddedItem(
        1, False
    )
    assert store.add("pref", "Terse.") == AddedItem(2, False)
    assert store.forget(2)
    header, first, second, tombstone = lines(path)
    assert header.keys() == {"meta"}
    assert header["meta"]["version"] == 1
    assert list(first) == ["id", "ts", "kind", "content", "tags", "source"]
    assert first | {"ts": TS} == {
        **fact(1, "Deploy: make ship"),
        "tags": ["ops"],
        "source": source,
    }
    assert second | {"ts": TS} == {"id": 2, "ts": TS, "kind": "pref", "content": "Terse."}
    assert tombstone | {"ts": TS} == {"id": 3, "ts": TS, "kind": "forget", "target": 2}
    assert path.read_bytes().endswith(b"\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_example_of_the_seed(path: Path) -> None:
    write(
        path,
        fact(1, "User prefers terse responses."),
        {"id": 2, "ts": "2026-05-13T19:01:35Z", "kind": "pref", "content": "Use deep."},
        {
            "id": 3,
            "ts": "2026-05-13T19:02:00Z",
            "kind": "context",
            "content": "aish",
            "tags": ["a"],
        },
        {"id": 4, "ts": "2026-05-13T20:00:00Z", "kind": "forget", "target": 2},
    )
    store = MemoryStore(path, "user")
    assert [(item.id, item.kind, item.tags, item.scope) for item in store.items()] == [
        (3, "context", ("a",), "user"),
        (1, "fact", (), "user"),
    ]
    assert store.notices == ()


def test_items_come_newest_first_whatever_the_clock_did(path: Path) -> None:
    write(
        path,
        fact(1, "middle", "2026-05-13T19:01:01Z"),
        fact(2, "same second, later", "2026-05-13T19:01:01Z"),
        fact(3, "clock jumped back", "2020-01-01T00:00:00Z"),
        fact(4, "newest", "2026-06-01T00:00:00Z"),
    )
    assert contents(MemoryStore(path)) == [
        "newest",
        "same second, later",
        "middle",
        "clock jumped back",
    ]


def test_tombstones_count_wherever_they_stand(path: Path) -> None:
    write(
        path,
        {"id": 1, "ts": TS, "kind": "forget", "target": 3},
        {"id": 2, "ts": TS, "kind": "forget", "target": 99},
        fact(3, "hidden by what stands before it"),
        fact(4, "kept"),
        {"id": 5, "ts": TS, "kind": "forget", "target": 3},
    )
    store = MemoryStore(path)
    assert contents(store) == ["kept"]
    assert store.notices == ()
    assert store.add("fact", "new").id == 6


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "memory.jsonl"
    if not content.strip():
        with pytest.raises(InvalidArgument):
            MemoryStore(path).add("fact", content, force=True)
        return
    MemoryStore(path).add("fact", content, force=True)
    assert contents(MemoryStore(path)) == [content]


@pytest.mark.parametrize(
    "content",
    ["a\x00b", "\x1b[31m", "x" * 65536, "\U0001f680 \U0010ffff \ue000", "a\u2028b\x85c\rd"],
)
def test_odd_contents_come_back_as_they_were(path: Path, content: str) -> None:
    MemoryStore(path).add("fact", content)
    assert contents(MemoryStore(path)) == [content]


# Refusals


@pytest.mark.parametrize(
    ("kind", "content", "tags", "field"),
    [
        ("forget", "x", [], "kind"),
        ("", "x", [], "kind"),
        ("fact", "", [], "content"),
        ("fact", " \n", [], "content"),
        ("fact", "half \ud83d", [], "content"),
        ("fact", "password=hunter2", [], "content"),
        ("fact", "x", [""], "tags"),
    ],
)
def test_what_cannot_be_remembered_is_refused_and_nothing_is_written(
    path: Path, kind: Any, content: str, tags: list[str], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        MemoryStore(path).add(kind, content, tags=tags)
    assert caught.value.data == {"path": field}
    assert not path.exists()


def test_a_secret_is_refused_with_the_reason_unless_forced(path: Path) -> None:
    store = MemoryStore(path)
    with pytest.raises(InvalidArgument, match=r"a password or key.*force"):
        store.add("fact", "password=hunter2")
    assert store.add("fact", "password=hunter2", force=True).id == 1
    with pytest.raises(InvalidArgument, match="a password or key"):
        store.edit(1, "password=hunter3")


# Duplicates, edit, forget, clear


@pytest.mark.parametrize(
    "again", ["Deploy with make ship", "  deploy\tWITH make\nship!", "DEPLOY with make ship. "]
)
def test_the_same_again_gives_the_id_that_is_there(path: Path, again: str) -> None:
    store = MemoryStore(path)
    store.add("fact", "Deploy with make ship.")
    before = path.read_bytes()
    assert store.add("pref", again) == AddedItem(1, True)
    assert MemoryStore(path).add("fact", again) == AddedItem(1, True)
    assert path.read_bytes() == before


def test_what_was_forgotten_may_be_added_again(path: Path) -> None:
    store = MemoryStore(path)
    store.add("fact", "x")
    store.add("fact", "y")
    assert store.add("fact", "X") == AddedItem(1, True)
    store.forget(1)
    assert store.add("fact", "x") == AddedItem(4, False)
    assert store.add("fact", "x") == AddedItem(4, True)


def test_of_items_that_say_the_same_the_next_one_is_found(path: Path) -> None:
    write(path, fact(1, "x"), fact(2, "X"), fact(3, "y"), fact(4, "x"))
    store = MemoryStore(path)
    found = []
    for forgotten in (3, 1, 2, 4):
        found.append(store.add("fact", "x"))
        store.forget(forgotten)
    assert found == [AddedItem(1, True), AddedItem(1, True), AddedItem(2, True), AddedItem(4, True)]
    assert store.add("fact", "x") == AddedItem(9, False)


def test_forgetting_an_item_keeps_the_index_of_texts(path: Path) -> None:
    store = MemoryStore(path)
    for text in ("x", "y"):
        store.add("fact", text)
    index = store._contents._by_text
    store.forget(1)
    assert store.add("fact", "y") == AddedItem(2, True)
    assert store._contents._by_text is index is not None
    assert store.add("fact", "x") == AddedItem(4, False)


def test_texts_of_nothing_but_punctuation_are_told_apart(path: Path) -> None:
    store = MemoryStore(path)
    assert [store.add("fact", text).duplicate for text in ("...", "!!!", "...")] == [
        False,
        False,
        True,
    ]


def test_forget_is_true_once(path: Path) -> None:
    store = MemoryStore(path)
    store.add("fact", "x")
    assert [store.forget(1), store.forget(1), store.forget(9)] == [True, False, False]
    assert len(lines(path)) == 3


def test_edit_is_a_new_item_and_a_tombstone(path: Path) -> None:
    write(path, {**fact(1, "old"), "tags": ["t"], "source": {"how": "user"}, "colour": "red"})
    store = MemoryStore(path)
    assert store.edit(1, "new") == 2
    *_, item, tombstone = lines(path)
    assert item["ts"] > TS
    assert item | {"ts": TS} == {
        **fact(2, "new"),
        "tags": ["t"],
        "source": {"how": "user"},
        "colour": "red",
    }
    assert (tombstone["id"], tombstone["target"]) == (3, 1)
    assert contents(store) == ["new"]


def test_edit_of_nothing_and_into_what_is_there(path: Path) -> None:
    store = MemoryStore(path)
    with pytest.raises(NotFound, match="no item 1"):
        store.edit(1, "x")
    store.add("fact", "one")
    store.add("fact", "two")
    assert store.edit(1, "one") == 1
    assert store.edit(1, "Two!") == 2
    assert contents(store) == ["two"]
    assert store.edit(2, "TWO") == 4
    assert contents(store) == ["TWO"]


def test_clear_is_a_tombstone_for_each(path: Path) -> None:
    store = MemoryStore(path)
    assert store.clear() == 0
    for content in "abc":
        store.add("fact", content)
    store.forget(2)
    assert store.clear() == 2
    assert contents(store) == []
    assert [line["target"] for line in lines(path) if line.get("kind") == "forget"] == [2, 1, 3]
    assert store.add("fact", "d").id == 7


# Several at once


def test_two_stores_on_one_file_give_no_id_twice_and_see_each_other(path: Path) -> None:
    one, two = MemoryStore(path), MemoryStore(path)
    ids = [store.add("fact", f"{n}").id for n, store in enumerate([one, two, one, two, two, one])]
    assert ids == [1, 2, 3, 4, 5, 6]
    assert two.forget(1)
    assert one.refresh()
    assert not one.refresh()
    assert one.items() == (two.refresh(), two.items())[1]
    assert one.add("fact", "3") == AddedItem(4, True)


def test_a_change_of_another_process_is_seen_by_refresh(path: Path) -> None:
    store = MemoryStore(path)
    assert not store.refresh()
    store.add("fact", "x")
    MemoryStore(path).add("fact", "y")
    assert [item.content for item in store.items()] == ["x"]
    assert store.refresh()
    assert [item.content for item in store.items()] == ["y", "x"]
    path.unlink()
    assert store.refresh()
    assert store.items() == ()


def test_two_writers_in_turn_do_not_parse_the_whole_file_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = MemoryStore(path), MemoryStore(path)
    one.add("fact", "first")
    other.items()
    parsed: list[int] = []

    def counted(data: bytes, first_number: int = 1) -> Any:
        parsed.append(data.count(b"\n"))
        return jsonl.iter_jsonl(data, first_number)

    monkeypatch.setattr(memory_store, "iter_jsonl", counted)
    for number in range(100):
        one.add("fact", f"one {number}")
        other.add("fact", f"other {number}")
        other.refresh()
    # Each of the 200 lines by both, but the last.
    assert sum(parsed) == 2 * 200 - 1
    assert sorted(contents(one)) == sorted(contents(other))
    assert len(contents(one)) == 201


def test_an_edit_by_hand_is_seen_also_where_another_process_appended(path: Path) -> None:
    store = MemoryStore(path)
    store.add("fact", "we use tabs")
    store.add("fact", "other")
    MemoryStore(path).add("fact", "third")
    path.write_text(path.read_text().replace("tabs", "rows"))
    store.add("fact", "fourth")
    assert contents(store) == ["fourth", "third", "other", "we use rows"]


def test_ids_are_not_given_again_after_the_file_was_cut_or_replaced(path: Path) -> None:
    store = MemoryStore(path)
    for content in "abc":
        store.add("fact", content)
    os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
    assert store.add("fact", "d").id == 4
    path.unlink()
    assert store.add("fact", "e").id == 5
    assert lines(path)[0]["meta"]["version"] == 1
    replacement = path.with_name("new")
    write(replacement, fact(1, "mine"), fact(9, "too"))
    replacement.rename(path)
    assert store.add("fact", "f").id == 10
    assert contents(store) == ["f", "too", "mine"]


# Damage


def test_a_torn_last_line_is_put_aside_with_a_notice(path: Path) -> None:
    MemoryStore(path).add("fact", "whole")
    sound = path.read_bytes()
    path.write_bytes(sound + b'{"id": 2, "ts": "2026-\xc3')
    store = MemoryStore(path)
    assert contents(store) == ["whole"]
    assert path.read_bytes() == sound
    (aside,) = path.parent.glob("memory.jsonl.torn-*")
    assert aside.read_bytes() == b'{"id": 2, "ts": "2026-\xc3'
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    (notice,) = store.notices
    assert aside.name in notice
    assert store.add("fact", "next").id == 2


def test_two_torn_lines_in_one_second_are_both_kept(path: Path) -> None:
    store = MemoryStore(path)
    store.add("fact", "whole")
    for number in range(3):
        with path.open("ab") as file:
            file.write(b'{"torn": %d' % number)
        store.add("fact", f"item {number}")
    asides = sorted(aside.read_bytes() for aside in path.parent.glob("memory.jsonl.torn-*"))
    assert asides == [b'{"torn": 0', b'{"torn": 1', b'{"torn": 2']
    assert len(contents(store)) == 4


def test_a_last_line_without_its_line_end_is_whole(path: Path) -> None:
    write(path, fact(1, "one"))
    path.write_text(path.read_text() + json.dumps(fact(2, "typed by hand")))
    store = MemoryStore(path)
    assert contents(store) == ["typed by hand", "one"]
    assert store.add("fact", "three").id == 3
    assert contents(store)[0] == "three"
    assert [line["id"] for line in lines(path)] == [1, 2, 3]
    assert store.notices == ()


def test_a_file_that_was_torn_in_its_header_starts_over(path: Path) -> None:
    write(path)
    path.write_text('{"meta": {"ver')
    store = MemoryStore(path)
    assert store.add("fact", "x").id == 1
    assert [next(iter(line)) for line in lines(path)] == ["meta", "id"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{broken", "it is not JSON"),
        ("[1, 2]", "it is not an object"),
        ({"id": 0, "ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"id": True, "ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"id": 2**53, "ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"id": "2", "ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"id": [1], "ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"ts": TS, "kind": "fact", "content": "x"}, "its id is not a whole number"),
        ({"id": 5, "ts": TS, "kind": "note", "content": "x"}, "its kind is not one of"),
        ({"id": 5, "ts": TS, "kind": ["fact"], "content": "x"}, "its kind is not one of"),
        ({"id": 5, "ts": 1, "kind": "fact", "content": "x"}, "its ts is not a text"),
        ({"id": 5, "ts": TS, "kind": "fact", "content": None}, "its content is not a text"),
        ({"id": 5, "ts": TS, "kind": "fact", "content": "x", "tags": "a"}, "its tags"),
        ({"id": 5, "ts": TS, "kind": "fact", "content": "x", "tags": [1]}, "its tags"),
        ({"id": 5, "ts": TS, "kind": "fact", "content": "x", "source": 1}, "its source"),
        ({"id": 5, "ts": TS, "kind": "forget", "target": "1"}, "its target is not a whole number"),
        ({"id": 1, "ts": TS, "kind": "fact", "content": "twice"}, "the id 1 is on an earlier line"),
        ({"meta": {"version": "1"}}, "the header has no version"),
        ({"meta": 1}, "the header has no version"),
    ],
)
def test_a_bad_line_is_reported_with_its_number_skipped_and_kept(
    path: Path, bad: dict[str, Any] | str, reason: str
) -> None:
    write(path, fact(1, "before"), bad, fact(7, "after"))
    before = path.read_text()
    store = MemoryStore(path)
    assert sorted(contents(store)) == ["after", "before"]
    (notice,) = store.notices
    assert "line 2" in notice
    assert reason in notice
    assert store.add("fact", "new").id == 8
    store.compact()
    assert path.read_text().startswith(before)
    assert len(store.notices) == 1


def test_no_id_of_a_bad_line_is_given_again(path: Path) -> None:
    write(path, {"id": 41, "ts": TS, "kind": "note", "content": "from elsewhere"})
    assert MemoryStore(path).add("fact", "x").id == 42


def test_the_last_id_is_not_passed(path: Path) -> None:
    write(path, fact(2**53 - 2, "x"))
    store = MemoryStore(path)
    assert store.add("fact", "y").id == 2**53 - 1
    with pytest.raises(StoreUnavailable, match="no ids left"):
        store.add("fact", "z")


def test_a_file_of_a_newer_version_is_not_touched(path: Path) -> None:
    write(path, {"meta": {"version": 2}}, {"id": 1, "what": "unknown"}, '{"torn')
    before = path.read_bytes()
    store = MemoryStore(path)
    for call in (
        store.refresh,
        store.items,
        lambda: store.add("fact", "x"),
        lambda: store.forget(1),
        lambda: store.edit(1, "x"),
        store.clear,
        store.compact,
    ):
        with pytest.raises(StoreUnavailable, match=r"newer version.*Update aish-lsp"):
            call()
    assert path.read_bytes() == before
    write(path, {"meta": {"version": 1}}, fact(1, "x"))
    assert contents(store) == ["x"]


# Compaction


def test_compact_drops_what_is_forgotten_and_keeps_the_rest_as_it_is(path: Path) -> None:
    write(
        path,
        {"meta": {"version": 1, "owner": "me"}},
        {**fact(1, "kept"), "unknown": [1]},
        fact(2, "forgotten"),
        "bad line",
        {"id": 3, "ts": TS, "kind": "forget", "target": 2},
        {"id": 4, "ts": TS, "kind": "forget", "target": 99},
    )
    store, other = MemoryStore(path), MemoryStore(path)
    other.refresh()
    _, kept, _, bad, *_ = path.read_text().splitlines()
    assert store.compact() == 3
    header, *rest = path.read_text().splitlines()
    assert json.loads(header) == {"meta": {"version": 1, "owner": "me", "highest_id": 4}}
    assert rest == [kept, bad]
    assert contents(store) == ["kept"]
    assert store.compact() == 0
    assert MemoryStore(path).add("fact", "fresh").id == 5
    assert other.add("fact", "other").id == 6
    assert store.add("fact", "mine").id == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# Files that cannot be used


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    store = MemoryStore(tmp_path / "data" / "memory.jsonl")
    with pytest.raises(StoreUnavailable, match=r"data.*(File exists|Not a directory)"):
        store.add("fact", "x")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        store.items()


def test_a_read_only_folder_shows_what_it_has_and_refuses_the_rest(path: Path) -> None:
    MemoryStore(path).add("fact", "x")
    path.with_name("memory.jsonl.lock").unlink()
    path.chmod(0o400)
    path.parent.chmod(0o500)
    if os.access(path, os.W_OK):
        path.parent.chmod(0o700)
        pytest.skip("the superuser may write everywhere")
    try:
        store = MemoryStore(path)
        assert contents(store) == ["x"]
        with pytest.raises(StoreUnavailable, match=r"Permission denied.*AISH_DATA_DIR"):
            store.add("fact", "y")
    finally:
        path.parent.chmod(0o700)


def test_a_torn_line_that_cannot_be_put_aside_is_told_and_the_items_stand(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, fact(1, "x"))
    path.write_text(path.read_text() + '{"torn')

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "ftruncate", refuse)
    store = MemoryStore(path)
    assert contents(store) == ["x"]
    (notice,) = store.notices
    assert "never finished" in notice
    assert "Read-only file system" in notice


def test_an_unsynced_line_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(path)
    store.add("fact", "kept")
    before = path.read_bytes()

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            store.add("fact", "lost")
    assert path.read_bytes() == before
    assert contents(store) == ["kept"]
    assert store.add("fact", "lost") == AddedItem(2, False)


def test_large_memory_with_a_bad_line_is_read_and_leaves_the_garbage_collector_on(
    path: Path,
) -> None:
    lines = [
        {"id": number, "ts": "2026-05-13T19:01:01Z", "kind": "fact", "content": "x" * 1000}
        for number in range(1, 1200)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [*lines, {"id": 0}]))
    store = MemoryStore(path)
    assert len(store.items()) == len(lines)
    assert len(store.notices) == 1
    assert gc.isenabled()


def test_garbage_from_before_a_large_memory_is_read_is_collected(path: Path) -> None:
    class Node:
        itself: Node

    path.parent.mkdir(exist_ok=True)
    line = {"id": 1, "ts": "2026-05-13T19:01:01Z", "kind": "fact", "content": "x" * (2 << 20)}
    path.write_text(f"{json.dumps(line)}\n")
    gc.disable()
    node = Node()
    node.itself = node
    left = weakref.ref(node)
    del node
    gc.enable()
    assert len(MemoryStore(path).items()) == 1
    gc.collect()
    assert left() is None
