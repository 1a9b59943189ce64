"""The seccomp filter of a confined command: which system calls it may make (Linux).

Landlock guards files by their paths. It does not cover modes, times, attributes, sockets and other
processes. This filter refuses those. It knows the system calls that were reviewed: a newer one does
not exist for a confined command.

A filter sees numbers alone, never what a pointer points to. So ``openat2`` and ``clone3``, which
hide their flags in a structure, do not exist either; every program falls back to the old ones.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

Profile: TypeAlias = Literal["safe", "work"]
#: ``BPF`` opcode, the two jumps, the constant.
_Instruction: TypeAlias = tuple[int, int, int, int]
_Code: TypeAlias = list[_Instruction]

#: The architectures whose numbers are known: the kernel's constant for each, and its column.
_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

#: The newest call that was reviewed, the same on both: ``mseal`` of Linux 6.10. (``uretprobe`` and
#: ``uprobe`` of x86-64, 335 and 336, are made by the kernel's own trampolines alone.)
_NEWEST: Final = 462

_TABLE: Final = tomllib.loads(Path(__file__).with_name("syscalls.toml").read_text("utf-8"))
#: By group, the calls that are not simply allowed, and the numbers that each has.
_CALLS: Final[dict[str, dict[str, list[int]]]] = _TABLE["calls"]
#: The values of arguments that decide.
_VALUES: Final[dict[str, list[int]]] = _TABLE["values"]

_TRUNCATE_SINCE: Final = 3
_SIGNALS_SINCE: Final = 6

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
#: Not SOCK_DGRAM: one end of such a pair can still send to any socket that has a name.
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_SOCKET_TYPE_MASK = 0xF
_O_ACCMODE, _O_WRONLY, _O_RDWR, _O_TRUNC = 3, 1, 2, 0o1000
#: O_CREAT and O_TMPFILE, without which ``open`` has no mode.
_O_MAKING = 0o20000100
_S_ISUID = 0o4000
#: CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET.
_CLONE_NEW = 0x7E020000

#: Which argument of a call is a file's new mode, and which the flags that say whether it has one.
_MODE_AT: Final[dict[str, tuple[int, ...]]] = {
    "chmod": (1,),
    "fchmod": (1,),
    "fchmodat": (2,),
    "fchmodat2": (2,),
    "creat": (1,),
    "mknod": (1,),
    "mknodat": (2,),
    "open": (2, 1),
    "openat": (3, 2),
}

# The opcodes: load a word of the call's data; jump where equal, greater, any bit set; and; return.
_LOAD, _JEQ, _JGT, _JSET, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_ALLOW: Final[_Instruction] = (_RETURN, 0, 0, 0x7FFF0000)
_NUMBER, _ARCHITECTURE = 0, 4


def supported() -> bool:
    """Return whether the system call numbers of this machine's architecture are known."""
    return platform.machine() in _ARCHITECTURES and sys.byteorder == "little"


def program(abi: int, profile: Profile = "safe") -> bytes:
    """Return the filter, as the kernel takes it, for a machine with Landlock of version ``abi``.

    The older Landlock is, the more the filter must refuse.

    Raises:
        KeyError: the architecture is not ``supported``.
    """
    architecture, column = _ARCHITECTURES[platform.machine()]
    code: _Code = [
        _load(_ARCHITECTURE),
        (_JEQ, 1, 0, architecture),  # Other architectures number their calls differently.
        _refuse(errno.EPERM),
        _load(_NUMBER),
        (_JGT, 0, 1, _NEWEST),  # The calls of the x32 ABI, too: theirs begin at 2**30.
        _refuse(errno.ENOSYS),
    ]
    for number, answer in _answers(abi, profile, column):
        code += [(_JEQ, 0, len(answer), number), *answer]
    code.append(_ALLOW)
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _answers(abi: int, profile: Profile, column: int) -> Iterator[tuple[int, _Code]]:
    """Yield each call that is not simply allowed: its number, and what to answer it with."""
    refused = {"refused": errno.EPERM, "missing": errno.ENOSYS}
    if profile == "safe":
        refused["metadata"] = errno.EPERM
    else:
        giving = {**_column("metadata", column), **_column("making", column)}
        giving |= _column("cutting", column)
        yield from (
            (giving[name], _unless_setuid(*at)) for name, at in _MODE_AT.items() if name in giving
        )
    for group, code in refused.items():
        yield from ((number, [_refuse(code)]) for number in _column(group, column).values())
    looked_into = _column("looked_into", column)
    for name, answer in _by_arguments(profile).items():
        yield looked_into[name], answer
    if abi < _TRUNCATE_SINCE:
        cutting = _column("cutting", column)
        yield cutting.pop("truncate"), [_refuse(errno.EPERM)]
        flags_at = {"open": 1, "openat": 2}
        yield from (
            (number, _unless_truncating(flags_at[name])) for name, number in cutting.items()
        )
    if abi < _SIGNALS_SINCE:
        signalling = _column("signalling", column)
        yield signalling.pop("kill"), _only(0, [0])
        yield from ((number, [_refuse(errno.EPERM)]) for number in signalling.values())


def _by_arguments(profile: Profile) -> dict[str, _Code]:
    internet = [_AF_INET, _AF_INET6] if profile == "work" else []
    routes = _only(2, [_NETLINK_ROUTE], errno.EACCES)
    streams = [_SOCK_STREAM, _SOCK_SEQPACKET]
    pairs = _only(1, streams, errno.EACCES, mask=_SOCKET_TYPE_MASK)
    return {
        "socket": [*_unless(0, internet), *_where(0, _AF_NETLINK, routes), _refuse(errno.EACCES)],
        "socketpair": [*_where(0, _AF_UNIX, pairs), _refuse(errno.EACCES)],
        "clone": [_load_argument(0), (_JSET, 0, 1, _CLONE_NEW), _refuse(errno.EPERM), _ALLOW],
        "ioctl": _only(1, _VALUES["ioctl_allowed"], errno.ENOTTY),
        "fcntl": [*_unless(1, _VALUES["fcntl_refused"], _refuse(errno.EPERM)), _ALLOW],
        "syslog": _only(0, _VALUES["syslog_allowed"]),
        "prlimit64": _only(0, [0]),
        "sched_setaffinity": _only(0, [0]),
        "sched_setscheduler": _only(0, [0]),
        "sched_setparam": _only(0, [0]),
        "sched_setattr": _only(0, [0]),
        # The first says whether the second is a process, a group, or a whole user.
        "setpriority": [*_where(0, 0, _only(1, [0])), _refuse(errno.EPERM)],
        "ioprio_set": [*_where(0, 1, _only(1, [0])), _refuse(errno.EPERM)],
    }


def _unless_setuid(mode_at: int, flags_at: int | None = None) -> _Code:
    """Return the beginning of an answer: refused if it makes a program that runs as its owner.

    Anybody on the machine could run it, as the user. Other rules for the call can follow.
    """
    refuse = [_refuse(errno.EPERM)]
    if flags_at is not None:
        refuse = [_load_argument(flags_at), (_JSET, 0, 1, _O_MAKING), *refuse]
    return [_load_argument(mode_at), (_JSET, 0, len(refuse), _S_ISUID), *refuse, _load(_NUMBER)]


def _unless_truncating(flags_at: int) -> _Code:
    """Return the answer to ``open``: refused if it truncates a file without writing to it.

    Landlock refuses to open a file for writing. The access mode 3 is neither reading nor writing.
    """
    return [
        _load_argument(flags_at),
        (_JSET, 1, 0, _O_TRUNC),
        _ALLOW,
        (_AND, 0, 0, _O_ACCMODE),
        (_JEQ, 0, 1, _O_WRONLY),
        _ALLOW,
        (_JEQ, 0, 1, _O_RDWR),
        _ALLOW,
        _refuse(errno.EPERM),
    ]


def _only(
    argument: int, values: Sequence[int], error: int = errno.EPERM, *, mask: int | None = None
) -> _Code:
    """Return an answer that allows the call if an argument is one of ``values``."""
    return [*_unless(argument, values, mask=mask), _refuse(error)]


def _unless(
    argument: int, values: Sequence[int], answer: _Instruction = _ALLOW, mask: int | None = None
) -> _Code:
    """Return the beginning of an answer: ``answer`` if an argument is one of ``values``."""
    code: _Code = [_load_argument(argument)]
    if mask is not None:
        code.append((_AND, 0, 0, mask))
    for value in values:
        code += [(_JEQ, 0, 1, value), answer]
    return code


def _where(argument: int, value: int, answer: _Code) -> _Code:
    """Return the beginning of an answer: ``answer`` if an argument is ``value``."""
    return [_load_argument(argument), (_JEQ, 0, len(answer), value), *answer]


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)


def _load_argument(index: int) -> _Instruction:
    # The lower half: the arguments looked at are all ints, so the kernel reads no more.
    return _load(16 + 8 * index)


def _refuse(code: int) -> _Instruction:
    return (_RETURN, 0, 0, 0x00050000 | code)


def _column(group: str, column: int) -> dict[str, int]:
    """Return the calls of a group that an architecture has, with their numbers."""
    calls = _CALLS[group].items()
    return {name: numbers[column] for name, numbers in calls if numbers[column] >= 0}
