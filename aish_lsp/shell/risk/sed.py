"""What a ``sed`` script runs and writes: it is read as sed reads it, command by command.

A script that is not understood is no more than a caution. So is what different seds read
differently, such as two backslashes in the text of ``a``, or a blank behind one at a line's end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from aish_lsp.shell.risk.matching import Arguments
from aish_lsp.shell.risk.paths import names_secret
from aish_lsp.shell.risk.review import UNSEEN, Review
from aish_lsp.shell.risk.values import Input

_SCRIPTS: Final = ("-e", "--expression")
_FILES: Final = ("-f", "--file")
_VALUES: Final = frozenset({*_SCRIPTS, *_FILES, "-l", "--line-length"})

_END: Final = r"[ \t]*(?=[;}#\n]|\Z)"
_BETWEEN: Final = re.compile(r"(?:[\s;]|#[^\n]*)*+")
#: Numbers, and what joins two addresses or negates them.
_NUMBERS: Final = re.compile(r"[\d$,~+! \t]*+")
#: Commands with nothing behind them, or a number, or a label.
_SIMPLE: Final = re.compile(
    rf"{{|(?:[}}=dDgGhHnNpPxzF]|[lqQ][ \t]*\d*|[btT:][ \t]*[\w.-]*){_END}"
    r"|[aic](?![ \t]*\\[ \t]+\n)(?:[ \t]*\\\n)?+(?:[^\\\n]|\\[^\\])*+"
)
#: Commands that take the rest of the line.
_WITH_LINE: Final = re.compile(r"([rRwWe])[ \t]*([^\n]*)")
_FLAGS: Final = re.compile(rf"([gpiImMe\d \t]*)(?:w[ \t]*([^\n]+)|{_END})")
_AFTER_PATTERN: Final = re.compile(rf"[IM]*{_NUMBERS.pattern}")


def sed(review: Review, words: Sequence[str], _stdin: Input) -> bool:
    """Judge what the scripts of ``sed`` run and write; the tables judge the rest."""
    arguments = Arguments(words[1:], _VALUES)
    scripts = arguments.values(_SCRIPTS)
    if not scripts and not any(map(arguments.has, _FILES)):
        scripts = arguments.operands[:1]
    script = "\n".join(scripts)
    at: int | None = _past(_BETWEEN, script, 0)
    while at is not None and at < len(script):
        at = _past_addresses(script, at)
        at = None if at is None else _past_command(review, script, at)
        at = _past(_BETWEEN, script, at)
    if at is None:
        review.caution("runs a sed script that is not understood")
    return False


def _past(pattern: re.Pattern[str], script: str, at: int | None) -> int | None:
    """Return where a match at ``at`` ends; None if there is none."""
    found = None if at is None else pattern.match(script, at)
    return found and found.end()


@cache
def _delimited(mark: str, *, is_pattern: bool) -> re.Pattern[str]:
    """Return what matches a text up to and with its delimiter.

    In a pattern, a delimiter between brackets is none.
    """
    mark = re.escape(mark)
    named = r"\[(?::[^]:\n]*:|\.[^].\n]*\.|=[^]=\n]*=)\]"
    brackets = rf"\[\^?+\]?+(?:[^]\\\n[]|\\(?!\])|\[(?![:.=])|{named})*+\]"
    if is_pattern:
        return re.compile(rf"(?:\\.|{brackets}|(?!{mark})[^\\\n[])*+{mark}", re.DOTALL)
    return re.compile(rf"(?:\\.|(?!{mark})[^\\\n])*+{mark}", re.DOTALL)


def _past_delimited(script: str, at: int | None, mark: str, *, is_pattern: bool) -> int | None:
    if mark in {"", "\n", "\\", "[", "]"}:
        return None
    return _past(_delimited(mark, is_pattern=is_pattern), script, at)


def _past_addresses(script: str, start: int) -> int | None:
    """Return where the command begins that has its addresses at ``start``."""
    at = _past(_NUMBERS, script, start)
    while at is not None and script[at : at + 1] in {"/", "\\"}:
        at += script[at] == "\\"
        at = _past_delimited(script, at + 1, script[at : at + 1], is_pattern=True)
        at = _past(_AFTER_PATTERN, script, at)
    return at


def _past_command(review: Review, script: str, at: int) -> int | None:
    """Judge the command at ``at``; return where it ends, or None if it is not understood."""
    if (end := _past(_SIMPLE, script, at)) is not None:
        return end
    if found := _WITH_LINE.match(script, at):
        _with_line(review, *found.groups())
        return found.end()
    command, mark = script[at : at + 1], script[at + 1 : at + 2]
    if command not in {"s", "y"}:
        return None
    end = _past_delimited(script, at + 2, mark, is_pattern=command == "s")
    end = _past_delimited(script, end, mark, is_pattern=False)
    found = None if end is None else _FLAGS.match(script, end)
    if found is None:
        return None
    if "e" in found[1]:
        review.destructive(UNSEEN)
    if found[2]:
        review.writes(found[2])
    return found.end()


def _with_line(review: Review, command: str, rest: str) -> None:
    """Judge a command with the rest of its line: a shell's command, or the name of a file."""
    if command == "e" and rest:
        review.caution("sed runs a command")
        review.add_text(rest)
    elif command == "e":
        review.destructive(UNSEEN)
    elif command in {"w", "W"}:
        review.writes(rest)
    elif names_secret([rest]):
        review.read_secrets = True
        review.caution("may print secrets")
