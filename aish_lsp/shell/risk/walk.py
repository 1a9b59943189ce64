"""The review of a command: finds everything that runs, in the syntax tree of each of its texts.

The walk keeps a stack of its own instead of recursing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk.data import SAFE, UNKNOWN
from aish_lsp.shell.risk.judge import judge
from aish_lsp.shell.risk.review import Review
from aish_lsp.shell.risk.unread import note_unread
from aish_lsp.shell.risk.values import Input, joined, printed_by, text_of
from aish_lsp.shell.risk.words import Resolver, collect, parse, text_in
from aish_lsp.shell.risk.wrappers import assignment_risk

if TYPE_CHECKING:
    from tree_sitter import Node


_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_READS: Final = frozenset({"<", "<&", "<&-", "<>"})
_WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
#: What ``>&`` takes for a descriptor, or for closing one; anything else is a file.
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
#: An array index in quotes is only text until something evaluates it as arithmetic.
_INDEX: Final = re.compile(r"\w\[[^\]]*?(?:[$<]\(|`)")
_CALCULATES: Final = re.compile(
    r"\[\[|\(\(|\$\[|\]\+?=|\btest\b|\[\s|\b(?:read|let|declare|typeset|local|printf|unset|wait)\b"
    r"|\b(?:readonly|export|mapfile|readarray|getopts)\b|\$\{"
)
#: Options of ``declare``: a name for another variable, a number, other letters.
_CHANGES_VALUES: Final = re.compile(r"[-+]\w*[nilcu]")
#: What runs the words that a variable expands to: ``IFS`` decides how they are split.
_RUNS_WORDS: Final = re.compile(
    r"(?:^|[\n;&|({`!]|\b(?:do|then|else|eval|exec|command|builtin|sudo|env|nohup|time|xargs|sh|-c))"
    r"\s*\"?\$[\w{@*]"
)
#: An escape in the body of a here-document whose delimiter is not quoted.
_ESCAPE_IN_HEREDOC: Final = re.compile(r"\\([$`\\])")
#: Nested subshells, which the grammar takes for arithmetic.
_DOUBLED: Final = re.compile(r"\((?=\()")


def walk(review: Review, text: str) -> None:
    """Walk through ``text``; the commands in it are judged, or queued in ``review``."""
    if "\\\n" in text:
        # The grammar sometimes ends a word where a shell does not.
        walk(review, text.replace("\\\n", ""))
    source = text.encode("utf-8", "replace")
    root = parse(source)
    if root.has_error and _DOUBLED.search(text):
        # The shell also tries arithmetic first, and then nested subshells.
        walk(review, _DOUBLED.sub("( ", text))
    if "[" in text and _INDEX.search(text) and _CALCULATES.search(text):
        review.destructive("may run a command in an array index")
    collect(root, Resolver(source, review.variables), review.variables, text)
    if "@P}" in text and review.variables.names:
        review.destructive("runs what a variable holds, as in a prompt")
    for pick in range(review.variables.most):
        _Walk(review, source, pick).run(root)
    note_unread(review, root, text, source)


class _Walk:
    """The walk through one text, in which each variable has one of its values."""

    def __init__(self, review: Review, source: bytes, pick: int) -> None:
        self._review = review
        self._source = source
        self._resolver = Resolver(source, review.variables)
        self._resolver.pick = pick
        self._stack: list[tuple[Node, Input]] = []

    def run(self, root: Node) -> None:
        """Go through the tree."""
        self._push(root.children, None)
        self._go_on(0)

    def _go_on(self, depth: int) -> None:
        """Work through the stack until only its first ``depth`` items are left."""
        while len(self._stack) > depth:
            node, stdin = self._stack.pop()
            handler = _HANDLERS.get(node.type)
            if handler is not None:
                handler(self, node, stdin)
            elif node.child_count:
                self._push(node.children, _shared(stdin))

    def _push(self, nodes: Sequence[Node], stdin: Input) -> None:
        self._stack += [(node, stdin) for node in reversed(nodes)]

    # --- what runs -------------------------------------------------------------------------------

    def command(
        self, node: Node, stdin: Input, further: Sequence[Node] = (), *, unclear: bool = False
    ) -> None:
        """Judge a simple command.

        ``further`` are words after a redirection that follows it; ``unclear`` says that it is not
        clear which redirection it reads from.
        """
        words: list[Node] = []
        unclear = unclear or self._reads_in_doubt(node)
        stdin = UNKNOWN if unclear else stdin
        for child in node.children:
            kind = child.type
            if kind in _REDIRECTS:
                words += self._redirect(child)
                stdin = stdin if unclear else self._input(child, stdin)
            elif kind == "command_name" and child.child_count == 1:
                words += child.children
            elif kind not in {"$", "variable_assignment"} and not child.is_missing:
                words.append(child)
        self._judge([*words, *further], stdin)
        self._push([child for child in node.children if child.type not in _REDIRECTS], None)

    def _judge(self, nodes: Sequence[Node], stdin: Input) -> None:
        """Judge the command that words make, unless that was done for these values."""
        # What it reads, or a file that it runs, may have another text.
        again = bool(self._review.written) or stdin not in (None, UNKNOWN)
        for words in filter(None, self._resolver.choices(nodes, again=again)):
            judge(self._review, words, stdin)

    def pipeline(self, node: Node, stdin: Input) -> None:
        """Walk a pipeline: each stage reads what the one before it prints."""
        self._stack += reversed(self._stages(node, stdin))

    def _stages(self, node: Node, stdin: Input) -> list[tuple[Node, Input]]:
        stages = []
        for stage in [child for child in node.children if child.is_named]:
            stages.append((stage, stdin))
            stdin = partial(self._output, stage, stdin)
        return stages

    def redirected(self, node: Node, stdin: Input) -> None:
        """Judge a statement with redirections: what it reads, and what it writes where."""
        body = node.child_by_field_name("body")
        while body is not None and body.type == "list":
            # The grammar gives them to all of ``cd a && ls > b``; the shell opens ``b`` in ``a``.
            *rest, body = body.named_children
            depth = len(self._stack)
            self._push(rest, _shared(stdin))
            self._go_on(depth)
        unclear = self._reads_in_doubt(node)
        after: list[tuple[Node, Input]] = []
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        for child in redirects:
            if child.type == "heredoc_redirect":
                stdin = UNKNOWN if unclear else self._heredoc(child)
                after += self._rest_of_line(child, partial(self._body_output, body, stdin))
            else:
                stdin = self._input(child, stdin)
        produced = partial(self._body_output, body, stdin)
        further: list[Node] = []
        for child in redirects:
            further += self._redirect(child, produced, empties=self._empties(body))
        self._stack += reversed(after)
        if body is None:
            return
        last = _last_command(body)
        if body.type != "command":
            self._stack.append((body, stdin))
        if last is not None and (last is body or further or any(map(_gives_input, redirects))):
            self.command(last, stdin, further, unclear=unclear)

    def _input(self, node: Node, stdin: Input) -> Input:
        """Return what a command reads after the redirection ``node``: of a file, what is known."""
        if node.type == "herestring_redirect":
            return self._herestring(node)
        if not _gives_input(node):
            return stdin
        named = node.named_children
        path = self._resolver.word(named[-1]) if named else UNKNOWN
        return self._review.runs_file(path) or UNKNOWN

    def _rest_of_line(self, node: Node, produced: Input) -> list[tuple[Node, Input]]:
        """Return the rest of a here-document's first line, which the grammar puts in its node."""
        rest: list[tuple[Node, Input]] = []
        for child in node.named_children:
            kind = child.type
            if kind == "pipeline":
                rest += self._stages(child, produced)
            elif kind == "file_redirect":
                self._redirect(child, produced)
            elif kind not in {"heredoc_start", "heredoc_end"}:
                rest.append((child, None))
        return rest

    def _redirect(self, node: Node, produced: Input = None, *, empties: bool = False) -> list[Node]:
        """Judge one redirection; return the words that the grammar adds to its target."""
        if node.type != "file_redirect":
            # What a here-document holds is with the rest of its line.
            self._push(node.children if node.type == "herestring_redirect" else (), None)
            return []
        named = [child for child in node.named_children if child.type != "file_descriptor"]
        operator = next((child.type for child in node.children if not child.is_named), "")
        if named:
            target = self._resolver.word(named[0])
            self._target(operator, target, produced, empties=empties)
        self._push(named, None)
        return named[1:]

    def bare_redirect(self, node: Node, _stdin: Input) -> None:
        """Judge a redirection without a command, which only empties its target."""
        self._redirect(node, empties=True)

    def _target(self, operator: str, target: str, produced: Input, *, empties: bool) -> None:
        review = self._review
        if operator not in _WRITES:
            judge(review, ["cat", target], None)
        elif operator != ">&" or _DESCRIPTOR.fullmatch(target) is None:
            append = operator in {">>", "&>>"}
            written = text_of(produced, UNKNOWN)
            review.writes(target, "adds" if append else "overwrites", written)
            if empties and not append and not target.startswith("/dev/"):
                review.destructive("empties a file")

    def _empties(self, body: Node | None) -> bool:
        """Return whether a redirected command prints nothing, so that the file is only emptied."""
        command = None if body is None else _last_command(body)
        if command is None:
            return body is None
        words = text_in(command).split()
        return words[0] in {":", "true"} or words in _PRINT_NOTHING

    def assign(self, node: Node, _stdin: Input) -> None:
        """Judge an assignment: what it sets, and what runs in its value."""
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        key = "" if name is None else text_in(name).partition("[")[0]
        parent, following = node.parent, node.next_named_sibling
        before_command = parent is not None and (
            parent.type == "command" or parent.children[0].type == "export"
        )
        risk, reason, is_command = assignment_risk(key, before_command=before_command)
        review = self._review
        if key == "IFS" and before_command and following is not None:
            # Before the shell's own ``read`` it only says how the line is split.
            risk = SAFE if text_in(following) == "read" else risk
        elif key == "IFS" and _RUNS_WORDS.search(self._source.decode()):
            review.destructive("may split what it runs differently")
        review.findings.add(risk, reason)
        if review.depth and not before_command:
            # What was known about a variable before this text was found may no longer hold.
            review.caution("sets variables in a text that another command runs")
        if value is not None and is_command:
            review.add_text(joined(self._resolver.word(value)))
        self._push(node.children, None)

    def declaration(self, node: Node, _stdin: Input) -> None:
        """Judge ``export``, ``declare`` and the like; without assignments they print variables."""
        names = node.named_children
        if not any(child.type == "variable_assignment" for child in names):
            self._review.caution("prints or changes variables")
        if any(_CHANGES_VALUES.match(text_in(child)) for child in names):
            self._review.caution("declares a variable whose value is not what it is set to")
        self._push(names, None)

    def function(self, node: Node, _stdin: Input) -> None:
        """Judge a function: its body counts as if it ran; one that pipes to itself never ends."""
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            return
        text = text_in(name)
        if self._review.depth == 0 and node.parent is not None and node.parent.type == "program":
            self._review.functions.add(text)
        else:
            self._review.caution("defines a function for a part of the command")
        if re.search(rf"(?<![\w./-]){re.escape(text)}(?![\w./=-])\s*[|&]", text_in(body)):
            self._review.destructive("starts itself over and over")
        self._push(node.children, None)

    def loop(self, node: Node, stdin: Input) -> None:
        """Judge ``for`` or ``select``, which set a variable as an assignment does."""
        variable = node.child_by_field_name("variable")
        if variable is not None:
            name = text_in(variable)
            risk, reason, _ = assignment_risk(name, before_command=False)
            self._review.findings.add(risk, reason)
        self._push(node.children, _shared(stdin))

    def unset(self, node: Node, _stdin: Input) -> None:
        self._review.caution("unsets variables or functions")
        if "HISTFILE" in text_in(node):
            self._review.destructive("hides what is done from the history")
        self._push(node.children, None)

    # --- what one command gives to the next ------------------------------------------------------

    def _herestring(self, node: Node) -> str:
        return joined(self._resolver.word(node.children[-1]))

    def _heredoc(self, node: Node) -> str:
        """Return a here-document's text: everything between its first line and its end."""
        start = next((child for child in node.children if child.type == "heredoc_start"), node)
        end = next((child for child in node.children if child.type == "heredoc_end"), None)
        begin = self._source.find(b"\n", start.end_byte) + 1
        text = self._source[begin : end.start_byte if end else node.end_byte].decode(
            "utf-8", "replace"
        )
        if set(start.text or b"") & set(b"'\"\\"):
            return text
        # Expansions are inserted before the text is read.
        is_literal = not {"$", "`"} & set(text)
        return _ESCAPE_IN_HEREDOC.sub(r"\1", text) + ("" if is_literal else f"# {UNKNOWN}\n")

    def _reads_in_doubt(self, node: Node) -> bool:
        """Return whether it is unclear which redirection a command reads from.

        The last one counts, but several may be in different places of the tree.
        """
        if b"<" not in self._source:
            return False
        redirects: list[Node] = []
        waiting = [node]
        while waiting:
            for child in waiting.pop().children:
                kind = child.type
                if kind == "heredoc_redirect" or (kind == "command" and node.type != "pipeline"):
                    waiting.append(child)
                if kind in _REDIRECTS and _gives_input(child):
                    redirects.append(child)
        return len(redirects) > 1 or any(
            part.type == "file_descriptor" and part.text != b"0"
            for child in redirects
            for part in child.children
        )

    def _body_output(self, body: Node | None, stdin: Input) -> str:
        return "" if body is None else self._output(body, stdin)

    def _output(self, node: Node, stdin: Input) -> str:
        """Return what a stage of a pipeline prints, as far as it is known."""
        kind = node.type
        if self._reads_in_doubt(node):
            return UNKNOWN
        if kind == "redirected_statement":
            heredoc = next((c for c in node.children if c.type == "heredoc_redirect"), None)
            body = node.child_by_field_name("body")
            if heredoc is None or body is None:
                return UNKNOWN
            return self._output(body, self._heredoc(heredoc))
        if kind != "command":
            return UNKNOWN
        for child in node.children:
            if child.type == "herestring_redirect":
                stdin = self._herestring(child)
        words = self._resolver.words([c for c in node.children if c.type not in _NO_WORDS])
        return printed_by(words, stdin)


def _shared(stdin: Input) -> Input:
    """Return what one of several commands reads if each may leave a part for the next."""
    return None if stdin is None else UNKNOWN


def _gives_input(node: Node) -> bool:
    """Return whether a node redirects a command's input."""
    if node.type == "file_redirect":
        return any(part.type in _READS for part in node.children)
    return node.type in _REDIRECTS


def _last_command(node: Node) -> Node | None:
    """Return the last command of ``node``, whose redirections the grammar gives to the whole."""
    while node.type in {"list", "pipeline", "negated_command"} and node.children:
        node = node.children[-1]
    return node if node.type == "command" else None


_PRINT_NOTHING: Final = [
    *(["cat", "/dev/null"], ["printf", "''"], ["printf", '""'], ["echo", "-n"]),
    *(["echo", "''"], ["echo", '""'], ["echo", "-n", "''"], ["echo", "-n", '""'], ["echo"]),
]
_NO_WORDS: Final = _REDIRECTS | {"variable_assignment"}
_HANDLERS: Final[dict[str, Callable[[_Walk, Node, Input], None]]] = {
    "command": _Walk.command,
    "pipeline": _Walk.pipeline,
    "redirected_statement": _Walk.redirected,
    "variable_assignment": _Walk.assign,
    "declaration_command": _Walk.declaration,
    "function_definition": _Walk.function,
    "unset_command": _Walk.unset,
    "for_statement": _Walk.loop,
    "file_redirect": _Walk.bare_redirect,
}
