"""The rooms of the package and their imports, as docs/architecture.md draws them.

Each drawing is between two marks there; ``./dev docs`` redraws it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "aish_lsp"
PAGE: Final = ROOT / "docs" / "architecture.md"

#: From the top. Rooms on the same floor do not import each other either.
FLOORS: Final = (
    {"__main__"},
    {"cli"},
    {"acp", "lsp"},
    {"chat"},
    {"operations"},
    {"agent"},
    {"tools", "undo"},
    {"offline"},
    {"sessions"},
    {"context"},
    {"memory", "models"},
    {"project", "shell"},
    {"config"},
    {"foundation"},
    {"__init__"},
)

#: The path of one question: down to the model, and back to whoever asked.
WAY: Final = (
    "lsp/commands.py",
    "operations/dispatch.py",
    "operations/ask.py",
    "agent/turn.py",
    "agent/call.py",
    "models/providers/base.py",
    "models/http.py",
    "foundation/job.py",
    "lsp/chat_jobs.py",
)

_BEGIN: Final = "<!-- {}: drawn from the code by `./dev docs` -->\n"
_END: Final = "<!-- end -->\n"


class Import(NamedTuple):
    """An import: of what, by which module (below ``aish_lsp``), and whether only for types."""

    by: str
    of: str
    for_types: bool


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Return the imports of a module, including those for types and late ones."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    by = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while waiting:
        node, for_types = waiting.pop()
        match node:
            case ast.expr():
                pass  # It contains no statements; most nodes are expressions.
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                waiting += [(inner, True) for inner in node.body]
                waiting += [(inner, for_types) for inner in node.orelse]
            case ast.Import():
                yield from (Import(by, alias.name, for_types) for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (Import(by, f"{module}.{alias.name}", for_types) for alias in node.names)
            case ast.ImportFrom():
                raise ValueError(f"{path} imports by a relative name")
            case _:
                waiting += [(inner, for_types) for inner in ast.iter_child_nodes(node)]


def room(module: str) -> str:
    """Return the room of a module; the root has only its own modules."""
    return module.partition(".")[0]


def room_imports() -> dict[str, set[str]]:
    """Return which rooms each room imports, from the top down."""
    there = [name for floor in FLOORS for name in sorted(floor) if (PACKAGE / name).is_dir()]
    found: dict[str, set[str]] = {name: set() for name in there}
    for path in sorted(PACKAGE.rglob("*.py")):
        for one in imports_of(path):
            of = room(one.of.removeprefix("aish_lsp."))
            if one.of.startswith("aish_lsp.") and room(one.by) in found and of in found:
                found[room(one.by)] |= {of} - {room(one.by)}
    return found


def diagram() -> str:
    """Return the rooms as Mermaid: an arrow for each import that no longer path implies."""
    wanted = room_imports()

    def below(name: str) -> set[str]:
        return wanted[name].union(*(below(other) for other in wanted[name]))

    rows = []
    for name, of in wanted.items():
        over_others = set().union(*(below(other) for other in of))
        rows += [f"    {name} --> {other}" for other in wanted if other in of - over_others]
    return "\n".join(["```mermaid", "flowchart TD", *rows, "```", ""])


def _said(path: Path) -> str:
    """Return the first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("``", "`")


def table() -> str:
    """Return what each room is, in its own words, and everything that it imports."""
    rows = ["| room | what it is | imports |", "|---|---|---|"]
    wanted = room_imports()
    for name, of in wanted.items():
        said = _said(PACKAGE / name / "__init__.py")
        named = ", ".join(other for other in wanted if other in of) or "none"
        rows.append(f"| [`{name}`](../aish_lsp/{name}) | {said} | {named} |")
    return "\n".join([*rows, ""])


def way() -> str:
    """Return the files that a question passes through, each in its own words."""
    rows = [f"{number}. [`{name}`](../aish_lsp/{name}) " for number, name in enumerate(WAY, 1)]
    said = (_said(PACKAGE / name) for name in WAY)
    return "".join(f"{row}- {text}\n" for row, text in zip(rows, said, strict=True))


def render(page: str) -> str:
    """Return the page with its drawings as the code has them now."""
    for name, text in (("rooms", diagram()), ("table", table()), ("way", way())):
        before, begun, rest = page.partition(_BEGIN.format(name))
        _, ended, after = rest.partition(_END)
        if not (begun and ended):
            raise ValueError(f"{PAGE.name} has no part {name}")
        page = f"{before}{begun}{text}{ended}{after}"
    return page


if __name__ == "__main__":
    sys.stdout.write(render(PAGE.read_text(encoding="utf-8")))
