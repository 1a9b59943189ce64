"""The rows of the tables: which simple commands one speaks of.

A ``match`` reads like the command it means. Its words are

- the command's name, then its subcommands (``git stash drop``), each with ``|`` between
  alternatives and ``*`` for any text;
- ``-f|--force``: one of these options is there, alone, in a cluster (``-xf``), with a value
  (``--force=x``) or cut short (``--forc``); ``-X=DELETE``: it is there with such a value;
- ``!-n|--dry-run``: none of these is;
- ``{+*|:*}``: some further operand is like one of these; ``!{...}``: none is;
- ``options:-a|--all``: no other options are there; ``-#`` is any number, ``none`` is none;
- ``operands:1``: no more than so many operands follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from aish_lsp.shell.risk.words import HOLE

_Globs = tuple[frozenset[str], tuple[str, ...]]


class Arguments:
    """What follows a command's name, as options and operands.

    Attributes:
        options: the words that are options, without those that are an option's value.
        dashed: every word that looks like an option, wherever it stands.
        operands: the other words.
        given: the options that take the next word, with it.
        ended: whether a ``--`` ends the options.
        unknown: whether a word may be any option.
        doubtful: operands that may be the value of an option that no table knows, by their place.
    """

    __slots__ = (
        *("dashed", "doubtful", "ended", "given", "operands", "options", "unknown", "values"),
    )

    def __init__(self, words: Sequence[str], values: frozenset[str]) -> None:
        self.values = values
        self.options: list[str] = []
        self.given: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.dashed = [word for word in words if word[:1] == "-" and word not in {"-", "--"}]
        self.unknown = any(word[:1] == HOLE for word in words)
        self.ended = False
        self.doubtful: list[int] = []
        if not self.dashed:
            self.ended = "--" in words
            self.operands += [word for word in words if word != "--"]
            return
        waits = False
        last = ""
        for word in words:
            if waits:
                self.given.append((self.options[-1], word))
                waits = False
                last = ""
                continue
            if word[:1] != "-" or word == "-" or self.ended:
                if last[:1] == "-" and "=" not in last and last not in _FLAGS:
                    self.doubtful.append(len(self.operands))
                self.operands.append(word)
            elif word == "--":
                self.ended = True
            else:
                self.options.append(word)
                waits = takes_next(word, values)
            last = word

    def has(self, option: str) -> bool:
        """Return whether ``option`` is there, in any of the ways to write it."""
        if option == "--":
            return self.ended
        if "=" in option:
            return self._has_value(option)
        return any(_is(option, word, self.values) for word in self.options)

    def _has_value(self, option: str) -> bool:
        name, _, value = option.partition("=")
        return any(
            (key == name or _is(name, key, self.values)) and fnmatchcase(text, value)
            for key, text in self.given
        ) or any(
            fnmatchcase(word, option) or (len(name) == 2 and fnmatchcase(word, name + value))
            for word in self.options
        )


#: Options that take no value in any tool that has them.
_FLAGS: Final = frozenset(
    [
        "--no-pager",
        "--user",
        "--system",
        "--quiet",
        "-q",
        "--verbose",
        "-v",
        "--debug",
        "--silent",
        "-s",
        "--json",
        "--no-color",
        "-y",
        "--yes",
        "--no-cli-pager",
        *("-A", "-4", "-6", "-br", "-brief"),
        "--global",
        "-g",
        "--no-headers",
        "--",
        "--help",
        "-h",
    ]
)


def takes_next(word: str, values: frozenset[str]) -> bool:
    """Return whether the option ``word`` takes the next word for its value."""
    if word in values:
        return True
    if word[:2] == "--" or "=" in word:
        return False
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in values:
            return at == len(word)
    return False


def _is(option: str, word: str, values: frozenset[str]) -> bool:
    if len(option) > 2:
        name = word.partition("=")[0]
        if name == option or (option[1] != "-" and name == f"-{option}"):
            return True
        return len(name) > 3 and name[:2] == "--" and option.startswith(name)
    if word[:2] == "--" or option[1].isdigit():
        return word == option
    for letter in word[1:]:
        if letter == option[1]:
            return True
        if f"-{letter}" in values:
            return False
    return False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A ``match``, ready to be asked."""

    names: tuple[str, ...]
    words: tuple[_Globs, ...]
    needed: tuple[tuple[str, ...], ...]
    absent: tuple[str, ...]
    some: tuple[_Globs, ...]
    none: tuple[_Globs, ...]
    only: frozenset[str] | None
    most: int | None

    @property
    def is_open(self) -> bool:
        """Whether all options and operands are alike to it."""
        return self.only is None and self.most is None and not (self.absent or self.none)

    def matches(self, given: Arguments) -> bool:
        """Return whether it speaks of a command with these arguments; its name is not looked at."""
        operands = given.operands
        count = len(self.words)
        if len(operands) < count:
            return False
        for wanted, word in zip(self.words, operands, strict=False):
            if not _like(wanted, word):
                return False
        rest = operands[count:]
        return (
            (self.most is None or len(rest) <= self.most)
            and all(any(map(given.has, options)) for options in self.needed)
            and not any(map(given.has, self.absent))
            and all(any(_like(wanted, word) for word in rest) for wanted in self.some)
            and not any(_like(unwanted, word) for unwanted in self.none for word in rest)
            and (self.only is None or all(_listed(word, self.only, given) for word in given.dashed))
        )


def _listed(word: str, only: frozenset[str], given: Arguments) -> bool:
    name, _, value = word.partition("=")
    if word in only or name in only or ("-#" in only and word[1:].isdigit()):
        return True
    if word[:2] == "--" or value:
        return False
    for letter in word[1:]:
        if f"-{letter}" not in only:
            return False
        if f"-{letter}" in given.values:
            break
    return True


def parse(match: str) -> Pattern:
    """Return the pattern that ``match`` writes.

    Raises:
        ValueError: it says nothing, or what it says is no pattern.
    """
    head, *rest = match.split() or [""]
    if not head or head[0] in "-!{":
        msg = "it does not begin with a command's name"
        raise ValueError(msg)
    words, needed, absent = [], [], []
    some, none = [], []
    only: frozenset[str] | None = None
    most: int | None = None
    for word in rest:
        if word.startswith("!{"):
            none.append(_globs(word[1:]))
        elif word[0] == "{":
            some.append(_globs(word))
        elif word.startswith("!-"):
            absent += word[1:].split("|")
        elif word[0] == "-" and word != "-":
            needed.append(tuple(word.split("|")))
        elif word.startswith("options:"):
            only = frozenset(word[8:].split("|"))
        elif word.startswith("operands:"):
            most = int(word[9:])
        else:
            words.append(_globs(word))
    names = tuple(head.casefold().split("|"))
    return Pattern(
        names, tuple(words), tuple(needed), tuple(absent), tuple(some), tuple(none), only, most
    )


def _globs(text: str) -> _Globs:
    alternatives = text.strip("{}").split("|")
    plain = frozenset(word for word in alternatives if not _WILD.search(word))
    return plain, tuple(word for word in alternatives if word not in plain)


_WILD: Final = re.compile(r"[*?\[]")


def _like(globs: _Globs, word: str) -> bool:
    plain, wild = globs
    return word in plain or any(fnmatchcase(word, glob) for glob in wild)


def first_words(pattern: Pattern) -> Iterable[str] | None:
    """Return what the first operand must be one of; None where it may be any."""
    if not pattern.words or pattern.words[0][1]:
        return None
    return pattern.words[0][0]
