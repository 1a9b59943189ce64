"""Programs that stand in a command: in ``-c``, in a here-document, or in a file that it writes.

They are not parsed: what plainly destroys or tells secrets is looked for, as the tables have it.
What else they do confinement holds, where the tables call them safe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from aish_lsp.shell.risk.paths import mentions_secret
from aish_lsp.shell.risk.review import UNSEEN, Input, Review, texts
from aish_lsp.shell.risk.rules import Program, tables
from aish_lsp.shell.risk.words import UNKNOWN

#: A file, a name or a setting: no program that does anything, but for ``.drop`` of a database.
_PLAIN: Final = re.compile(r"(?!\.\w+\Z)[\w./:@=,+~-]*")
#: What takes a program for its value, in one tool or another.
_HOLDS_ONE: Final = re.compile(r"-\w*[ceEqQr]|--?(?:eval|exec|execute|command|query|print)")
_FROM_INPUT: Final = frozenset({"", "-", "/dev/stdin"})


def look_into(
    review: Review, words: Sequence[str], program: Program, depth: int, given: Input
) -> bool:
    """Judge the program in a command, wherever it stands; return whether nothing is left to say."""
    text_of_input = program.input and given is not None
    # What is not known of an option may be a program that is attached to it.
    first = next((word for word in words[1:] if word[:1] != "-" or UNKNOWN in word), "")
    if program.script:
        if "-m" in words and first in {"pip", "uv", "poetry", "ansible"}:
            review.add_text(texts(words[words.index(first) :]), depth + 1)
            return True
        if _PLAIN.fullmatch(first) and run_written_file(review, first, program, depth):
            return True
        text_of_input = first in _FROM_INPUT and given is not None
    if UNKNOWN in first and (program.script or program.every):
        _not_known(review, first, program)
    for before, word in pairwise(words):
        is_plain = _PLAIN.fullmatch(word.replace(UNKNOWN, "")) is not None
        if program.every or not is_plain or _HOLDS_ONE.fullmatch(before):
            scan(review, word, program, depth)
        elif program.script and (word == "-m" or (word[:1] != "-" != before[:1])):
            break  # What follows is for the script.
    if text_of_input:
        text = _text(given)
        if not text.strip(f"{UNKNOWN} \n\t") and UNKNOWN in text:
            _not_known(review, text, program)
        scan(review, text, program, depth)
        review.caution("runs the program in its input")
    return False


def _text(given: Input) -> str:
    return given() if callable(given) else given or ""


def _not_known(review: Review, text: str, program: Program) -> None:
    if program.script and _PLAIN.fullmatch(text.replace(UNKNOWN, "").strip()):
        review.destructive(UNSEEN)
    else:
        review.caution("runs a program that is not wholly known")


def scan(review: Review, text: str, program: Program, depth: int) -> None:
    """Take down what in a program destroys, or tells secrets."""
    if mentions_secret(text):
        review.read_secrets = True
        review.caution("runs a program that may print secrets")
    bare = program.without.sub(" ", text) if program.without else text
    for found in program.found:
        for match in found.pattern.finditer(bare):
            review.findings.add(found.level, found.reason)
            review.read_secrets = review.read_secrets or found.secrets
            inner = next((group for group in match.groups() if group is not None), None)
            if found.runs:
                review.add_text(inner or "", depth + 1)
            elif found.writes:
                review.writes(inner or UNKNOWN, "adds" if ">>" in match[0] else "overwrites")


def run_written_file(review: Review, path: str, program: Program | None, depth: int) -> bool:
    """Judge running a file that the same command writes; return whether it is one.

    ``program`` is whose language it is in; None is a shell's.
    """
    text = review.runs_file(path)
    if text is None:
        return False
    if UNKNOWN in text or not text:
        review.destructive("runs a file that it has just written")
        return True
    review.caution("runs a file that it has just written")
    if program is None:
        review.add_text(text, depth + 1)
    else:
        scan(review, text, program, depth)
    return True


# The syntax of PowerShell and cmd: names that are known to destroy, and nothing else.
#
# There is no grammar of theirs here: a name counts wherever it stands.

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
    if UNKNOWN in rest:
        review.destructive(UNSEEN)
    look_through(review, rest)
    return True
