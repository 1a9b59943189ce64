"""What this machine has, for tests that cannot be run without it: asked of the kernel itself.

A test that skips since something failed would skip where that something is broken.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from functools import cache

from aish_lsp.shell.confinement import landlock, seccomp

#: How the kernel refuses namespaces: there are none, or this user may have no (more) of them, or
#: may do nothing in them. Any other error is a mistake of whoever asks.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.ENOSPC, errno.EUSERS)

#: Makes namespaces (user, mount, network, PID) and mounts in them; prints the error's number, or 0.
_ASK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
refused = libc.unshare(0x10000000 | 0x00020000 | 0x40000000 | 0x20000000)
refused = refused or libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None)
print(ctypes.get_errno() if refused else 0)
"""


@cache
def without_namespaces() -> str:
    """Return why a process can have no namespaces of its own here; empty where it can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    asked = [sys.executable, "-I", "-S", "-c", _ASK]
    number = int(subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout)
    if number == 0:
        return ""
    assert number in _REFUSALS, os.strerror(number)
    return f"this machine gives no namespaces: {os.strerror(number)}"


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
