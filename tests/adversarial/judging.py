"""What the classifier calls safe, asked in several processes at once; also the script that asks."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import sandbox
import scene

from aish_lsp.shell.risk import classify

#: From so many on it pays to ask in several processes.
_MANY: Final = 2000


def is_safe(command: str, folder: Path) -> bool:
    """Return whether ``command`` is called safe in ``folder``."""
    verdict = classify(command, "bash", folder=folder, confined=True, path=sandbox.PATH)
    return verdict.risk == "safe"


def safe_ones(
    commands: Sequence[str],
    *,
    files: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """Return those of ``commands`` that are called safe in the scene, with ``files`` in it."""
    if not files:
        return _judged(commands, _scene())
    with tempfile.TemporaryDirectory(prefix="aish-scene-") as root:
        shutil.copytree(_scene().parent, root, symlinks=True, dirs_exist_ok=True)
        scene.add(Path(root) / "work", files)
        return _judged(commands, Path(root) / "work")


@cache
def _scene() -> Path:
    """Return a folder like the one in the sandbox; it is there until the process ends."""
    folder = tempfile.mkdtemp(prefix="aish-scene-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    scene.build(Path(folder))
    return Path(folder) / "work"


def _judged(commands: Sequence[str], folder: Path) -> set[str]:
    if len(commands) >= _MANY:
        return _asked_at_once(commands, folder)
    return {text for text in commands if is_safe(text, folder)}


def _asked_at_once(commands: Sequence[str], folder: Path) -> set[str]:
    jobs = os.cpu_count() or 1
    script = [sys.executable, __file__, str(folder)]

    def ask(part: Sequence[str]) -> list[str]:
        given = json.dumps(list(part))
        run = subprocess.run(script, input=given, capture_output=True, text=True, check=True)
        found: list[str] = json.loads(run.stdout)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        parts = [commands[start::jobs] for start in range(jobs)]
        return {text for found in pool.map(ask, parts) for text in found}


def main() -> None:
    """Answer which of the commands on standard input are safe."""
    folder = Path(sys.argv[1])
    commands = json.load(sys.stdin)
    safe = [text for text in commands if is_safe(text, folder)]
    json.dump(safe, sys.stdout)


if __name__ == "__main__":
    main()
