"""Questions that are commands already: "ls -la", "grep error app.log | wc -l".

What is typed as a command is told as it stands: nobody who writes `git rebase -i HEAD~4` asks for
another one. English is what has to be told apart from it, so a program whose name is a word
(`find`, `sort`) needs more of the looks of a command than `grep` does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from aish_lsp.offline.machine import Machine
from aish_lsp.offline.words import words

_MOST: Final = 400
_ASKS_TO_RUN: Final = re.compile(r"(?:\$\s+|(?:run|execute)\s+)")

_OPERATOR: Final = re.compile(r"[|&;<>]+")
_REDIRECTS: Final = re.compile(r"[<>]&?|>>|&>>?")
_OPTION: Final = re.compile(r"--?[A-Za-z0-9][\w-]*(?:=.*)?")
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
#: What no word of English has in it.
_ARGUMENT: Final = re.compile(r"['\"`$*~/=:@+{}\\]|\d|\w\.\w|^\.\.?$")

#: What the shell does itself, and is written with a value: ``export A=1``.
_SETTERS: Final = frozenset(("alias", "declare", "export", "local", "readonly", "set"))
_BUILTINS: Final = frozenset((*_SETTERS, "cd", "echo", "printf", "source", "unset"))
#: What stands before a command.
_BEFORE: Final = frozenset(("sudo", "time", "nohup", "env", "xargs", "watch", "exec", "command"))
#: What is told of a program: ``which node``.
_TELLS: Final = frozenset(("man", "whereis", "which"))
#: What no command has before a number: "kill -9 pid 4312".
_SPOKEN: Final = frozenset(("pid", "process", "port"))
#: Words of a question about a command.
_ASKS: Final = frozenset(
    [
        *("explain", "explained", "mean", "means", "meaning", "example", "examples", "usage"),
        *("option", "options", "flag", "flags", "vs", "versus", "difference", "error", "fails"),
        *("failed", "help", "alternative", "equivalent", "without", "please", "not", "times"),
        *(
            "where",
            "which",
            "whose",
            "each",
            "every",
            "seconds",
            "minutes",
            "hours",
            "daily",
            "hourly",
            "until",
            "again",
        ),
    ]
)


def typed_command(text: str, root: Path, machine: Machine, *, surely: bool) -> str | None:
    """Return the command that ``text`` is, or None where it is a question in English.

    Args:
        text: what the user wrote.
        root: the folder whose files it may name.
        machine: what is installed.
        surely: whether it has to have an option or an operator as well.
    """
    command = _ASKS_TO_RUN.sub("", words().bare(text), count=1).strip()
    if not 0 < len(command) <= _MOST or not command.isprintable() or "->" in command:
        return None
    try:
        tokens = [*shlex.shlex(command, posix=False, punctuation_chars="|&;<>")]
    except ValueError:
        return None
    commands = [list(simple) for simple in _simple(_joined(command, tokens))]
    if not commands or not all(commands):
        return None
    first = commands[0]
    marked = _sets(first) or any(map(_is_mark, tokens))
    fits = (marked or not surely) and all(
        _is_command(simple, root, machine, surely=surely) for simple in commands
    )
    return command if fits or _asks_of_program(first, machine) else None


def _joined(command: str, tokens: Sequence[str]) -> Iterator[str]:
    """Yield ``tokens`` with those joined between which there is no space: shlex parts ``a'b'``."""
    at, word = 0, ""
    for token in tokens:
        begin = command.index(token, at)
        if word and (begin > at or _OPERATOR.fullmatch(token) or _OPERATOR.fullmatch(word)):
            yield word
            word = ""
        word += token
        at = begin + len(token)
    if word:
        yield word


def _simple(tokens: Iterator[str]) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without where it reads from and writes to."""
    simple: list[str] = []
    for word in tokens:
        if _REDIRECTS.fullmatch(word):
            next(tokens, None)
        elif _OPERATOR.fullmatch(word):
            yield simple
            simple = []
            if word == "&":
                return
        else:
            simple.append(word)
    if simple:
        yield simple


def _is_mark(token: str) -> bool:
    """Return whether ``token`` is what commands have and sentences have not."""
    return token.startswith("$") or bool(_OPTION.fullmatch(token) or _OPERATOR.fullmatch(token))


def _sets(simple: Sequence[str]) -> bool:
    """Return whether a command gives a name a value."""
    return simple[0] in _SETTERS and any(map(_SETTING.fullmatch, simple[1:2]))


def _asks_of_program(simple: Sequence[str], machine: Machine) -> bool:
    """Return whether a command is ``which node``."""
    of_program = len(simple) == 2 and simple[0] in _TELLS
    known = words().programs | words().names
    return of_program and machine.has(simple[0]) and simple[1] in known


def _is_command(simple: list[str], root: Path, machine: Machine, *, surely: bool) -> bool:
    """Return whether ``simple`` are the words of a command."""
    program, arguments = _program(simple)
    if not re.fullmatch(r"[a-z][a-z0-9_.+-]*", program):
        return False
    plain = [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if not (_OPTION.fullmatch(word) or _ARGUMENT.search(word) or (root / word).exists())
        and not (before.startswith("-") and program not in words().programs)
    ]
    if any(word.lower() in words().stop | _ASKS for word in plain) or any(
        one in _SPOKEN and two.isdigit() for one, two in pairwise(arguments)
    ):
        return False
    if program in words().programs:
        return surely or (len(plain) <= 1 and len(arguments) > len(plain))
    if not surely or not (machine.has(program) or program in _BUILTINS):
        return False
    return all(word in words().programs for word in plain)


def _program(simple: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program of a command, behind what is set for it and ``sudo``; its arguments."""
    rest = list(simple)
    while len(rest) > 1 and (rest[0] in _BEFORE or _SETTING.fullmatch(rest[0])):
        rest.pop(0)
        while len(rest) > 1 and (rest[0].isdigit() or _OPTION.fullmatch(rest[0])):
            rest.pop(0)
    return rest[0], rest[1:]
