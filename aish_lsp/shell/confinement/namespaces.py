"""What a process does to itself to work in a world of its own (Linux): the profile ``work``.

Everything is read-only but the work tree, a temporary folder and a ``/dev/shm`` of its own; what
others run by themselves (git's settings, editors' settings) stays read-only in the work tree, too.
The network is a loopback of its own. Like ``child``, the supervisor imports this module alone.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

# The same on every architecture.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_EMPTY_PATH = 4
_MOUNT_ATTR_RDONLY = 1
_MS_NOSUID_NODEV = 6
_MS_PRIVATE_RECURSIVE = 0x40000 | 0x4000

_SHARED_MEMORY = b"/dev/shm"

_libc = ctypes.CDLL(None, use_errno=True)


def make_placeholders(plan: dict[str, Any]) -> list[tuple[bytes, int]]:
    """Make the protected files and folders that are missing: only what is there can be protected.

    Returns the path and the inode of each, for ``remove_placeholders``.

    Raises:
        OSError: one cannot be made; none is left then.
    """
    made = [(path, os.lstat(path).st_ino) for path in plan["left"]]
    for path, is_folder in plan["missing"]:
        try:
            if is_folder:
                os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib would double the start-up time
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            made.append((path, os.lstat(path).st_ino))
        except FileExistsError:
            pass  # It came meanwhile, and is protected like what was there.
        except OSError:
            remove_placeholders(made)
            raise
    return made


def remove_placeholders(made: list[tuple[bytes, int]]) -> None:
    """Remove what ``make_placeholders`` made, where it is still what it was."""
    for path, inode in reversed(made):
        try:
            status = os.lstat(path)
            if status.st_ino != inode:
                continue
            if os.path.isdir(path):  # noqa: PTH112 - as above
                os.rmdir(path)  # noqa: PTH106 - as above
            elif status.st_size == 0:
                os.unlink(path)  # noqa: PTH108 - as above
        except OSError:
            pass  # Somebody outside made something of it.


def enter(plan: dict[str, Any], ruleset: int) -> None:
    """Move the calling process into namespaces of its own, as ``plan`` has it.

    Args:
        plan: ``writable``, the folders that are written; ``protected``, what of them is not;
            ``held``, the folders above those, which can be neither moved nor removed.
        ruleset: the descriptor of a Landlock ruleset, to which the new ``/dev/shm`` is added.

    Raises:
        OSError: the kernel refused; the process must not go on.
    """
    folder = os.getcwd()  # noqa: PTH109 - as above
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_PRIVATE_RECURSIVE), None))
    writable = [(path, _copy(path)) for path in plan["writable"]]
    _make_read_only(_AT_FDCWD, b"/", 0)
    for path, tree in writable:
        _mount(tree, path)
    for path in plan["held"]:
        _mount(_copy(path), path)
    for path in plan["protected"]:
        tree = _copy(path)
        _make_read_only(tree, b"", _AT_EMPTY_PATH)
        _mount(tree, path)
    size = b"size=50%"
    tmpfs = (b"tmpfs", _SHARED_MEMORY, b"tmpfs", ctypes.c_ulong(_MS_NOSUID_NODEV), size)
    _checked(_libc.mount(*tmpfs))
    _allow(ruleset, _SHARED_MEMORY, plan["rights"])
    _raise_loopback()
    # By its name: the folder that the process is in still lies in the old world.
    os.chdir(folder)


def _copy(path: bytes) -> int:
    """Return a detached copy of what is mounted at and below ``path``."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return _syscall(_OPEN_TREE, _AT_FDCWD, path, ctypes.c_uint(flags))


def _mount(tree: int, path: bytes) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_EMPTY_PATH)
    _syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, path, flags)
    os.close(tree)


def _make_read_only(at: int, path: bytes, flags: int) -> None:
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(flags | _AT_RECURSIVE).value
    _syscall(_MOUNT_SETATTR, at, path, flags, attributes, ctypes.c_size_t(len(attributes)))


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", rights, descriptor)
    _syscall(445, ruleset, 1, rule, ctypes.c_uint32(0))
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


def _syscall(number: int, *arguments: object) -> int:
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
