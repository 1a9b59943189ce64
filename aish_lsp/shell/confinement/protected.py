"""What a command of the profile ``work`` cannot change in the work tree, although it writes there.

These are files that others read and run by themselves: git, editors, direnv, we.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FILES: Final = (".aish.toml", ".envrc", ".exrc", ".nvim.lua", ".dir-locals.el")
_FOLDERS: Final = (".aish", ".vscode", ".idea", ".zed")
_GIT_FILES: Final = ("config", "config.worktree", "info/attributes")
_GIT_FOLDERS: Final = ("hooks",)


@dataclass(frozen=True, slots=True)
class Protected:
    """The protected places of a work tree.

    Attributes:
        places: all of them.
        missing: those that do not exist, and whether an empty folder is to stand there meanwhile,
            or an empty file.
        left: empty folders where a file belongs: a command before stood them there, and was killed
            with its supervisor.
        held: the folders above them in the work tree, from the top.
    """

    places: tuple[Path, ...]
    missing: tuple[tuple[Path, bool], ...]
    left: tuple[Path, ...]
    held: tuple[Path, ...]


def protected_places(root: Path) -> Protected:
    """Return what is protected in the work tree ``root``.

    Raises:
        ValueError: one of them is a symbolic link, which somebody could point elsewhere.
    """
    # In the place of a missing file stands an empty folder, which git does not list.
    wanted = {root / name: True for name in (*_FILES, *_FOLDERS)}
    for folder in _git_folders(root):
        wanted |= {folder / name: False for name in _GIT_FILES}
        wanted |= {folder / name: True for name in _GIT_FOLDERS}
    if (root / ".git").is_file():
        wanted[root / ".git"] = False
    missing: dict[Path, bool] = {}
    held: set[Path] = set()
    for path, is_folder in wanted.items():
        for at in (path, *path.parents):
            if at == root:
                break
            if at.is_symlink():
                msg = f"{at} is a symbolic link, so that it cannot be protected"
                raise ValueError(msg)
            if at != path:
                held.add(at)
        if not path.exists():
            missing[path] = is_folder
    # The folders above what is missing come first.
    missing |= {folder: True for folder in held if not folder.exists()}
    left = [path for name in _FILES if (path := root / name).is_dir() and not any(path.iterdir())]
    return Protected(
        tuple(wanted), tuple(sorted(missing.items())), tuple(left), tuple(sorted(held))
    )


def _git_folders(root: Path) -> list[Path]:
    """Return the folders in the work tree that hold git's settings: its own, and its modules'."""
    own = root / ".git"
    if not own.is_dir():
        return []
    found = [own]
    for folder, names, _ in os.walk(own / "modules"):
        if "objects" in names:
            found.append(Path(folder))
            # A module's own modules lie below it, beside much else.
            names[:] = [name for name in names if name == "modules"]
    return found
