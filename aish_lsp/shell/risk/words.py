"""A command's text as a tree, and its words as the shell would pass them on.

The tree comes from tree-sitter's grammar of bash; only this module imports those libraries, when
the first command is judged. A word is a text without its quotes and escapes. Anything in it that is
known only when it runs (a variable that the text does not set, a command's output, the names that a
leading pattern matches) is an ``UNKNOWN``. Everything that a text sets its variables to is
collected before anything in the text is judged: a loop over ``~/.bashrc ~/.zshrc`` writes to both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from aish_lsp.shell.risk.data import MANY, UNKNOWN, table
from aish_lsp.shell.risk.values import (
    MOST_VALUES,
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


def command_names(text: str) -> set[str]:
    """Return the first words of all commands in a text, as they are written; none if it is broken.

    ``text`` has been judged, so that it is neither too long nor too deep.
    """
    names: set[str] = set()
    waiting = [parse(text.encode())]
    while waiting:
        node = waiting.pop()
        if node.has_error:
            return set()
        if node.type == "command_name":
            names.add((node.text or b"").decode())
        waiting += node.children
    return names


#: The kinds of node that the walk reads; there is none where the parser only recovers.
_READ: Final = frozenset(table("grammar")["visited"]) | {"ERROR"}
#: The kinds that stand for the value of the variable in them.
_EXPANDS: Final = frozenset({"simple_expansion", "expansion", "subscript"})


def unread(root: Node) -> tuple[list[Node], list[Node]]:
    """Return the nodes in a tree that the walk does not read, and the names that are expanded."""
    parts: list[Node] = []
    names: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        outer = node.type
        children = node.children
        for child in children:
            kind = child.type
            if kind not in _READ or (kind == "!" and outer == "expansion"):
                parts.append(child)
            elif kind == "variable_name" and outer in _EXPANDS:
                names.append(child)
        waiting += children
    return parts, names


#: How many combinations of its variables' values a command is judged for.
MOST_CHOICES: Final = 64
#: The shell's own variables whose value is always a number.
_NUMBERS: Final = frozenset("$#?")
#: How many of the words that a word's braces expand to are looked at.
MOST_WORDS: Final = 64

#: Commands that print a path, which begins with a slash and may hold blanks.
_PRINTS_FOLDER: Final = re.compile(r"pwd|git rev-parse --show-toplevel")
#: Commands whose output is their own words.
_PRINTS_WORDS: Final = re.compile(
    r"(?:echo|printf|which|command -v|type -[pP])\b[^|;&<>`()]*", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
#: Braces that hold no others.
_BRACES: Final = re.compile(r"\{([^{}]*+)\}")
_ESCAPE_IN_QUOTES: Final = re.compile(r"\\([$`\"\\\n])")
_BLANKS: Final = re.compile(r"[ \t\n]+")


@cache
def _prints(key: str) -> re.Pattern[str]:
    """Return the commands whose output is of a known kind: ``prints_settings`` and the like."""
    return re.compile("|".join(table("names")[key]))


class Resolver:
    """Turns nodes of words into texts.

    Attributes:
        pick: which combination of their values the variables have.
        most: how many combinations there are for the variables looked up so far.
        inner: the substitutions met so far; the commands in them run as well.
    """

    __slots__ = (
        *("_quoted", "_ranks", "_source", "_splits", "_variables"),
        *("inner", "most", "pick"),
    )

    def __init__(self, source: bytes, variables: Variables) -> None:
        self._source = source
        self._variables = variables
        self._splits = False
        self._quoted = False
        self._ranks: dict[str, int] = {}
        self.pick = 0
        self.most = 1
        self.inner: list[Node] = []

    def start(self) -> None:
        """Begin with the first combination of the variables' values."""
        self.pick = 0
        if self.most > 1:
            self.most = 1
            self._ranks = {}

    def words(self, nodes: list[Node]) -> list[str]:
        """Return the words of ``nodes``; an unquoted variable may become several."""
        words: list[str] = []
        for node in nodes:
            kind = node.type
            if kind == "word":
                text = self.text(node)
                words.append(_ESCAPE.sub(_unescaped, text) if "\\" in text else text)
                continue
            if kind in _WHOLE:
                words.append(self.word(node))
                continue
            self._splits = False
            text = self.word(node)
            if self._splits:
                # A blank in the unknown text may begin another word, which may be an option.
                text = MANY + text.lstrip(UNKNOWN)
            if kind == "concatenation" and self._has_braces(node):
                if text.count("{") > 1 or any(child.type != "word" for child in node.children):
                    # Quoted or nested braces are not distinguished from plain ones.
                    words.append(MANY)
                words += expanded(text)
            elif SPLIT in text:
                words += [part for part in text.split(SPLIT) if part]
            elif text or kind != "simple_expansion":
                words.append(text)
        return words

    def _has_braces(self, node: Node) -> bool:
        """Return whether a word has braces that expand, other than those of ``${...}``."""
        text = self.text(node)
        return ("," in text or ".." in text) and any(
            "{" in self.text(child) for child in node.children if child.type == "word"
        )

    def word(self, node: Node) -> str:
        """Return one word's text, with its UNKNOWNs and SPLITs."""
        kind = node.type
        if kind == "word":
            text = self.text(node)
            return _ESCAPE.sub(_unescaped, text) if "\\" in text else text
        reader = _READERS.get(kind)
        if reader is None:
            self.inner += node.children
            return self.text(node) if kind in _PLAIN else UNKNOWN
        return reader(self, node)

    def values(self, node: Node) -> list[str]:
        """Return the texts that one word may become, as a value."""
        return self._choices(lambda: [self.word(node)])

    def items(self, nodes: list[Node]) -> list[str]:
        """Return the words that ``nodes``, a list, may become."""
        return self._choices(lambda: self.words(nodes))

    def _choices(self, read: Callable[[], list[str]]) -> list[str]:
        """Return what ``read`` finds for each combination of the variables' values."""
        self.start()
        words = read()
        while self.pick + 1 < min(self.most, MOST_VALUES):
            self.pick += 1
            words += read()
        if self.most > MOST_VALUES:
            words.append(UNKNOWN)
        self.start()
        return words

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        return (node.text or b"").decode("utf-8", "replace")

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
                content += _ESCAPE_IN_QUOTES.sub(_unescaped, self.text(child))
            elif child.is_named:
                content += joined(self.word(child))
        self._quoted = quoted
        return content

    def read_raw(self, node: Node) -> str:
        """Return the text between single quotes."""
        return self.text(node)[1:-1]

    def read_ansi(self, node: Node) -> str:
        """Return the text of ``$'...'``."""
        return without_escapes(self.text(node)[2:-1])

    def read_variable(self, node: Node) -> str:
        """Return the value of ``$name``."""
        name = self.text(node)[1:]
        self._splits = self._splits or name == "@"
        return self._split(self._value(name))

    def _value(self, name: str) -> str:
        if name in _NUMBERS:
            return "0"
        values = self._variables.get(name)
        count = len(values)
        if count == 1:
            return values[0]
        rank = self._ranks.setdefault(name, self.most)
        if rank == self.most:
            self.most *= count
        return UNKNOWN if self.pick < 0 else values[self.pick // rank % count]

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
        rest = children[1:]
        self.inner.append(node)
        value = UNKNOWN
        if name.type in {"variable_name", "subscript"}:
            text = self.text(name).partition("[")[0]
            if not operators:
                value = self._value(text)
            elif operators[0] in {":-", "-", ":=", "="}:
                value = self._value(text)
                named = [child for child in rest if child.is_named]
                if value == UNKNOWN and named:
                    value = "".join(self.word(child) for child in named)
        if self.text(name).endswith(("@", "@]", "*]")):
            # Any number of words, which quotes do not join.
            self._splits = self._splits or UNKNOWN in value
        return self._split(value)

    def read_substitution(self, node: Node) -> str:
        """Return what a substitution yields, as far as the output of its command is known."""
        self.inner.append(node)
        text = self.text(node).strip("$<>()`").strip()
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

    def read_arithmetic(self, node: Node) -> str:
        """Return a number in place of ``$((...))``."""
        self.inner.append(node)
        return "0"


def expanded(text: str) -> list[str]:
    """Return the words that braces make of one, whether or not they are quoted."""
    words: list[str] = []
    waiting = [text.replace(SPLIT, " ")]
    while waiting and len(words) + len(waiting) <= MOST_WORDS:
        word = waiting.pop()
        braces = next(
            (match for match in _BRACES.finditer(word) if "," in match[1] or ".." in match[1]), None
        )
        if braces is None:
            words.append(word)
        elif ".." in braces[1]:
            waiting.append(f"{word[: braces.start()]}{UNKNOWN}{word[braces.end() :]}")
        else:
            parts = [f"{word[: braces.start()]}{part}" for part in braces[1].split(",")]
            waiting += [f"{part}{word[braces.end() :]}" for part in reversed(parts)]
    return words + waiting


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


#: Nodes whose value is their own text.
_PLAIN: Final = frozenset({"number", "variable_name", "test_operator", "brace_expression"})
#: Nodes that are always exactly one word.
_WHOLE: Final = frozenset({"word", "raw_string", "ansi_c_string", "number"})
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

#: How often the values that use other variables are computed.
_ROUNDS: Final = 3
_READS_NAMES: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let"})


#: What a text has that sets a variable.
_SETS: Final = re.compile(rf"=|\b(?:for|select|{'|'.join(_READS_NAMES)})\b")


def collect(root: Node, resolver: Resolver, variables: Variables, text: str) -> None:
    """Note what variables are set to in ``text``, whose tree it is.

    With loops and functions, what is further down may run first, or again. So values that use other
    variables are computed until nothing new comes up; those that still change are unknown.
    """
    if _SETS.search(text) is None:
        return
    unsettled: set[str] = set()
    for _ in range(_ROUNDS):
        before = variables.counts()
        derived = _collect(root, resolver, variables)
        after = variables.counts()
        if not derived or before == after:
            return
        unsettled = derived | {name for name in after if before.get(name) != after[name]}
    for name in unsettled:
        variables.add(name, UNKNOWN)


def _collect(root: Node, resolver: Resolver, variables: Variables) -> set[str]:
    """Note what variables are set to; return those whose values use others."""
    derived: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind == "variable_assignment":
            _assignment(node, resolver, variables, derived)
        elif kind == "for_statement":
            _loop(node, resolver, variables, derived)
        elif kind == "command":
            _reading(node, resolver, variables)
        if node.child_count:
            waiting += reversed(node.children)
    resolver.inner = []
    return derived


def _assignment(node: Node, resolver: Resolver, variables: Variables, derived: set[str]) -> None:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    key = resolver.text(name).partition("[")[0] if name is not None else ""
    if any(child.type == "+=" for child in node.children):
        variables.add(key, UNKNOWN)
        return
    if value is not None and "$" in resolver.text(value):
        derived.add(key)
    for text in resolver.values(value) if value is not None else [""]:
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
    """Note the names that ``read`` and its like set to unknown values."""
    name = node.child_by_field_name("name")
    if name is None or resolver.text(name).lstrip("\\") not in _READS_NAMES:
        return
    variables.add("REPLY", UNKNOWN)
    for child in node.children[1:]:
        word = resolver.text(child).partition("=")[0]
        if word.isidentifier():
            variables.add(word, UNKNOWN)
