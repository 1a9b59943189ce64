"""Any sequence of operations through two stores on one file, against a model of it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aish_lsp.foundation.errors import NotFound
from aish_lsp.memory.items import normalized
from aish_lsp.memory.store import MemoryStore

texts = st.sampled_from(["one", "One!", "two", "three", "\U0001f680", "fo\nur", "..."])
which = st.integers(0, 1)


class MemoryMachine(RuleBasedStateMachine):
    """The model: the items that are active, and every id ever given."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "memory.jsonl"
        self.stores = [MemoryStore(self.path), MemoryStore(self.path)]
        self.active: dict[int, str] = {}
        self.given = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def same(self, content: str) -> int | None:
        wanted = normalized(content)
        return next((i for i, text in self.active.items() if normalized(text) == wanted), None)

    def is_new(self, item_id: int) -> None:
        assert item_id > self.given
        self.given = item_id

    @rule(store=which, content=texts)
    def add(self, store: int, content: str) -> None:
        added = self.stores[store].add("fact", content)
        assert added.duplicate == (self.same(content) is not None)
        if added.duplicate:
            assert added.id == self.same(content)
        else:
            self.is_new(added.id)
            self.active[added.id] = content

    @rule(store=which, item_id=st.integers(1, 12))
    def forget(self, store: int, item_id: int) -> None:
        assert self.stores[store].forget(item_id) == (item_id in self.active)
        if self.active.pop(item_id, None) is not None:
            self.given += 1

    @rule(store=which, item_id=st.integers(1, 12), content=texts)
    def edit(self, store: int, item_id: int, content: str) -> None:
        if item_id not in self.active:
            try:
                self.stores[store].edit(item_id, content)
            except NotFound:
                return
            raise AssertionError("an item that is not there was edited")
        same, old = self.same(content), self.active[item_id]
        new_id = self.stores[store].edit(item_id, content)
        if content == old:
            assert new_id == item_id
            return
        del self.active[item_id]
        if same is not None and same != item_id:
            assert new_id == same
            self.given += 1
        else:
            self.is_new(new_id)
            self.given += 1
            self.active[new_id] = content

    @rule(store=which)
    def clear(self, store: int) -> None:
        assert self.stores[store].clear() == len(self.active)
        self.given += len(self.active)
        self.active.clear()

    @rule(store=which)
    def compact(self, store: int) -> None:
        self.stores[store].compact()

    @rule(store=which)
    def restart(self, store: int) -> None:
        self.stores[store] = MemoryStore(self.path)

    @precondition(lambda self: self.path.exists() and self.path.stat().st_size)
    @rule(torn=st.sampled_from([b"{", b'{"id": 1000', b"\xf0\x9f"]))
    def crash_in_mid_write(self, torn: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(torn)

    @rule(store=which)
    def look(self, store: int) -> None:
        self.stores[store].refresh()
        shown = {item.id: item.content for item in self.stores[store].items()}
        assert shown == self.active

    @invariant()
    def ids_rise_in_the_file(self) -> None:
        if not self.path.exists():
            return
        ids = []
        for line in self.path.read_bytes().split(b"\n"):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if "id" in record:
                ids.append(record["id"])
        assert ids == sorted(set(ids))


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
