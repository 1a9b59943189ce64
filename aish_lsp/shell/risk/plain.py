"""The review of a command, text by text: one of plain words is read here, any other as a tree.

Most commands are nothing but words, in quotes or not, with ``&&``, ``;``, ``|`` and the like
between them. They are read without the grammar, which takes longer to load and to walk through.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk.data import LONGEST, table
from aish_lsp.shell.risk.judge import judge
from aish_lsp.shell.risk.review import TOO_MUCH, Findings, Review
from aish_lsp.shell.risk.rules import own_tables
from aish_lsp.shell.risk.special import is_windows_shell, look_through_windows
from aish_lsp.shell.risk.values import Input, printed_by

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule

#: What stands for itself in quotes.
_QUOTED: Final = r"""'[^'\x00-\x1f\x7f]*'|"[^"\\$`!\x00-\x1f\x7f]*\""""
_QUOTES: Final = re.compile(rf"({_QUOTED})")

#: The shells whose grammar is known.
_KNOWN: Final = frozenset({"bash", "sh"})
#: First words of commands that are more than their words.
_NOT_PLAIN: Final = frozenset(table("names")["not_plain"])


def tokens(bare: str, other: str) -> re.Pattern[str]:
    """Return the tokens of a plain text: words, with ``bare`` characters, and the ``other``.

    The latter have one group: what is between two commands.
    """
    return re.compile(rf" +|{other}|((?:[{bare}]+|{_QUOTED})+)", re.ASCII)


#: What plain words are made of, and what may be between commands of them.
PLAIN: Final = tokens(r"\w./:=,@%+~^*?-", r"\t+|(&&|\|\||[;|&\n])")


def simple_commands(text: str, tokens: re.Pattern[str]) -> tuple[list[list[str]], list[str]] | None:
    """Return the words of each simple command, without quotes, and what is between each two.

    None if a text has anything but ``tokens``.
    """
    if tokens.sub("", text):
        return None
    words: list[str] = []
    commands, between = [words], []
    is_quoted = "'" in text or '"' in text
    for separator, word in tokens.findall(text):
        if word:
            words.append(_unquoted(word) if is_quoted else word)
        elif separator:
            between.append(separator)
            commands.append(words := [])
    return (commands, between) if all(commands) else None


def _unquoted(word: str) -> str:
    return "".join([part[1:-1] if part[:1] in {"'", '"'} else part for part in _QUOTES.split(word)])


def findings_in(
    text: str,
    shell: str,
    rules: tuple[RiskRule, ...],
    folder: Path | None,
    path: str | None,
    *,
    kept: Path | None = None,
) -> Findings:
    """Return the findings on ``text``, which has no hidden characters.

    The arguments are those of ``classify``.
    """
    review = Review(folder, path, kept)
    if rules:
        review.own, review.stricter = own_tables(rules)
    if shell not in _KNOWN:
        _other_shell(review, text, shell)
    if len(text) > LONGEST:
        review.destructive(TOO_MUCH)
        return review.findings
    if not text.strip():
        review.caution("is empty")
        return review.findings
    try:
        _look_at(review, text)
        while (waiting := review.next_text()) is not None:
            _look_at(review, waiting)
    except RecursionError:
        review.destructive(TOO_MUCH)
    return review.findings


def _other_shell(review: Review, text: str, shell: str) -> None:
    """Record that the shell's grammar is not known, unless ``shell`` is the path of a known one."""
    name = PurePath(shell).name
    if name not in _KNOWN:
        review.caution(f"the grammar of {name or 'this shell'} is not known")
    if is_windows_shell(shell):
        look_through_windows(review, text[:LONGEST])


def _look_at(review: Review, text: str) -> None:
    """Judge the commands in ``text``; what they run as a text is queued in ``review``."""
    plain = simple_commands(text, PLAIN)
    if plain is None or not _is_plain(plain[0], text):
        from aish_lsp.shell.risk.walk import walk  # noqa: PLC0415 - it loads the grammar

        walk(review, text)
        return
    stdin: Input = None
    for words, after in zip(plain[0], [*plain[1], ""], strict=True):
        judge(review, words, stdin)
        stdin = partial(printed_by, words, stdin) if after == "|" else None


def _is_plain(commands: list[list[str]], text: str) -> bool:
    """Return whether there is no more to the commands of ``text`` than their words."""
    return (
        _NOT_PLAIN.isdisjoint([words[0] for words in commands])
        and not ("=" in text and any("=" in words[0] for words in commands))
        # An array index in quotes is only text until something evaluates it as arithmetic.
        and not ("[" in text and ("(" in text or "`" in text))
    )
