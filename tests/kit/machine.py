"""What this machine has, for tests that cannot be run without it: asked of the kernel itself.

A test that skips because something failed skips where that something is broken, too.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from aish_lsp.shell.confinement import landlock, seccomp

#: How the kernel refuses: there is no such thing, or this user may have no (more) of it. Any other
#: error is a mistake of whoever asks.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.ENOSPC, errno.EUSERS)

_PRELUDE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)

def answer(result):
    if result:
        print(ctypes.get_errno(), flush=True)
        os._exit(0)
"""
#: Makes namespaces (user, mount, network, IPC, PID) and mounts in them.
_NAMESPACES = """
answer(libc.unshare(0x10000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x20000000))
answer(libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None))
"""
#: The first process of a PID namespace mounts its own ``/proc``.
_OWN_PROC = """
if os.fork() == 0:
    answer(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(0xE), None))
    print(0, flush=True)
    os._exit(0)
os.wait()
os._exit(0)
"""
#: PTRACE_TRACEME.
_TRACED = "answer(libc.ptrace(0, 0, None, None))"


@cache
def _refused(script: str) -> str:
    """Return how the kernel refuses what a script does; empty where it does not."""
    asked = [sys.executable, "-I", "-S", "-c", f"{_PRELUDE}{script}\nprint(0)"]
    number = int(subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout)
    assert number in (0, *_REFUSALS), os.strerror(number)
    return os.strerror(number) if number else ""


def without_namespaces() -> str:
    """Return why a process can have no namespaces of its own here; empty where it can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    refused = _refused(_NAMESPACES)
    return f"this machine gives no namespaces: {refused}" if refused else ""


def without_own_proc() -> str:
    """Return why a namespace can have no ``/proc`` of its own here; empty where it can."""
    if missing := without_namespaces():
        return missing
    refused = _refused(_NAMESPACES + _OWN_PROC)
    return f"parts of /proc are hidden here: {refused}" if refused else ""


def without_tracing() -> str:
    """Return why strace cannot look on here; empty where it can."""
    if missing := without_programs("strace"):
        return missing
    refused = _refused(_TRACED)
    return f"no process may be traced here: {refused}" if refused else ""


@cache
def without_landlock() -> str:
    """Return why nothing can be confined here; empty where the kernel has all that it takes."""
    if sys.platform != "linux":
        return "Landlock is Linux's"
    if not seccomp.supported():
        return "the system calls of this processor are not known"
    return "" if landlock.kernel_version() else "the kernel has no Landlock, or it is turned off"


def without_programs(*names: str) -> str:
    """Return which of these programs are not installed; empty where all are."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def needs(missing: str) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped if something is missing: one of the above."""
    return pytest.mark.skipif(bool(missing), reason=missing or "it is there")


#: Nobody's own.
ORDINARY = 65534


def without_ordinary_user() -> str:
    """Return why root cannot run this Python as an ordinary user; empty where that can be."""
    if os.geteuid() != 0:
        return ""
    if missing := without_programs("setpriv"):
        return missing
    closed = [path for path in (_python(), *_modules()) if not _is_open(Path(path))]
    return f"other users cannot enter {closed[0]}" if closed else ""


def as_ordinary_user() -> list[str]:
    """Return the beginning of a command that runs Python, with our modules, as an ordinary user."""
    paths = f"PYTHONPATH={os.pathsep.join(_modules())}"
    python = ["env", paths, "PYTHONDONTWRITEBYTECODE=1", _python()]
    if os.geteuid() != 0:
        return python
    user = (f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--bounding-set=-all")
    return ["setpriv", *user, *python]


def _modules() -> list[str]:
    """Return where modules are found, but for those of Python itself."""
    return [
        path
        for path in sys.path
        if path and ("-packages" in path or not Path(path).is_relative_to(sys.base_prefix))
    ]


def _python() -> str:
    """Return a Python of this version that others can run, if there is one."""
    own = os.path.realpath(sys.executable)
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return own if _is_open(Path(own)) or not Path(system).exists() else system


def _is_open(path: Path) -> bool:
    """Return whether every user can get at a file or folder."""
    ways = [folder for folder in (path, *path.parents) if folder.is_dir()]
    return all(folder.stat().st_mode & 0o001 for folder in ways)
