"""What the walk through a tree does not see, or what the grammar misreads: that is not safe.

None of these checks knows what a command means. What is hidden in a safe command is confined and
could only read; but beside a command that is a caution it would run as the user, who sees only the
reason for the other. So ``ls ${x//`rm x`}`` is destructive, and not a command that reads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.redaction import is_secret_variable
from aish_lsp.shell.risk.data import DESTRUCTIVE, SAFE, table
from aish_lsp.shell.risk.judge import judge_in_doubt
from aish_lsp.shell.risk.review import COMPUTED, UNSEEN, Review
from aish_lsp.shell.risk.words import nodes, text_in

if TYPE_CHECKING:
    from tree_sitter import Node

#: The kinds of node that the walk reads; there is none where the parser only recovers.
_READ: Final = frozenset(table("grammar")["visited"]) | {"ERROR"}
#: The kinds that stand for the value of the variable in them.
_EXPANDS: Final = frozenset({"simple_expansion", "expansion", "subscript"})
_BEGINS: Final = re.compile(rb"\\.|\$[({\[]|`|[<>]\(", re.DOTALL)
#: Between backticks, a backslash before one of these is removed first.
_UNESCAPED_IN_TICKS: Final = frozenset({b"\\$", b"\\`"})
#: The tokens with which the grammar begins one, or ends it.
_SUBSTITUTES: Final = frozenset({"$(", "${", "$((", "$[", "`", "<(", ">("})
_QUOTED: Final = frozenset({"raw_string", "ansi_c_string"})
#: A text with here-documents of which each ends where the grammar, too, sees the end.
_CLEAR_ENDS: Final = re.compile(
    r"""(?:(?:(?!<<).)*+<<(-)?[ \t]*(['"]?)(\w+)\2(?=[\s|;&>)])"""
    r"""(?:[^'"\n<]|<(?!<)|'[^'\n]*+'|"[^"\n]*+")*+\n"""
    r"""(?:(?![ \t]*\3\b)[^\n]*+\n)*+(?(1)\t*)\3(?:\n|\Z))*+(?:(?!<<).)*+""",
    re.DOTALL,
)
#: Arithmetic, in which ``<<`` begins no here-document.
_SHIFTS: Final = re.compile(r"\(\([\w <>+*/%&|^~$=-]*\)\)")
#: A line that begins like this is taken for words of the line before it.
_SWALLOWED: Final = re.compile(r"\n[ \t]*\\[^\n]")


def note_unread(review: Review, root: Node, text: str, source: bytes) -> None:
    """Record what a walk may not have seen."""
    if root.has_error:
        review.caution("is not understood as bash")
        _look_through(review, text)
    elif "\n" in text and _SWALLOWED.search(text):
        review.caution("has lines that begin with a backslash")
        _look_through(review, text)
    if review.findings.level == SAFE:
        for node in nodes(root):
            kind, outer = node.type, node.parent.type if node.parent else ""
            if kind not in _READ or (kind == "!" and outer == "expansion"):
                review.caution(f"has a part that is not examined: {kind.replace('_', ' ')}")
                break
        names = (node for node in nodes(root) if node.type == "variable_name")
        if any(map(_passes_secret, names)):
            review.caution("prints a variable that may be secret")
        plain = _SHIFTS.sub("", text.replace("<<<", "   "))
        if "<<" in plain and _CLEAR_ENDS.fullmatch(plain) is None:
            review.caution("has a here-document whose end is unclear")
    if review.findings.level != DESTRUCTIVE and _has_unseen_substitution(root, source):
        review.destructive(UNSEEN)


def _passes_secret(name: Node) -> bool:
    """Return whether a variable that may be secret is passed to a command; a test may look at it.

    Not all of them are masked in the environment.
    """
    text = text_in(name)
    outer = name.parent if text.isupper() and is_secret_variable(text) else None
    if outer is not None and outer.type not in _EXPANDS:
        return False
    while outer is not None and outer.type not in {"command", "test_command", "program"}:
        outer = outer.parent
    return outer is not None and outer.type != "test_command"


def _has_unseen_substitution(root: Node, source: bytes) -> bool:
    """Return whether a substitution may begin where the grammar has none."""
    begins = [(match.start(), match[0]) for match in _BEGINS.finditer(source)]
    ticks = any(text == b"`" for _, text in begins)
    return any(
        (text[:1] != b"\\" or (ticks and text in _UNESCAPED_IN_TICKS))
        and _may_run(root, source, index)
        for index, text in begins
    )


def _may_run(root: Node, source: bytes, place: int) -> bool:
    """Return whether the shell may see a substitution at ``place``, where the grammar has none."""
    node = root.descendant_for_byte_range(place, place + 1)
    if node is not None and node.type in _SUBSTITUTES and node.parent is not None:
        return node.parent.type == "ERROR"
    if node is not None and node.type in {"string", "string_content"}:
        return source[place : place + 1] not in {b"<", b">"}
    is_quoted = False
    while node is not None:
        if node.type == "expansion":
            # Quotes in it may not count as quotes.
            return True
        if node.type == "comment":
            # The grammar finds some within words.
            return bool(source[max(node.start_byte - 1, 0) : node.start_byte].strip(b" \t\n"))
        if node.type == "heredoc_body" and node.parent is not None:
            start = next((c for c in node.parent.children if c.type == "heredoc_start"), None)
            return start is None or not set(start.text or b"") & set(b"'\"\\")
        is_quoted = is_quoted or node.type in _QUOTED
        node = node.parent
    return not is_quoted


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
    commands: list[list[str]] = []
    for part in _ENDS.split(text)[:_LOOKED_AT]:
        words = _QUOTES.sub("", part).split()
        at = 0
        while at < len(words) and _BEFORE_NAME.fullmatch(words[at]):
            at += 1
        if at < len(words):
            commands.append(words[at:])
    judge_in_doubt(review, commands, None)
