"""Export, import, listing, and clearing by the user's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.cli.memory import Imported, exported, import_items
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.ports import Question, nobody
from aish_lsp.memory.scopes import MemoryScopes, clear_by_consent, listed

TS = "2026-05-13T19:01:01Z"
KEY = "plain looking key"


@pytest.fixture
def memory(tmp_path: Path) -> MemoryScopes:
    return opened(tmp_path / "here")


def opened(folder: Path) -> MemoryScopes:
    return MemoryScopes.open(folder / "user.jsonl", folder / "ws.jsonl", lambda text: KEY in text)


def text(*records: dict[str, Any] | str) -> bytes:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return "".join(f"{line}\n" for line in lines).encode()


def outcomes(results: list[Imported]) -> list[tuple[int, str, int | None]]:
    return [(result.line, result.outcome, result.id) for result in results]


def test_an_export_comes_back_whole_in_another_place(memory: MemoryScopes, tmp_path: Path) -> None:
    source = {"session": "s", "how": "user"}
    memory.add("fact", "of the workspace \u2028 \x00", tags=["a"], source=source)
    memory.add("fact", "forgotten")
    memory.add("pref", "of the user", scope="user")
    memory.add("context", "later")
    memory.forget(2)
    memory.prune_older_than_days = 0
    data = "\n".join(exported(memory)).encode()
    assert [line.get("scope") for line in map(json.loads, data.splitlines())] == [
        None,
        "workspace",
        "workspace",
        "user",
    ]
    other = opened(tmp_path / "there")
    other.add("fact", "there before")
    assert outcomes(import_items(other, data)) == [
        (2, "added", 2),
        (3, "added", 3),
        (4, "added", 1),
    ]
    old = {(item.scope, item.content): item for item in memory.store("workspace").items()}
    new = {(item.scope, item.content): item for item in other.items()}
    for key, item in old.items():
        assert (new[key].ts, new[key].kind, new[key].tags) == (item.ts, item.kind, item.tags)
    assert new["workspace", "of the workspace \u2028 \x00"].source == {
        "how": "import",
        "from": source,
    }
    again = import_items(other, "\n".join(exported(other)).encode())
    assert {result.outcome for result in again} == {"duplicate"}


def test_one_scope_is_exported_and_all_of_it_goes_into_the_scope_that_is_named(
    memory: MemoryScopes, tmp_path: Path
) -> None:
    memory.add("fact", "w")
    memory.add("fact", "u", scope="user")
    data = "\n".join(exported(memory, "user")).encode()
    other = opened(tmp_path / "there")
    assert import_items(other, data, scope="workspace") == [Imported(2, "added", 1, "workspace")]
    assert [(item.scope, item.content) for item in other.items()] == [("workspace", "u")]


def test_an_import_says_what_became_of_each_line(memory: MemoryScopes) -> None:
    memory.add("fact", "known already")
    item = {"id": 7, "ts": TS, "kind": "fact"}
    data = text(
        {"meta": {"version": 1}},
        {**item, "content": "Known   ALREADY."},
        {"kind": "pref", "content": "no id, no time"},
        {"kind": "fact", "content": "No id, no time!"},
        {**item, "content": "forgotten there"},
        {"id": 8, "ts": TS, "kind": "forget", "target": 7},
        {"kind": "fact", "content": "password=hunter2"},
        {"kind": "fact", "content": f"use {KEY}"},
        {"kind": "rumor", "content": "x"},
        {"kind": "fact", "content": ["x"]},
        {"kind": "fact", "content": "x", "tags": "a"},
        {"kind": "fact", "content": "x", "scope": ["team"]},
        '{"kind": "fact", "content": "x", "more": 1e999}',
        "nonsense",
        '["x"]',
        "",
        {"kind": "fact", "content": "last", "ts": "yesterday", "colour": "red"},
        '{"torn',
    ).removesuffix(b"\n")
    results = import_items(memory, data)
    # Item 7 stands on line 2 too: the tombstone hides both.
    assert outcomes(results) == [
        (2, "forgotten", None),
        (3, "added", 2),
        (4, "duplicate", 2),
        (5, "forgotten", None),
        *((line, "refused", None) for line in range(7, 16)),
        (17, "added", 3),
        (18, "refused", None),
    ]
    reasons = [result.reason for result in results if result.outcome == "refused"]
    words = ["password", "key of a model", "kind", "empty", "tags", "scope", "number", "not JSON"]
    words += ["not an object", "not JSON"]
    for reason, word in zip(reasons, words, strict=True):
        assert word in reason
    last = json.loads((memory.store("workspace").path).read_text().splitlines()[-1])
    assert last["colour"] == "red"
    assert last["ts"] > TS


@pytest.mark.parametrize("force", [False, True])
def test_force_takes_what_looks_like_a_secret_but_no_models_key(
    memory: MemoryScopes, *, force: bool
) -> None:
    data = text(
        {"kind": "fact", "content": "password=hunter2"}, {"kind": "fact", "content": f"x {KEY}"}
    )
    first, second = import_items(memory, data, force=force)
    assert (first.outcome, second.outcome) == ("added" if force else "refused", "refused")


def test_what_a_newer_version_exported_is_not_taken(memory: MemoryScopes) -> None:
    data = text({"kind": "fact", "content": "x"}, {"meta": {"version": 2}})
    with pytest.raises(InvalidArgument, match=r"newer version.*Update aish-lsp"):
        import_items(memory, data)
    assert memory.items() == ()


def test_nothing_to_import_makes_no_file(memory: MemoryScopes) -> None:
    assert import_items(memory, b"") == []
    assert not memory.store("workspace").path.exists()


def test_an_edit_holds_no_models_key(memory: MemoryScopes) -> None:
    memory.add("fact", "x")
    with pytest.raises(InvalidArgument, match="key of a model"):
        memory.edit(1, f"now {KEY}")
    assert [item.content for item in memory.items()] == ["x"]


def test_compaction_takes_one_scope_or_both_and_makes_no_file(memory: MemoryScopes) -> None:
    assert memory.compact() == 0
    assert not memory.store("user").path.exists()
    for scope in ("user", "workspace"):
        memory.add("fact", "x", scope=scope)
        memory.forget(1, scope)
    assert memory.compact("user") == 2
    assert memory.compact() == 2


def test_a_compaction_removes_what_a_crash_in_one_left(memory: MemoryScopes) -> None:
    memory.add("fact", "x")
    path = memory.store("workspace").path
    left = path.with_name(f".{path.name}.abc123.tmp")
    left.write_text("what was forgotten")
    other = path.with_name(".other.jsonl.abc123.tmp")
    other.write_text("of somebody else")
    memory.compact()
    assert not left.exists()
    assert other.exists()


def test_the_list_says_what_the_model_is_told(memory: MemoryScopes) -> None:
    memory.add("fact", "an old one", tags=["Ops"])
    memory.add("fact", "a new one", scope="user")
    short = len("- (fact) an old one") + 1
    told = [item.injected for item in listed(memory, short)]
    assert sorted(told) == [False, True]
    assert [item.content for item in listed(memory, 2000, "user")] == ["a new one"]
    assert [item.content for item in listed(memory, 2000, query="oPS")] == ["an old one"]
    assert listed(memory, 2000, query="nothing") == []


async def test_memory_is_cleared_by_a_yes_alone(memory: MemoryScopes) -> None:
    asked: list[str] = []

    async def say(answer: bool | None) -> int | None:
        async def ask_user(question: Question) -> bool | None:
            asked.append(question.message)
            return answer

        return await clear_by_consent(memory, None, ask_user)

    assert await say(True) == 0
    memory.add("fact", "x")
    memory.add("fact", "y")
    memory.add("fact", "z", scope="user")
    assert await clear_by_consent(memory, None, nobody) is None
    assert (await say(None), await say(False)) == (None, None)
    assert len(memory.items()) == 3
    assert await say(True) == 3
    assert memory.items() == ()
    assert asked[-1] == (
        "Forget all items of the memory: 2 of this workspace and 1 of yours, for all workspaces?"
    )


async def test_what_comes_while_the_question_stands_is_kept(
    memory: MemoryScopes, tmp_path: Path
) -> None:
    for content in ("one", "two", "three", "four"):
        memory.add("fact", content)
    elsewhere = opened(tmp_path / "here")

    async def slowly(_: Question) -> bool | None:
        memory.add("fact", "mine of just now")
        elsewhere.add("fact", "of another editor")
        elsewhere.add("pref", "of the user", scope="user")
        elsewhere.edit(2, "two, changed")
        elsewhere.forget(3)
        elsewhere.compact("workspace")
        path = memory.store("workspace").path
        path.write_text(path.read_text().replace("four", "four, by hand"))
        return True

    assert await clear_by_consent(memory, None, slowly) == 1
    assert {item.content for item in memory.items()} == {
        "mine of just now",
        "of another editor",
        "of the user",
        "two, changed",
        "four, by hand",
    }


async def test_one_scope_is_cleared_what_is_hidden_for_its_age_too(memory: MemoryScopes) -> None:
    data = text({"kind": "fact", "content": "old", "ts": "2020-01-01T00:00:00Z"})
    import_items(memory, data)
    memory.add("fact", "kept", scope="user")
    memory.prune_older_than_days = 30

    async def yes(_: Question) -> bool | None:
        return True

    assert await clear_by_consent(memory, "workspace", yes) == 1
    memory.prune_older_than_days = None
    assert [item.content for item in memory.items()] == ["kept"]
