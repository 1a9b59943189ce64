"""A program that tries all that a confined command must not be able to do, and says what it could.

    python confined_attempts.py [--harmless] VICTIM FOLDER SECRET STRANGER TERMINAL

It is made to be refused: unconfined, and as root, it unmounts /proc and renames the machine that it
runs on. Only with --harmless, which leaves out all that reaches beyond VICTIM and STRANGER, may it
run unconfined; without, it refuses to where it finds itself free.

VICTIM is a plain file in FOLDER, SECRET a file in a secret place, STRANGER the id of a process that
is not the program's own, TERMINAL a pseudo terminal that somebody else has open. It prints a line
of JSON: each attempt with the error that it met, or null where it went through.
"""

# System calls are what this is about.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH110
# ruff: noqa: PTH115, PTH118, PTH119, PTH120, PTH123, PTH211

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARM = platform.machine() == "aarch64"

O_TRUNC_READ = os.O_RDONLY | os.O_TRUNC
AF_NETLINK_USERSOCK = 2
FS_IOC_SETFLAGS = 0x40086602
TIOCSTI = 0x5412
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"

Attempt = Callable[[], object]


def call(number: int, *arguments: object) -> int:
    """Make a system call; raise OSError where it fails."""
    result = int(libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def numbered(x86: int, arm: int, *arguments: object) -> Attempt:
    """Return the attempt of a system call by its number on either architecture."""
    return lambda: call(arm if ARM else x86, *arguments)


def opened(path: str, flags: int, work: Callable[[int], object]) -> Attempt:
    """Return an attempt that opens a file, and then works on it."""

    def attempt() -> None:
        descriptor = os.open(path, flags, 0o600)
        try:
            work(descriptor)
        finally:
            os.close(descriptor)

    return attempt


def in_child(work: Attempt) -> Attempt:
    """Return an attempt that runs in a child of its own: it may end what it changes."""

    def attempt() -> None:
        child = os.fork()
        if child == 0:
            code = 0
            try:
                work()
            except OSError as error:
                code = error.errno or 255
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            raise OSError(code if code > 0 else errno.EPERM, "refused")

    return attempt


def datagram_to_a_path(path: str) -> None:
    """Send to a socket by its name, from one end of a pair."""
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", path)


def old_architecture() -> None:
    """Make a 32-bit system call: chmod(2) by ``int 0x80``."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "not here")
    # mov eax, 15; xor ecx, ecx; int 0x80; ret. The path, in ebx, is NULL: EFAULT if it is run.
    code = b"\x53\xb8\x0f\x00\x00\x00\x31\xdb\x31\xc9\xcd\x80\x5b\xc3"
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    result = ctypes.c_int(ctypes.CFUNCTYPE(ctypes.c_int)(address)()).value
    if result not in (-errno.EFAULT, 0):
        raise OSError(-result, "refused")


def files(victim: str, folder: str) -> Iterator[tuple[str, Attempt]]:
    """Yield what would change a file, its name, or what is known of it."""
    new = os.path.join(folder, "new")
    own = os.path.join(os.environ["TMPDIR"], "own")
    with open(own, "w") as file:
        file.write("mine\n")
    yield "open to write", opened(victim, os.O_WRONLY, lambda _: None)
    yield "open to write both ways", opened(victim, os.O_RDWR, lambda _: None)
    yield "append", opened(victim, os.O_WRONLY | os.O_APPEND, lambda _: None)
    yield "create", opened(new, os.O_WRONLY | os.O_CREAT, lambda _: None)
    yield "create to read", opened(new, os.O_RDONLY | os.O_CREAT, lambda _: None)
    yield "create without a name", opened(folder, os.O_TMPFILE | os.O_RDWR, lambda _: None)
    yield "truncate", lambda: os.truncate(victim, 0)
    yield "truncate by opening to read", opened(victim, O_TRUNC_READ, lambda _: None)
    yield "truncate by the third mode", opened(victim, 3 | os.O_TRUNC, lambda _: None)
    yield "openat2", numbered(437, 437, -100, victim.encode(), struct.pack("QQQ", 1, 0, 0), 24)
    yield "unlink", lambda: os.unlink(victim)
    yield "rename", lambda: os.rename(victim, new)
    yield "rename into the temporary folder", lambda: os.rename(victim, f"{own}2")
    yield "rename over", lambda: os.rename(own, victim)
    yield "link into the temporary folder", lambda: os.link(victim, f"{own}3")
    yield "link", lambda: os.link(victim, new)
    yield "symlink", lambda: os.symlink("x", new)
    yield "write through a symlink", lambda: write_through_link(victim, f"{own}4")
    yield "mkdir", lambda: os.mkdir(new)
    yield "rmdir", lambda: os.rmdir(os.path.join(folder, "empty"))
    yield "mkfifo", lambda: os.mkfifo(new)
    yield "mknod", lambda: os.mknod(new, 0o600 | 0o100000)
    yield "make a device", lambda: os.mknod(f"{own}5", 0o600 | 0o020000, os.makedev(1, 3))
    yield "chmod", lambda: os.chmod(victim, 0o777)
    yield "chmod of a folder", lambda: os.chmod(folder, 0o777)
    yield "fchmod", opened(victim, os.O_RDONLY, lambda d: os.fchmod(d, 0o777))
    yield "fchmodat2", numbered(452, 452, -100, victim.encode(), 0o777, 0)
    yield "chmod of its own file", lambda: os.chmod(own, 0o777)
    yield "chown", lambda: os.chown(victim, os.getuid(), os.getgid())
    yield "lchown", lambda: os.lchown(victim, os.getuid(), os.getgid())
    yield "fchown", opened(victim, os.O_RDONLY, lambda d: os.fchown(d, os.getuid(), os.getgid()))
    yield "utime", lambda: os.utime(victim, (1, 1))
    yield "utimensat of a descriptor", opened(victim, os.O_RDONLY, lambda d: os.utime(d, (1, 1)))
    if not ARM:
        yield "old utime", lambda: call(132, victim.encode(), None)
        yield "old utimes", lambda: call(235, victim.encode(), None)
        yield "old futimesat", lambda: call(261, -100, victim.encode(), None)
    yield "setxattr", lambda: os.setxattr(victim, "user.x", b"1")
    yield "fsetxattr", opened(victim, os.O_RDONLY, lambda d: os.setxattr(d, "user.x", b"1"))
    yield "removexattr", lambda: os.removexattr(victim, "user.there")
    yield "setxattrat", numbered(463, 463, -100, victim.encode(), 0, b"user.x", None, 0)
    yield "file_setattr", numbered(469, 469, -100, victim.encode(), bytes(24), 24, 0)
    yield (
        "FS_IOC_SETFLAGS",
        opened(victim, os.O_RDONLY, lambda d: fcntl.ioctl(d, FS_IOC_SETFLAGS, bytes(8))),
    )
    yield "fallocate", opened(victim, os.O_RDONLY, lambda d: os.posix_fallocate(d, 0, 100000))
    yield "write hint", opened(victim, os.O_RDONLY, lambda d: fcntl.fcntl(d, 1036, bytes(8)))
    yield "core dump", in_child(partial(crash, folder))
    yield "lease", opened(victim, os.O_RDONLY, lambda d: fcntl.fcntl(d, 1024, fcntl.F_RDLCK))
    yield "write to /proc/sys", opened("/proc/sys/vm/drop_caches", os.O_WRONLY, lambda _: None)
    yield "write to its own memory", opened("/proc/self/mem", os.O_RDWR, lambda _: None)
    if os.path.exists(HUGE_PAGES):
        yield "write to /sys", opened(HUGE_PAGES, os.O_WRONLY, lambda _: None)
    pipe = os.path.join(folder, "pipe")
    yield "write to a named pipe", opened(pipe, os.O_WRONLY | os.O_NONBLOCK, lambda _: None)
    yield "write to its own /proc", opened("/proc/self/comm", os.O_WRONLY, lambda _: None)
    yield "write to /dev/shm", opened("/dev/shm/aish", os.O_WRONLY | os.O_CREAT, lambda _: None)
    yield "open_by_handle_at", numbered(304, 265, -100, bytes(136), 0)
    yield "mount", numbered(165, 40, b"none", folder.encode(), b"tmpfs", 0, None)
    yield "umount", numbered(166, 39, b"/proc", 2)
    yield "pivot_root", numbered(155, 41, folder.encode(), folder.encode())
    yield "acct", numbered(163, 89, victim.encode())
    yield "open_tree", numbered(428, 428, -100, folder.encode(), 1)
    yield "chroot", lambda: os.chroot(folder)
    yield "swapon", numbered(167, 224, victim.encode(), 0)
    yield "quotactl", numbered(179, 60, 0x800002, None, 0, None)


def crash(folder: str) -> None:
    """End as a program does that has an error, where the system would write its core."""
    os.chdir(folder)
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    ctypes.string_at(0)


def write_through_link(victim: str, link: str) -> None:
    """Write to a file by a link to it in the temporary folder."""
    os.symlink(victim, link)
    opened(link, os.O_WRONLY, lambda _: None)()


def sockets(folder: str) -> Iterator[tuple[str, Attempt]]:
    """Yield what would reach others by a socket."""
    families = ("AF_INET", "AF_INET6", "AF_UNIX", "AF_PACKET", "AF_ALG", "AF_VSOCK")
    for family in filter(lambda name: hasattr(socket, name), families):
        for kind in ("SOCK_STREAM", "SOCK_DGRAM"):
            constants = getattr(socket, family), getattr(socket, kind)
            yield f"{family} {kind}", partial(socket.socket, *constants)
    yield "raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    yield "netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, AF_NETLINK_USERSOCK)
    yield "name of a socket", lambda: socket.socketpair()[0].bind(os.path.join(folder, "bound"))
    yield "listen", socket.socketpair()[0].listen
    yield "connect", lambda: socket.socketpair()[0].connect(os.path.join(folder, "socket"))
    yield "datagram from a pair", lambda: datagram_to_a_path(os.path.join(folder, "socket"))


def processes(stranger: int) -> Iterator[tuple[str, Attempt]]:
    """Yield what would reach another process."""
    yield "kill", lambda: os.kill(stranger, 0)
    yield "tgkill", numbered(234, 131, stranger, stranger, 0)
    yield "tkill", numbered(200, 130, stranger, 0)
    yield "rt_sigqueueinfo", numbered(129, 138, stranger, 10, bytes(128))
    yield "pidfd_open", numbered(434, 434, stranger, 0)
    yield "ptrace", numbered(101, 117, 16, stranger, None, None)
    yield "PTRACE_SEIZE", numbered(101, 117, 0x4206, stranger, None, None)
    local = struct.pack("QQ", id(b""), 8)
    yield "process_vm_readv", numbered(310, 270, stranger, local, 1, local, 1, 0)
    yield "process_vm_writev", numbered(311, 271, stranger, local, 1, local, 1, 0)
    yield "pidfd_getfd", numbered(438, 438, 0, 0, 0)
    yield "pidfd_send_signal", numbered(424, 424, 0, 0, None, 0)
    yield "process_madvise", numbered(440, 440, 0, local, 1, 21, 0)
    yield "move_pages", numbered(279, 239, stranger, 0, None, None, None, 0)
    yield "get_robust_list", numbered(274, 100, stranger, bytes(8), bytes(8))
    yield "setpgid", lambda: os.setpgid(stranger, stranger)
    yield "another user", lambda: os.setuid(os.getuid() + 1)
    yield "another group", lambda: os.setgroups([os.getgid() + 1])
    yield "prlimit", lambda: resource.prlimit(stranger, resource.RLIMIT_NOFILE)
    yield "setpriority", lambda: os.setpriority(os.PRIO_PROCESS, stranger, 5)
    yield "setpriority of a user", lambda: os.setpriority(os.PRIO_USER, 0, 19)
    yield "sched_setaffinity", lambda: os.sched_setaffinity(stranger, {0})
    yield "sched_setscheduler", numbered(144, 119, stranger, 0, struct.pack("i", 0))
    yield "sched_setparam", numbered(142, 118, stranger, struct.pack("i", 0))
    yield "sched_setattr", numbered(314, 274, stranger, struct.pack("IIQiIQQQ", 48, *(0,) * 7), 0)
    yield "ioprio_set", numbered(251, 30, 1, stranger, 0x4007)
    yield "ioprio_set of a user", numbered(251, 30, 3, os.getuid(), 0x4007)
    yield "F_SETOWN", lambda: fcntl.fcntl(0, fcntl.F_SETOWN, stranger)
    yield "F_SETSIG", lambda: fcntl.fcntl(0, 10, 10)
    yield "kcmp", numbered(312, 272, stranger, os.getpid(), 0, 0, 0)
    yield "migrate_pages", numbered(256, 238, stranger, 0, None, None)
    for name in ("environ", "mem", "maps", "auxv"):
        path = f"/proc/{stranger}/{name}"
        yield path.replace(str(stranger), "N"), opened(path, os.O_RDONLY, lambda _: None)
    yield "/proc/N/fd", lambda: os.readlink(f"/proc/{stranger}/fd/1")
    for name in ("cwd", "root", "exe"):
        path = f"/proc/{stranger}/{name}"
        yield path.replace(str(stranger), "N"), partial(os.readlink, path)
    yield (
        "/proc/N/oom_score_adj",
        opened(f"/proc/{stranger}/oom_score_adj", os.O_WRONLY, lambda _: None),
    )


def kernel() -> Iterator[tuple[str, Attempt]]:
    """Yield what would reach the kernel, or what outlives the command."""
    yield "io_uring_setup", numbered(425, 425, 8, bytes(120))
    yield "bpf", numbered(321, 280, 0, bytes(128), 128)
    yield "perf_event_open", numbered(298, 241, bytes(128), 0, -1, -1, 0)
    yield "userfaultfd", numbered(323, 282, 1)
    yield "request_key", numbered(249, 218, b"user", b"aish", None, 0)
    yield "clock_settime", numbered(227, 112, 0, bytes(16))
    yield "keyctl", numbered(250, 219, 0, -3, 0)
    yield "add_key", numbered(248, 217, b"user", b"aish", b"x", 1, -3)
    yield "shmget", numbered(29, 194, 0, 4096, 0o1600)
    yield "semget", numbered(64, 190, 0, 1, 0o1600)
    yield "msgget", numbered(68, 186, 0, 0o1600)
    yield "mq_open", numbered(240, 180, b"aish", 0o102, 0o600, None)
    yield "unshare", in_child(numbered(272, 97, 0x10000000))
    yield "unshare of mounts", in_child(numbered(272, 97, 0x00020000))
    yield "clone into a namespace", numbered(56, 220, 0x10000000 | 17, None, None, None, None)
    yield "clone3", numbered(435, 435, bytes(88), 88)
    yield (
        "setns",
        opened("/proc/self/ns/net", os.O_RDONLY, lambda d: call(268 if ARM else 308, d, 0)),
    )
    yield "sethostname", lambda: socket.sethostname("aish")
    yield "reboot", numbered(169, 142, 0, 0, 0, None)
    yield "init_module", numbered(175, 105, b"", 0, b"")
    yield "settimeofday", numbered(164, 170, None, struct.pack("ii", 0, 0))
    yield "syslog: clear", numbered(103, 116, 5, None, 0)
    yield "fanotify_init", numbered(300, 262, 0, 0)
    yield "32-bit call", in_child(old_architecture)
    yield "x32 call", lambda: call(0x40000000 | 90, b"/", 0o777)
    yield "a call that nobody knows", lambda: call(1023)


def devices(terminal: str) -> Iterator[tuple[str, Attempt]]:
    """Yield what would reach a terminal, a disk, or another device."""
    yield "/dev/tty", opened("/dev/tty", os.O_RDWR, lambda _: None)
    yield "/dev/ptmx", opened("/dev/ptmx", os.O_RDWR, lambda _: None)
    yield "TIOCSTI", lambda: fcntl.ioctl(1, TIOCSTI, b"x")
    yield "write to a terminal", opened(terminal, os.O_WRONLY | os.O_NOCTTY, lambda _: None)
    yield "read a terminal", opened(terminal, os.O_RDONLY | os.O_NOCTTY, lambda _: None)
    for path in ("/dev/kmsg", "/dev/mem", "/dev/fuse", "/dev/kvm", "/dev/vda", "/dev/sda"):
        if os.path.exists(path):
            yield path, opened(path, os.O_RDONLY, lambda _: None)


#: They change nothing beyond the victim, its folder, and the stranger.
HARMLESS = frozenset(
    [
        *("open to write", "append", "create", "truncate", "truncate by opening to read"),
        *("chmod", "fchmod", "chmod of its own file", "utime", "utimensat of a descriptor"),
        *("setxattr", "FS_IOC_SETFLAGS"),
        *("AF_INET SOCK_STREAM", "AF_INET SOCK_DGRAM", "AF_UNIX SOCK_STREAM", "AF_UNIX SOCK_DGRAM"),
        *("datagram from a pair", "kill", "prlimit", "setpriority", "sched_setaffinity"),
        *("ioprio_set", "/proc/N/environ", "/proc/N/cwd", "read a terminal", "read a secret"),
    ]
)


def attempts(arguments: list[str]) -> dict[str, Attempt]:
    """Return every attempt by its name."""
    victim, folder, secret, stranger, terminal = arguments
    return dict(
        [
            *files(victim, folder),
            *sockets(folder),
            *processes(int(stranger)),
            *kernel(),
            *devices(terminal),
            ("read a secret", opened(secret, os.O_RDONLY, lambda _: None)),
            (
                "read a secret by /proc",
                opened(f"/proc/self/root{secret}", os.O_RDONLY, lambda _: None),
            ),
            ("read a secret from its folder", partial(read_from_folder, secret)),
            ("run a secret", in_child(lambda: os.execv(secret, [secret]))),
            ("regain a capability", regain),
        ]
    )


def read_from_folder(path: str) -> None:
    """Read a file by its name alone, from a descriptor of its folder."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)


def regain() -> None:
    """Take back the right to change the owner of any file, which root has."""
    header, sets = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", 1, 1, 0, 0, 0, 0)
    if libc.capset(header, sets) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _is_confined() -> bool:
    """Return whether a seccomp filter is in force: without one nothing here is safe to try."""
    with open("/proc/self/status") as file:
        return "Seccomp:\t2" in file.read()


def main() -> None:
    """Try all, and print what came of it."""
    found: dict[str, str | None] = {}
    arguments = [argument for argument in sys.argv[1:] if argument != "--harmless"]
    harmless = len(arguments) < len(sys.argv) - 1
    if not harmless and not _is_confined():
        sys.exit("This is not confined: only with --harmless.")
    for name, attempt in attempts(arguments).items():
        if harmless and name not in HARMLESS:
            continue
        try:
            attempt()
        except OSError as error:
            found[name] = errno.errorcode.get(error.errno or 0, str(error))
        except ctypes.ArgumentError as error:
            found[name] = f"broken: {error}"
        else:
            found[name] = None
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
