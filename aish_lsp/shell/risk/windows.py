"""The syntax of PowerShell and cmd: names that are known to destroy, and nothing else.

There is no grammar of theirs here: a name counts wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from aish_lsp.shell.risk.programs import scan
from aish_lsp.shell.risk.review import UNSEEN, Input, Review, texts
from aish_lsp.shell.risk.rules import tables
from aish_lsp.shell.risk.words import HOLE

SHELLS: Final = frozenset({"pwsh", "powershell", "cmd"})


def is_windows_shell(shell: str) -> bool:
    """Return whether ``shell``, a name or a path, reads PowerShell's or cmd's language."""
    name = re.split(r"[\\/]", shell)[-1].casefold()
    return PurePath(name).name.removesuffix(".exe") in SHELLS


def look_through(review: Review, text: str) -> None:
    """Take down the destructive names in ``text``; without any it is ``caution``."""
    bare = text.replace("`", "").replace("^", "")
    entry = tables().entry("pwsh")
    if entry is not None and entry.program is not None:
        scan(review, bare, entry.program, 0)
    review.caution("the grammar of this shell is not known")


def opened(review: Review, words: Sequence[str], _depth: int, given: Input) -> bool:
    """``pwsh -Command TEXT``, ``cmd /c TEXT``."""
    rest = texts(words[1:])
    if given is not None:
        rest += "\n" + (given if isinstance(given, str) else given())
    if HOLE in rest:
        review.destructive(UNSEEN)
    look_through(review, rest)
    return True
