"""docs/risk.md: the tables of commands as a page.

``./dev docs`` rewrites it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = _ROOT / "docs" / "risk.md"
_TABLES: Final = _ROOT / "aish_lsp" / "shell" / "risk" / "tables"

_PAGE_HEAD: Final = """\
# Which commands are what

<!-- Made by `./dev docs`. Do not edit. -->

A reference: what aish knows about commands. [Safety](safety.md#what-runs) explains how it is used,
and there is a page on [how to read a row and how to add your
own](what-runs.md#rules-of-your-own). The worst matching row counts. A command without a row is
*caution*, unless its subcommand or option says that it deletes something. A *safe* row names every
option that the command may have: with any other option it does
not match. What a command writes to, which variables it sets, and what the scripts inside it do
(`sh -c`, `find -exec`, here-documents) count as well. Programs in other languages (`python -c`,
`psql -c`, `awk`) are only searched for the regular expressions under
[Programs that are given in a command](#programs-that-are-given-in-a-command). A script of `sed` is
read command by command.
"""


def markdown() -> str:
    """Return docs/risk.md."""
    return _PAGE_HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for path in sorted(_TABLES.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        yield f"\n## {table['title']}\n"
        for name, options in table.get("options", {}).items():
            yield from _rows(f"The options @{name}", options.splitlines())
        for group in table.get("rules", ()):
            where = " if it runs confined, otherwise caution" if group.get("confined") else ""
            title = f"{group['risk'].capitalize()}{where}{_because(group)}"
            yield from _rows(title, group["match"])
        for group in table.get("wrappers", ()):
            yield from _rows(f"Looked inside{_because(group)}", group["match"])
        for row in table.get("programs", ()):
            names = "all of these" if row["names"] == "*" else " ".join(row["names"].split())
            yield f"\nIn the programs of {names}:\n"
            for group in row.get("rules", ()):
                if group["risk"] != "safe":
                    yield from _rows(
                        f"{group['risk'].capitalize()}{_because(group)}", group["patterns"]
                    )


def _because(group: dict[str, Any]) -> str:
    return f": {group['reason']}" if "reason" in group else ""


def _rows(title: str, rows: list[str]) -> Iterator[str]:
    yield f"\n**{title}**\n\n"
    for row in rows:
        yield f"    {row.strip()}\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
