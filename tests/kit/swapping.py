"""A process that swaps a folder with a link, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import os, shutil, sys
folder, aside, target = sys.argv[1:]
link = f"{aside}.link"
os.symlink(target, link)
def put(name, place):
    while True:
        try:
            return os.rename(name, place)
        except OSError:  # Somebody has made the folder, which was missing for a moment.
            shutil.rmtree(place, ignore_errors=True)
print(flush=True)
while True:
    os.rename(folder, aside)
    put(link, folder)
    os.rename(folder, link)
    put(aside, folder)
"""


@contextmanager
def swapped(folder: Path, target: Path) -> Iterator[None]:
    """Swap ``folder`` with a link to ``target``, and back, until the block ends."""
    aside = folder.with_name(f"{folder.name}.aside")
    command = [sys.executable, "-I", "-c", _PROGRAM, *map(str, (folder, aside, target))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            assert process.poll() is None
        finally:
            process.kill()
