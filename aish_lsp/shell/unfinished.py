"""Whether a command's text is complete, or goes on in the lines below it.

A line that ends in a backslash goes on, and so does one that begins a here-document, or ends in the
middle of a quote, a group or a loop.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

#: The word that ends a here-document, as it is written after ``<<`` or ``<<-``.
_WORD: Final = re.compile(r"""'([^'\n]+)'|"([^"\n]+)"|\\?([^\s;&|<>()`'"\\]+)""")

#: What matters while an open quote is looked for: an escape, a quote, a comment.
_QUOTING: Final = re.compile(r"\\.|\$?'|\"|(?:^|(?<=[\s;&|()]))#[^\n]*", re.DOTALL)

_QUOTES: Final = ("'", '"', "$'")

#: What may end a group, a loop, a condition or a list. A text that is not completed by one or two
#: of these is not cut off, but wrong.
_ENDINGS: Final = (
    *(")", " x))", "\n}", "\ndone", "\nfi", "\nesac", " ]]", "`", "x;;\nesac"),
    *("\ndo x\ndone", "\nthen x\nfi", "\nx\ndone", "\nx\nfi"),
)
#: The words that end or go on with what another one began: no command has such a name.
_ENDING_WORDS: Final = frozenset(b"do done then elif else fi esac }".split())
#: What must hold a command, and what may not follow a ``then``.
_BODIES: Final = frozenset({"do_group", "compound_statement", "subshell", "else_clause"})
#: Where ``<<`` begins no here-document.
_SHIFTS: Final = frozenset({"string", "raw_string", "arithmetic_expansion", "comment"})
_CLAUSES: Final = frozenset({"elif_clause", "else_clause"})
#: Characters of a text with which that is tried: it takes some 210 parses.
_LONGEST_TRIED: Final = 400

_END: Final = "the end of the command"

#: Bytes of a text that is parsed. In a longer one, or one nested too deeply, nothing is missing:
#: the classifier refuses it.
_LONGEST: Final = 4000

#: The most here-documents that one line begins.
_MOST_HEREDOCS: Final = 20

#: The most lines that a quote, a group or a loop goes on for.
_MOST_LINES: Final = 200


#: What only a text has that may lack its end: the rest is complete.
_OPENS: Final = re.compile(
    r"""[\\'"`(){}\[\]<]|[|&]\s*$|\b(?:if|then|elif|else|while|until|for|select|case|do|in|function)\b""",
)


def may_be_unfinished(text: str) -> bool:
    """Return whether a command's first line may go on in those below it."""
    return _OPENS.search(text) is not None


class Unfinished:
    """A command, line by line.

    Attributes:
        lines: its lines so far.
        missing: what it lacks, for a person; empty if it is complete.
    """

    def __init__(self, first: str) -> None:
        self.lines: list[str] = []
        self.missing = ""
        # The lines without the here-documents, and the words that end those that are open.
        self._code: list[str] = []
        self._words: list[tuple[str, bool]] = []
        if may_be_unfinished(first):
            self.add(first)
        else:
            self.lines.append(first)

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)
        self.take(line)
        self.missing = self.lacks()

    def take(self, line: str) -> None:
        """Read a line, without saying what is missing after it."""
        if not self._words and "<<" not in line:
            self._code.append(line)
        elif not self._words:
            code, self._words = without_heredocs("\n".join([*self._code, line]))
            self._code = code.split("\n")
        else:
            word, may_have_tabs = self._words[0]
            if (line.lstrip("\t") if may_have_tabs else line) == word:
                self._words.pop(0)

    @property
    def in_heredoc(self) -> bool:
        """Whether the next line belongs to a here-document, whatever it is."""
        return bool(self._words)

    @property
    def in_quote(self) -> bool:
        """Whether it lacks the end of a quote. What follows may be prose, and the quote a slip."""
        return not self._words and _open_quote("\n".join(self._code))[0] in _QUOTES

    @property
    def may_go_on(self) -> bool:
        """Whether the next line may belong to it: not after an apostrophe, as in ``it's``."""
        if self._words:
            return True
        code = "\n".join(self._code)
        quote, at = _open_quote(code)
        is_apostrophe = (
            quote == "'" and code[at - 1 : at].isalpha() and code[at + 1 :][:1].isalpha()
        )
        return not is_apostrophe and len(self._code) < _MOST_LINES and len(code) <= _LONGEST

    def lacks(self) -> str:
        """Return what is missing after the lines that were read."""
        if self._words:
            return f"the line {self._words[0][0]} that ends the here-document"
        code = "\n".join(self._code)
        quote, _ = _open_quote(code)
        if quote != "#" and is_joined(code):
            return "the line after the \\"
        if "<<" in code and _has_unread_heredoc(code.encode("utf-8", "replace")):
            return "the line that ends the here-document"
        # The parser takes \\' for the end of $'.
        if quote != "$'" and _is_sound(code):
            return ""
        if quote in _QUOTES:
            return f"the closing {quote[-1]}"
        # A line that makes it wrong does not complete it.
        return _END if _is_cut_off(code) else self.missing


def missing_of(script: str) -> str:
    """Return what a script lacks at its end, for a person; empty if it is complete, or wrong."""
    read = Unfinished("")
    for line in script.split("\n"):
        read.take(line)
    missing = read.lacks()
    # A long one may only be more than the parser understands.
    return "" if missing == _END and len(script) > _LONGEST_TRIED else missing


def is_joined(code: str) -> bool:
    r"""Return whether a text ends in a ``\`` that is not escaped itself."""
    return (len(code) - len(code.rstrip("\\"))) % 2 == 1


def without_heredocs(text: str) -> tuple[str, list[tuple[str, bool]]]:
    """Return a text without the here-documents that its last line begins, and what ends them.

    That is the word of each, and whether tabs may stand before it.
    """
    words: list[tuple[str, bool]] = []
    while len(words) < _MOST_HEREDOCS and "<<" in text.rpartition("\n")[2]:
        code = text.encode("utf-8", "replace")
        start = _heredoc_start(code)
        word = _WORD.match(code[start:].decode()) if start else None
        if word is None:
            break
        before = code[:start].decode().rstrip(" \t")
        words.append((word[1] or word[2] or word[3], before.endswith("-")))
        rest = code[start:].decode()[word.end() :]
        text = f"{before.rstrip('-').removesuffix('<<')}<_{rest}"
    return text, words


@lru_cache(maxsize=256)
def _is_cut_off(code: str) -> bool:
    """Return whether a text with a fault in its grammar only lacks its end."""
    if code.rstrip().endswith(("<", ">")):
        return False  # A placeholder: no shell looks for a file's name on the next line.
    if len(code) > _LONGEST_TRIED or code.rstrip().endswith(("&&", "|")):
        return True
    pairs = map("".join, itertools.product(_ENDINGS, _ENDINGS))
    return any(_is_sound(code + ending) for ending in itertools.chain(_ENDINGS, pairs))


def _is_sound(code: str) -> bool:
    """Return whether a text has no fault in its grammar, as far as that is looked for."""
    root = _parsed(code.encode("utf-8", "replace"))
    return root is None or not (root.has_error or any(map(_is_misplaced, _nodes(root))))


def _is_misplaced(node: Node) -> bool:
    """Return whether a node is a command with the name of an ending word, or a body without one.

    The grammar has both, and no POSIX shell.
    """
    if node.type in ("command_name", "then"):
        after = node.next_sibling
        word = node if node.type == "command_name" else after
        return word is not None and (word.text in _ENDING_WORDS or word.type in _CLAUSES)
    return node.type in _BODIES and all(one.type == "comment" for one in node.named_children)


def _heredoc_start(code: bytes) -> int:
    """Return where the word after the first ``<<`` of a text begins; 0 if there is none."""
    root = _parsed(code)
    starts = (node.start_byte for node in _nodes(root) if node.type == "heredoc_start")
    return next(starts, 0)


def _has_unread_heredoc(code: bytes) -> bool:
    """Return whether a here-document is left that was not read.

    The grammar has none before its command, or with an empty word, and only so many are looked for.
    """
    nodes = [*_nodes(_parsed(code))]
    bare = bytearray(code)
    for node in nodes:
        text = bare[node.start_byte : node.end_byte]
        if node.type in _SHIFTS and not (b"$(" in text[1:] or b"`" in text):
            bare[node.start_byte : node.end_byte] = b"x" * len(text)
    return any(
        node.type == "heredoc_start"
        or (node.type == "ERROR" and b"<<" in bare[max(0, node.start_byte - 1) : node.end_byte + 1])
        for node in nodes
    )


def _nodes(root: Node | None) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text."""
    nodes = [root] if root else []
    while nodes:
        node = nodes.pop()
        yield node
        nodes += reversed(node.children)


def _parsed(code: bytes) -> Node | None:
    from aish_lsp.shell.risk.words import parse  # noqa: PLC0415 - only once it is needed

    return parse(code) if len(code) <= _LONGEST else None


def _open_quote(text: str) -> tuple[str, int]:
    """Return the quote that is open at the end of a text, or ``#`` for a comment, with its place.

    If there is none, this is ``("", 0)``.
    """
    quote, start = "", 0
    at = 0
    while match := _QUOTING.search(text, at):
        mark = match[0]
        at = match.end()
        if quote:
            if mark[0] == "#":
                at = match.start() + 1
            # Between single quotes a backslash escapes nothing, but it does after a dollar.
            elif mark[-1] == quote[-1] and (mark[0] != "\\" or quote == "'"):
                quote, start = "", 0
        elif mark in _QUOTES:
            quote, start = mark, match.start()
        elif mark[0] == "#" and at == len(text):
            return "#", match.start()
    return quote, start
