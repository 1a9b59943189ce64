"""Memory under sudden death: at random moments of its every step.

The short form runs with all tests; ``AISH_FULL=1`` has hundreds of deaths.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

from killing import Deaths

from aish_lsp.foundation.locks import locked
from aish_lsp.memory.store import MemoryStore

KILLS = 700 if os.environ.get("TESTS_FULL") == "1" else 12

VICTIM = """
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.cli.memory import import_items

memory = MemoryScopes.open(Path(sys.argv[1]).with_name("user.jsonl"), Path(sys.argv[1]))
store = memory.store("workspace")

def text():
    return f"note {chance.random()} " + "x" * chance.choice([0, 0, 100, 5000])

tell("begin", "load")
store.refresh()
tell("done", "load")
while True:
    known = [item.id for item in store.items()]
    step = chance.choices(["add", "edit", "forget", "compact", "import"], [5, 3, 4, 2, 1])[0]
    if step in ("edit", "forget") and not known:
        continue
    target = chance.choice(known) if step in ("edit", "forget") else None
    said = text()
    tell("begin", step, target, said)
    if step == "add":
        tell("done", step, {store.add("fact", said).id: said})
    elif step == "edit":
        tell("done", step, {store.edit(target, said): said}, target)
    elif step == "forget":
        assert store.forget(target)
        tell("done", step, {}, target)
    elif step == "compact":
        store.compact()
        tell("done", step, {})
    else:
        texts = [text() for _ in range(5)]
        lines = [json.dumps({"kind": "pref", "content": each}) for each in texts]
        added = import_items(memory, "\\n".join(lines).encode())
        tell("done", step, {item.id: each for item, each in zip(added, texts, strict=True)})
"""


def ids_in_file(path: Path) -> list[int]:
    """Return the ids of all lines; each of them can be read."""
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert "meta" in records[0]
    return [record["id"] for record in records[1:]]


def test_sudden_death_in_any_step_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    deaths = Deaths(random.Random(20261121))
    expected: dict[int, str] = {}
    for _ in range(KILLS):
        death = deaths.next(VICTIM, path, lines=24)
        gone = set()
        for _, *said in death.done:
            if said:
                expected |= {int(item_id): text for item_id, text in said[0].items()}
                gone.update(said[1:])
        store = MemoryStore(path)
        store.refresh()
        shown = {item.id: item.content for item in store.items()}
        if death.during and death.during[0] in ("edit", "forget"):
            # It came to pass, or it did not; an edit never took the old and left nothing.
            step, target, text = death.during
            assert step == "forget" or target in shown or text in shown.values()
            if target not in shown:
                gone.add(target)
        assert not gone & shown.keys()
        kept = {item_id: text for item_id, text in expected.items() if item_id not in gone}
        assert {item_id: shown.get(item_id) for item_id in kept} == kept
        expected = shown
        ids = ids_in_file(path)
        assert ids == sorted(set(ids))
        with locked(path, timeout=1):
            pass
    torn = len(list(tmp_path.glob("*.torn-*")))
    deaths.tell("sudden death of memory", items=len(expected), torn=torn)
    last = max(ids_in_file(path), default=0)
    assert MemoryStore(path).add("fact", "still works").id > last
