"""Where confined commands have their temporary folders: one folder for all servers of a user.

It stays, so that a server that is killed leaves nothing new behind. The folder of a command is
removed by its supervisor, or by the server; of what both were killed before the next one removes.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from aish_lsp.shell.confinement.removal import remove

#: What the names of the folders begin with in which it is tried whether confinement holds.
PROBE: Final = "aish-probe-"
#: Seconds after which nobody needs a folder any more; a command runs for an hour at the most.
_FORGOTTEN: Final = 86_400.0


def shared_folder(before: Path | None = None) -> tuple[Path, int]:
    """Return the folder, and its inode; ``before`` is the one of the last time.

    Raises:
        OSError: it cannot be made.
    """
    usual = _usual()
    for folder in (usual, before):
        if folder is not None:
            with suppress(OSError):
                folder.mkdir(mode=0o700)
            with suppress(OSError):
                status = folder.lstat()
                if _is_ours(status):
                    return folder, status.st_ino
    # Somebody else has the name.
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="aish-")))
    return folder, folder.lstat().st_ino


def remove_forgotten() -> None:
    """Remove what was left where a server was killed together with its supervisors."""
    usual = _usual()
    with suppress(OSError):
        if _is_ours(usual.lstat()):
            _remove_old(usual, "*")
    _remove_old(usual.parent, f"{PROBE}*")


def _usual() -> Path:
    return Path(os.path.realpath(tempfile.gettempdir())) / f"aish-{os.geteuid()}"


def _is_ours(status: os.stat_result) -> bool:
    """Return whether that is a folder in which nobody else can put anything."""
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return private and status.st_uid == os.geteuid()


def _remove_old(folder: Path, pattern: str) -> None:
    oldest = time.time() - _FORGOTTEN
    for path in folder.glob(pattern):
        with suppress(OSError):
            status = path.lstat()
            if _is_ours(status) and status.st_mtime < oldest:
                remove(path)
