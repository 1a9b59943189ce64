"""Questions that are commands themselves ("ls -la"), and questions about what a command means.

A typed command is suggested unchanged: nobody who writes `git rebase -i HEAD~4` wants another one.
It has to be told apart from English, so a command whose program is an English word (`find`,
`sort`) needs clearer signs than one that begins with `grep`.

A command is explained part by part from the installed manuals. Its risk is the one that aish shows
for every command before it runs (docs/risk.md).
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from aish_lsp.offline.choosing import Part, plain_line
from aish_lsp.offline.manuals import Manual, manual, option
from aish_lsp.offline.words import data, group, words
from aish_lsp.offline.workspace import Machine, WorkspaceFacts, install_command
from aish_lsp.shell.risk import classify

_MAX_TYPED: Final = 400
_ASKS_TO_RUN: Final = re.compile(r"(?:\$\s+|(?:run|execute)\s+)")

_OPTION: Final = re.compile(r"--?[A-Za-z0-9][\w-]*(?:=.*)?")
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
#: What no English word contains.
_ARGUMENT: Final = re.compile(r"['\"`$*~/=:@+{}\\]|\d|\w\.\w|^\.\.?$")


def typed_command(text: str, workspace: WorkspaceFacts, *, surely: bool) -> str | None:
    """Return the command that ``text`` is, or None if it is a question in English.

    Args:
        text: what the user wrote.
        workspace: the files that the command may name, and what is installed.
        surely: whether it must have an option or an operator.
    """
    command = _ASKS_TO_RUN.sub("", words().bare(text), count=1).strip()
    if not 0 < len(command) <= _MAX_TYPED or not command.isprintable() or "->" in command:
        return None
    try:
        pieces = [*_pieces(command)]
    except ValueError:
        return None
    if _is_broken(pieces):
        return None
    simple_commands = (piece for piece in pieces if isinstance(piece, list))
    commands = [[_as_written(word, command) for word in simple] for simple in simple_commands]
    if not commands:
        return None
    first = commands[0]
    marked = len(pieces) > 1 or _sets(first) or any(map(_is_mark, first))
    fits = (marked or not surely) and all(
        _is_command(simple, workspace, surely=surely) for simple in commands
    )
    return command if fits or _asks_of_program(first, workspace.machine) else None


def _is_broken(pieces: Sequence[list[str] | str]) -> bool:
    """Return whether a command is missing on either side of an operator, or another line."""
    joins = [isinstance(piece, str) and not set(piece) - set("|&;") for piece in pieces]
    return any(map(all, pairwise([True, *joins]))) or "<<" in pieces


def _as_written(word: str, command: str) -> str:
    """Return ``word`` in the quotes that it has in ``command``: what is quoted is not English."""
    return next((quoted for mark in "'\"" if (quoted := f"{mark}{word}{mark}") in command), word)


def _is_mark(token: str) -> bool:
    """Return whether ``token`` occurs in commands but not in sentences."""
    return token.startswith("$") or _OPTION.fullmatch(token) is not None


def _sets(simple: Sequence[str]) -> bool:
    """Return whether a command assigns a value to a name."""
    return simple[0] in group("setters") and any(map(_SETTING.fullmatch, simple[1:2]))


def _asks_of_program(simple: Sequence[str], machine: Machine) -> bool:
    """Return whether a command looks up a program: ``which node``."""
    of_program = len(simple) == 2 and simple[0] in group("tells_of_program")
    known = group("programs") | group("names")
    return of_program and machine.has(simple[0]) and simple[1] in known


def _is_command(simple: list[str], workspace: WorkspaceFacts, *, surely: bool) -> bool:
    """Return whether ``simple`` contains the words of a command."""
    program, *arguments = _without_prefix(simple, group("typed_prefixes"), numbers=True)
    if not re.fullmatch(r"[a-z][a-z0-9_.+-]*", program):
        return False
    plain = [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if not (_OPTION.fullmatch(word) or _ARGUMENT.search(word) or workspace.exists(word))
        and not (before.startswith("-") and program not in group("programs"))
    ]
    if any(word.lower() in group("stop") | group("asks_of_commands") for word in plain) or any(
        one in group("spoken") and two.isdigit() for one, two in pairwise(arguments)
    ):
        return False
    if program in group("programs"):
        return surely or (len(plain) <= 1 and len(arguments) > len(plain))
    if not surely or not (workspace.machine.has(program) or program in group("typed_builtins")):
        return False
    return all(word in group("programs") for word in plain)


_MARKS: Final = re.compile(r"[|&;<>$*/=]|(?:^|\s)-")

_MAX_PARTS: Final = 24
_MAX_COMMAND: Final = 1000
#: Prefixes that are explained separately from the command after them.
_PREFIXES: Final = frozenset(("sudo", "env", "nohup"))


@cache
def _asked() -> tuple[re.Pattern[str], ...]:
    """Return how it is asked what a command does."""
    flags = re.IGNORECASE | re.DOTALL
    return tuple(
        re.compile(rf"\W*(?:{text})\s*[?.!]*", flags) for text in data("commands")["asked"]
    )


def _operators() -> Mapping[str, str]:
    """Return what the operators of the shell do."""
    known: Mapping[str, str] = data("commands")["operators"]
    return known


def explained_command(  # noqa: PLR0911 - one exit for each reason to say no
    text: str, workspace: WorkspaceFacts
) -> str | None:
    """Return the command that ``text`` asks to have explained, or None."""
    if len(text) > _MAX_COMMAND + 100:
        return None
    asked = text.strip()
    match = next(filter(None, (one.fullmatch(asked) for one in _asked())), None)
    if match is None:
        return None
    given = match.groupdict()
    quoted = False
    if "option" in given:
        command = f"{given['program'].strip('`')} {given['option'].strip('`')}"
    elif "mode" in given:
        command = f"chmod {given['mode']}"
    else:
        said = given["command"].strip()
        quoted = said[:1] in "`\"'"
        command = said.strip("`\"'").strip()
        command = command if quoted else command.rstrip("?!.,")
    parts = command.split()
    if not parts:
        return None
    program = parts[1] if parts[0] == "sudo" and len(parts) > 1 else parts[0]
    known = workspace.machine.has(program) or program in group("explained_builtins")
    if quoted and re.fullmatch(r"[\w.+/-]+", program):
        return command if known or _MARKS.search(command) or len(parts) > 1 else None
    if not known or not re.fullmatch(r"[\w.+-]+", program) or program != program.lower():
        return None
    if len(parts) == 1 or _MARKS.search(command) or re.search(r"\s\S*\d", command):
        return command
    return command if program in group("with_commands") and len(parts) < 4 else None


def explanation(command: str, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return what ``command`` does, part by part."""
    try:
        pieces = list(_pieces(command))
    except ValueError:
        return [
            Part("A quote in this command is never closed: bash would wait for the rest of it.")
        ]
    lines: list[str] = []
    sources: list[str] = []
    unknown: list[str] = []
    for piece in pieces[:_MAX_PARTS]:
        if isinstance(piece, str):
            lines.append(f"{piece}: {_operators().get(piece, 'an operator of the shell')}")
            continue
        found = manual(_without_prefix(piece, _PREFIXES), workspace.machine)
        if found is None:
            unknown.append(piece[0])
            lines.append(f"{shlex.join(piece)}: no manual for {piece[0]} is installed")
            continue
        sources.append(found.source)
        lines += _explained(piece, found)
    shown = plain_line(command).replace("`", "'")
    told = f" (from {', '.join(dict.fromkeys(sources))})" if sources else ""
    parts = [Part(f"`{shown}`, part by part{told}:", quote=tuple(lines[: 2 * _MAX_PARTS]))]
    parts.append(_risk(command))
    missing = [name for name in unknown if not workspace.machine.has(name)]
    install = install_command(missing[0], workspace.machine) if missing else None
    if install and re.fullmatch(r"\w[\w.+-]*", missing[0]):
        parts.append(Part(f"`{missing[0]}` is not installed here. To install it:", (install,)))
    return parts


def _risk(command: str) -> Part:
    """Return how risky aish judges the command to be, and why."""
    verdict = classify(command, "bash", confined=True)
    reasons = f" ({'; '.join(verdict.reasons)})" if verdict.reasons else ""
    says = {
        "safe": "It only reads",
        "caution": "It can change something",
        "destructive": "It can destroy something",
    }[verdict.risk]
    return Part(f"{says}{reasons}.")


def _pieces(command: str) -> Iterator[list[str] | str]:
    """Yield the simple commands of ``command`` as their words, and the operators between them.

    The redirections of a simple command follow it, wherever they are in it.

    Raises:
        ValueError: a quote is not closed.
    """
    source = io.StringIO(command)
    lexer = shlex.shlex(source, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    simple: list[str] = []
    redirections: list[str] = []
    operator = ""
    is_stream = False
    for token in lexer:
        if token and set(token) <= set("|&;<>()"):
            if set(token) & set("<>"):
                operator = simple.pop() + token if is_stream else token
                is_stream = False
                continue
            if simple:
                yield simple
            yield from redirections
            simple, redirections = [], []
            if token not in ("(", ")"):
                yield token
        elif operator:
            whole = f"{operator}{token}"
            redirections.append(whole if whole in _operators() else operator.removeprefix("1"))
            operator = ""
        else:
            simple.append(token)
            # The character after a word is read with it: here it may be the operator.
            read = source.tell()
            is_stream = len(token) == 1 and command[read - 2 : read] in ("1<", "1>", "2<", "2>")
    if simple:
        yield simple
    yield from redirections


def _without_prefix(
    words: Sequence[str], prefixes: Collection[str], *, numbers: bool = False
) -> list[str]:
    """Return ``words`` without assignments and prefixes such as ``sudo`` before the program.

    The options of a prefix are left out too; so are its ``numbers``, if asked: ``watch 5 ls``.
    """
    rest = list(words)
    while len(rest) > 1 and (rest[0] in prefixes or _SETTING.fullmatch(rest[0])):
        rest.pop(0)
        while len(rest) > 1 and (rest[0].startswith("-") or (numbers and rest[0].isdigit())):
            rest.pop(0)
    return rest


def _explained(words: Sequence[str], found: Manual) -> Iterator[str]:
    """Yield a line for the program and for each option and argument."""
    rest = _without_prefix(words, _PREFIXES)
    before = words[: len(words) - len(rest)]
    if before:
        meaning = "as the administrator" if before[0] == "sudo" else "set for this command alone"
        yield f"{shlex.join(before)}: {meaning}"
    name = rest.pop(0)
    if rest and name in group("with_commands") and not rest[0].startswith("-"):
        name = f"{name} {rest.pop(0)}"
    yield f"{name}: {found.summary or 'its manual has no summary'}"
    old_style = name in ("tar", "ps")
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield "--: what follows is not an option"
            yield from (f"{argument}: an argument" for argument in rest)
            return
        if word.startswith("-") and len(word) > 1:
            yield from _option(word, rest, found.text)
        elif old_style and re.fullmatch(r"[a-zA-Z]+", word):
            yield from _letters(word, rest, found.text, "-" if name == "tar" else "")
        elif name == "chmod" and re.fullmatch("0?[0-7]{3}", word):
            yield f"{word}: {_permissions(word)}"
        else:
            yield f"{word}: an argument"
        old_style = False


def _permissions(mode: str) -> str:
    """Return what a mode in octal digits allows, in words: "755"."""
    told = []
    for who, digit in zip(("the owner", "the group", "others"), mode[-3:], strict=True):
        bits = int(digit)
        names = [name for bit, name in ((4, "read"), (2, "write"), (1, "execute")) if bits & bit]
        letters = "".join(
            letter if bits & bit else "-" for bit, letter in ((4, "r"), (2, "w"), (1, "x"))
        )
        told.append(f"{who} may {', '.join(names) or 'do nothing'} ({letters})")
    return "; ".join(told)


def _option(word: str, rest: list[str], text: str) -> Iterator[str]:
    """Yield what the manual says about an option, or about each letter of combined ones."""
    name, equals, _ = word.partition("=")
    whole = option(text, name)
    if whole is not None:
        value = (
            rest.pop(0)
            if whole.takes_value and not equals and rest and not rest[0].startswith("-")
            else ""
        )
        yield f"{word}{f' {value}' if value else ''}: {whole.says}"
    elif re.fullmatch(r"-[A-Za-z0-9]{2,}", word):
        yield from _letters(word[1:], rest, text, "-")
    else:
        yield f"{word}: an option that its manual does not mention"


def _letters(letters: str, rest: list[str], text: str, mark: str) -> Iterator[str]:
    """Yield what the manual says about each of an option's letters, which follow ``mark``."""
    if letters.isdigit():
        yield f"{mark}{letters}: the number {letters}"
        return
    for at, letter in enumerate(letters):
        found = option(text, f"{mark}{letter}")
        if found is None:
            yield f"{mark}{letter}: an option that its manual does not mention"
            continue
        behind = letters[at + 1 :]
        if found.takes_value and mark and (behind or rest):
            value = behind if behind and behind.isdigit() else ""
            if not behind:
                value = rest.pop(0)
            if value:
                yield f"{mark}{letter} {value}: {found.says}"
                if behind:
                    return
                continue
        yield f"{mark}{letter}: {found.says}"
