"""git, as the tests of several rooms run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(root: Path, *arguments: str) -> str:
    """Run git in ``root`` with a name and nobody's settings; return what it prints.

    Raises:
        CalledProcessError: it failed.
    """
    name = ("-c", "user.name=n", "-c", "user.email=e@x.test")
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *name, *arguments],
        cwd=root,
        env={**os.environ, **nobody},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
