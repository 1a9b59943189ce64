"""Confines one command from within its own process, and removes what it left behind.

On Linux a process confines itself between fork and exec (``confine``). For the profile ``work`` it
is started in namespaces of its own (``fork_into_namespaces``, ``enter``), where everything is
read-only except the work tree, a temporary folder and its own ``/dev/shm``. Files in the work tree
that other programs act on by themselves (the settings of git and of editors) stay read-only, too.
Its network is a loopback, and with the first of its processes all of them end.

The supervisor imports this module without the package, and each command waits for that: the module
imports nothing of ours, and little else. Its arguments were made by the server.
"""

# pathlib and contextlib would double the supervisor's start-up time.
# ruff: noqa: SIM105, PTH101, PTH106, PTH109, PTH208

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
# The same on every architecture.
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446

_PATH_BENEATH = 1
_READ_FILE = 1 << 2

_CAPABILITY_VERSION_3 = 0x20080522
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: without them root could not read every file.
_READING_CAPABILITIES = 0b110

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

#: How many processes and threads a command of the profile ``work`` may have.
_MOST_PROCESSES = 8192
#: Since this version of Linux each PID namespace has a limit of its own. Before, root would change
#: that of the whole machine.
_OWN_PID_MAX_SINCE = (6, 14)

# The same on every architecture.
_CLONE3 = 435
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_FSOPEN = 430
_FSCONFIG = 431
_FSMOUNT = 432
_MOUNT_SETATTR = 442

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_FSOPEN_CLOEXEC = 1
_FSCONFIG_SET_FLAG = 0
_FSCONFIG_SET_STRING = 1
_FSCONFIG_CMD_CREATE = 6
_FSMOUNT_CLOEXEC = 1
_MOVE_MOUNT_EMPTY_PATH = 4
_MOUNT_ATTR_RDONLY = 1
_MS_NOSUID_NODEV = 6
_MS_NOEXEC = 8
_MS_PRIVATE_RECURSIVE = 0x40000 | 0x4000

_SHARED_MEMORY = b"/dev/shm"
_PROCESSES = b"/proc"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

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
    """Confine the calling process and everything that it will start, for good.

    Args:
        rulesets: descriptors of Landlock rulesets; each must allow what is done.
        program: a seccomp filter, eight bytes per instruction.

    Raises:
        OSError: the kernel refused; the process may be half confined and must not go on.
    """
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    for ruleset in rulesets:
        syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    # Last, since the steps before it may need what it refuses.
    code = _Filter(len(program) // 8, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(code), 0, 0))


def _drop_capabilities() -> None:
    """Give up every capability except those that root needs to read.

    With ``no_new_privs`` set, none comes back at exec, even if the user is root.
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
    capabilities = sets[1] & _READING_CAPABILITIES if os.geteuid() == 0 else 0
    sets[:] = [capabilities, capabilities, 0, 0, 0, 0]
    _checked(_libc.capset(header, sets))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# Separate namespaces, for the profile ``work``.


def fork_into_namespaces(plan: dict[str, Any]) -> tuple[int, bool]:
    """Fork, with the child in namespaces of its own; return its process id, 0 in the child.

    Where PID namespaces are to be had, the child is the first process of one: with it all others
    in it end. Also returned is whether that is so.

    Raises:
        OSError: the kernel refused.
    """
    # The child has no name for itself until it has written that of its parent.
    plan["ids"] = os.geteuid(), os.getegid()
    flags = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC
    try:
        return _clone(flags | _CLONE_NEWPID), True
    except OSError:
        return _clone(flags), False


def _clone(flags: int) -> int:
    # ``os.fork`` takes no flags, and ``unshare`` would put only a further child into the namespace.
    # Nothing that Python does around a fork is needed in a process of one thread.
    arguments = struct.pack("=8Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return syscall(_CLONE3, arguments, ctypes.c_size_t(len(arguments)))


def end_with_parent(alive: int) -> None:
    """Have the kernel kill the calling process when its parent ends, whatever ends that.

    ``alive`` is the end of a pipe that only the parent holds open.
    """
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)  # It has already ended.
    os.close(alive)


def enter(plan: dict[str, Any], ruleset: int) -> None:
    """Set up the namespaces that the calling process is the first in, as ``plan`` says.

    Args:
        plan: ``writable``, the folders that can be written to; ``held``, folders in them that can
            be neither moved nor removed; ``protected``, places that cannot be changed at all;
            ``layers``, git folders, each after the folder of the layer that takes what is written
            to it; ``rights``, what the ruleset allows in these and in the new ``/dev/shm``.
        ruleset: the descriptor of a Landlock ruleset, to which the new ``/dev/shm`` and ``/proc``
            are added.

    Raises:
        OSError: the kernel refused; the process must not go on.
    """
    folder = os.getcwd()
    user, group = plan["ids"]
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_PRIVATE_RECURSIVE), None))
    _show_own_processes()
    _limit_processes()
    writable = [(path, _copy(path)) for path in plan["writable"]]
    layers = [(path, _layer(layer, path)) for layer, path in plan["layers"]]
    _make_read_only(_AT_FDCWD, b"/", 0)
    for path, tree in writable:
        _mount(tree, path)
    for path in plan["held"]:
        _mount(_copy(path), path)
    for path in plan["protected"]:
        _protect(path)
    for path, tree in layers:
        _mount(tree, path)
        _allow(ruleset, path, plan["rights"])
    size = b"size=50%"
    tmpfs = (b"tmpfs", _SHARED_MEMORY, b"tmpfs", ctypes.c_ulong(_MS_NOSUID_NODEV), size)
    _checked(_libc.mount(*tmpfs))
    _allow(ruleset, _SHARED_MEMORY, plan["rights"])
    _allow(ruleset, _PROCESSES, _READ_FILE)
    _raise_loopback()
    # By name: the current folder still belongs to the old namespace.
    os.chdir(folder)


def _show_own_processes() -> None:
    """Mount a ``/proc`` that shows the processes of the namespace alone."""
    if os.getpid() == 1:
        flags = ctypes.c_ulong(_MS_NOSUID_NODEV | _MS_NOEXEC)
        try:
            _checked(_libc.mount(b"proc", _PROCESSES, b"proc", flags, None))
        except OSError:
            pass  # In a container that hides parts of /proc; the old one becomes read-only.


def _limit_processes() -> None:
    """Limit how many processes and threads there can be in the namespace."""
    import resource  # noqa: PLC0415 - only for this profile

    if os.getpid() == 1 and _linux_version() >= _OWN_PID_MAX_SINCE:
        try:
            _write("/proc/sys/kernel/pid_max", str(_MOST_PROCESSES))
        except OSError:
            pass  # This part of /proc is hidden.
        else:
            return
    # It does not hold root.
    present = resource.getrlimit(resource.RLIMIT_NPROC)
    limits = [min(_MOST_PROCESSES, most) if most >= 0 else _MOST_PROCESSES for most in present]
    resource.setrlimit(resource.RLIMIT_NPROC, (limits[0], limits[1]))


def _linux_version() -> tuple[int, ...]:
    numbers = os.uname().release.replace("-", ".").split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)


def _protect(path: bytes) -> None:
    """Make a place read-only, and one that cannot be replaced."""
    try:
        tree = _copy(path)
    except FileNotFoundError:
        return  # Somebody has just removed it; if the command makes it anew, that is found.
    _make_read_only(tree, b"", _AT_EMPTY_PATH)
    _mount(tree, path)


def _layer(layer: bytes, path: bytes) -> int:
    """Return a detached overlay of a folder: what is written to it lands in a folder ``upper``.

    In the folder ``layer``, this is empty, and so are ``work`` and ``lower``.
    """
    os.chdir(layer)  # Paths would have to be escaped.
    _mount(_copy(path), b"lower")
    context = syscall(_FSOPEN, b"overlay", ctypes.c_uint(_FSOPEN_CLOEXEC))
    for name, value in ((b"lowerdir", b"lower"), (b"upperdir", b"upper"), (b"workdir", b"work")):
        syscall(_FSCONFIG, context, ctypes.c_uint(_FSCONFIG_SET_STRING), name, value, 0)
    # In a namespace of a user's own, no other attributes may be set.
    syscall(_FSCONFIG, context, ctypes.c_uint(_FSCONFIG_SET_FLAG), b"userxattr", None, 0)
    syscall(_FSCONFIG, context, ctypes.c_uint(_FSCONFIG_CMD_CREATE), None, None, 0)
    tree = syscall(_FSMOUNT, context, ctypes.c_uint(_FSMOUNT_CLOEXEC), ctypes.c_uint(0))
    os.close(context)
    return tree


def _copy(path: bytes) -> int:
    """Return a detached copy of the mounts at and below ``path``, or of a link."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_SYMLINK_NOFOLLOW | os.O_CLOEXEC
    return syscall(_OPEN_TREE, _AT_FDCWD, path, ctypes.c_uint(flags))


def _mount(tree: int, path: bytes) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_EMPTY_PATH)
    syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, path, flags)
    os.close(tree)


def _make_read_only(at: int, path: bytes, flags: int) -> None:
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(flags | _AT_RECURSIVE).value
    syscall(_MOUNT_SETATTR, at, path, flags, attributes, ctypes.c_size_t(len(attributes)))


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", rights, descriptor)
    syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, ctypes.c_uint32(0))
    os.close(descriptor)


def _raise_loopback() -> None:
    import _socket  # noqa: PLC0415 - only for this profile
    import fcntl  # noqa: PLC0415 - as above

    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with_flags = "16sH14x"
    maker = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM, 0)
    request = fcntl.ioctl(maker.fileno(), get_flags, struct.pack(with_flags, b"lo", 0))
    flags = struct.unpack(with_flags, request)[1] | up
    fcntl.ioctl(maker.fileno(), set_flags, struct.pack(with_flags, b"lo", flags))
    maker.close()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text.encode())
    os.close(descriptor)


# Removes a folder with everything that a command left in it, however deep and whatever its modes.
# ``shutil.rmtree`` recurses, so a deep folder ends in a ``RecursionError``, and it leaves folders
# that it may not list.


def remove(folder: str | bytes | os.PathLike[str]) -> None:
    """Remove a folder and what it holds, as far as possible; never follow a link."""
    try:
        top = open_folder(folder, None)
    except OSError:
        return  # It is already gone, or is not a folder.
    try:
        _empty(top)
    finally:
        os.close(top)
    try:
        os.rmdir(folder)
    except OSError:
        pass  # It may hold something that we may not remove.


def _empty(top: int) -> None:
    """Empty a folder; folders further down are moved up first, so that none is deep."""
    waiting = os.listdir(top)
    while waiting:
        name = waiting.pop()
        if _is_removed(name, top):
            continue
        try:
            inner = open_folder(name, top)
        except OSError:
            continue
        try:
            for entry in os.listdir(inner):
                if not _is_removed(entry, inner):
                    waiting.append(_moved_up(entry, inner, top))
            os.rmdir(name, dir_fd=top)
        except OSError:
            pass
        finally:
            os.close(inner)


def _is_removed(name: str, folder: int) -> bool:
    """Remove a file or an empty folder; return whether it is gone."""
    for call in (os.unlink, os.rmdir):
        try:
            call(name, dir_fd=folder)
        except OSError:
            continue
        return True
    return False


def _moved_up(name: str, folder: int, top: int) -> str:
    """Move a folder up to ``top``; return its name there."""
    os.close(open_folder(name, folder))  # A folder that is not writable cannot be moved, either.
    new = os.urandom(16).hex()
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    return new


def open_folder(name: str | bytes | os.PathLike[str], at: int | None) -> int:
    """Open a folder, and let its owner list and write to it."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        _make_accessible(name, at)
        return os.open(name, _FOLDER, dir_fd=at)
    if os.fstat(descriptor).st_mode & 0o700 != 0o700:
        try:
            os.fchmod(descriptor, 0o700)
        except OSError:
            pass  # It belongs to somebody else, and is removed as far as possible.
    return descriptor


def _make_accessible(name: str | bytes | os.PathLike[str], at: int | None) -> None:
    """Let a folder's owner do everything with it; a link that has taken its place is not followed.

    Raises:
        OSError: it is no folder any more, or belongs to somebody else.
    """
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=at, follow_symlinks=False)
        return
    # Linux changes a mode without following links only by what is already opened.
    folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{folder}", 0o700)
    finally:
        os.close(folder)
