"""``find``: what it looks for, and what it does with what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.paths import names_secret
from aish_lsp.shell.risk.review import Review
from aish_lsp.shell.risk.words import MANY, UNKNOWN

#: Tests and actions that only look and print, and that take no word for their value.
_LOOKS: Final = frozenset(
    {
        *("-depth", "-empty", "-not", "-o", "-or", "-a", "-and", "-print", "-print0"),
        *("-prune", "-nouser", "-nogroup", "-xdev", "-mount", "-ls", "-quit", "-true"),
        *("-false", "-follow", "-readable", "-writable", "-executable", "-daystart"),
        *("-noleaf", "-H", "-L", "-P", "-E", "-X", "-x", "-s", "-d", "--", "!", "(", ")"),
        *(",", "-O1", "-O2", "-O3", "-warn", "-nowarn", "-ignore_readdir_race"),
    }
)
#: The same that take the next word, whatever that is.
_TAKES: Final = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex"),
        *("-iregex", "-regextype", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime"),
        *("-amin", "-ctime", "-cmin", "-newer", "-anewer", "-cnewer", "-newermt"),
        *("-newerat", "-newerct", "-newermm", "-maxdepth", "-mindepth", "-printf", "-perm"),
        *("-user", "-group", "-uid", "-gid", "-links", "-inum", "-samefile", "-used"),
        *("-lname", "-ilname", "-fstype"),
    }
)
_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})


def find(review: Review, words: Sequence[str]) -> list[tuple[str, ...]]:
    """Judge ``find``; return the commands that it runs, which are to be judged as well."""
    runs: list[tuple[str, ...]] = []
    at, takes = 1, False
    while at < len(words):
        word = words[at]
        at += 1
        if takes:
            takes = False
            if word[:2] == MANY and not review.confined:
                review.caution("find with a value that may be several words")
        elif word in _RUNS:
            review.lost = review.lost or "dir" in word
            end = at
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            # ``+`` only ends it behind ``{}``; another is a word like any.
            # What it finds begins with where it looks, and so is not an option.
            runs.append(tuple(word.replace("{}", f"./{UNKNOWN}") for word in words[at:end]))
            at = end + 1
        elif word in _WRITES:
            review.writes(words[at] if at < len(words) else UNKNOWN)
            at += 1
        else:
            takes = word in _TAKES
            _look(review, word)
    if names_secret(words[1:]):
        review.caution("looks for what may be secret, or reads without an end")
    return runs


def _look(review: Review, word: str) -> None:
    """Judge a place to look at, a test, or an action that takes no file and no command."""
    if word == "-delete":
        review.destructive("deletes files")
    elif word[:1] == UNKNOWN:
        review.caution("find with arguments that are not known")
    elif word[:1] == "-" and word not in _LOOKS and word not in _TAKES:
        review.caution(f"find with an option not known to only look: {word[:40]}")
