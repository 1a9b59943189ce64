"""Text that is safe to show, send and store, and the wording of values in messages.

This is the only module that defines which characters are invisible: controls, bidirectional
controls, characters without width or ink, every space other than the plain one, and unassigned
code points. It is also the only one that defines how a message shows a path, a value or a type, and
what it must hide.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import types
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from aish_lsp.foundation.redaction import is_secret, is_secret_name

#: Line ends for some readers (Python, a few editors) but not for others (LSP).
ODD_LINE_ENDS: Final = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"

#: Characters that change the order in which adjacent text is shown.
BIDI: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

#: Blank characters that Unicode classifies as letters, marks or symbols.
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)

#: Selects the text or the emoji style of the character before it.
_VARIATIONS: Final = "\ufe0e\ufe0f"

#: Runs that may contain invisible characters; most texts have few of them.
_SUSPECT: Final = re.compile(r"[^\t\n -~]+")

#: Characters that are searched for each line end; halving pays for itself above that.
_NEAR: Final = 1 << 12

_LINE_END: Final = re.compile(f"\r\n|[\n\r{ODD_LINE_ENDS}]")


def is_seen(text: str) -> bool:
    """Return whether each character of ``text`` is visible; line feeds and tabs are not."""
    # Not printable are the categories "other" and "separator", except for the plain space.
    return text.isprintable() and not _BLANK.search(text)


def escaped(text: str) -> str:
    r"""Return ``text`` on one line, with each invisible character escaped.

    The escapes are those of Python: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0041``.
    """
    if is_seen(text):
        return text
    return "".join(
        character if is_seen(character) else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shown_path(path: str | PurePath) -> str:
    """Return a path for a message, safe even if it contains line ends or terminal controls."""
    return escaped(str(path))


def quoted_path(name: str) -> str:
    r"""Return a path for a list of paths, so that it is one entry and can be read again.

    It is in quotes, with JSON's escapes (``"a\nb"``), if it has invisible characters, blanks at its
    ends, or begins with a quote.
    """
    if is_seen(name) and name == name.strip() and not name.startswith('"'):
        return name
    return json_escaped(json.dumps(name, ensure_ascii=False))


def cut(text: str, limit: int) -> str:
    """Return ``text``; if it is longer than ``limit``, its start, its length and its hash.

    The hash (the first half of SHA-256) distinguishes texts with the same start.
    """
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{text[:limit]}... ({len(text):,} characters, SHA-256 {digest})"


def visible(text: str) -> str:
    r"""Return ``text`` so that it is safe to show on a screen, with its lines kept.

    Invisible characters other than line feeds and tabs are escaped as by ``escaped``. Since they
    are frequent in prose, spaces of other widths become plain ones, and variation selectors are
    removed.
    """
    return _with_unseen(text, _visible_character)


def _with_unseen(text: str, instead: Callable[[str], str]) -> str:
    """Return ``text`` with ``instead`` applied to the characters of runs with invisible ones."""

    def part(run: re.Match[str]) -> str:
        return run[0] if is_seen(run[0]) else "".join(map(instead, run[0]))

    return _SUSPECT.sub(part, text)


def _visible_character(character: str) -> str:
    if character in _VARIATIONS:
        return ""
    return " " if unicodedata.category(character) == "Zs" else escaped(character)


def json_escaped(text: str) -> str:
    r"""Return ``text``, which is JSON, with invisible characters escaped: ``\u009b``.

    Its values stay the same. Line feeds, which can only occur between values, stay.
    """
    return _with_unseen(text, lambda one: one if is_seen(one) else json.dumps(one)[1:-1])


def hidden_characters(text: str) -> tuple[str, ...]:
    r"""Return the invisible characters of ``text`` (``U+202E RIGHT-TO-LEFT OVERRIDE``), once each.

    ``\n`` and ``\t`` are not included.
    """
    if text.isascii() and text.isprintable():
        return ()
    return tuple(
        f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
        for character in dict.fromkeys("".join(_SUSPECT.findall(text)))
        if not is_seen(character)
    )


def without_hidden(text: str) -> str:
    r"""Return ``text`` with LF for CRLF and without invisible characters.

    Line feeds and tabs stay. Spaces of other widths become plain ones.
    """
    return _with_unseen(text.replace("\r\n", "\n"), _seen_character)


def _seen_character(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character if is_seen(character) else ""


def clipped(text: str, limit: int) -> str:
    """Return ``text``, cut to ``limit`` characters including an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str) -> str:
    """Return ``text`` with a space for each line end of any kind."""
    return _LINE_END.sub(" ", text)


def with_line_feeds(text: str) -> str:
    """Return ``text`` with LF for each line end that LSP defines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def line_start(text: str, line: int) -> int:
    """Return the offset at which a line begins, counted from 0; the end if there are fewer lines.

    Halving takes a hundredth of the time that finding each line end takes in a text of 10 MB, and
    an editor that pastes one reports a thousand changes.
    """
    begin, end = 0, len(text)
    while line and end - begin > _NEAR:
        middle = (begin + end) // 2
        before = text.count("\n", begin, middle)
        if before < line:
            begin, line = middle, line - before
        else:
            end = middle
    for _ in range(line):
        begin = text.find("\n", begin) + 1
        if begin == 0:
            return len(text)
    return begin


def well_formed(text: str) -> str:
    """Return ``text`` with surrogate pairs joined, and U+FFFD for each lone surrogate.

    Lone surrogates come from file names that are not UTF-8, from selections that end inside an
    emoji, and from servers that split one. Files and messages cannot hold them.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


#: Keys of objects and indices of lists.
KeyPath: TypeAlias = tuple[str | int, ...]

#: Maximum characters of a value or name that a message shows.
SHOWN: Final = 40
#: The largest integer of TOML and of most JSON readers: 64 bits, signed.
LARGEST: Final = 2**63 - 1


def count_of(number: int, thing: str) -> str:
    """Return a count with its noun: ``1 line``, ``1,200 lines``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def nearest(name: str, names: list[str]) -> str:
    """Return a hint for somebody who wrote ``name`` instead of one of ``names``."""
    near = difflib.get_close_matches(name[:SHOWN], names, n=3)
    if near:
        return "did you mean " + " or ".join(f'"{other}"' for other in near) + "?"
    if not names:
        return "there are none"
    return "known: " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def accepted(kind: Any, minimum: float | None = None, maximum: float | None = None) -> str:
    """Return a description of what ``kind`` accepts: ``a whole number of at least 1``."""
    words = _accepted_kind(kind)
    if minimum is not None and maximum is not None:
        return f"{words} from {minimum:g} to {maximum:g}"
    if minimum is not None:
        return f"{words} of at least {minimum:g}"
    return words if maximum is None else f"{words} of at most {maximum:g}"


def shown(value: object, limit: int = SHOWN) -> str:
    """Return ``value`` for a message, on one line and without invisible characters.

    At most ``limit`` characters of a string are shown; of a list or an object, only its type.
    """
    if isinstance(value, str):
        text = json_escaped(json.dumps(value[:limit], ensure_ascii=False))
        return text if len(value) <= limit else f"{text}... ({len(value)} characters)"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def dotted(path: KeyPath, limit: int = SHOWN) -> str:
    """Return a path in TOML's notation, with list indices in brackets: ``models."a b".stop[0]``.

    At most ``limit`` characters are shown of a name that has to be quoted.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part)
        text += ("." if text else "") + (part if bare else shown(part, limit))
    return text


def hidden(path: KeyPath, value: object) -> bool:
    """Return whether ``value`` may be a secret, judged by its path and its format."""
    if not isinstance(value, str):
        return False
    return is_secret(value) or any(isinstance(part, str) and is_secret_name(part) for part in path)


def arms(kind: Any) -> list[Any]:
    """Return the alternatives of a union, except None; empty if ``kind`` is not a union."""
    if get_origin(kind) not in {Union, types.UnionType}:
        return []
    return [arm for arm in get_args(kind) if arm is not types.NoneType]


def _accepted_kind(kind: Any) -> str:
    if alternatives := arms(kind):
        return " or ".join(_accepted_kind(arm) for arm in alternatives)
    if get_origin(kind) is Literal:
        return " or ".join(shown(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return f"a list of {len(get_args(kind))}"
    simple = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    return simple.get(kind) or {
        list: f"a list of {_plural(kind)}",
        tuple: f"a list of {_plural(kind)}",
    }.get(get_origin(kind), "an object" if kind is not Any else "any value")


def _plural(kind: Any) -> str:
    """Return a noun for the elements of a list."""
    element = get_args(kind)[0] if get_args(kind) else Any
    plurals = {str: "strings", int: "whole numbers", float: "numbers", bool: "true or false"}
    return plurals.get(element, "objects" if dataclasses.is_dataclass(element) else "values")
