"""``find``: what it looks for, and what it does with what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.paths import names_secret
from aish_lsp.shell.risk.review import Input, Review
from aish_lsp.shell.risk.words import HOLE

#: Tests and actions that only look and print.
_LOOKS: Final = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-atime",
        "-amin",
        "-ctime",
        "-cmin",
        "-newer",
        "-anewer",
        "-cnewer",
        "-newermt",
        "-newerat",
        "-newerct",
        "-newermm",
        "-maxdepth",
        "-mindepth",
        "-depth",
        "-empty",
        "-not",
        "-o",
        "-or",
        "-a",
        "-and",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-nouser",
        "-nogroup",
        "-xdev",
        "-mount",
        "-ls",
        "-quit",
        "-true",
        "-false",
        "-links",
        "-inum",
        "-samefile",
        "-follow",
        "-readable",
        "-writable",
        "-executable",
        "-daystart",
        "-noleaf",
        "-used",
        "-lname",
        "-ilname",
        "-fstype",
        "-H",
        "-L",
        "-P",
        "-E",
        "-X",
        "-x",
        "-s",
        "-d",
        "-f",
        "--",
        "!",
        "(",
        ")",
        ",",
        "-O1",
        "-O2",
        "-O3",
        "-warn",
        "-nowarn",
        "-ignore_readdir_race",
    ]
)
_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})


def find(review: Review, words: Sequence[str], depth: int, given: Input) -> bool:
    """Judge ``find``."""
    # It needs ``judge``, which needs this.
    from aish_lsp.shell.risk.judge import judge  # noqa: PLC0415

    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if word in _RUNS:
            review.lost = review.lost or "dir" in word
            end = at
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            # ``+`` only ends it behind ``{}``; another is a word like any.
            # What it finds begins with where it looks, and so is no option.
            inner = [part.replace("{}", f"./{HOLE}") for part in words[at:end]]
            if inner:
                judge(review, inner, depth + 1, given)
            at = end + 1
        elif word == "-delete":
            review.destructive("deletes files")
        elif word in _WRITES:
            review.writes(words[at] if at < len(words) else HOLE)
            at += 1
        elif word[:1] == HOLE and (at == 2 or words[at - 2][:1] != "-"):
            review.caution("find with arguments that are not known")
        elif word[:1] == "-" and word not in _LOOKS and not _is_value(words[at - 2]):
            review.caution(f"find with an option not known to only look: {word[:40]}")
    if names_secret(words[1:]):
        review.caution("looks for what may be secret, or reads without an end")
    return True


def _is_value(before: str) -> bool:
    """Return whether the word behind ``before`` is its value: ``-mtime -7``, ``-perm -u=w``."""
    return before in {
        *("-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-perm", "-links"),
        *("-name", "-iname", "-path", "-used", "-uid", "-gid", "-inum", "-regex", "-printf"),
    }
