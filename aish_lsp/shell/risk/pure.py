"""Whether a Python program only computes and prints."""

from __future__ import annotations

import ast
from typing import Final

_MODULES: Final = frozenset(
    [
        "sys",
        "json",
        "math",
        "re",
        "datetime",
        "time",
        "platform",
        "string",
        "statistics",
        "itertools",
        "functools",
        "collections",
        "random",
        "decimal",
        "fractions",
        "textwrap",
        "calendar",
        "uuid",
        "hashlib",
        "urllib.parse",
        "struct",
        "locale",
    ]
)
_FUNCTIONS: Final = frozenset(
    [
        "print",
        "len",
        "range",
        "sorted",
        "sum",
        "min",
        "max",
        "abs",
        "round",
        "str",
        "int",
        "float",
        "bool",
        "list",
        "dict",
        "set",
        "tuple",
        "repr",
        "zip",
        "map",
        "filter",
        "enumerate",
        "reversed",
        "any",
        "all",
        "chr",
        "ord",
        "hex",
        "oct",
        "bin",
        "divmod",
        "pow",
        "type",
        "isinstance",
        "hash",
        "format",
        "frozenset",
        "bytes",
        "iter",
        "next",
    ]
)
#: Attributes that do something to others than the caller.
_DOES: Final = frozenset(
    [
        "stdout",
        "stderr",
        "modules",
        "path",
        "settrace",
        "setprofile",
        "meta_path",
        "os",
        "io",
        "codecs",
        "subprocess",
        "socket",
        "builtins",
        "posix",
        "shutil",
        "importlib",
        "tempfile",
        "linecache",
        "ctypes",
        "select",
        "main",
    ]
)


def only_computes(code: str) -> bool:
    """Return whether ``code`` can be seen to neither change nor start anything."""
    if len(code) > 2000:
        return False
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return all(name.name in _MODULES for name in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in _MODULES
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") and node.attr not in _DOES
    if isinstance(node, ast.Name):
        return not node.id.startswith("__")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _FUNCTIONS
    return not isinstance(node, ast.Global | ast.Nonlocal | ast.ClassDef | ast.AsyncFunctionDef)
