"""A command as a person may see it: nothing in it is invisible, and nothing reorders it."""

from __future__ import annotations

import unicodedata

#: Characters that take no ink although Unicode counts them as letters, marks or symbols.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10))))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)


def shown(text: str) -> str:
    r"""Return ``text`` on one line, with each character that cannot be seen escaped.

    That is: control characters (line ends and tabs too), bidi overrides and isolates, zero-width
    and tag characters, variation selectors, unassigned and private ones, and every space but the
    plain one. An escape reads as in Python: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0041``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _is_seen(character) else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def hidden_characters(text: str) -> tuple[str, ...]:
    r"""Return what ``text`` hides, as ``U+202E RIGHT-TO-LEFT OVERRIDE``, each once.

    ``\n`` and ``\t`` do not count: they hide nothing from somebody who reads ``shown``.
    """
    if text.isascii() and text.isprintable():
        return ()
    return tuple(
        f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
        for character in dict.fromkeys(text)
        if character not in "\n\t" and not _is_seen(character)
    )


def _is_seen(character: str) -> bool:
    # Not printable are the categories "other" and "separator", the plain space excepted.
    return character.isprintable() and character not in _BLANK
