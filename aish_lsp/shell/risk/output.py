"""What a simple command prints, where that is plain to see: a shell behind a pipe runs it."""

from __future__ import annotations

import codecs
import re

from aish_lsp.shell.risk.review import Input
from aish_lsp.shell.risk.words import HOLE


def printed(words: list[str], given: Input) -> str:
    """Return what a simple command prints, where that is plain to see; else a HOLE."""
    name, *rest = words or [""]
    if name == "echo":
        while rest and re.fullmatch("-[neE]+", rest[0]):
            del rest[0]
        return _escapes(" ".join(rest))
    if name == "printf" and rest:
        text, *values = rest
        if "%" in text:
            return " ".join([_escapes(value) for value in values])
        return _escapes(text)
    if name in {"cat", "tee"} and (name == "tee" or rest in ([], ["-"])) and given is not None:
        return given() if callable(given) else given
    return HOLE


def _escapes(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return codecs.decode(text.encode("ascii", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return HOLE
