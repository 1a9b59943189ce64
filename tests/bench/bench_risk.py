"""How long a command's risk takes to tell, against the parse of the same text alone.

    python tests/bench/bench_risk.py [ROUNDS]

Over the labelled commands: all of them, and the one that takes the most of its parse; the first in
a process; and texts made to be slow.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from measuring import Row, main

from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.data import LONGEST
from aish_lsp.shell.risk.words import parse

CORPORA = Path(__file__).resolve().parents[1] / "corpora"

#: Each is repeated up to the longest text that is parsed at all.
SLOW = (
    *("a|", ">", "f()", "<<A ", "ls;", "$(", "${a:-", "echo rm ", "`", "x=1;$x ", "eval ", "(("),
    *("psql -c 'update a';", "python -c 'open('", "sed 's/a/b/;", "cat<", "a=$a$a;", "sudo "),
)

#: What is judged first in a process: a plain text, and one that is read as a tree.
FIRST = ("git status", 'for name in *.py; do echo "$name" > /dev/null; done')


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


async def rows(rounds: int) -> list[Row]:
    """Measure in turns."""
    # Before anything is loaded, of which a process of its own cannot be rid.
    firsts, grammar = ([1000 * in_new_process(text) for _ in range(5)] for text in FIRST)
    texts = list(commands())
    for text in texts:
        judge(text)
    pairs = [
        (least_of_parts(2, texts, judge), least_of_parts(2, texts, parsed)) for _ in range(rounds)
    ]
    judged, parse_only = ([1e6 * pair[at] for pair in pairs] for at in (0, 1))
    each = [(least(20, partial(judge, text)), least(20, partial(parsed, text))) for text in texts]
    worst = max(each, key=lambda pair: pair[0] / pair[1])
    slow = max(least(1, partial(judge, (part * LONGEST)[:LONGEST])) for part in SLOW)
    tree = "tree-sitter's parse"
    return [
        Row("the classifier, labelled commands", tree, judged, parse_only, 5, unit="us"),
        Row("the classifier, worst", tree, [1e6 * worst[0]], [1e6 * worst[1]], 15, unit="us"),
        Row("the classifier, first in a process", "", firsts, [], 20, "value"),
        Row("the classifier, first that needs the grammar", "", grammar, [], 20, "value"),
        Row("the classifier, texts made to be slow", "", [1000 * slow], [], 1000, "value"),
    ]


def in_new_process(text: str) -> float:
    """Return the seconds of the first judgement in a process."""
    script = (
        "import time; from aish_lsp.shell.risk import classify\n"
        f"begun = time.perf_counter(); classify({text!r}, 'bash', confined=True)\n"
        "print(time.perf_counter() - begun)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return float(done.stdout)


def judge(text: str) -> object:
    """Tell a command's risk."""
    return classify(text, "bash", confined=True)


def parsed(text: str) -> object:
    """Only parse it."""
    return parse(text.encode())


if __name__ == "__main__":
    main(rows, 5)
