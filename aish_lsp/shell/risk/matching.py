"""The rows of the tables: which simple commands a row matches.

A ``match`` reads like the command that it means. Its words are

- the command's name, then its subcommands (``git stash drop``), each with ``|`` between
  alternatives and ``*`` for any text;
- ``-f|--force``: one of these options is given, alone, in a cluster (``-xf``), with a value
  (``--force=x``) or abbreviated (``--forc``); ``-X=DELETE``: it is given with this value;
- ``!-n|--dry-run``: none of these is given;
- ``{+*|:*}``: some further operand matches one of these; ``!{...}``: none does;
- ``options:-a|-k=|-U?``: no other options are given, read by position: ``-k=`` takes the next word
  or what is attached to it, and ``-U?`` only what is attached; ``-#`` is any number, ``none``
  allows none, and ``*`` allows all;
- ``operands:1``: at most so many operands follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from typing import Final

from aish_lsp.shell.risk.words import UNKNOWN, table

#: The plain words that are meant, and a pattern for the others.
_Globs = tuple[frozenset[str], re.Pattern[str] | None]


#: An operand with one of these may become any number of words.
_MANY: Final = re.compile(rf"[*?\[{{{UNKNOWN}]")


_LONG_BY_ONE_DASH: Final = re.compile(r"-[^-=?#][^=?]+[=?]?")


@dataclass(frozen=True, slots=True)
class Options:
    """All the options that a command may have: ``options:``.

    Attributes:
        every: whether any option is allowed.
        flags: those that take no value.
        taking: those that take the next word, or what is attached to them.
        attached: those that only take what is attached to them, if anything is.
        cluster: whether several can share one dash; not if ``-name`` is a single option.
    """

    every: bool = False
    flags: frozenset[str] = frozenset()
    taking: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    cluster: bool = True

    @classmethod
    def parse(cls, text: str) -> Options:
        """Return the options that ``-a|-k=|-U?`` stands for."""
        words = text.split("|")
        return cls(
            "*" in words,
            frozenset(word for word in words if word[-1:] not in {"=", "?"}),
            frozenset(word[:-1] for word in words if word[-1:] == "="),
            frozenset(word[:-1] for word in words if word[-1:] == "?"),
            not any(_LONG_BY_ONE_DASH.fullmatch(word) for word in words),
        )

    def read(self, words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]] | None:
        """Return the options with their values, and the operands; None if one is not allowed.

        A long option counts only by its full name: abbreviated, it could be another. An option
        after an operand counts as both, since not every tool looks for options there.
        """
        given: list[tuple[str, str]] = []
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word[:1] not in {"-", UNKNOWN} or word == "-":
                operands.append(word)
                continue
            if word == "--":
                if given and given[-1][0] in self.attached and not given[-1][1]:
                    return None  # it may be a value after all
                operands += rest
                continue
            if self.every:
                given.append((word, ""))
            elif word[:1] == UNKNOWN or not self._option(word, rest, given):
                return None
            if operands or word[:1] == UNKNOWN:
                operands.append(word)
        return given, operands

    def _option(self, word: str, rest: Iterator[str], given: list[tuple[str, str]]) -> bool:
        """Add an option to ``given``, its value from ``rest``; return whether it may be there."""
        name, equals, value = word.partition("=")
        if word in self.flags or word in self.attached:
            given.append((word, ""))
        elif equals and (name in self.taking or name in self.attached):
            given.append((name, value))
        elif word in self.taking:
            return self._value(word, next(rest, ""), given)
        elif word[1:].isdigit() and "-#" in self.flags:
            given.append((word, ""))
        else:
            return word[:2] != "--" and self._cluster(word, rest, given)
        return True

    @staticmethod
    def _value(option: str, value: str, given: list[tuple[str, str]]) -> bool:
        """Add an option; return whether its value is one word: what is not known may be more."""
        given.append((option, value))
        return value[:1] != UNKNOWN

    def _cluster(self, word: str, rest: Iterator[str], given: list[tuple[str, str]]) -> bool:
        letters = word[1:] if self.cluster else word[1:2]
        for at, letter in enumerate(letters, 2):
            option, value = f"-{letter}", word[at:]
            if option in self.taking:
                return self._value(option, value or next(rest, ""), given)
            if option in self.attached:
                given.append((option, value))
                return True
            if option not in self.flags:
                return False
            given.append((option, ""))
        return self.cluster


class Arguments:
    """What follows a command's name, as options and operands.

    Attributes:
        words: all the words.
        options: those that are options, without the values of options.
        dashed: those that look like an option, even after a ``--``.
        operands: the other words.
        given: each option that takes the next word, with that word.
        ended: whether a ``--`` ends the options.
        unknown: whether a word may be any option.
        doubtful: the places of operands that may be the value of an option that no table has.
    """

    __slots__ = (
        *("dashed", "doubtful", "ended", "given", "operands", "options", "unknown", "values"),
        "words",
    )

    def __init__(self, words: Sequence[str], values: frozenset[str]) -> None:
        self.words = words
        self.values = values
        self.options: list[str] = []
        self.given: list[tuple[str, str]] = []
        self.operands: list[str] = []
        begins = {word[:1] for word in words}
        self.dashed: list[str] = []
        if "-" in begins:
            self.dashed += [word for word in words if word[:1] == "-" and word not in {"-", "--"}]
        self.unknown = UNKNOWN in begins
        self.ended = False
        self.doubtful: list[int] = []
        if not self.dashed:
            self.ended = "--" in words
            self.operands += [word for word in words if word != "--"]
            return
        last = ""
        rest = iter(words)
        for word in rest:
            if word[:1] != "-" or word == "-" or self.ended:
                if last[:1] == "-" and "=" not in last and last not in _FLAGS:
                    self.doubtful.append(len(self.operands))
                self.operands.append(word)
            elif word == "--":
                self.ended = True
            else:
                self.options.append(word)
                if takes_next(word, values) and (value := next(rest, None)) is not None:
                    self.given.append((word, value))
                    last = ""
                    continue
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
_FLAGS: Final = frozenset(table("names")["flags"])


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


def may_abbreviate(name: str, option: str) -> bool:
    """Return whether ``name`` may stand for the long option ``option``."""
    return len(name) > 3 and name[:2] == "--" and option.startswith(name)


def _is(option: str, word: str, values: frozenset[str]) -> bool:
    """Return whether ``word`` gives ``option``, in any of the ways to write it."""
    if len(option) > 2:
        name = word.partition("=")[0]
        if name == option or (option[1] != "-" and name == f"-{option}"):
            return True
        return may_abbreviate(name, option)
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
    """A ``match`` of a row, parsed."""

    names: tuple[str, ...]
    words: tuple[_Globs, ...]
    needed: tuple[tuple[str, ...], ...]
    absent: tuple[str, ...]
    some: tuple[_Globs, ...]
    none: tuple[_Globs, ...]
    only: Options | None
    most: int | None

    @property
    def is_open(self) -> bool:
        """Whether further options and operands make no difference to it."""
        return self.only is None and self.most is None and not (self.absent or self.none)

    def allows(self, words: Sequence[str], before: Options) -> bool:
        """Return whether ``only`` names all the options, and everything else matches.

        ``before`` are the options that may come before the subcommands. Anything unknown counts
        against a match.
        """
        assert self.only is not None
        at, count = 0, len(self.words)
        if count:
            at = _begin(words, before)
            found = words[at : at + count]
            if len(found) < count or not all(map(_like, self.words, found)):
                return False
        read = self.only.read(words[at + count :])
        if read is None:
            return False
        given, operands = read
        if self.absent and any(name[:1] == UNKNOWN for name, _ in given):
            return False
        if self.most is not None and (
            len(operands) > self.most or any(map(_MANY.search, operands))
        ):
            return False
        return not (self.needed or self.absent or self.some or self.none) or (
            all(any(_is_given(option, given) for option in options) for options in self.needed)
            and not any(_is_given(option, given) for option in self.absent)
            and self._holds_of(operands, UNKNOWN)
        )

    def _holds_of(self, operands: Sequence[str], unknown: str = "") -> bool:
        """Return whether the further operands match; ``unknown`` may stand for an unwanted one."""
        if not all(any(_like(wanted, word) for word in operands) for wanted in self.some):
            return False
        return not any(
            (unknown and unknown in word) or _like(unwanted, word)
            for unwanted in self.none
            for word in operands
        )

    def matches(self, given: Arguments, before: Options | None = None) -> bool:
        """Return whether it matches a command with these arguments, whatever its name."""
        if self.only is not None:
            return self.allows(given.words, before or _NONE)
        operands = given.operands
        count = len(self.words)
        if len(operands) < count:
            return False
        for wanted, word in zip(self.words, operands, strict=False):
            if not _like(wanted, word):
                return False
        rest = operands[count:]
        if self.most is not None and len(rest) > self.most:
            return False
        return not (self.needed or self.absent or self.some or self.none) or (
            all(any(map(given.has, options)) for options in self.needed)
            and not any(map(given.has, self.absent))
            and self._holds_of(rest)
        )


_NONE: Final = Options()


def _begin(words: Sequence[str], before: Options) -> int:
    """Return where the subcommand is, after the options of the command itself."""
    at = 0
    while at < len(words) and words[at][:1] == "-":
        read = before.read(words[at : at + 1])
        if read is None:
            break
        at += 2 if read[0] and read[0][0][0] in before.taking and not read[0][0][1] else 1
    return at


def _is_given(option: str, given: Iterable[tuple[str, str]]) -> bool:
    """Return whether ``-x``, or ``-x=`` with such a value, is among the options."""
    wanted, equals, glob = option.partition("=")
    return any(
        name == wanted and (not equals or UNKNOWN in value or fnmatchcase(value, glob))
        for name, value in given
    )


def parse(match: str, sets: Mapping[str, str] | None = None) -> Pattern:
    """Return the pattern that ``match`` stands for; ``sets`` are the options that ``@`` names.

    Raises:
        ValueError: it is empty, or not a pattern.
    """
    head, *rest = match.split() or [""]
    if not head or head[0] in "-!{":
        msg = "it does not begin with a command's name"
        raise ValueError(msg)
    words, needed, absent = [], [], []
    some, none = [], []
    only: Options | None = None
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
            only = Options.parse(_named(word[8:], sets or {}))
        elif word.startswith("operands:"):
            most = int(word[9:])
        else:
            words.append(_globs(word))
    names = tuple(head.casefold().split("|"))
    return Pattern(
        names, tuple(words), tuple(needed), tuple(absent), tuple(some), tuple(none), only, most
    )


def _named(text: str, sets: Mapping[str, str]) -> str:
    """Return the options of a row, with those of the sets that it names."""
    parts = [sets[part[1:]] if part[:1] == "@" else part for part in text.split("|")]
    return "|".join(word for part in parts for word in part.split())


def _globs(text: str) -> _Globs:
    alternatives = text.strip("{}").split("|")
    plain = frozenset(word for word in alternatives if not _WILD.search(word))
    wild = [translate(word) for word in alternatives if word not in plain]
    return plain, re.compile("|".join(wild)) if wild else None


_WILD: Final = re.compile(r"[*?\[]")


def _like(globs: _Globs, word: str) -> bool:
    plain, wild = globs
    return word in plain or (wild is not None and wild.match(word) is not None)


def first_words(pattern: Pattern) -> Iterable[str] | None:
    """Return the words of which the first operand must be one; None if it may be any."""
    if not pattern.words or pattern.words[0][1]:
        return None
    return pattern.words[0][0]
