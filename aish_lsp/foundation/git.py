"""git, started so that it runs nothing from a work tree, whose repository may be hostile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

_NOTHING_RUNS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)
_NOTHING_IS_FETCHED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for versions that do not know the variable above
    "GIT_TERMINAL_PROMPT": "0",
}
#: Variables of git that say where its programs, the user's settings and the ends of a search for a
#: repository are. All others are dropped: many point it at another repository.
_KEPT = re.compile(
    r"GIT_(?:CONFIG_(?:GLOBAL|NOSYSTEM|SYSTEM)|EXEC_PATH|CEILING_DIRECTORIES|TEST_\w+"
    r"|DISCOVERY_ACROSS_FILESYSTEM)|(?!GIT_).*",
    re.DOTALL,
)


def git_command(root: Path, *arguments: str) -> list[str] | None:
    """Return the command that runs git with ``arguments``, or None if there is no git.

    Only absolute entries of PATH outside the workspace at ``root`` count.
    """
    real_root = Path(os.path.realpath(root))
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    trusted = [
        entry
        for entry in entries
        if Path(entry).is_absolute() and not Path(os.path.realpath(entry)).is_relative_to(real_root)
    ]
    git = shutil.which("git", path=os.pathsep.join(trusted)) if trusted else None
    return None if git is None else [git, "--no-pager", *_NOTHING_RUNS, *arguments]


def git_environment() -> dict[str, str]:
    """Return the environment for a ``git_command``."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return kept | _NOTHING_IS_FETCHED


def run_git(
    root: Path, *arguments: str, seconds: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    """Run a ``git_command`` in ``cwd``, or else in ``root``, and return how it ended. Blocks.

    None if there is no git, or it cannot be started, or it takes longer than ``seconds``.
    """
    command = git_command(root, *arguments)
    if command is None:
        return None
    try:
        return subprocess.run(
            command,
            cwd=cwd or root,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None


def top_above(folder: Path) -> Path | None:
    """Return the nearest folder with a ``.git``, from ``folder`` upwards; None if there is none."""
    return next((at for at in (folder, *folder.parents) if (at / ".git").exists()), None)
