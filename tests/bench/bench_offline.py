"""How soon the offline model answers, and how much it holds.

    python tests/bench/bench_offline.py [ROUNDS]

Prints the milliseconds of the first answer, which reads the table, the median and the most of the
warm ones over the corpus's questions, and the bytes that the table and its index hold.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "offline"))

from corpus import entries

from aish_lsp.offline.model import reply
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.understanding import TypedQuestion


def main(rounds: int) -> None:
    """Measure and print."""
    root = Path.cwd()
    begun = time.perf_counter()
    reply(TypedQuestion("list the files"), root)
    first = time.perf_counter() - begun
    asked = [ask for entry in entries() if entry.family != "explained" for ask in entry.ask]
    taken: list[float] = []
    for question in asked * rounds:
        begun = time.perf_counter()
        reply(TypedQuestion(question), root)
        taken.append(time.perf_counter() - begun)
    sys.stdout.write(f"first answer {first * 1000:6.1f} ms\n")
    median, most = statistics.median(taken) * 1000, max(taken) * 1000
    sys.stdout.write(f"warm answers {median:6.1f} ms in the median, {most:.1f} ms at most\n")
    sys.stdout.write(f"held         {_held() / 1e6:6.2f} MB\n")


def _held() -> int:
    """Return the bytes that the table and its index hold once they are read."""
    from aish_lsp.offline import table, words

    for cached in (ranking, table.table, words.words):
        cached.cache_clear()
    gc.collect()
    tracemalloc.start()
    ranking()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
