"""The rows of the tables: which simple commands a row matches.

A ``match`` reads like the command that it means. Its words are

- the command's name, then its subcommands (``git stash drop``), each with ``|`` between
  alternatives and ``*`` for any text;
- ``-f|--force``: one of these options is given, alone, in a cluster (``-xf``), with a value
  (``--force=x``) or abbreviated (``--forc``); ``-X=DELETE``: it is given with this value;
- ``!-n|--dry-run``: none of these is given;
- ``{+*|:*}``: some further operand matches one of these; ``!{...}``: none does;
- ``options:-a|-k=|-U?``: no other options are given: ``-k=`` takes the next word or what is
  attached to it, and ``-U?`` only what is attached; ``-#`` is any number, ``none`` allows none, and
  ``*`` allows all; with ``+`` among them none can follow an operand;
- ``operands:1``: at most so many operands follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import Final, TypeAlias

from aish_lsp.shell.risk.data import UNKNOWN, names_of, table

#: The plain words that are meant, and the globs of others.
_Globs = tuple[frozenset[str], tuple[str, ...]]


#: Options, each by its name with what is its value: what is attached, or the next word.
_Pairs = list[tuple[str, str]]

_LONG_BY_ONE_DASH: Final = re.compile(r"-[^-=?#][^=?]+[=?]?")


@cache
def _options(text: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what matches the options that ``-a|-k=|-U?`` allows, and those that take a word."""
    if text == "*":
        return re.compile(".*", re.DOTALL), re.compile("(?!)")
    flags: set[str] = set()
    taking: set[str] = set()
    valued: set[str] = set()
    for word in text.split("|"):
        kind = {"=": taking, "?": valued}.get(word[-1:], flags)
        kind.add(word.rstrip("=?"))
    valued |= taking
    # Several can share one dash, but not if ``-name`` is a single option.
    many = "{0}" if any(map(_LONG_BY_ONE_DASH.fullmatch, text.split("|"))) else "*"
    digits = "|-[0-9]+" if "-#" in flags else ""

    def letters(options: set[str]) -> str:
        return "".join(re.escape(option[1]) for option in options if len(option) == 2) or "\0"

    def names(options: set[str]) -> str:
        return "|".join(re.escape(option) for option in options) or "\0"

    before = f"-[{letters(flags)}]{many}"
    allowed = f"{before}[{letters(flags)}]|{before}[{letters(valued)}].*"
    return (
        re.compile(f"{allowed}|{names(flags)}|(?:{names(valued)})(?:=.*)?{digits}", re.DOTALL),
        re.compile(f"{before}[{letters(taking)}]|{names(taking)}"),
    )


def read_options(text: str, words: Sequence[str]) -> tuple[_Pairs, list[str]] | None:
    """Return the options with their values, and the operands; None if ``text`` does not allow one.

    A long option counts only by its full name: abbreviated, it could be another.
    """
    allowed, takes = _options(text)
    if text == "*":
        return [(word, "") for word in words if word[:1] == "-"], list(words)
    pairs: _Pairs = []
    operands: list[str] = []
    ends_at_operand = "+" in text.split("|")
    rest = iter(words)
    for word in rest:
        if word[:1] == UNKNOWN:
            # It may be any option.
            return None
        if word[:1] != "-" or word == "-":
            operands += [word, *rest] if ends_at_operand else [word]
        elif word == "--":
            operands += rest
        elif allowed.fullmatch(word) is None:
            return None
        else:
            pairs += _pairs(word, next(rest, "") if takes.fullmatch(word) else None)
    return pairs, operands


def _pairs(word: str, following: str | None) -> _Pairs:
    """Return the options that a word may stand for; ``following`` is the value of the last."""
    name, _, value = word.partition("=")
    pairs = [(name, value)]
    if word[:2] != "--" and len(word) > 2:
        letters = enumerate(word[1:], 2)
        pairs += [(f"-{letter}", word[at:]) for at, letter in letters if not letter.isdigit()]
    if following is not None:
        pairs[0], pairs[-1] = (name, following), (pairs[-1][0], following)
    return pairs


#: Options that take the next word for their value.
Values: TypeAlias = frozenset[str]
#: No option does.
NO_VALUES: Final[Values] = frozenset()


class Arguments:
    """What follows a command's name, as options and operands.

    Attributes:
        words: all the words.
        options: the options, each with its value.
        operands: the other words.
        doubtful: how many operands come before one that may be the value of an option.
    """

    __slots__ = ("doubtful", "operands", "options", "words")

    def __init__(self, words: Sequence[str], values: Values) -> None:
        self.words = words
        self.options: _Pairs = []
        self.operands: list[str] = []
        options, operands, doubtful = self.options, self.operands, len(words)
        last = ""
        rest = iter(words)
        for word in rest:
            if word[:1] != "-" or word == "-":
                if last and "=" not in last and last not in _FLAGS:
                    doubtful = min(doubtful, len(operands))
                operands.append(word)
                last = ""
            elif word == "--":
                options.append((word, ""))
                operands += rest
            else:
                following = next(rest, None) if takes_next(word, values) else None
                pairs = _pairs(word, following)
                options += pairs if len(pairs) == 1 else _until_value(pairs, values)
                last = word if following is None else ""
        self.doubtful = doubtful

    def has(self, option: str) -> bool:
        """Return whether ``option``, or ``-x=`` with such a value, is there, however written."""
        return _has(option, self.options)

    def values(self, options: Iterable[str]) -> list[str]:
        """Return the values of ``options``."""
        return [value for option in options for name, value in self.options if _is(option, name)]


def _until_value(pairs: _Pairs, values: Values) -> _Pairs:
    """Return the options up to the first letter that takes the rest of the word for its value."""
    for at in range(1, len(pairs)):
        if pairs[at][0] in values:
            return pairs[: at + 1]
    return pairs


#: Options that take no value in any tool that has them.
_FLAGS: Final = frozenset(table("names")["flags"])


def takes_next(word: str, values: Values) -> bool:
    """Return whether the option ``word`` takes the next word for its value."""
    if word in values:
        return True
    if word[:2] == "--":
        return any(may_abbreviate(word, option) for option in values)
    if len(word) == 2 or "=" in word:
        return False
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in values:
            return at == len(word)
    return False


def may_abbreviate(name: str, option: str) -> bool:
    """Return whether ``name`` may stand for the long option ``option``."""
    return len(name) > 3 and name[:2] == "--" and option.startswith(name)


def _is(option: str, name: str) -> bool:
    """Return whether ``name`` is ``option``, perhaps cut short or with another dash."""
    return name == option or (
        len(option) > 2
        and (may_abbreviate(name, option) or (option[1] != "-" and name == f"-{option}"))
    )


def _has(option: str, options: Iterable[tuple[str, str]]) -> bool:
    wanted, equals, glob = option.partition("=")
    for name, value in options:
        is_there = name == wanted or (len(wanted) > 2 and _is(wanted, name))
        if is_there and (not equals or UNKNOWN in value or fnmatchcase(value, glob)):
            return True
    return False


class Rule:
    """A row of a table: which commands it matches, how risky they are, and why.

    Attributes:
        level, reason: how risky they are, and why.
        confine: in a rule of the user's: whether a safe command runs confined.
        rights: whether it is safe without the rights that the program's file gives it (setuid).
        words, needed, absent, some, none, only, most: the parts of its ``match``.
    """

    __slots__ = (
        *("level", "reason", "confine", "rights"),
        *("words", "needed", "absent", "some", "none", "only", "most"),
    )

    def __init__(
        self,
        match: str,
        level: int,
        reason: str = "",
        *,
        confine: bool = True,
        rights: bool = False,
    ) -> None:
        """Read ``match``.

        Raises:
            ValueError: it is empty, or not a pattern.
        """
        if not names_of(match):
            msg = "it does not begin with a command's name"
            raise ValueError(msg)
        self.level = level
        self.reason = reason
        self.confine = confine
        self.rights = rights
        self.words: list[_Globs] = []
        self.needed: list[list[str]] = []
        self.absent: list[str] = []
        self.some: list[_Globs] = []
        self.none: list[_Globs] = []
        self.only: str | None = None
        self.most: int | None = None
        for word in match.split()[1:]:
            self._read(word)

    def _read(self, word: str) -> None:
        if word.startswith("!{"):
            self.none.append(_globs(word[1:]))
        elif word[0] == "{":
            self.some.append(_globs(word))
        elif word.startswith("!-"):
            self.absent += word[1:].split("|")
        elif word[0] == "-" and word != "-":
            self.needed.append(word.split("|"))
        elif word.startswith("options:"):
            self.only = word[8:]
        elif word.startswith("operands:"):
            self.most = int(word[9:])
        else:
            self.words.append(_globs(word))

    @property
    def first_words(self) -> Iterable[str] | None:
        """The words of which the first operand must be one; None if it may be any."""
        if not self.words or self.words[0][1]:
            return None
        return self.words[0][0]

    @property
    def is_open(self) -> bool:
        """Whether further options and operands make no difference to it."""
        return self.only is None and self.most is None and not (self.absent or self.none)

    def matches(self, arguments: Arguments, before: str = "none") -> bool:
        """Return whether it matches a command with these arguments, whatever its name.

        ``before`` are the options that may come before its subcommands, if it names all options.
        """
        if self.only is None:
            return self._fits(arguments.options, arguments.operands)
        words = arguments.words
        read = read_options(
            self.only, words if before == "none" else words[_begin(words, before) :]
        )
        return read is not None and self._fits(*read)

    def _fits(self, options: _Pairs, operands: list[str]) -> bool:
        count = len(self.words)
        if len(operands) < count or not all(map(_like, self.words, operands)):
            return False
        if self.most is not None and len(operands) - count > self.most:
            return False
        for needed in self.needed:
            if not any(_has(option, options) for option in needed):
                return False
        for option in self.absent:
            if _has(option, options):
                return False
        return not (self.some or self.none) or self._allows(operands[count:])

    def _allows(self, operands: list[str]) -> bool:
        """Return whether the further operands are what it names, and nothing that it forbids."""
        for wanted in self.some:
            if not any(_like(wanted, word) for word in operands):
                return False
        return not any(
            # What is not known may be what is not wanted.
            _like(unwanted, word) or (self.only is not None and UNKNOWN in word)
            for unwanted in self.none
            for word in operands
        )


def _begin(words: Sequence[str], before: str) -> int:
    """Return where the subcommand is, after the options of the command itself."""
    allowed, takes = _options(before)
    at = 0
    while at < len(words) and words[at][:1] == "-" and allowed.fullmatch(words[at]):
        at += 2 if takes.fullmatch(words[at]) else 1
    return at


def _globs(text: str) -> _Globs:
    alternatives = text.strip("{}").split("|")
    plain = frozenset(word for word in alternatives if not _WILD.search(word))
    return plain, tuple(word for word in alternatives if word not in plain)


_WILD: Final = re.compile(r"[*?\[]")


def _like(globs: _Globs, word: str) -> bool:
    plain, wild = globs
    return word in plain or (wild != () and _any_of(wild).match(word) is not None)


@cache
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches what one of the globs does: the tables have hundreds, most never used."""
    return re.compile("|".join(map(translate, globs)))
