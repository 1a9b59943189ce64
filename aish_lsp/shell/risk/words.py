"""A command's text as a tree, and its words as the shell would pass them on.

The tree comes from tree-sitter's grammar of bash; only this module imports those libraries, when
the first command is judged. A word is a text without its quotes and escapes. Anything in it that is
known only when it runs (a variable that the text does not set, a command's output, the names that a
leading pattern matches) is an ``UNKNOWN``. Everything that a text sets its variables to is
collected before anything in the text is judged: a loop over ``~/.bashrc ~/.zshrc`` writes to both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, product
from math import prod
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from aish_lsp.shell.risk.data import MANY, UNKNOWN, table
from aish_lsp.shell.risk.values import (
    PATTERN,
    SPLIT,
    Variables,
    joined,
    printed,
    without_escapes,
)

_language: Final = Language(tree_sitter_bash.language())
_parser: Final = Parser(_language)


def parse(source: bytes) -> Node:
    """Return the root of the tree of ``source``, UTF-8 of no more than ``LONGEST`` characters."""
    return _parser.parse(source).root_node


def nodes(root: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.child_count:
            waiting += reversed(node.children)


def command_names(text: str) -> set[str]:
    """Return the first words of all commands in a text, as they are written; none if it is broken.

    ``text`` has been judged, so that it is neither too long nor too deep.
    """
    root = parse(text.encode())
    names = (node for node in nodes(root) if node.type == "command_name")
    return set() if root.has_error else {(node.text or b"").decode() for node in names}


#: The shell's own variables whose value is always a number.
_NUMBERS: Final = frozenset("$#?")
#: Commands that print a path, which begins with a slash and may hold blanks.
_PRINTS_FOLDER: Final = re.compile(r"pwd|git rev-parse --show-toplevel")
#: Commands whose output is their own words.
_PRINTS_WORDS: Final = re.compile(
    r"(?:echo|printf|which|command -v|type -[pP])\b[^|;&<>`()]*", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
#: Braces that become several words, and hold no others; thousands of commas are read but once.
_BRACES: Final = re.compile(r"\{((?:[^{},.]|\.(?!\.))*+(?:,|\.\.)[^{}]*+)\}")
#: Combinations of variables' values that are looked at.
_MOST_CHOICES: Final = 128
#: Words of braces that are looked at.
_MOST_WORDS: Final = 60
_ESCAPE_IN_QUOTES: Final = re.compile(r"\\([$`\"\\\n])")
_BLANKS: Final = re.compile(r"[ \t\n]+")


@cache
def _prints(key: str) -> re.Pattern[str]:
    """Return the commands whose output is of a known kind: ``prints_settings`` and the like."""
    return re.compile("|".join(table("names")[key]))


class Resolver:
    """Turns nodes of words into texts.

    Attributes:
        pick: which of its values each variable has.
        varies: the variables with several values that were looked up, each with its values.
        chosen: the values of variables that do not have the one of ``pick``.
    """

    __slots__ = ("_quoted", "_source", "_splits", "_variables", "chosen", "pick", "varies")

    def __init__(self, source: bytes, variables: Variables) -> None:
        self._source = source
        self._variables = variables
        self._splits = False
        self._quoted = False
        self.pick = 0
        self.varies: dict[str, Sequence[str]] = {}
        self.chosen: Mapping[str, str] = {}

    def choices(self, nodes: Sequence[Node], *, again: bool) -> Iterator[list[str]]:
        """Yield what ``words`` returns; ``again`` also if it was the same for an earlier ``pick``.

        Where several variables have several values, the first pick has the other combinations; of
        too many, the rest is one in which they are unknown.
        """
        self.varies = {}
        words = self.words(nodes)
        names = self.varies
        if names or again or not self.pick:
            yield words
        if len(names) > 1 and not self.pick:
            others = islice(product(*names.values()), 1, _MOST_CHOICES)
            is_more = prod(map(len, names.values())) > _MOST_CHOICES
            for values in chain(others, [[UNKNOWN] * len(names)] * is_more):
                self.chosen = dict(zip(names, values, strict=True))
                yield self.words(nodes)
            self.chosen = {}

    def words(self, nodes: Iterable[Node]) -> list[str]:
        """Return the words of ``nodes``; an unquoted variable may become several."""
        words: list[str] = []
        for node in nodes:
            kind = node.type
            self._splits = False
            text = self.word(node)
            if self._splits:
                # A blank in the unknown text may begin another word, which may be an option.
                text = MANY + text.lstrip(UNKNOWN)
            if kind == "concatenation" and _BRACES.search(text) and _has_bare_brace(node):
                made = expanded(text)
                if text.count("{") > 1 or any(child.type != "word" for child in node.children):
                    made.insert(bool(words), MANY)
                words += made
            elif SPLIT in text:
                words += [part for part in text.split(SPLIT) if part]
            elif text or kind != "simple_expansion":
                words.append(text)
        return words

    def word(self, node: Node) -> str:
        """Return one word's text, with its UNKNOWNs and SPLITs."""
        kind = node.type
        if kind == "word":
            text = text_in(node)
            return _ESCAPE.sub(_unescaped, text) if "\\" in text else text
        reader = _READERS.get(kind)
        if reader is None:
            return text_in(node) if kind in _PLAIN else UNKNOWN
        return reader(self, node)

    def read_joined(self, node: Node) -> str:
        """Return the parts of a word as one."""
        return "".join([self.word(child) for child in node.children if child.is_named])

    def read_string(self, node: Node) -> str:
        """Return the text between double quotes, with the blanks that the grammar leaves out."""
        content, at, quoted = "", node.start_byte + 1, self._quoted
        self._quoted = True
        for child in node.children[1:]:
            content += self._source[at : child.start_byte].decode("utf-8", "replace")
            at = child.end_byte
            kind = child.type
            if kind == "string_content":
                content += _ESCAPE_IN_QUOTES.sub(_unescaped, text_in(child))
            elif child.is_named:
                content += joined(self.word(child))
        self._quoted = quoted
        return content

    def read_raw(self, node: Node) -> str:
        """Return the text between single quotes."""
        return text_in(node)[1:-1]

    def read_ansi(self, node: Node) -> str:
        """Return the text of ``$'...'``."""
        return without_escapes(text_in(node)[2:-1])

    def read_variable(self, node: Node) -> str:
        """Return the value of ``$name``."""
        name = text_in(node)[1:]
        self._splits = self._splits or name == "@"
        return self._split(self._value(name))

    def _value(self, name: str) -> str:
        if name in _NUMBERS:
            return "0"
        values = self._variables.get(name)
        if len(values) > 1:
            self.varies[name] = values
        return self.chosen.get(name, values[self.pick % len(values)])

    def _split(self, value: str) -> str:
        """Return the words that an unquoted value becomes."""
        if self._quoted:
            return value
        self._splits = self._splits or UNKNOWN in value
        return _BLANKS.sub(SPLIT, value)

    def read_expansion(self, node: Node) -> str:
        """Return the text of ``${...}``: the variable's value, or its replacement."""
        children = node.children[1:-1]
        operators = [child.type for child in children if not child.is_named]
        name = children[0] if children else node
        value = UNKNOWN
        if name.type in {"variable_name", "subscript"}:
            text = text_in(name).partition("[")[0]
            if not operators or operators[0] in {":-", "-", ":=", "="}:
                value = self._value(text)
                if operators and value == UNKNOWN:
                    named = [child for child in children[1:] if child.is_named]
                    value = "".join(map(self.word, named)) or UNKNOWN
        if text_in(name).endswith(("@", "@]", "*]")):
            # Any number of words, which quotes do not join.
            self._splits = self._splits or UNKNOWN in value
        return self._split(value)

    def read_substitution(self, node: Node) -> str:
        """Return what a substitution yields, as far as the output of its command is known."""
        text = text_in(node).strip("$<>()`").strip()
        if _prints("prints_settings").fullmatch(text):
            return "export SETTINGS=1" if node.type == "command_substitution" else "/dev/fd/63"
        if _prints("prints_no_option").fullmatch(text):
            return f"x{UNKNOWN}"
        if _PRINTS_FOLDER.fullmatch(text):
            return self._split(f"/{UNKNOWN}")
        if node.type == "process_substitution":
            return f"/dev/fd/63{UNKNOWN}"
        if _PRINTS_WORDS.fullmatch(text) and all(
            child.type == "command" for child in node.children[1:-1]
        ):
            return self._split(self._printed(node.children[1].children))
        return self._split(UNKNOWN)

    def _printed(self, nodes: list[Node]) -> str:
        """Return what a command of ``_PRINTS_WORDS`` prints."""
        quoted, splits = self._quoted, self._splits
        self._quoted = False
        words = self.words([child for child in nodes if child.is_named])
        self._quoted, self._splits = quoted, splits
        # A pattern becomes the names of files, which may be anything.
        return printed(words) + (UNKNOWN if any(map(PATTERN.search, words)) else "")

    def read_arithmetic(self, _node: Node) -> str:
        """Return a number in place of ``$((...))``."""
        return "0"


def _has_bare_brace(node: Node) -> bool:
    """Return whether a word has an opening brace that is neither quoted nor that of ``${...}``."""
    return any("{" in text_in(child) for child in node.children if child.type == "word")


def expanded(text: str) -> list[str]:
    """Return the words that braces make of one, but not too many."""
    words: list[str] = []
    waiting = [text.replace(SPLIT, " ")]
    while waiting and len(words) + len(waiting) <= _MOST_WORDS:
        word = waiting.pop()
        if (found := _BRACES.search(word)) is None:
            words.append(word)
            continue
        parts = found[1].split(",") if "," in found[1] else [UNKNOWN]
        waiting += [word[: found.start()] + part + word[found.end() :] for part in reversed(parts)]
    return words + [_BRACES.sub(UNKNOWN, word) for word in waiting]


def text_in(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


#: Nodes whose value is their own text.
_PLAIN: Final = frozenset({"number", "variable_name", "test_operator", "brace_expression"})
_READERS: Final = {
    "command_name": Resolver.read_joined,
    "concatenation": Resolver.read_joined,
    "translated_string": Resolver.read_joined,
    "string": Resolver.read_string,
    "raw_string": Resolver.read_raw,
    "ansi_c_string": Resolver.read_ansi,
    "simple_expansion": Resolver.read_variable,
    "expansion": Resolver.read_expansion,
    "command_substitution": Resolver.read_substitution,
    "process_substitution": Resolver.read_substitution,
    "arithmetic_expansion": Resolver.read_arithmetic,
}


# What a text sets its variables to.

_READS_NAMES: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let"})

#: An option of ``declare`` that makes a variable another name of one.
_NAMES_OTHER: Final = re.compile(r"-\w*n")
#: What a text has that sets a variable.
_SETS: Final = re.compile(rf"=|\b(?:for|select|{'|'.join(_READS_NAMES)})\b")


def collect(root: Node, resolver: Resolver, variables: Variables, text: str) -> None:
    """Note what variables are set to in ``text``, whose tree it is.

    With loops and functions, what is further down may run first, or again: values that use other
    variables are computed once for each value that one of these may have.
    """
    if _SETS.search(text) is None:
        return
    while resolver.pick < variables.most:
        for node in nodes(root):
            kind = node.type
            if kind == "variable_assignment":
                _assignment(node, resolver, variables)
            elif kind == "for_statement":
                values = resolver.words(node.children_by_field_name("value"))
                for word in values or [UNKNOWN]:
                    variables.add(_name_in(node, "variable"), word)
            elif kind == "command" and _name_in(node, "name").lstrip("\\") in _READS_NAMES:
                variables.add("REPLY", UNKNOWN)
                for child in node.children[1:]:
                    variables.add(text_in(child).partition("=")[0], UNKNOWN)
        resolver.pick += 1


def _name_in(node: Node, field: str) -> str:
    name = node.child_by_field_name(field)
    return "" if name is None else text_in(name)


def _assignment(node: Node, resolver: Resolver, variables: Variables) -> None:
    value = node.child_by_field_name("value")
    text = "" if value is None else resolver.word(value)
    name, index, _ = _name_in(node, "name").partition("[")
    before = node.prev_sibling
    is_other = before is not None and _NAMES_OTHER.match(text_in(before)) is not None
    if index or is_other or any(child.type == "+=" for child in node.children):
        text = UNKNOWN
    variables.add(name, text.replace(SPLIT, " "))
