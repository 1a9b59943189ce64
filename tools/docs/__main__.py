"""Rewrite the pages and types that are made from the code: ``./dev docs [--check] [NAME ...]``.

``--check`` rewrites nothing and names those that are not current. Two pages tell what happened when
it was provoked, with a model server and in a sandbox. They are only rewritten: their tests provoke
and compare each row.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

#: Each file that is made, and the program of ours that prints it.
PAGES: Final[Mapping[str, Sequence[str]]] = {
    "docs/protocol.md": ("-m", "aish_lsp.lsp.reference"),
    "docs/configuration.md": ("tests/unit/config/configuration_page.py",),
    "docs/risk.md": ("tests/unit/shell/risk_page.py",),
    "aish_lsp/shell/risk/tables.json": ("tools/risk_tables",),
    "docs/architecture.md": ("tests/kit/rooms.py",),
    "docs/tasks.md": ("tests/unit/project/tasks_page.py",),
    "editors/nvim/lua/aish/protocol.lua": ("tools/lua_types",),
    "editors/vscode/src/protocol.ts": ("tools/ts_types", "types"),
    "editors/vscode/package.json": ("tools/ts_types", "manifest"),
}
#: Those that provoke what they tell.
PROVOKED: Final[Mapping[str, Sequence[str]]] = {
    "docs/faults.md": ("tests/faults/provider_page.py",),
    "docs/safety.md": ("tests/faults/safety_page.py", "table"),
    "docs/incidents.md": ("tests/faults/safety_page.py", "incidents"),
    "docs/confinement.md": ("tests/faults/safety_page.py", "confined"),
    "docs/protected-files.md": ("tests/faults/safety_page.py", "protected"),
}


def made(page: str) -> str:
    """Return what the program of a page prints; one that prints nothing has rewritten the page.

    Raises:
        CalledProcessError: it failed; it has said why.
    """
    command = [sys.executable, *{**PAGES, **PROVOKED}[page]]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout or (ROOT / page).read_text("utf-8")


def main(arguments: Sequence[str]) -> int:
    """Rewrite or check pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="./dev docs")
    parser.add_argument("--check", action="store_true", help="rewrite nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of them: protocol.md")
    options = parser.parse_args(arguments)
    pages = [*PAGES] if options.check else [*PAGES, *PROVOKED]
    unknown = set(options.names) - {Path(page).name for page in pages}
    if unknown:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    if options.names:
        pages = [page for page in pages if Path(page).name in options.names]
    with ThreadPoolExecutor() as pool:
        texts = dict(zip(pages, pool.map(made, pages), strict=True))
    old = [page for page, text in texts.items() if (ROOT / page).read_text("utf-8") != text]
    for page in old:
        if not options.check:
            (ROOT / page).write_text(texts[page], "utf-8")
    if old:
        sys.stderr.write(f"{'not current' if options.check else 'rewritten'}: {', '.join(old)}\n")
    return int(options.check and bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
