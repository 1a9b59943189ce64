"""How long a command's risk takes to tell, against the parse of the same text alone.

    python tests/bench/bench_risk.py [ROUNDS]

Prints the least microseconds of each over the labelled commands, and their ratio: the whole, the
median command, and the worst. Then the milliseconds of texts made to be slow.
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.words import LONGEST, parse

CORPORA = Path(__file__).resolve().parents[1] / "corpora"

#: Each is repeated up to the longest text that is parsed at all.
SLOW = (
    *("a|", ">", "f()", "<<A ", "ls;", "$(", "${a:-", "echo rm ", "`", "x=1;$x ", "eval ", "(("),
    *("psql -c 'update a';", "python -c 'open('", "sed 's/a/b/;", "cat<", "a=$a$a;", "sudo "),
)


def commands() -> Iterator[str]:
    """Yield the labelled commands."""
    for path in sorted(CORPORA.glob("*.toml")):
        for group in tomllib.loads(path.read_text())["group"]:
            yield from group["commands"]


def least(rounds: int, run: Callable[[], object]) -> float:
    """Return the least seconds that ``run`` took."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return best


def least_of_parts(rounds: int, texts: list[str], run: Callable[[str], object]) -> float:
    """Return the least seconds for a text; few at a time, so that others disturb less."""
    parts = [texts[at : at + 8] for at in range(0, len(texts), 8)]
    best = [float("inf")] * len(parts)
    for _ in range(rounds):
        for at, part in enumerate(parts):
            begun = time.perf_counter()
            for text in part:
                run(text)
            best[at] = min(best[at], time.perf_counter() - begun)
    return sum(best) / len(texts)


def tell(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(rounds: int) -> None:
    """Measure, and print."""
    texts = list(commands())
    for text in texts:
        classify(text, "bash", confined=True)
    parsed = least_of_parts(rounds, texts, lambda text: parse(text.encode()))
    judged = least_of_parts(rounds, texts, lambda text: classify(text, "bash", confined=True))
    each = {
        text: least(rounds, lambda text=text: classify(text, "bash", confined=True))  # type: ignore[misc]
        / least(rounds, lambda text=text: parse(text.encode()))  # type: ignore[misc]
        for text in texts
    }
    worst = max(each, key=lambda text: each[text])
    slow = sum(ratio > 20 for ratio in each.values())
    tell(f"{len(texts)} commands: parse {parsed * 1e6:.1f} us, risk {judged * 1e6:.1f} us")
    tell(f"ratio of all {judged / parsed:.1f}, median {statistics.median(each.values()):.1f}")
    tell(f"above 20: {slow} ({slow / len(texts):.1%}), worst {each[worst]:.0f}: {worst!r}")
    for part in SLOW:
        text = (part * LONGEST)[:LONGEST]
        seconds = least(1, lambda text=text: classify(text, "bash", confined=True))  # type: ignore[misc]
        tell(f"{seconds * 1e3:8.1f} ms  {part!r} over and over")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
