"""What all measurements share: repeating in turns, medians and their spread, and a table's rows.

Each ``bench_*.py`` has ``async def rows(rounds)``, and ends with ``main(rows, ROUNDS)``: run alone
it prints its rows, with ``--json`` it prints them for ``bench.py``, which makes a page of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

TESTS: Final = Path(__file__).resolve().parents[1]
for _folder in ("kit", "servers", "lsp"):
    sys.path.append(str(TESTS / _folder))

#: How a row is judged: ours / reference at most, or at least; ours - reference at most; ours alone.
Judged: TypeAlias = Literal["ratio", "rate", "more", "value"]


class Sample(NamedTuple):
    """What one repetition took: seconds by the clock, and of the processor."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """What was measured against its reference, one figure for each repetition, taken in turns.

    Attributes:
        what: what was measured.
        reference: what it is held against, in the same run.
        ours, theirs: the figures, in ``unit``.
        target: what ``figure`` is to reach.
        judged: how.
        cpu: the ratio of what both used of the processor, where that was measured.
    """

    what: str
    reference: str
    ours: Sequence[float]
    theirs: Sequence[float]
    target: float
    judged: Judged = "ratio"
    unit: str = "ms"
    cpu: float | None = None

    @property
    def figures(self) -> list[float]:
        """The figure of each repetition that is held against the target."""
        if self.judged == "value":
            return list(self.ours)
        pairs = zip(self.ours, self.theirs, strict=True)
        if self.judged == "more":
            return [ours - theirs for ours, theirs in pairs]
        return [ours / theirs if theirs else math.inf for ours, theirs in pairs]

    @property
    def figure(self) -> float:
        """The median of ``figures``."""
        return statistics.median(self.figures)

    @property
    def reached(self) -> bool:
        """Whether the figure is what it is to be."""
        if self.judged == "rate":
            return self.figure >= self.target
        return self.figure <= self.target

    def cells(self) -> list[str]:
        """Return the row of a table; ``HEADS`` are its columns."""
        low, high = quartiles(self.figures)
        sign = {"more": "+", "ratio": "", "rate": "", "value": ""}[self.judged]
        unit = f" {self.unit}" if self.judged in ("more", "value") else ""
        bound = "≥" if self.judged == "rate" else "≤"
        return [
            self.what,
            f"{number(statistics.median(self.ours))} {self.unit}",
            self.reference,
            f"{number(statistics.median(self.theirs))} {self.unit}" if self.theirs else "-",
            f"{sign if self.figure >= 0 else ''}{number(self.figure)}{unit}",
            f"{number(low)} … {number(high)}",
            f"{number(self.cpu)}" if self.cpu is not None else "-",
            f"{bound} {sign}{number(self.target)}{unit}",
            "reached" if self.reached else f"**missed** by {number(self.gap)}{unit}",
        ]

    @property
    def gap(self) -> float:
        """How far the figure is from the target."""
        return abs(self.figure - self.target)


HEADS: Final = (
    "what", "aish-lsp", "reference", "reference's", "figure", "quartiles", "CPU", "target", "",
)  # fmt: skip


def number(value: float) -> str:
    """Return a number with three digits, as a person writes it."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.095 else f"{value:.2g}"


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile; both are the value where there is but one."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def percentile(values: Sequence[float], percent: int) -> float:
    """Return what so many percent of the values are not above."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def compared(
    what: str, reference: str, ours: Sequence[Sample], theirs: Sequence[Sample], target: float
) -> Row:
    """Return the row of samples that are held against others by the clock, with their CPU."""
    cpu = _median_cpu(ours) / _median_cpu(theirs) if _median_cpu(theirs) else None
    return Row(
        what,
        reference,
        [sample.seconds * 1000 for sample in ours],
        [sample.seconds * 1000 for sample in theirs],
        target,
        cpu=cpu,
    )


def _median_cpu(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.cpu for sample in samples)


async def in_turns(
    rounds: int, *measures: Callable[[], Awaitable[Sample]]
) -> tuple[list[Sample], ...]:
    """Take so many samples of each, in turns, so that a noisy moment hits all alike."""
    taken: tuple[list[Sample], ...] = tuple([] for _ in measures)
    for _ in range(rounds):
        for samples, measure in zip(taken, measures, strict=True):
            samples.append(await measure())
    return taken


def timed(work: Callable[[], object]) -> Sample:
    """Return what ``work`` takes in this process."""
    begun, before = time.perf_counter(), time.process_time()
    work()
    return Sample(time.perf_counter() - begun, time.process_time() - before)


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU that a process of ours has used; 0 where the system cannot tell."""
    if not sys.platform.startswith("linux"):
        return 0.0
    # What clock_getcpuclockid(3) makes of a process, which Python does not offer.
    return time.clock_gettime((~pid << 3) | 2)


def memory_of(pid: int) -> float:
    """Return the megabytes (PSS) that a process and those it started hold (Linux)."""
    kilobytes = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            kilobytes = int(line.split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return kilobytes / 1024 + sum(memory_of(int(child)) for child in children)


async def idle(pid: int, pause: float = 0.5) -> None:
    """Wait until a process uses the processor no more."""
    before = -1.0
    while (now := cpu_seconds(pid)) - before > 0.002:
        before = now
        await asyncio.sleep(pause)


def text_table(rows: Sequence[Row]) -> str:
    """Return rows for a terminal."""
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded).replace("**", "") + "\n"


def main(rows: Callable[..., Coroutine[Any, Any, list[Row]]], rounds: int, *sizes: int) -> None:
    """Measure and print, for a person or as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=rounds)
    parser.add_argument("sizes", type=int, nargs="*", default=sizes)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cold", action="store_true", help="for bench_start.py")
    options = parser.parse_args()
    # Else each process that is started compiles all modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measured: list[Row] = asyncio.run(rows(options.rounds, *options.sizes))
    sys.stdout.write(
        json.dumps([asdict(row) for row in measured]) if options.json else text_table(measured)
    )
