"""Texts that a command becomes, prints or is given, as far as they are known before it runs.

Anything in a text that is known only when it runs (a variable that the text does not set, a
command's output, the names that a leading pattern matches) is an ``UNKNOWN``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from aish_lsp.shell.risk.data import LONGEST, UNKNOWN, table

#: What a command reads from a pipe or a given text; its unknown parts are ``UNKNOWN``.
Input = Callable[[], str] | str | None

#: Stands between what become separate words: replaces the blanks in an unquoted variable.
SPLIT: Final = "\1"

#: How many values of one variable are looked at.
_MOST_VALUES: Final = 8
#: What is known of variables that the text does not set.
_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    name: (value,) for name, value in table("names")["known_variables"].items()
}

#: Unknown texts with only blanks between them count as one.
_UNKNOWNS: Final = re.compile(rf"{UNKNOWN}[{UNKNOWN}{SPLIT} ]*{UNKNOWN}")
PATTERN: Final = re.compile(r"[*?\[]")
_ECHO_OPTION: Final = re.compile("-[neE]+")
#: A format of ``printf`` that puts its values in as they are.
_FORMAT: Final = re.compile(r"(?:[^%]*%s)+[^%]*")

_ANSI: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS: Final = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


class Variables:
    """What the text sets its variables to; an unknown value is an UNKNOWN."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def add(self, name: str, value: str) -> None:
        """Add a value that ``name`` may have; one that is too long, or one too many, is unknown."""
        # A value made of others doubles with each of them.
        value = UNKNOWN if len(value) > LONGEST else _UNKNOWNS.sub(UNKNOWN, value)
        values = self._values.setdefault(name, [])
        if len(values) <= _MOST_VALUES and value not in values:
            values.append(value if len(values) < _MOST_VALUES else UNKNOWN)

    @property
    def names(self) -> Collection[str]:
        """The variables that it sets."""
        return self._values.keys()

    @property
    def most(self) -> int:
        """How many values a variable has at most."""
        return max(map(len, self._values.values()), default=1)

    def may_name_files(self, text: str) -> bool:
        """Return whether a text may hold names of files, since it has a value that is a pattern."""
        values = (value for values in self._values.values() for value in values)
        return any(value in text and PATTERN.search(value) for value in values)

    def get(self, name: str) -> Sequence[str]:
        """Return the values that ``name`` may have."""
        return self._values.get(name) or _KNOWN.get(name, (UNKNOWN,))


def joined(text: str) -> str:
    """Return the one word that the words of a value become in quotes."""
    return _UNKNOWNS.sub(UNKNOWN, text.replace(SPLIT, " ")) if SPLIT in text else text


def printed(words: list[str]) -> str:
    """Return what ``echo``, ``printf``, ``which`` or one of their like prints, if it is known."""
    name, *rest = words
    if name == "printf":
        form = rest[1:] if rest[:1] == ["--"] else rest
        return _formatted(*form) if form and (form is not rest or form[0][:1] != "-") else UNKNOWN
    if name == "echo":
        while rest and _ECHO_OPTION.fullmatch(rest[0]):
            del rest[0]
        text = " ".join(rest)
        # With ``-e``, and in some shells without it, a backslash begins an escape.
        return (UNKNOWN if "\\" in text else "") + without_escapes(text)
    return " ".join(word for word in rest if word[:1] != "-")


def _formatted(form: str, *values: str) -> str:
    """Return what ``printf`` makes of a format and values."""
    form = without_escapes(form)
    if "%" not in form:
        return form
    if _FORMAT.fullmatch(form) is None:
        return f"{UNKNOWN}{form}\n{' '.join(map(without_escapes, values))}"
    rest, shown = list(values) or [""], ""
    while rest:
        *parts, last = form.split("%s")
        shown += "".join([part + (rest.pop(0) if rest else "") for part in parts]) + last
    return shown


def without_escapes(text: str) -> str:
    """Return ``text`` with what its backslashes stand for in ``$'...'`` and ``printf``."""
    return _ANSI.sub(_ansi_character, text) if "\\" in text else text


def _ansi_character(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal or match[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8)
        return chr(code) if 0 < code <= 0x10FFFF else UNKNOWN
    return _ANSI_LETTERS.get(match[6], match[6]) if match[6] else UNKNOWN


def printed_by(words: list[str], stdin: Input) -> str:
    """Return what a simple command prints, if that is known; else UNKNOWN."""
    name, *rest = words or [""]
    if name in {"cat", "tee"} and (name == "tee" or rest in ([], ["-"])) and stdin is not None:
        return text_of(stdin)
    if name not in {"echo", "printf"}:
        return UNKNOWN
    text = printed(words)
    if name == "echo" and text[:1] == UNKNOWN:
        # Whether ``echo`` reads escapes without an option depends on the shell.
        text = ("" if rest[0][:1] == "-" else f"{' '.join(rest)}\n") + text[1:]
    # A pattern becomes the names of files, which may be anything.
    return text + (f" # {UNKNOWN}" if any(map(PATTERN.search, rest)) else "")


def text_of(stdin: Input, or_else: str = "") -> str:
    """Return an input as a text; ``or_else`` if there is none, or an empty text is given."""
    return stdin() if callable(stdin) else stdin or or_else
