"""Removes a folder with all that a command left in it, however deep it is and whatever its modes.

Like ``child``, the supervisor imports this module alone, and only where there is something to
remove. ``shutil.rmtree`` recurses, so that a deep folder ends in a ``RecursionError``, and leaves
what it may not list.
"""

# pathlib would double the supervisor's start-up time.
# ruff: noqa: PTH106, PTH208

from __future__ import annotations

import os
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: str | bytes | os.PathLike[str]) -> None:
    """Remove a folder and what it holds, as far as that can be done; never follow a link."""
    try:
        top = _open(folder, None)
    except OSError:
        return  # Gone already, or no folder.
    try:
        _empty(top)
    finally:
        os.close(top)
    with suppress(OSError):  # Something in it may not be ours to remove.
        os.rmdir(folder)


def _empty(top: int) -> None:
    """Remove what is in a folder: what lies deeper is moved up first, so that nothing is deep."""
    waiting = os.listdir(top)
    while waiting:
        name = waiting.pop()
        if _is_removed(name, top):
            continue
        try:
            inner = _open(name, top)
        except OSError:
            continue
        try:
            for entry in os.listdir(inner):
                if not _is_removed(entry, inner):
                    waiting.append(_moved_up(entry, inner, top))
            os.rmdir(name, dir_fd=top)
        except OSError:
            pass
        finally:
            os.close(inner)


def _is_removed(name: str, folder: int) -> bool:
    """Remove a file or an empty folder; return whether it is gone."""
    for call in (os.unlink, os.rmdir):
        try:
            call(name, dir_fd=folder)
        except OSError:
            continue
        return True
    return False


def _moved_up(name: str, folder: int, top: int) -> str:
    """Move a folder up to ``top``; return its name there."""
    os.close(_open(name, folder))  # A folder that cannot be written cannot be moved, either.
    new = os.urandom(16).hex()
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    return new


def _open(name: str | bytes | os.PathLike[str], at: int | None) -> int:
    """Open a folder, and make it one that its owner may list and write."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=at)  # Nobody is left who could put a link there.
        return os.open(name, _FOLDER, dir_fd=at)
    if not os.fstat(descriptor).st_mode & 0o200:
        with suppress(OSError):
            os.fchmod(descriptor, 0o700)
    return descriptor
