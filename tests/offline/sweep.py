"""Prints how the outcomes change with the confidence below which the model says it does not know.

``python tests/offline/sweep.py FAMILY ...``; nothing is recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus import Entry, entries
from grading import Outcome, grade

from aish_lsp.offline import understanding

THRESHOLDS: Final = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)


def main(families: list[str]) -> None:
    """Measure and print, a row for each threshold."""
    chosen = [entry for entry in entries() if entry.family in families]
    sys.stdout.write("| threshold | right | silent | wrong |\n|---:|---:|---:|---:|\n")
    for threshold in THRESHOLDS:
        with ProcessPoolExecutor(2, initializer=_set, initargs=(threshold,)) as pool:
            counts = Counter(one for found in pool.map(_grade, chosen) for one in found)
        shares = (f"{counts[name] / counts.total():.1%}" for name in ("right", "silent", "wrong"))
        sys.stdout.write(f"| {threshold} | {' | '.join(shares)} |\n")


def _set(threshold: float) -> None:
    vars(understanding)["THRESHOLD"] = threshold


def _grade(entry: Entry) -> list[Outcome]:
    return [one.outcome for one in asyncio.run(grade(entry))]


if __name__ == "__main__":
    main(sys.argv[1:])
