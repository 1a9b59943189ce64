"""List every sentence that the program can say to a person, to be read by somebody.

    .venv/bin/python tools/messages [FOLDER ...]     default: aish_lsp

These are the strings of the code and of its TOML tables that read like words, each with its place:
errors, notices, labels, help. Placeholders are shown as ``{}``. Docstrings, patterns, log records
and the answers of the offline model (``aish_lsp/offline/intents`` has those) are left out.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Four words, at least, one after the other.
SPEECH = re.compile(r"[A-Za-z`*{}']{2,}(?:,? [\w`*{}'(/@:.-]+){3,}")

#: Calls whose strings are not for people, by the last part of the name.
NOT_SAID = {"compile", "debug", "info", "log", "getLogger", "search", "match", "fullmatch", "sub"}

#: Tables of words, patterns and tests, and the offline model's.
NOT_TABLES = {"aish_lsp/offline"}


def main() -> None:
    """Print the sentences."""
    folders = [Path(name) for name in sys.argv[1:]] or [ROOT / "aish_lsp"]
    for folder in folders:
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
            name = str(path.resolve().relative_to(ROOT))
            found = in_table(path) if path.suffix == ".toml" else in_code(path)
            if path.suffix == ".toml" and any(name.startswith(one) for one in NOT_TABLES):
                continue
            for line, text in found:
                sys.stdout.write(f"{name}:{line}: {' '.join(text.split())}\n")


def in_code(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module, each with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            skipped.update(map(id, ast.iter_child_nodes(node)))
            continue
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                skipped.add(id(node.value))
            case ast.Call(func=ast.Attribute(attr=called)) if called in NOT_SAID:
                skipped.update(map(id, ast.iter_child_nodes(node)))
            case ast.Constant(value=str(text)) if SPEECH.search(text):
                yield node.lineno, text
            case ast.JoinedStr(values=parts):
                skipped.update(map(id, parts))
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "{}" for part in parts
                )
                if SPEECH.search(text):
                    yield node.lineno, text


def in_table(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a table, each with the line on which it begins, or else 0."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for value in strings(tomllib.loads(text)):
        if SPEECH.search(value):
            begin = value.splitlines()[0]
            numbers = (at for at, line in enumerate(lines, 1) if begin in line)
            yield next(numbers, 0), value


def strings(value: Any) -> Iterator[str]:
    """Yield all strings in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


if __name__ == "__main__":
    main()
