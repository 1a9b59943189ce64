"""The program that a command's first word stands for, on the PATH that it will run with."""

from __future__ import annotations

import os
import stat
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

#: Seconds for which a program that was found is taken to be where it was.
_FRESH: Final = 5.0

#: Words that the shell itself understands.
_BUILTINS: Final = frozenset(
    [
        ":",
        "[",
        "[[",
        "alias",
        "bg",
        "bind",
        "break",
        "builtin",
        "caller",
        "cd",
        "command",
        "compgen",
        "complete",
        "continue",
        "dirs",
        "echo",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "help",
        "history",
        "jobs",
        "local",
        "logout",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readarray",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ]
)


def is_builtin(name: str) -> bool:
    """Return whether the shell understands ``name`` without a program."""
    return name in _BUILTINS


def distrust(name: str, path: str | None, folder: Path | None) -> tuple[str, bool] | None:
    """Return why a program is not what the tables mean, and whether that is for its rights only.

    ``name`` is a command's first word; None says that nothing speaks against it, or that there is
    no such program.
    """
    if is_builtin(name):
        return None
    path = os.environ.get("PATH", os.defpath) if path is None else path
    top = None if folder is None else _top(str(folder))
    return _distrust(name, path, top, int(time.monotonic() / _FRESH))


@lru_cache(maxsize=4096)
def _distrust(name: str, path: str, top: str | None, _now: int) -> tuple[str, bool] | None:
    found = name if "/" in name else _find(name, path)
    if found is None:
        return None
    real = os.path.realpath(found)
    if not found.startswith("/") or (
        top is not None and any(_lies_in(place, top) for place in (os.path.normpath(found), real))
    ):
        return f"a program in the workspace: {name[:60]}", False
    if real == "/usr/bin/snap" or real.startswith(("/snap/", "/mnt/")) or real.endswith(".exe"):
        return f"cannot run confined: {name[:60]}", False
    try:
        gains = bool(Path(real).stat().st_mode & (stat.S_ISUID | stat.S_ISGID)) or (
            hasattr(os, "getxattr") and "security.capability" in os.listxattr(real)
        )
    except OSError:
        return None
    return (f"runs with other rights: {name[:60]}", True) if gains else None


def _find(name: str, path: str) -> str | None:
    """Return where a program is found; what PATH names relatively is a place in the workspace."""
    for place in path.split(os.pathsep):
        candidate = f"{place or '.'}/{name}"
        if not place.startswith("/"):
            return candidate
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
    return None


def _lies_in(place: str, top: str) -> bool:
    return place.startswith(f"{top.rstrip('/')}/")


@lru_cache(maxsize=64)
def _top(folder: str) -> str:
    """Return the top of the work tree that ``folder`` lies in, or ``folder`` itself."""
    real = Path(os.path.realpath(folder))
    tops = (place for place in (real, *real.parents) if (place / ".git").exists())
    return str(next(tops, real))
