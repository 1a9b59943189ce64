"""Run commands one after another in a sandbox, each in the scene of ``scene``: a script.

``sandbox`` starts it as the first process of new namespaces. It makes all of the file system
read-only but for the scene, gives up every privilege, and answers each line of JSON on its input
(a command) with one on its output (what the command changed).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

sys.path[:0] = json.loads(sys.argv[1])
# At once: in a checkout in a temporary folder nothing of it could be found after ``wall``.
import scene  # noqa: E402
from inside_confined import Confined  # noqa: E402

ROOT: Final = Path("/tmp/aish")
#: The folders that anybody may write; what is in them is the scene, or new.
WATCHED: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))

_SYSCALLS: Final = (
    *("open", "openat", "openat2", "creat", "truncate", "ftruncate", "unlink", "unlinkat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "mount", "umount2"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
    *("connect", "listen", "sendto", "sendmsg", "sendmmsg"),
)
_TRACE: Final = ROOT / "tmp" / "trace"
_STRACE: Final = (
    *("strace", "-f", "--seccomp-bpf", "-qq", "-y", "-o", str(_TRACE)),
    # With the question mark a call that this strace or this machine does not know is no error.
    *("-e", "trace=" + ",".join(f"?{name}" for name in _SYSCALLS)),
)
_OUTPUT_LIMIT: Final = 1 << 16
_REST: Final = 0.5

# --- the sandbox ---------------------------------------------------------------------------------

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY, _REMOUNT, _BIND, _MOVE, _PRIVATE = 1, 32, 4096, 8192, 1 << 18
_BOUNDING_DROP, _NO_NEW_PRIVILEGES = 24, 38
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")


def wall() -> list[Path]:
    """Leave nothing writable but new, empty temporary folders, and no privilege.

    Python and its modules stay where they are, read-only; those in a temporary folder are returned.
    """
    _set_mounts(propagation=_PRIVATE)
    _set_mounts(attributes=_RDONLY)
    kept = [(path, _copy(path)) for path in _code()]
    for folder in ("/tmp", "/var/tmp"):
        _mount("tmpfs", folder, "tmpfs", data="size=256m,mode=1777")
    _devices()
    # In a container whose /proc is masked there is no new one to be had; the old one is read-only.
    with suppress(OSError):
        _mount("proc", "/proc", "proc", _RDONLY)
    for path, tree in kept:
        path.mkdir(parents=True, exist_ok=True)
        _check(_LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, bytes(path), 4), f"mount {path}")
    for capability in range(64):
        _LIBC.prctl(_BOUNDING_DROP, capability, 0, 0, 0)
    _check(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    return [path for path, _ in kept]


def _code() -> list[Path]:
    """Return the folders of Python and its modules that are in a temporary folder."""
    named = {*map(Path, sys.path), Path(sys.prefix), Path(sys.base_prefix)}
    found = {path for path in named if path.is_dir() and any(map(path.is_relative_to, WATCHED))}
    return sorted(path for path in found if not found & set(path.parents))


def _copy(path: Path) -> int:
    flags = 1 | _AT_RECURSIVE  # OPEN_TREE_CLONE
    tree: int = _LIBC.syscall(_OPEN_TREE, _AT_FDCWD, bytes(path), flags)
    _check(int(tree < 0), f"copy of {path}")
    return tree


def _devices() -> None:
    """Leave of /dev what a program needs, since a read-only mount does not hold a device."""
    new = Path("/tmp/dev")
    new.mkdir()
    _mount("tmpfs", str(new), "tmpfs", data="size=64m,mode=755")
    for name in _DEVICES:
        (new / name).touch()
        _mount(f"/dev/{name}", str(new / name), "", _BIND)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (new / name).symlink_to(f"/proc/self/fd{target}")
    (new / "shm").mkdir()
    _mount(str(new), "/dev", "", _MOVE)
    new.rmdir()
    _mount("tmpfs", "/dev/shm", "tmpfs", data="size=64m,mode=1777")
    _mount("", "/dev", "", _REMOUNT | _BIND | _RDONLY)


def _set_mounts(attributes: int = 0, propagation: int = 0) -> None:
    given = (ctypes.c_uint64 * 4)(attributes, 0, propagation, 0)
    _check(
        _LIBC.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, given, ctypes.sizeof(given)),
        "mount_setattr",
    )


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    texts = (source.encode(), target.encode(), kind.encode())
    _check(_LIBC.mount(*texts, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


# --- one command ---------------------------------------------------------------------------------


class Stage:
    """The scene, and what it looks like while nothing has changed it."""

    def __init__(self, kept: list[Path], *, confined: bool) -> None:
        self._without = {str(path) for path in (ROOT / "tmp", *kept)}
        self._template = ROOT / "tmp" / "template"
        scene.build(ROOT)
        for part in ("work", "home"):
            shutil.copytree(ROOT / part, self._template / part, symlinks=True)
        environment = {**os.environ, "AISH_DATA_DIR": str(ROOT / "tmp" / "data")}
        self._confined = Confined(environment) if confined else None
        self._before = self._look()

    def run(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Run one command; tell what it changed, and put the scene back."""
        argv = ["bash", "--norc", "--noprofile", "-c", asked["command"]]
        if asked["traced"]:
            argv = [*_STRACE, *argv]
        before = self._before
        if asked["files"]:
            scene.add(ROOT / "work", asked["files"])
            before = self._look()
        if self._confined:
            output, timed_out = self._confined.run(
                asked["command"], ROOT / "work", asked["timeout"]
            )
        else:
            output, timed_out = _run(argv, asked["environment"], asked["timeout"])
        after = self._look()
        changes = scene.changes(before, after)
        if changes or asked["files"]:
            self._restore([line.partition(" ")[2] for line in scene.changes(self._before, after)])
        calls = _writing_calls() if asked["traced"] else []
        return {"changes": changes, "calls": calls, "output": output, "timed_out": timed_out}

    def _look(self) -> scene.State:
        return scene.snapshot(WATCHED, self._without)

    def _restore(self, changed: list[str]) -> None:
        """Put back what has changed, and everything where that is not enough."""
        for path in map(Path, sorted(changed)):
            self._put_back(path)
        paths = {Path(name) for name in changed}
        for folder in sorted(paths | {path.parent for path in paths}, reverse=True):
            if (kept := self._kept(folder)) and folder.is_dir() and not folder.is_symlink():
                shutil.copystat(kept, folder)
        scene.refresh(ROOT)
        if not self._is_as_before():
            for part in ("work", "home"):
                _remove(ROOT / part)
                shutil.copytree(self._template / part, ROOT / part, symlinks=True)
            scene.settle(ROOT)
        self._before = self._look()

    def _put_back(self, path: Path) -> None:
        kept = self._kept(path)
        is_folder = kept is not None and kept.is_dir() and not kept.is_symlink()
        if is_folder and path.is_dir() and not path.is_symlink():
            return
        if path.is_mount() or path == ROOT:
            return
        _remove(path)
        if is_folder:
            path.mkdir()
        elif kept is not None:
            shutil.copy2(kept, path, follow_symlinks=False)

    def _kept(self, path: Path) -> Path | None:
        """Return what ``path`` is made from, if it belongs to the scene."""
        if not path.is_relative_to(ROOT):
            return None
        kept = self._template / path.relative_to(ROOT)
        return kept if path != ROOT and os.path.lexists(kept) else None

    def _is_as_before(self) -> bool:
        """Return whether all is as it was, but for the numbers and times that no copy keeps."""
        after = self._look()
        return self._before.keys() == after.keys() and all(
            _lasting(state) == _lasting(after[path])
            for path, state in self._before.items()
            if self._kept(Path(path))
        )


def _lasting(state: tuple[int, ...]) -> tuple[int, ...]:
    mode, owner, _, links, modified, _, size = state
    return mode, owner, links, modified, size


def _remove(path: Path) -> None:
    """Remove a file or a folder, also one whose rights were taken away."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o700)
    shutil.rmtree(path)


def _run(argv: list[str], environment: dict[str, str], timeout: float) -> tuple[str, bool]:
    """Run ``argv`` and all that it leaves behind to their end; return the output."""
    output = os.memfd_create("output")
    try:
        process = subprocess.Popen(
            argv,
            cwd=ROOT / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        waiting = select.poll()
        handle = os.pidfd_open(process.pid)
        waiting.register(handle, select.POLLIN)
        timed_out = not waiting.poll(timeout * 1000)
        os.close(handle)
        _end_others(0 if timed_out else _REST)
        process.returncode = 0  # It was waited for with all others.
        os.lseek(output, 0, os.SEEK_SET)
        return os.read(output, _OUTPUT_LIMIT).decode("utf-8", "replace"), timed_out
    finally:
        os.close(output)


def _end_others(patience: float) -> None:
    """Wait for all other processes of the namespace, then kill them."""
    deadline = time.monotonic() + patience
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)


# --- what strace saw -----------------------------------------------------------------------------

_CALL: Final = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?(?: ([A-Z]+))?")
_WRITES: Final = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|TMPFILE|APPEND)")
_FREE: Final = re.compile(
    r"/tmp/aish/tmp(?:/|$)|/dev/(?:null|zero|full|fd|std\w+|tty)\b|/proc/self/fd|pipe:|/memfd:"
)


def _writing_calls() -> list[str]:
    """Return the calls that wrote or reached out, or would have where all is not read-only."""
    if not _TRACE.exists():
        return []
    text = _TRACE.read_text(errors="replace")
    _TRACE.unlink()
    return [line for line in text.splitlines() if _is_writing(line)]


def _is_writing(line: str) -> bool:
    match = _CALL.match(line)
    if match is None:
        return False
    name, arguments, result, opened, error = match.groups()
    succeeded = not result.startswith("-") or error == "EROFS"
    if name == "listen":
        return True
    if name in {"connect", "sendto", "sendmsg", "sendmmsg"}:
        # There is no network here: to try is enough, but for the sockets of this machine.
        return "sa_family=AF_INET" in arguments or (succeeded and "sun_path" in arguments)
    if not succeeded or (name.startswith(("open", "creat")) and not _WRITES.search(arguments)):
        return False
    return not _FREE.search(opened or arguments)


def main() -> None:
    """Build the sandbox and the scene, say that they are ready, and answer."""
    stage = Stage(wall(), confined="confined" in sys.argv[2:])
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201 - the answer to `sandbox`
    for line in sys.stdin:
        print(json.dumps(stage.run(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
