"""What a process does to itself, between fork and exec, to be confined (Linux).

The supervisor imports this module on its own, without the package: it imports nothing of ours, and
little else, since each command waits for it. What it is given was made by the server.
"""

from __future__ import annotations

import ctypes
import errno
import os

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
#: The same on every architecture.
_LANDLOCK_RESTRICT_SELF = 446

_CAPABILITY_VERSION_3 = 0x20080522
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: without them root could not read what it reads today.
_READING_CAPABILITIES = 0b110

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    """``struct sock_fprog``: a seccomp program."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; return its result.

    Raises:
        OSError: it failed.
    """
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def confine(rulesets: tuple[int, ...], program: bytes) -> None:
    """Confine the calling process and all that it will start, for good.

    Args:
        rulesets: descriptors of Landlock rulesets; what is done must be allowed by each.
        program: a seccomp filter, eight bytes an instruction.

    Raises:
        OSError: the kernel refused; the process may be half confined, and must not go on.
    """
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    for ruleset in rulesets:
        syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    # Last of all: what comes before may need what it refuses.
    code = _Filter(len(program) // 8, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(code), 0, 0))


def _drop_capabilities() -> None:
    """Give up every capability but those that reading as root takes.

    With ``no_new_privs`` set none comes back at exec, also where the user is root.
    """
    try:
        _checked(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    except OSError as error:
        if error.errno != errno.EINVAL:  # Kernels before 4.3 have no such set.
            raise
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Twice three words: effective, permitted, inheritable; the lower 32 capabilities come first.
    sets = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, sets))
    kept = sets[1] & _READING_CAPABILITIES if os.geteuid() == 0 else 0
    sets[:] = [kept, kept, 0, 0, 0, 0]
    _checked(_libc.capset(header, sets))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
