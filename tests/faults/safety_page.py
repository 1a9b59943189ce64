"""The tables of docs/safety.md and its references, written from the results of tests.

``python tests/faults/safety_page.py PART`` rewrites one of them: ``table``, ``incidents``,
``confined`` or ``protected``.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # As pytest does.
    sys.path += [str(ROOT / "tests" / name) for name in ("kit", "servers", "lsp")]

import incidents_replies  # noqa: E402, F401
import incidents_workspace  # noqa: E402, F401
from confined_corpus import everything, table  # noqa: E402
from incidents import INCIDENTS, Incident  # noqa: E402
from safety_matrix import Row, rows  # noqa: E402

from aish_lsp.shell import protected  # noqa: E402

#: The page of each part.
PAGES: Final = {
    "table": ROOT / "docs/safety.md",
    "incidents": ROOT / "docs/incidents.md",
    "confined": ROOT / "docs/confinement.md",
    "protected": ROOT / "docs/protected-files.md",
}

_MATRIX_HEAD: Final = """\
| where a command comes from | `safety.confirm` | your editor | safe | caution | destructive |
|---|---|---|---|---|---|
"""
_INCIDENTS_HEAD: Final = """\
| what was tried | known as | what happens |
|---|---|---|
"""


def matrix_row(row: Row) -> str:
    """Return a row of the first table."""
    editor = "asks" if row.asks else "cannot ask"
    cells = [row.stands, f"`{row.confirm}`", editor, *row.fates]
    return f"| {' | '.join(cells)} |\n"


def incident_row(one: Incident, outcome: str) -> str:
    """Return a row of the second table."""
    return f"| {one.what} | {one.known_as} | {outcome} |\n"


def protected_table() -> str:
    """Return the table of files that decide what runs."""
    rows = (
        f"| {row.reader} | {row.when} |"
        f" {', '.join(f'`{name}`' for name in row.names) or 'those that are named'} |\n"
        for row in protected.rows()
    )
    return "| read by | when | files and folders |\n|---|---|---|\n" + "".join(rows)


def part(name: str, text: str | None = None) -> str:
    """Return a part of its page; with ``text``, replace that part."""
    page = PAGES[name].read_text(encoding="utf-8")
    begin = f"<!-- {name}: made by `python tests/faults/safety_page.py {name}` -->\n"
    end = "<!-- end -->\n"
    before, _, rest = page.partition(begin)
    inside, found, after = rest.partition(end)
    assert found, f"{PAGES[name]} has no part {name}"
    if text is not None:
        PAGES[name].write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
    return inside


async def _matrix(folder: Path) -> str:
    return _MATRIX_HEAD + "".join([matrix_row(row) async for row in rows(folder)])


async def _incidents(folder: Path) -> str:
    told = []
    for number, one in enumerate(INCIDENTS):
        own = folder / str(number)
        own.mkdir()
        told.append(incident_row(one, await one.act(own)))
    return _INCIDENTS_HEAD + "".join(told)


async def _confined() -> str:
    found = await everything()
    for one in (one for _, compared in found for one in compared):
        if one.outcome == "differs":
            sys.stderr.write(f"{one.command}: {one.how}\n")
    return table(found)


def main() -> None:
    """Write a part into its page."""
    if sys.argv[1:2] not in ([name] for name in PAGES):
        sys.exit(f"name one of {', '.join(PAGES)}")
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        match name:
            case "table":
                part(name, asyncio.run(_matrix(folder)))
            case "incidents":
                part(name, asyncio.run(_incidents(folder)))
            case "confined":
                part(name, asyncio.run(_confined()))
            case "protected":
                part(name, protected_table())


if __name__ == "__main__":
    main()
