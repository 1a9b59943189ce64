"""What a simple command prints, where that is plain to see: a shell behind a pipe runs it."""

from __future__ import annotations

import re

from aish_lsp.shell.risk.review import Input
from aish_lsp.shell.risk.words import HOLE, without_escapes


def printed(words: list[str], given: Input) -> str:
    """Return what a simple command prints, where that is plain to see; else a HOLE."""
    name, *rest = words or [""]
    if name == "echo":
        while rest and re.fullmatch("-[neE]+", rest[0]):
            del rest[0]
        return without_escapes(" ".join(rest))
    if name == "printf" and rest:
        text, *values = rest
        if "%" in text:
            return " ".join([without_escapes(value) for value in values])
        return without_escapes(text)
    if name in {"cat", "tee"} and (name == "tee" or rest in ([], ["-"])) and given is not None:
        return given() if callable(given) else given
    return HOLE
