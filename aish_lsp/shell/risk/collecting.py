"""What a text sets its variables to, wherever it does: known before anything in it is judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk.syntax import DEEPEST
from aish_lsp.shell.risk.words import HOLE, SPLIT, Resolver, Variables

if TYPE_CHECKING:
    from tree_sitter import Node

#: A text without these sets nothing.
SETS: Final = re.compile(r"=|\b(?:for|select|read|mapfile|readarray|getopts|let)\b|printf\s+-v")

_READS_NAMES: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let"})


def collect(root: Node, resolver: Resolver, variables: Variables) -> bool:
    """Note what variables are set to; return whether the tree is flat enough to look through."""
    waiting = [(root, 0)]
    while waiting:
        node, level = waiting.pop()
        if level > DEEPEST:
            return False
        kind = node.type
        if kind == "variable_assignment":
            _assignment(node, resolver, variables)
        elif kind == "for_statement":
            _loop(node, resolver, variables)
        elif kind == "command":
            _reading(node, resolver, variables)
        waiting += [(child, level + 1) for child in reversed(node.children)]
    resolver.inner = []
    return True


def _assignment(node: Node, resolver: Resolver, variables: Variables) -> None:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    key = resolver.text(name).partition("[")[0] if name is not None else ""
    appends = any(child.type == "+=" for child in node.children)
    for text in resolver.values(value) if value is not None else [""]:
        (variables.append if appends else variables.add)(key, text.replace(SPLIT, " "))


def _loop(node: Node, resolver: Resolver, variables: Variables) -> None:
    variable = node.child_by_field_name("variable")
    if variable is None:
        return
    values = node.children_by_field_name("value")
    words = [text for value in values for text in resolver.values(value)]
    for word in words or [HOLE]:
        for part in word.split(SPLIT):
            variables.add(resolver.text(variable), part)


def _reading(node: Node, resolver: Resolver, variables: Variables) -> None:
    """Note the names that ``read`` and its like set to what nobody knows."""
    name = node.child_by_field_name("name")
    if name is None or resolver.text(name).lstrip("\\") not in _READS_NAMES:
        return
    variables.add("REPLY", HOLE)
    for child in node.children[1:]:
        word = resolver.text(child).partition("=")[0]
        if word.isidentifier():
            variables.add(word, HOLE)
