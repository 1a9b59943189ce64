"""Build all that is released, twice, and try it as a user gets it.

    .venv/bin/python tools/release [--out DIR] [--dirty]

The same commit gives the same bytes. The last lines are a table: what was built, how each was
tried, and what came of it. The exit status is 0 where nothing failed; what was not there to build
or to try by is told as skipped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import building
import readiness
import trying

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """A line of the table; ``result`` is "ok", "FAILED" or "skipped", with why."""

    name: str
    size: str
    digest: str
    tried: str
    result: str


def main(arguments: Sequence[str]) -> int:
    """Build, try, and print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="tools/release", description="Build and try a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where to (dist)")
    parser.add_argument("--dirty", action="store_true", help="build what is not committed, too")
    given = parser.parse_args(arguments)
    try:
        notes = readiness.check(ROOT, dirty=given.dirty)
        # A server may write a last line while it ends.
        with tempfile.TemporaryDirectory(
            prefix="aish-release-", ignore_cleanup_errors=True
        ) as folder:
            work = Path(folder).resolve()
            version = readiness.version(ROOT)
            skipped = build(ROOT, work, version)
            rows = [*attempts(work, version), *skipped]
            failed = any(row.result == "FAILED" for row in rows)
            if not failed:
                building.publish(work / "built", given.out)
    except (readiness.NotReadyError, building.BuildError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(table(rows))
    for note in notes:
        sys.stdout.write(f"NOTE: {note}\n")
    end = f"nothing was put into {given.out}" if failed else f"{version} is in {given.out}"
    sys.stdout.write(f"{end}\n")
    return int(failed)


def build(root: Path, work: Path, version: str) -> list[Row]:
    """Build everything into ``work``/built; return rows for what could not be.

    Raises:
        BuildError: something failed, or came out otherwise the second time.
    """
    epoch = readiness.epoch(root)
    tree, backend = work / "tree", work / "backend"
    say("copying")
    building.copy_files(root, tree)
    building.install_backend(tree, backend)
    why_not = building.no_extension(tree)
    if why_not is None:
        say("npm ci")
        try:
            building.install_extension(tree, epoch)
        except building.BuildError as error:
            why_not = f"its packages cannot be fetched: {str(error).splitlines()[-1][:80]}"
    for out in (work / "built", work / "again"):
        say(f"building into {out.name}/")
        out.mkdir()
        building.build_packages(tree, backend, out, epoch)
        building.build_plugins(tree, out, version, epoch)
        if why_not is None:
            building.build_extension(tree, out, version, epoch)
        # The second time all of it lies elsewhere.
        tree = tree.rename(work / "moved tree")
    if different := building.differing(work / "built", work / "again"):
        raise building.BuildError(f"built twice, and not the same: {', '.join(different)}")
    if why_not is None:
        return []
    return [Row(f"aish-{version}.vsix", "-", "-", "not built", f"skipped: {why_not}")]


def attempts(work: Path, version: str) -> list[Row]:
    """Try each file of ``work``/built; return their rows."""
    rows = []
    trials = trying.Trials(work / "built", version, work / "users")
    for path in trials.files:
        say(f"trying {path.name}")
        try:
            tried, result = trials.attempt(path), "ok"
        except trying.SkippedError as why:
            tried, result = "not tried", f"skipped: {why}"
        except trying.TrialError as error:
            sys.stderr.write(f"release: {path.name}: {error}\n")
            tried, result = "see above", "FAILED"
        size = f"{path.stat().st_size:,}"
        rows.append(Row(path.name, size, building.digest(path)[:12], tried, result))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text."""
    cells = [("artifact", "bytes", "sha256", "tried how", "result")]
    cells += [(row.name, row.size, row.digest, row.tried, row.result) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join(lines) + "\n"


def say(what: str) -> None:
    """Tell what is done now."""
    sys.stderr.write(f"release: {what}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
