"""Asks the whole corpus, or some families of it, prints what fails, and records the outcomes.

``python tests/offline/measure.py [--totals] [FAMILY ...]``: with ``--totals`` it prints the figures
alone, and no question.
"""

from __future__ import annotations

import argparse
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


def main(families: list[str], *, totals: bool = False) -> None:
    """Measure and print."""
    chosen = [entry for entry in entries() if not families or entry.family in families]
    counts: Counter[str] = Counter()
    grades: list[Grade] = []
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for found in pool.map(_grade, chosen, chunksize=4):
            for one in found:
                grades.append(one)
                counts[one.outcome] += 1
                if one.outcome != "right" and not totals:
                    sys.stdout.write(_told(one))
    record(grades)
    asked = sum(counts.values())
    for outcome, count in counts.items():
        sys.stdout.write(f"{outcome}: {count} of {asked} ({count / asked:.1%})\n")


def _told(one: Grade) -> str:
    lines = [f"{one.outcome}: {one.entry.id}: {one.question}"]
    lines += (f"    CMD: {command}" for command in one.commands)
    lines += (f"    {line}" for line in one.why.split("\n")[:12])
    return "\n".join(lines) + "\n"


def _grade(entry: Entry) -> list[Grade]:
    return asyncio.run(grade(entry))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--totals", action="store_true", help="print the figures alone")
    parser.add_argument("family", nargs="*")
    given = parser.parse_args()
    main(given.family, totals=given.totals)
