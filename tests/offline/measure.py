"""Asks the whole corpus, or some families of it, prints what fails, and records the outcomes.

``python tests/offline/measure.py [FAMILY ...]``
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus import Entry, entries
from grading import Grade, grade
from outcomes import record


def main(families: list[str]) -> None:
    """Measure and print."""
    chosen = [entry for entry in entries() if not families or entry.family in families]
    counts: Counter[str] = Counter()
    grades: list[Grade] = []
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for found in pool.map(_grade, chosen, chunksize=4):
            for one in found:
                grades.append(one)
                counts[one.outcome] += 1
                if one.outcome != "right":
                    sys.stdout.write(f"{one.outcome}: {one.entry.id}: {one.question}\n")
                    sys.stdout.write("".join(f"    CMD: {command}\n" for command in one.commands))
                    sys.stdout.write("".join(f"    {line}\n" for line in one.why.split("\n")[:12]))
    record(grades)
    asked = sum(counts.values())
    for outcome, count in counts.items():
        sys.stdout.write(f"{outcome}: {count} of {asked} ({count / asked:.1%})\n")


def _grade(entry: Entry) -> list[Grade]:
    return asyncio.run(grade(entry))


if __name__ == "__main__":
    main(sys.argv[1:])
