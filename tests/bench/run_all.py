"""Run all measurements and write them into docs/performance.md: ``./dev bench``.

    ./dev bench [--peers] [--long] [--harder] [NAME ...]

``NAME``: only these (``delta`` for bench_delta.py), printed and not written. ``--harder`` repeats
the starts with cold caches, and starts and deltas on one core. Exits 1 where one failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bars import bars
from measuring import HEADS, TESTS, Row, text_table

sys.path.append(str(TESTS.parent / "tools/fit_tokens"))
from report import replace_sections

ROOT: Final = TESTS.parent
PAGE: Final = ROOT / "docs/performance.md"
IMAGES: Final = ROOT / "docs/images"

#: Each part of the page, and what is run for it: arguments of ``taskset`` or of Python before it.
ALL: Final = (
    *("start", "delta", "load", "lenses", "context", "project", "undo", "output", "memory", "risk"),
)
PACKAGES: Final = ("pygls", "lsprotocol", "httpx", "httpx-sse", "tree-sitter-bash")


def measured(name: str, *more: str, on: Sequence[str] = ()) -> list[Row]:
    """Run one of ``bench_*.py`` in a process of its own; return its rows, none where it failed."""
    sys.stderr.write(f"bench: {name} {' '.join([*on, *more])}\n")
    command = [*on, sys.executable, f"tests/bench/bench_{name}.py", "--json", *more]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    rows = [] if done.returncode else [Row(**row) for row in json.loads(done.stdout)]
    sys.stderr.write(text_table(rows) if rows else f"bench: {name} FAILED\n")
    if not rows:
        FAILED.append(name)
    return rows


FAILED: Final[list[str]] = []


def table(rows: Sequence[Row]) -> str:
    """Return rows as Markdown."""
    lines = [HEADS, ["---", *["---:", "---"] * 2, *["---:"] * 2, "---:", "---"][: len(HEADS)]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, *(r.cells() for r in rows)])


def machine() -> str:
    """Return what was measured, when and on what."""
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc") else ():  # noqa: PTH110
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    today = dt.datetime.now(dt.UTC).date()
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return (
        f"{today}, commit {commit}; {os.cpu_count()} cores ({processor}), "
        f"{platform.system()} {platform.release().split('-')[0]}, load {os.getloadavg()[0]:.0f} "
        f"at the end; Python {platform.python_version()}, {packages}."
    )


def section(rows: Sequence[Row], plot: str = "") -> str:
    """Return a part of the page, and write its plot."""
    parts = [machine(), table(rows)]
    if plot:
        (IMAGES / f"{plot}.svg").write_text(bars(rows), encoding="utf-8")
        parts.append(f"![Each figure as a share of its target](images/{plot}.svg)")
    return "\n\n".join(parts)


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--peers", action="store_true", help="hold it against other programs")
    parser.add_argument("--long", action="store_true", help="hold a long session, in fast motion")
    parser.add_argument("--harder", action="store_true", help="on one core, and with cold caches")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, and write nothing")
    options = parser.parse_args()
    rows = [row for name in options.names or ALL for row in measured(name)]
    if not options.names:
        sections = {"measured rows": section(rows, "performance")}
        if options.harder:
            one = ("taskset", "-c", "0")
            rows = [*measured("start", on=one), *measured("delta", on=one)]
            sections["measured on one core"] = section(rows)
            sections["measured cold"] = section(measured("start", "3", "--cold"))
        for name in ("peers", "long"):
            if getattr(options, name):
                sections[f"measured {name}"] = section(measured(name), f"performance-{name}")
        replace_sections(PAGE, sections)
    for name in FAILED:
        sys.stderr.write(f"bench: {name} failed\n")
    return int(bool(FAILED))


if __name__ == "__main__":
    sys.exit(main())
