"""File names as they may be shown: exact where harmless, else quoted and escaped."""

from __future__ import annotations

import re

#: Characters that count as printable and yet show nothing, or change what stands beside them.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)

_SHORT_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", '"': r"\"", "\\": r"\\"}


def shown(name: str) -> str:
    """Return ``name`` as one line of visible text that stands for no other name.

    Most names are returned as they are. One with control, bidi or invisible characters, with bytes
    that are no UTF-8, with blanks at its ends, or that looks quoted or folded, is quoted.
    """
    plain = (
        name.isprintable()
        and not _INVISIBLE.search(name)
        and name == name.strip()
        and not name.startswith('"')
        and "…" not in name
    )
    return name if plain else f'"{"".join(map(_escaped, name))}"'


def _escaped(character: str) -> str:
    """Return ``character`` as it stands between quotes."""
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character.isprintable() and not _INVISIBLE.match(character):
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte of a name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible(text: str) -> str:
    """Return ``text`` without what cannot be seen; its line breaks and tabs stay."""
    unified = text.replace("\r\n", "\n")
    return "".join(
        character
        for character in unified
        if character in "\n\t" or (character.isprintable() and not _INVISIBLE.match(character))
    )
