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
from typing import Final, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus import Entry, entries
from grading import Grade, Outcome, grade
from outcomes import record

#: What docs/offline.md calls the questions, by the beginning of their families' names.
_KINDS: Final = {
    "written with the table": "",
    "written without it, and used to improve it": "blind_",
    "**written without it, and no phrasing mended with it**": "unseen_",
}


def main(families: list[str], *, totals: bool = False) -> None:
    """Measure and print."""
    chosen = [entry for entry in entries() if not families or entry.family in families]
    grades: list[Grade] = []
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for found in pool.map(_grade, chosen, chunksize=4):
            for one in found:
                grades.append(one)
                if one.outcome != "right" and not totals:
                    sys.stdout.write(_told(one))
    record(grades)
    sys.stdout.write("| | phrasings | right | silent | wrong |\n|---|---:|---:|---:|---:|\n")
    for name, prefix in _KINDS.items():
        counts = Counter(one.outcome for one in grades if _kind(one.entry) == prefix)
        asked = counts.total()
        shares = (f"{counts[one] / max(1, asked):.1%}" for one in get_args(Outcome))
        sys.stdout.write(f"| {name} | {asked} | {' | '.join(shares)} |\n")


def _kind(entry: Entry) -> str:
    """Return the prefix of the entry's family: what was used to improve the table, and what not."""
    return next((prefix for prefix in ("blind_", "unseen_") if entry.family.startswith(prefix)), "")


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
