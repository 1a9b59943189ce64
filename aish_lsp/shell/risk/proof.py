"""Checks that the walk saw all of a text: what it did not see is not safe.

There are two checks, and neither knows what a command means. The first compares the tree with
``_CHILDREN``: text between nodes, or a node that the walk does not read there, is not
understood. The second looks in the bytes, outside single quotes, for the beginnings of
substitutions, and compares them with the substitutions that the walk went into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk.judge import judge
from aish_lsp.shell.risk.review import COMPUTED, UNSEEN, Findings, Review
from aish_lsp.shell.risk.rules import DESTRUCTIVE, SAFE
from aish_lsp.shell.risk.words import table

if TYPE_CHECKING:
    from tree_sitter import Node


def _children() -> dict[str, frozenset[str]]:
    """Return what the walk reads below a node of each kind."""
    grammar = table("grammar")
    sets: dict[str, frozenset[str]] = {}

    def read(kinds: list[str]) -> frozenset[str]:
        named = [sets[kind[1:]] for kind in kinds if kind[0] == "@"]
        return frozenset(kind for kind in kinds if kind[0] != "@").union(*named)

    for name, kinds in grammar["sets"].items():
        sets[name] = read(kinds)
    return {
        parent: read(kinds)
        for parents, kinds in grammar["children"].items()
        for parent in parents.split()
    }


_CHILDREN: Final = _children()
_CALCULATION: Final = re.compile(rb"\$\(\((?:[\d\s+*/%()<>=!&|^~?:,-]|\$[#?])*\)\)")
_TICKS_ESCAPE: Final = re.compile(rb"`[^\\]*\\")
_NOTHING: Final[frozenset[str]] = frozenset()
_PLAIN_INDEX: Final = re.compile(rb"\w+\[(?:\d+|[@*])\]")
_COMPARES_NUMBERS: Final = frozenset({b"-eq", b"-ne", b"-lt", b"-le", b"-gt", b"-ge"})
_PLAIN_NUMBER: Final = re.compile(rb"-?\d+|\$[#?]|\"\$[#?]\"")
_LOOKS_UP: Final = frozenset({b"-v", b"-R"})
_EXPANDS: Final = frozenset({"simple_expansion", "expansion", "subscript"})
#: Variables of the environment (in capitals) whose values look like secrets by name.
_SECRET: Final = re.compile(
    rb"\A(?=[A-Z])(?!SSH_AUTH_SOCK|XAUTHORITY)[A-Z0-9_]*(?:KEY|SECRET|TOKEN|PASS|CRED|AUTH|COOKIE|_UR[LI]"
    rb"|DSN|_PWD|PRIVATE|CERT|WEBHOOK|SIGNATURE)"
)
_HEREDOC: Final = re.compile(
    rb"[^\n]*<<(-?)[ \t]*(?:'(\w+)'|\"(\w+)\"|(\w+))(?=[\s|;&>)])[^\n]*\n", re.DOTALL
)


def _is_plain_expansion(node: Node) -> bool:
    """Return whether an expansion neither calculates nor looks up a name given by a value."""
    names = [child for child in node.children if child.type == "variable_name"]
    if len(names) > 1:
        return False
    if any(child.type == ":" for child in node.children):
        return all(
            child.type in {"${", "}", ":", "variable_name", "number"} for child in node.children
        )
    return True


def _only_compares(node: Node) -> bool:
    """Return whether a part of a test only compares what is known, and does nothing else.

    What ``[[`` compares as numbers is calculated. Between ``[`` and ``]`` an expansion without
    quotes may come to an operator; ``<`` and ``>`` are redirections there, and in a plain ``sh``.
    """
    operators = {child.text for child in node.children if child.type == "test_operator"}
    if operators & _LOOKS_UP or any(child.type in {"<", ">"} for child in node.children):
        return False
    outer: Node | None = node
    while outer is not None and outer.type != "test_command":
        outer = outer.parent
    if outer is not None and outer.children[0].type == "[":
        return all(map(_stays_one, node.children))
    if operators & _COMPARES_NUMBERS:
        ends = (node.children[0].text or b"", node.children[-1].text or b"")
        return all(map(_PLAIN_NUMBER.fullmatch, ends))
    return True


def _stays_one(node: Node) -> bool:
    """Return whether a word stays one word, whatever its variables hold."""
    if node.type == "simple_expansion":
        return _PLAIN_NUMBER.fullmatch(node.text or b"") is not None
    if node.type == "concatenation":
        return all(map(_stays_one, node.children))
    return node.type not in {"expansion", "command_substitution"}


#: Further conditions on a node, by its kind.
_CHECKS: Final[dict[str, Callable[[Node], bool]]] = {
    "expansion": _is_plain_expansion,
    "subscript": lambda node: _PLAIN_INDEX.fullmatch(node.text or b"") is not None,
    # A backslash between backticks is removed before the text between them is read.
    "command_substitution": lambda node: _TICKS_ESCAPE.match(node.text or b"") is None,
    "array": lambda node: b"[" not in (node.text or b""),
    "arithmetic_expansion": lambda node: _CALCULATION.fullmatch(node.text or b"") is not None,
    "test_command": lambda node: (
        node.children[0].type == "[[" or all(map(_stays_one, node.children))
    ),
    "binary_expression": _only_compares,
    "unary_expression": _only_compares,
}


def prove(review: Review, root: Node, text: str, source: bytes, visited: Collection[int]) -> None:
    """Record what a walk may not have seen; ``visited`` are the substitutions that it went into.

    Those are the places where they begin, and where a backtick ends.
    """
    if review.findings.level == SAFE:
        review.caution_if(_unread(root, source))
        if review.plain_shell and _BASH_ALONE.search(text):
            review.caution("only bash reads it this way")
    if review.findings.level != DESTRUCTIVE and _unseen_substitution(root, source, visited):
        review.destructive(UNSEEN)


def _unread(root: Node, source: bytes) -> str | None:
    """Return what the walk does not read in a tree, for the user; None if it reads all of it."""
    if b"<<" in source and (reason := _heredocs(source)):
        return reason
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not node.child_count and node.type != "comment":
            continue
        reason = _unread_in_node(node, source)
        if reason is not None:
            return reason
        if node.type != "arithmetic_expansion":  # ``_CHECKS`` looks at all of it
            waiting += node.children
    return None


def _unread_in_node(node: Node, source: bytes) -> str | None:
    """Return what the walk does not read in one node, apart from those below it."""
    kind, children = node.type, node.children
    allowed = _CHILDREN.get(kind, _NOTHING)
    if kind == "comment" and not _begins_word(node, source):
        return "has a comment within a word"
    if children:
        at, end = (0, len(source)) if node.parent is None else (node.start_byte, node.end_byte)
        has_text = False
        for child in children:
            if child.type not in allowed:
                return f"has a part that is not examined: {child.type.replace('_', ' ')}"
            begin = child.start_byte
            has_text = has_text or (at != begin and _is_text(source[at:begin], kind))
            at = child.end_byte
        if has_text or (at != end and _is_text(source[at:end], kind)):
            return "has text that is not examined"
    if kind in _CHECKS and not _CHECKS[kind](node):
        return "calculates with, or looks up, an unknown value"
    if kind in _EXPANDS and _passes_secret(node):
        return "prints a variable that may be secret"
    return None


def _begins_word(node: Node, source: bytes) -> bool:
    """Return whether a comment begins where it can; the grammar finds some within words."""
    return not source[max(node.start_byte - 1, 0) : node.start_byte].strip(b" \t\n")


def _passes_secret(node: Node) -> bool:
    """Return whether an expansion may pass a secret to a command; a test may look at one."""
    if not any(
        child.type == "variable_name" and _SECRET.search(child.text or b"")
        for child in node.children
    ):
        return False
    outer = node.parent
    while outer is not None and outer.type != "command":
        if outer.type == "test_command":
            return False
        outer = outer.parent
    return True


def _is_text(between: bytes, kind: str) -> bool:
    """Return whether there is more than blanks between nodes, such as a here-document's body."""
    return kind != "heredoc_body" and bool(between.replace(b"\\\n", b"").strip(b" \t\n"))


def _heredocs(source: bytes) -> str | None:
    """Return why a here-document cannot be read; None if it can, or if there is none.

    The grammar and bash disagree about where some of them end.
    """
    bare = source.replace(b"<<<", b"   ")
    if b"<<" not in bare:
        return None
    found = _HEREDOC.match(bare, bare.rfind(b"\n", 0, bare.find(b"<<")) + 1)
    if found is None or bare.count(b"<<") > 1:
        return "has a here-document whose end is unclear"
    tabs, mark = found[1], found[2] or found[3] or found[4]
    lines = bare[found.end() :].split(b"\n")
    ends = [at for at, line in enumerate(lines) if (line.lstrip(b"\t") if tabs else line) == mark]
    likely = [at for at, line in enumerate(lines) if line.strip() == mark]
    if not ends or likely != ends[:1]:
        return "has a here-document whose end is unclear"
    return None


#: Syntax that other shells read differently: they may run what is text to bash.
_BASH_ALONE: Final = re.compile(
    r"\[\[|\$['\"]|[<>]\(|<<<|&>|\|&|;&|\b(?:function|select)\b|(?<!\$)\(\("
)


# --- what begins a substitution -------------------------------------------------------------------

_BEGINS: Final = re.compile(rb"\\.|\$[({\[]|`|[<>]\(", re.DOTALL)
#: Between backticks, a backslash before one of these is removed first.
_UNESCAPED_IN_TICKS: Final = frozenset({b"\\$", b"\\`"})
_QUOTED: Final = frozenset({"raw_string", "ansi_c_string", "comment"})


def _unseen_substitution(root: Node, source: bytes, visited: Collection[int]) -> bool:
    """Return whether a substitution may begin where the walk did not go into one."""
    if not (b"$" in source or b"`" in source or b"(" in source or b"\\" in source):
        return False
    found = [(match.start(), match[0]) for match in _BEGINS.finditer(source)]
    ticks = any(text == b"`" for _, text in found)
    places = [
        place
        for place, text in found
        if place not in visited and (text[:1] != b"\\" or (ticks and text in _UNESCAPED_IN_TICKS))
    ]
    return any(_may_run(root, source, place) for place in places)


def _may_run(root: Node, source: bytes, place: int) -> bool:
    """Return whether the shell looks for substitutions in the text at ``place``."""
    node = root.descendant_for_byte_range(place, place + 1)
    if node is not None and node.type in {"string", "string_content"}:
        return source[place : place + 1] not in {b"<", b">"}
    while node is not None and node.parent is not None:
        if node.type == "comment":
            return not _begins_word(node, source)
        if node.type in _QUOTED:
            return _is_in_expansion(node)
        if node.type == "heredoc_body":
            start = next((c for c in node.parent.children if c.type == "heredoc_start"), None)
            return start is None or not set(start.text or b"") & set(b"'\"\\")
        node = node.parent
    return True


def _is_in_expansion(node: Node) -> bool:
    """Return whether quotes are inside ``${...}``, where they may not count as quotes."""
    outer = node.parent
    while outer is not None and outer.type in {"concatenation", "expansion", "string"}:
        if outer.type == "expansion":
            return True
        outer = outer.parent
    return False


# What the grammar is known to misread.

#: A line that begins like this is taken for words of the line before it.
_SWALLOWED: Final = re.compile(r"\n[ \t]*\\[^\n]")


def doubt(review: Review, text: str, *, has_error: bool) -> None:
    """Record what the tree of ``text`` may not show; ``has_error`` says that it does not parse."""
    if has_error:
        review.caution("is not understood as bash")
        _look_through(review, text)
    elif "\n" in text and _SWALLOWED.search(text):
        review.caution("has lines that begin with a backslash")
        _look_through(review, text)


# Looks word by word through a text that does not parse.
#
# Every place where a command could begin counts as one. Only destructive findings matter: a text
# that does not parse is never safe anyway.

_ENDS: Final = re.compile(r"\|\||&&|\$\(|[;&|\n(){}`]")
_QUOTES: Final = re.compile(r"[\\'\"]")
#: What may precede a command's name.
_BEFORE_NAME: Final = re.compile(
    r"if|then|else|elif|do|while|until|!|time|in|case|for|function|\w+=\S*|\d*[<>].*|\W*"
)
#: Parts of a text that are judged.
_LOOKED_AT: Final = 400
_PIPED: Final = re.compile(
    r"\|&?\s*+(?:sudo\s++)?(?:[^\s|;&]{0,100}/)?(?:ba|da|z|k|fi|c|tc)?sh(?![\w.-])"
)
_BRACES: Final = re.compile(r"(?:^|[;&|\n(])[ \t]*+\{[^\s{}]*,")
_DEVICE: Final = re.compile(r">[|&]?\s*+/dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)")


def _look_through(review: Review, text: str) -> None:
    """Record what looks destructive in ``text``."""
    if _PIPED.search(text):
        review.destructive(UNSEEN)
    if _BRACES.search(text):
        review.destructive(COMPUTED)
    if _DEVICE.search(_QUOTES.sub("", text)):
        review.destructive("writes to a device")
    real, review.findings = review.findings, Findings()
    for part in _ENDS.split(text)[:_LOOKED_AT]:
        words = _QUOTES.sub("", part).split()
        at = 0
        while at < len(words) and _BEFORE_NAME.fullmatch(words[at]):
            at += 1
        if at < len(words):
            judge(review, words[at:], None)
    found, review.findings = review.findings, real
    if found.level == DESTRUCTIVE:
        for reason in found.reasons:
            review.destructive(reason)
