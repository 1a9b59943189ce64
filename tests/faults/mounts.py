"""Real disks that are full, read-only or forbidden: in memory, mounted for one process alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from machine import without_namespaces, without_programs

#: What every script begins with. Its folder is the disk, and ``deny`` makes that one that is
#: "read-only" or "forbidden".
PRELUDE = """
import os, subprocess, sys
from pathlib import Path
from aish_lsp.foundation.errors import AishError

disk, denied = Path(sys.argv[1]), sys.argv[2]
if denied:
    os.environ["AISH_DATA_DIR"] = sys.argv[1]
advice = {
    "read-only": "Read-only file system. Make it writable, or set AISH_DATA_DIR to a folder that",
    "forbidden": "Permission denied. Make it accessible, or set AISH_DATA_DIR to a folder that",
}.get(denied)
ballast = disk / "ballast"

def fill():
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    for size in (65536, 4096, 1):
        try:
            while True:
                os.write(fd, bytes(size))
        except OSError as error:
            assert error.strerror == "No space left on device"
    os.close(fd)

def make_room():
    ballast.unlink()

def deny():
    if denied == "forbidden":
        set_modes(0o500, 0o400)
        return
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)

def allow():
    if denied == "forbidden":
        set_modes(0o700, 0o600)
        return
    subprocess.run(["umount", disk], check=True)

def set_modes(folder, file):
    for path in (disk, *disk.rglob("*")):
        path.chmod(folder if path.is_dir() else file)

def refused(work, *words):
    try:
        work()
    except AishError as error:
        for word in words:
            assert word in error.message, error.message
        return True
    return False
"""

#: A process of its own mounts, as its own root: whoever runs the tests need not be it.
_MOUNTED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")

#: What lets root pass over the modes of files.
_WITHOUT_PASS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def run_on_a_small_disk(script: str, folder: Path, denied: str = "") -> None:
    """Run a script whose ``disk``, at ``folder``, has room for 256 KiB; nobody else sees it.

    ``denied`` is what its ``deny`` makes of it: "read-only" or "forbidden".
    """
    if missing := without_programs("unshare", "setpriv") or without_namespaces():
        pytest.skip(f"no disk was full, and none denied: {missing}")
    folder.mkdir()
    mounted = [*_MOUNTED, 'mount -t tmpfs -o size=256k small "$1" && shift && exec "$@"', "sh"]
    python = [*_WITHOUT_PASS, sys.executable, "-c", PRELUDE + script]
    command = [*mounted, folder, *python, folder, denied]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
