"""One name, one meaning: a class's name is defined once in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import aish_lsp

PACKAGE = Path(aish_lsp.__file__).parent


def test_a_class_name_is_defined_once() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                modules[node.name].add(path.relative_to(PACKAGE).as_posix())
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
