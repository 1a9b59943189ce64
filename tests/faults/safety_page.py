"""The tables of docs/safety.md: what is asked, refused or run, written from the results of tests.

``python tests/faults/safety_page.py`` rewrites them; with ``confined`` or ``protected``, only that
table.
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

PAGE: Final = ROOT / "docs/safety.md"

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
    """Return a part of the page; with ``text``, the page with that part replaced."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = (
        f"<!-- {name}: made by `python tests/faults/safety_page.py` -->\n",
        "<!-- end -->\n",
    )
    before, _, rest = page.partition(begin)
    inside, found, after = rest.partition(end)
    assert found, f"docs/safety.md has no part {name}"
    return inside if text is None else f"{before}{begin}{text}{end}{after}"


async def _write(folder: Path) -> None:
    matrix = "".join([matrix_row(row) async for row in rows(folder)])
    PAGE.write_text(part("the table", _MATRIX_HEAD + matrix), encoding="utf-8")
    told = []
    for number, one in enumerate(INCIDENTS):
        own = folder / str(number)
        own.mkdir()
        told.append(incident_row(one, await one.act(own)))
    PAGE.write_text(part("the incidents", _INCIDENTS_HEAD + "".join(told)), encoding="utf-8")


async def _write_confined() -> None:
    rows = await everything()
    PAGE.write_text(part("confined", table(rows)), encoding="utf-8")
    for one in (one for _, compared in rows for one in compared):
        if one.outcome == "differs":
            sys.stderr.write(f"{one.command}: {one.how}\n")


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(part("protected", protected_table()), encoding="utf-8")
    if sys.argv[1:] == ["protected"]:
        return
    asyncio.run(_write_confined())
    if sys.argv[1:] == ["confined"]:
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_write(Path(folder).resolve()))


if __name__ == "__main__":
    main()
