"""What a text sets its variables to, wherever it does: known before anything in it is judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk.syntax import DEEPEST
from aish_lsp.shell.risk.words import SPLIT, UNKNOWN, Resolver, Variables

if TYPE_CHECKING:
    from tree_sitter import Node

#: Rounds in which what is made of other variables is looked at.
_ROUNDS: Final = 3
#: In a text without any of these nothing is set.
_SETS: Final = ("=", "for", "select", "read", "mapfile", "getopts", "let", "printf")
_ASSIGNS: Final = re.compile(r"(?<![\w./:=,@%+-])\w+(?:\+?=|\[)")

_READS_NAMES: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let"})


def may_set(text: str) -> bool:
    """Return whether a text may set variables."""
    found = [word for word in _SETS if word in text]
    return bool(found) and (found != ["="] or _ASSIGNS.search(text) is not None)


def collect(root: Node, resolver: Resolver, variables: Variables) -> bool:
    """Note what variables are set to; return whether the tree is flat enough to look through.

    What stands further down may run first, or again, where there are loops and functions: what is
    made of other variables is noted until nothing new comes of it, or else is not known.
    """
    unsettled: set[str] = set()
    for _ in range(_ROUNDS):
        before = variables.counts()
        derived = _collect(root, resolver, variables)
        if derived is None:
            return False
        after = variables.counts()
        if not derived or before == after:
            return True
        unsettled = derived | {name for name in after if before.get(name) != after[name]}
    for name in unsettled:
        variables.add(name, UNKNOWN)
    return True


def _collect(root: Node, resolver: Resolver, variables: Variables) -> set[str] | None:
    """Note what variables are set to; return those that are made of others.

    None says that the tree is not flat enough to look through.
    """
    derived: set[str] = set()
    waiting = [(root, 0)]
    while waiting:
        node, level = waiting.pop()
        if level > DEEPEST:
            return None
        kind = node.type
        if kind == "variable_assignment":
            _assignment(node, resolver, variables, derived)
        elif kind == "for_statement":
            _loop(node, resolver, variables, derived)
        elif kind == "command":
            _reading(node, resolver, variables)
        if node.child_count:
            waiting += [(child, level + 1) for child in reversed(node.children)]
    resolver.inner = []
    return derived


def _assignment(node: Node, resolver: Resolver, variables: Variables, derived: set[str]) -> None:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    key = resolver.text(name).partition("[")[0] if name is not None else ""
    appends = any(child.type == "+=" for child in node.children)
    if appends or (value is not None and "$" in resolver.text(value)):
        derived.add(key)
    for text in resolver.values(value) if value is not None else [""]:
        if appends:
            is_array = value is not None and value.type == "array"
            variables.append(key, text.replace(SPLIT, " "), is_array=is_array)
        else:
            variables.add(key, text.replace(SPLIT, " "))


def _loop(node: Node, resolver: Resolver, variables: Variables, derived: set[str]) -> None:
    variable = node.child_by_field_name("variable")
    if variable is None:
        return
    values = node.children_by_field_name("value")
    if any("$" in resolver.text(value) for value in values):
        derived.add(resolver.text(variable))
    for word in resolver.items(values) if values else [UNKNOWN]:
        variables.add(resolver.text(variable), word)


def _reading(node: Node, resolver: Resolver, variables: Variables) -> None:
    """Note the names that ``read`` and its like set to what nobody knows."""
    name = node.child_by_field_name("name")
    if name is None or resolver.text(name).lstrip("\\") not in _READS_NAMES:
        return
    variables.add("REPLY", UNKNOWN)
    for child in node.children[1:]:
        word = resolver.text(child).partition("=")[0]
        if word.isidentifier():
            variables.add(word, UNKNOWN)
