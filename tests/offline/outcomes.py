"""The figures of the last whole run: `outcomes.json`, which `measure.py` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from corpus import entries
from grading import Grade, Outcome

PATH = Path(__file__).resolve().parent / "outcomes.json"


def recorded() -> dict[str, dict[str, Outcome]]:
    """Return, for each entry that is not all right, the outcome of those phrasings that are not."""
    found: dict[str, dict[str, Outcome]] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return found


def record(grades: Iterable[Grade]) -> None:
    """Write down the outcomes in ``grades``; those of other entries stay."""
    kept = recorded()
    for grade in grades:
        kept.setdefault(grade.entry.id, {})[grade.question] = grade.outcome
    known = {entry.id: entry.ask for entry in entries()}
    failing = {
        name: {ask: outcome for ask, outcome in sorted(kept[name].items()) if outcome != "right"}
        for name in sorted(kept.keys() & known.keys())
    }
    failing = {
        name: {a: o for a, o in asks.items() if a in known[name]} for name, asks in failing.items()
    }
    text = json.dumps(
        {name: asks for name, asks in failing.items() if asks}, indent=1, ensure_ascii=False
    )
    PATH.write_text(f"{text}\n")
