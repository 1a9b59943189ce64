"""The seccomp filter of a confined command: which system calls it may make (Linux).

Landlock guards files by their names. It lets through what needs no name to be opened: modes, times,
attributes, sockets, other processes. This filter refuses those. It is a list of what was looked at:
a system call that is newer than the list does not exist for a confined command.

A filter sees numbers alone, never what a pointer points to. So ``openat2`` and ``clone3``, which
hide their flags in a structure, do not exist either; every program falls back to the old ones.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

Profile: TypeAlias = Literal["safe", "work"]
#: ``BPF`` opcode, the two jumps, the constant.
_Instruction: TypeAlias = tuple[int, int, int, int]
_Code: TypeAlias = list[_Instruction]

#: The architectures that we have numbers for: the kernel's name of each, and the column below.
_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

#: The newest call that was looked at, the same on both: ``mseal`` of Linux 6.10. (``uretprobe`` and
#: ``uprobe`` of x86-64, 335 and 336, are made by the kernel's own trampolines alone.)
_NEWEST: Final = 462

# x86-64, arm64; None where there is no such call.
_Numbers: TypeAlias = tuple[int | None, int | None]

#: They change a file's mode, owner, times, or attributes.
_METADATA: Final[dict[str, _Numbers]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
}

#: What no profile may do, with the error that it gets.
_REFUSED: Final[dict[int, dict[str, _Numbers]]] = {
    errno.EPERM: {
        # Mounts, and files by other ways than their names.
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "move_mount": (429, 429),
        "open_tree": (428, 428),
        "mount_setattr": (442, 442),
        "open_by_handle_at": (304, 265),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "fanotify_init": (300, 262),
        "fanotify_mark": (301, 263),
        "acct": (163, 89),
        # Other processes.
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "process_madvise": (440, 440),
        "process_mrelease": (448, 448),
        "kcmp": (312, 272),
        "migrate_pages": (256, 238),
        "move_pages": (279, 239),
        # The kernel itself.
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "reboot": (169, 142),
        "iopl": (172, None),
        "ioperm": (173, None),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "clock_adjtime": (305, 266),
        "adjtimex": (159, 171),
        "vhangup": (153, 58),
        "uselib": (134, None),
        "nfsservctl": (180, 42),
        # Key rings, and what outlives the command: System V IPC and message queues.
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "shmdt": (67, 197),
        "semget": (64, 190),
        "semop": (65, 193),
        "semctl": (66, 191),
        "semtimedop": (220, 192),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgrcv": (70, 188),
        "msgctl": (71, 187),
        "mq_open": (240, 180),
        "mq_unlink": (241, 181),
        "mq_timedsend": (242, 182),
        "mq_timedreceive": (243, 183),
        "mq_notify": (244, 184),
        "mq_getsetattr": (245, 185),
        # Namespaces, in which a user is allowed what only root is outside.
        "unshare": (272, 97),
        "setns": (308, 268),
    },
    # As on a kernel that does not have them: programs fall back to what can be looked at.
    errno.ENOSYS: {
        "openat2": (437, 437),
        "clone3": (435, 435),
        "pidfd_open": (434, 434),
        "pidfd_getfd": (438, 438),
        "pidfd_send_signal": (424, 424),
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
    },
}

#: They are refused, or not, by their arguments.
_LOOKED_INTO: Final[dict[str, _Numbers]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "syslog": (103, 116),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
#: Before ABI 3 Landlock does not see a file being cut.
_CUTTING: Final[dict[str, _Numbers]] = {
    "truncate": (76, 45),
    "open": (2, None),
    "openat": (257, 56),
}
#: Before ABI 6 Landlock does not see signals.
_SIGNALLING: Final[dict[str, _Numbers]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}

_TRUNCATE_SINCE: Final = 3
_SIGNALS_SINCE: Final = 6

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
#: Not SOCK_DGRAM: one end of such a pair can still send to any socket that has a name.
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_SOCKET_TYPE_MASK = 0xF
_O_ACCMODE, _O_WRONLY, _O_RDWR, _O_TRUNC = 3, 1, 2, 0o1000
#: CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET.
_CLONE_NEW = (
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)
#: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE: signals to others, and leases that hold others up.
#: F_SET_RW_HINT and F_SET_FILE_RW_HINT: how long a file's content is said to last.
_FCNTL_REFUSED = (8, 10, 15, 1024, 1036, 1038)
#: SYSLOG_ACTION_READ_ALL and _SIZE_BUFFER; others empty or silence the kernel's log.
_SYSLOG_ALLOWED = (3, 10)
#: TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, TIOCGSID, FIONCLEX, FIOCLEX, FIOQSIZE, TCGETS2,
#: FS_IOC_GETFLAGS, FS_IOC_FIEMAP.
_IOCTL_ALLOWED = (
    *(0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451, 0x5460),
    *(0x802C542A, 0x80086601, 0xC020660B),
)

# The opcodes: load a word of the call's data; jump where equal, greater, any bit set; and; return.
_LOAD, _JEQ, _JGT, _JSET, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_ALLOW: Final[_Instruction] = (_RETURN, 0, 0, 0x7FFF0000)
_NUMBER, _ARCHITECTURE = 0, 4


def supported() -> bool:
    """Return whether this machine's architecture is one that we have numbers for."""
    return platform.machine() in _ARCHITECTURES and sys.byteorder == "little"


def program(abi: int, profile: Profile = "safe") -> bytes:
    """Return the filter, as the kernel takes it, for a machine with Landlock of version ``abi``.

    The older Landlock is, the more is left to the filter.

    Raises:
        KeyError: the architecture is not ``supported``.
    """
    architecture, column = _ARCHITECTURES[platform.machine()]
    code: _Code = [
        _load(_ARCHITECTURE),
        (_JEQ, 1, 0, architecture),  # Others number their calls in another way.
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
    refused = [(code, calls) for code, calls in _REFUSED.items()]
    if profile == "safe":
        refused.append((errno.EPERM, _METADATA))
    for code, calls in refused:
        yield from ((n, [_refuse(code)]) for n in _column(calls, column).values())
    looked_into = _column(_LOOKED_INTO, column)
    for name, answer in _by_arguments(profile).items():
        yield looked_into[name], answer
    if abi < _TRUNCATE_SINCE:
        cutting = _column(_CUTTING, column)
        yield cutting.pop("truncate"), [_refuse(errno.EPERM)]
        flags_at = {"open": 1, "openat": 2}
        yield from ((number, _cuts_nothing(flags_at[name])) for name, number in cutting.items())
    if abi < _SIGNALS_SINCE:
        signalling = _column(_SIGNALLING, column)
        yield signalling.pop("kill"), _only(0, [0])
        yield from ((number, [_refuse(errno.EPERM)]) for number in signalling.values())


def _by_arguments(profile: Profile) -> dict[str, _Code]:
    only_self = _only(0, [0])
    internet = [_AF_INET, _AF_INET6] if profile == "work" else []
    return {
        "socket": [
            *_unless(0, internet),
            *_where(0, _AF_NETLINK, _only(2, [_NETLINK_ROUTE], errno.EACCES)),
            _refuse(errno.EACCES),
        ],
        "socketpair": [
            *_where(
                0,
                _AF_UNIX,
                _only(1, [_SOCK_STREAM, _SOCK_SEQPACKET], errno.EACCES, mask=_SOCKET_TYPE_MASK),
            ),
            _refuse(errno.EACCES),
        ],
        "clone": [_load_argument(0), (_JSET, 0, 1, _CLONE_NEW), _refuse(errno.EPERM), _ALLOW],
        "ioctl": _only(1, _IOCTL_ALLOWED, errno.ENOTTY),
        "fcntl": [
            _load_argument(1),
            *(
                i
                for command in _FCNTL_REFUSED
                for i in [(_JEQ, 0, 1, command), _refuse(errno.EPERM)]
            ),
            _ALLOW,
        ],
        "syslog": _only(0, _SYSLOG_ALLOWED),
        "prlimit64": only_self,
        "sched_setaffinity": only_self,
        "sched_setscheduler": only_self,
        "sched_setparam": only_self,
        "sched_setattr": only_self,
        # The first says whether the second is a process, a group, or a whole user.
        "setpriority": [*_where(0, 0, _only(1, [0])), _refuse(errno.EPERM)],
        "ioprio_set": [*_where(0, 1, _only(1, [0])), _refuse(errno.EPERM)],
    }


def _cuts_nothing(flags_at: int) -> _Code:
    """Return the answer to an ``open``: refused where it cuts a file that it does not write.

    A file that it writes is Landlock's to refuse. The access mode 3 is neither reading nor writing.
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
    """Return an answer that allows the call where an argument is one of ``values``."""
    return [*_unless(argument, values, mask=mask), _refuse(error)]


def _unless(argument: int, values: Sequence[int], *, mask: int | None = None) -> _Code:
    """Return the beginning of an answer that allows where an argument is one of ``values``."""
    code: _Code = [_load_argument(argument)]
    if mask is not None:
        code.append((_AND, 0, 0, mask))
    for value in values:
        code += [(_JEQ, 0, 1, value), _ALLOW]
    return code


def _where(argument: int, value: int, answer: _Code) -> _Code:
    """Return the beginning of an answer: ``answer`` where an argument is ``value``."""
    return [_load_argument(argument), (_JEQ, 0, len(answer), value), *answer]


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)


def _load_argument(index: int) -> _Instruction:
    # The lower half: all that is looked at are ints, of which the kernel takes no more.
    return _load(16 + 8 * index)


def _refuse(code: int) -> _Instruction:
    return (_RETURN, 0, 0, 0x00050000 | code)


def _column(calls: dict[str, _Numbers], column: int) -> dict[str, int]:
    return {n: number for n, numbers in calls.items() if (number := numbers[column]) is not None}
