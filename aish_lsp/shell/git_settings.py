"""Which files of a work tree the user's own settings of git have git run or read settings from.

Whoever can write them decides what the user's next ``git status`` runs.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aish_lsp.foundation.git import run_git, top_above

#: The keys whose value is one path: of more settings, of hooks, or of what new repositories get.
_PATHS: Final = re.compile(r"include(if\..*)?\.path|core\.hookspath|init\.templatedir", re.DOTALL)
#: The keys whose value git runs, or hands to a shell. An alias does so if it begins with ``!``.
_COMMANDS: Final = re.compile(
    r"""
    core\.(fsmonitor|pager|askpass|gitproxy)
    | alias\..* | pager\..* | interactive\.difffilter | web\.browser | submodule\..*\.update
    | remote\..*\.(uploadpack|receivepack) | sendemail\.smtpserver | imap\.tunnel | instaweb\.httpd
    | .*\.(\w*(cmd|command|hook)|external|clean|smudge|process|driver|textconv|program|helper|path)
    | .*\.editor
    """,
    re.DOTALL | re.VERBOSE,
)
_SECONDS: Final = 5.0


def names_in_tree(root: Path) -> set[str]:
    """Return the files and folders that git's settings name in the work tree ``root``. Blocks.

    These are the settings that a ``git`` of the user's would read there. Each name begins with
    ``/`` for the root of the tree. A relative one of several parts, or of a file, is given as it
    stands, too, since it counts in each repository of the tree; there, of a folder such as
    ``hooks``, only the names that git's hooks have count.
    """
    top = top_above(root) or root
    real_root = os.path.realpath(root)
    names: set[str] = set()
    for origin, key, value in _settings(top):
        above = (top / origin.removeprefix("file:")).parent if origin.startswith("file:") else top
        if _PATHS.fullmatch(key):
            bases = (above, top) if key.startswith("include") else (top,)
            spelled = {_expanded(value)} if value else set()
        elif _COMMANDS.fullmatch(key) and (value[:1] == "!" or not key.startswith("alias.")):
            bases = (top,)
            spelled = set(_files(value.removeprefix("!"), top))
        else:
            continue
        for name in spelled:
            places = [os.path.normpath(base / name) for base in bases]
            for place in (*places, *map(os.path.realpath, places)):
                below = os.path.relpath(place, real_root)
                if below != "." and not below.startswith(".."):
                    names.add(f"/{below}")
            relative = os.path.normpath(name)
            counts_anywhere = "/" in relative or key != "core.hookspath"
            if counts_anywhere and not relative.startswith(("/", "..")):
                names.add(relative)
    return names


def _files(command: str, top: Path) -> Iterator[str]:
    """Yield the words of a command that name a file, not a program of PATH or a folder."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for number, word in enumerate(words):
        name = _expanded(word.rpartition("=")[2])
        path = top / name
        is_file_name = "/" in name or (number and (path.is_file() or "." in name))
        if is_file_name and name[:1] != "-" and not path.is_dir():
            yield name


def _expanded(name: str) -> str:
    """Return a name with the variables and the ``~`` that git's shell replaces."""
    return os.path.expanduser(os.path.expandvars(name))  # noqa: PTH111 - a string


def _settings(folder: Path) -> list[tuple[str, str, str]]:
    """Return the origin of each setting of git, its key and its value; none if git fails."""
    done = run_git(folder, "config", "--list", "--show-origin", "-z", seconds=_SECONDS)
    if done is None:
        return []
    parts = os.fsdecode(done.stdout).split("\0")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return [(origin, *_key_and_value(setting)) for origin, setting in pairs]


def _key_and_value(setting: str) -> tuple[str, str]:
    # Without a value it is a flag.
    key, _, value = setting.partition("\n")
    return key, value
