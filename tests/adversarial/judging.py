"""What the classifier calls safe, asked in several processes at once; also the script that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from inspect import signature
from pathlib import Path

import sandbox
import scene

from aish_lsp.shell.risk import classify


def is_safe(command: str, folder: Path, *, confined: bool = False) -> bool:
    """Return whether ``command`` is called safe in ``folder``."""
    known = {"confined": confined, "path": sandbox.PATH}
    given = {name: value for name, value in known.items() if name in signature(classify).parameters}
    return classify(command, "bash", folder=folder, **given).risk == "safe"


def safe_ones(commands: Sequence[str], *, confined: bool = False, jobs: int = 0) -> set[str]:
    """Return those of ``commands`` that are called safe in the scene."""
    if len(commands) < 2000:
        return {text for text in commands if is_safe(text, _folder(), confined=confined)}
    jobs = jobs or os.cpu_count() or 1
    parts = [commands[start::jobs] for start in range(jobs)]
    script = [sys.executable, __file__, str(_folder()), *(["confined"] if confined else [])]

    def ask(part: Sequence[str]) -> list[str]:
        given = json.dumps(list(part))
        run = subprocess.run(script, input=given, capture_output=True, text=True, check=True)
        found: list[str] = json.loads(run.stdout)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return {text for found in pool.map(ask, parts) for text in found}


@cache
def _folder() -> Path:
    """Return a folder that looks as the one in the sandbox does."""
    keep = tempfile.TemporaryDirectory(prefix="aish-scene-")
    _kept.append(keep)
    scene.build(Path(keep.name))
    return Path(keep.name) / "work"


#: Temporary folders that are removed when the process ends.
_kept: list[tempfile.TemporaryDirectory[str]] = []


def main() -> None:
    """Answer which of the commands on standard input are safe."""
    folder, confined = Path(sys.argv[1]), "confined" in sys.argv[2:]
    commands = json.load(sys.stdin)
    safe = [text for text in commands if is_safe(text, folder, confined=confined)]
    json.dump(safe, sys.stdout)


if __name__ == "__main__":
    main()
