"""Which of a command's words name something that no snapshot covers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

from aish_lsp.undo.listing import is_editors_own, left_out

#: Words of a command that are looked at.
_WORDS = 1000


def named(text: str, cwd: Path, top: Path, uncovered: Collection[bytes]) -> list[bytes]:
    """Return the words of ``text`` that name what is not covered, relative to the work tree.

    A guess, for a person to read: variables are not looked into, and of a pattern only the folder
    before it.
    """
    found = dict.fromkeys(_names(text, cwd, top))
    return [
        name
        for name in found
        if left_out(name, uncovered) or b".git" in name.split(b"/") or is_editors_own(name)
    ]


def _names(text: str, cwd: Path, top: Path) -> Iterator[bytes]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    for word in words[:_WORDS]:
        for part in {word, word.rpartition("=")[2], word.lstrip("<>&12")}:
            plain = re.split(r"[*?\[{$`;|&()]", part)[0].rstrip("/")
            if not plain or "\0" in plain:
                continue
            path = os.path.normpath(cwd / Path(plain).expanduser() if plain[0] != "~" else plain)
            below = os.path.relpath(path, top)
            if not below.startswith(".."):
                yield os.fsencode(below)
