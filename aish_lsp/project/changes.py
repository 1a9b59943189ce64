"""Changes of single files, taken into the list of files without a new scan.

What is told of a change is never trusted: the disk says what is there, the rules whether it counts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.project.files import Listing
    from aish_lsp.project.ignored import IgnoreFiles
    from aish_lsp.project.known import KnownFiles

#: What, in a repository's own folder, decides about its files.
_DECIDING = frozenset({"index", "HEAD", "config", "info/exclude", ""})

#: Entries of a new folder that are looked at.
_LOOKED_AT = 100


class Effect(Enum):
    """What changes came to."""

    NONE = auto()
    CHANGED = auto()
    DOUBTFUL = auto()
    """Only a new scan can tell."""


def take_in(listing: Listing, root: Path, names: Iterable[str]) -> Effect:
    """Bring the list up to date with what is on disk at ``names``, relative to ``root``.

    Blocks for a few calls of the system a name. Where the effect is doubtful, the list is not to
    be used any more.
    """
    if listing.ignore_files is None:
        return Effect.DOUBTFUL
    effect = Effect.NONE
    for name in names:
        match _take_in(listing, listing.ignore_files, root, name):
            case Effect.DOUBTFUL:
                return Effect.DOUBTFUL
            case Effect.CHANGED:
                effect = Effect.CHANGED
    return effect


def _take_in(listing: Listing, ignore_files: IgnoreFiles, root: Path, name: str) -> Effect:
    parts = PurePosixPath(name).parts
    effect = _by_name(listing.known, ignore_files, name, parts)
    if effect is not None:
        return effect
    mode = _mode(root / name)
    if mode is None:
        return _drop(listing, ignore_files, name)
    parent = Path(os.path.realpath(root), *parts[:-1])
    if Path(os.path.realpath(parent)) != parent:
        return Effect.NONE  # behind a link
    if stat.S_ISDIR(mode):
        return _look_into(listing, ignore_files, root, name)
    return _add(listing, ignore_files, name, mode)


def _by_name(
    known: KnownFiles, ignore_files: IgnoreFiles, name: str, parts: tuple[str, ...]
) -> Effect | None:
    """Return what a change comes to where its name alone tells."""
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if ".git" in parts:
        return _in_repository(known, ignore_files, parts)
    if "\0" in name or any(f"{folder}/" in known for folder in above):
        return Effect.NONE  # no file's name, or another repository's
    if not parts or known.is_folded(name) or any(folder in known for folder in above):
        return Effect.DOUBTFUL
    if parts[-1] == ".gitignore":
        unread = above and ignore_files.ignores(above[-1], folder=True)
        return Effect.NONE if unread else Effect.DOUBTFUL
    return None


def _in_repository(known: KnownFiles, ignore_files: IgnoreFiles, parts: tuple[str, ...]) -> Effect:
    """Return what a change in a ``.git`` comes to, of this repository or of one inside."""
    at = parts.index(".git")
    folder, inside = "/".join(parts[:at]), "/".join(parts[at + 1 :])
    if inside and f"{folder}/" in known:
        return Effect.NONE
    if folder and ignore_files.ignores(folder, folder=True):
        return Effect.NONE
    return Effect.DOUBTFUL if inside in _DECIDING else Effect.NONE


def _drop(listing: Listing, ignore_files: IgnoreFiles, name: str) -> Effect:
    """Drop a file that is gone, or a folder with all that was in it."""
    known = listing.known
    if known.remove(name):
        if ignore_files.ignores(name):
            listing.missed.add(name)  # it was listed all the same
        return Effect.CHANGED
    low, high = known.inside(name)
    if low == high:
        return Effect.NONE
    if listing.known.folded:
        return Effect.DOUBTFUL
    listing.missed.update(n for n in known.names[low:high] if ignore_files.ignores(n))
    known.remove_inside(name)
    return Effect.CHANGED


def _look_into(listing: Listing, ignore_files: IgnoreFiles, root: Path, name: str) -> Effect:
    """Return what a folder comes to that is there: nothing, where all that is in it is ignored."""
    low, high = listing.known.inside(name)
    if low < high or name in listing.known:
        return Effect.DOUBTFUL
    if any(f"{missed}/".startswith(f"{name}/") for missed in listing.missed):
        return Effect.DOUBTFUL
    if ignore_files.ignores(name, folder=True):
        return Effect.NONE
    with suppress(OSError), os.scandir(root / name) as entries:
        for count, entry in enumerate(entries):
            folder = entry.is_dir(follow_symlinks=False)
            ignored = ignore_files.ignores(f"{name}/{entry.name}", folder=folder)
            if not ignored or count == _LOOKED_AT:
                return Effect.DOUBTFUL
    return Effect.NONE


def _add(listing: Listing, ignore_files: IgnoreFiles, name: str, mode: int) -> Effect:
    """Add a file or a link that is there, unless it is known or ignored."""
    known = listing.known
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or name in known:
        return Effect.NONE
    low, high = known.inside(name)
    if low < high:
        return Effect.DOUBTFUL
    if ignore_files.ignores(name) and name not in listing.missed:
        return Effect.NONE
    known.add(name)
    return Effect.CHANGED


def _mode(path: Path) -> int | None:
    """Return what is at ``path``, itself; None where nothing is, or nothing that can be seen."""
    try:
        return path.lstat().st_mode
    except (OSError, ValueError):
        return None
