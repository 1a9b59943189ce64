"""File names as they may be shown: exact where harmless, else quoted and escaped."""

from __future__ import annotations

from aish_lsp.foundation.text import is_seen

_SHORT_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", '"': r"\"", "\\": r"\\"}


def shown(name: str) -> str:
    """Return ``name`` as one line of visible text that stands for no other name.

    Most names are returned as they are. One with control, bidi or invisible characters, with bytes
    that are not UTF-8, with blanks at its ends, or that looks quoted or folded, is quoted.
    """
    plain = is_seen(name) and name == name.strip() and not name.startswith('"') and "…" not in name
    return name if plain else f'"{"".join(map(_escaped, name))}"'


def _escaped(character: str) -> str:
    """Return ``character`` as it stands between quotes."""
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if is_seen(character):
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
