"""Whether a repository has git run programs, also where a command only reads.

Its configuration may have come with it from a stranger, as its hooks may.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from aish_lsp.files import open_to_read

#: Bytes of a file that are looked at: with more there may be anything in it.
_MOST: Final = 1 << 20

#: Keys whose value git runs for commands that read. The section is not looked at: git's rules for
#: where a line goes on are easily got wrong, and no other key of such a name is common.
_RUNS: Final = re.compile(
    r"""
      (?: ^ | \] ) \s*+
      (?: (?: external | textconv | command | clean | smudge | process | program | sshcommand
            | gitproxy | askpass | uploadpack | vcs | alternaterefscommand ) [ \t]*+ =
        | fsmonitor [ \t]*+ = [ \t]*+ (?! (?: true | false | yes | no | on | off | ) [ \t\r]*+ $ ) )
    | ^ \s*+ \[ \s*+ include
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_HOOKS: Final = re.compile(
    r"(?:^|\])\s*+hookspath[ \t]*+=[ \t]*+\"?([^\"\r\n]*+)", re.IGNORECASE | re.MULTILINE
)

#: What reading commands run: they bring the index up to date.
_HOOK: Final = "post-index-change"


def runs_programs(folder: Path) -> bool:
    """Return whether the repository that ``folder`` lies in, if any, has git run programs."""
    for place in (folder, *folder.parents):
        found = _git_folder(place)
        if found is not None:
            return _runs(place, found)
    return False


def _git_folder(place: Path) -> Path | None:
    """Return the git folder of a work tree, or ``place`` where it is one itself."""
    dot = place / ".git"
    try:
        if dot.is_file():
            return place / _read(dot).removeprefix("gitdir:").strip()
        if dot.is_dir():
            return dot
        bare = (place / "HEAD").is_file() and (place / "objects").is_dir()
    except (OSError, ValueError):
        return None
    return place if bare else None


def _runs(top: Path, folder: Path) -> bool:
    try:
        common = folder / "commondir"
        shared = folder / _read(common).strip() if common.is_file() else folder
        texts = [_read(path) for path in (shared / "config", folder / "config.worktree")]
    except (OSError, ValueError):
        return True
    hooks = [shared / "hooks"]
    hooks += [
        top / Path(os.path.expanduser(found.strip()))  # noqa: PTH111 - another user's may be missing
        for text in texts
        for found in _HOOKS.findall(text)
    ]
    return any(_RUNS.search(text) for text in texts) or any(
        os.access(place / _HOOK, os.X_OK) for place in hooks
    )


def _read(path: Path) -> str:
    """Return what stands in a file; empty where there is none.

    Raises:
        OSError, ValueError: it cannot be read, or nobody would write that much.
    """
    if not os.path.lexists(path):
        return ""
    with os.fdopen(open_to_read(path), "rb") as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise ValueError("too long")
    return data.decode("utf-8", "replace")
