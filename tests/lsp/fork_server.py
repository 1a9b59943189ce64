"""Starts servers by forking a process that has imported all that they import.

A server's imports are nine tenths of what its start costs, and most tests are not about them. The
child runs the same ``python -m aish_lsp`` (or the same script), with the arguments, environment,
folder and pipes that it would have been started with.

``spawn`` is the tests' side; run as a program, this file is the process that forks.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Whether servers are forked; the tests' conftest says so for each test.
wanted = False

#: What the interpreter and the C library read once, at their start, begins with one of these.
_READ_AT_START: Final = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
    "MALLOC_",
    "GLIBC_",
    "SSL",
    "OPENSSL",
)

#: Of a request: arguments and an environment. A message of the kernel's may be twice as long.
_MOST_BYTES: Final = 100_000


class Forked:
    """A server process, with what tests use of ``asyncio.subprocess.Process``."""

    def __init__(self, pid: int, pipes: _Pipes, status: asyncio.StreamReader) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = pipes.stdin, pipes.stdout, pipes.stderr
        self._pipes = pipes
        self._end = asyncio.create_task(self._wait_for_end(status))

    async def wait(self) -> int:
        """Wait for its end; return its exit code, or the signal that ended it with a minus."""
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        """Send it a signal.

        Raises:
            ProcessLookupError: it has ended.
        """
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """End it kindly."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close what is still open to it."""
        if self.returncode is None:
            self._end.cancel()
        self._pipes.close()

    async def _wait_for_end(self, status: asyncio.StreamReader) -> int:
        self.returncode = int(await status.readline())
        return self.returncode


async def spawn(
    command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None
) -> Forked | None:
    """Return a server that was forked; None where ``command`` must be started by itself."""
    if not wanted or not hasattr(os, "pidfd_open") or _program(command) is None:
        return None
    forker = _forker()
    if _read_at_start(env) != forker.read_at_start:
        return None
    # A process's mask can be read by setting it only.
    mask = os.umask(0)
    os.umask(mask)
    request = {
        "command": list(command),
        "env": dict(env),
        "cwd": str(cwd or Path.cwd()),
        "umask": mask,
        # As is inherited: what a shell starts in the background ignores it.
        "takesInterrupts": signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
    }
    data = json.dumps(request).encode()
    if len(data) > _MOST_BYTES:
        return None
    pipes, status, theirs = await _open_pipes()
    try:
        socket.send_fds(forker.channel, [data], theirs)
    finally:
        for fd in theirs:
            os.close(fd)
    return Forked(int(await status.readline()), pipes, status)


class _Forker(NamedTuple):
    """The process that forks, as its user has it."""

    channel: socket.socket
    read_at_start: dict[str, str]


@cache
def _forker() -> _Forker:
    """Start the process that forks, once."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return _Forker(ours, _read_at_start(os.environ))


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}


def _program(command: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return what a command runs, and the arguments of that; None where it is started by itself.

    ``-m`` stands for aish-lsp, ``-P`` for the same importing nothing of the folder that it is in;
    else it is a script.
    """
    match command:
        case [sys.executable, "-m", "aish_lsp", *arguments]:
            return "-m", arguments
        case [sys.executable, "-P", "-m", "aish_lsp", *arguments]:
            return "-P", arguments
        case [sys.executable, script, *arguments] if script.endswith(".py"):
            return script, arguments
    return None


class _Pipes(NamedTuple):
    """Our ends of the pipes to a process."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    transports: list[asyncio.BaseTransport]

    def close(self) -> None:
        for transport in self.transports:
            transport.close()


async def _open_pipes() -> tuple[_Pipes, asyncio.StreamReader, list[int]]:
    """Return our ends, the reader of the process's status, and the other ends."""
    loop = asyncio.get_running_loop()
    transports: list[asyncio.BaseTransport] = []
    theirs: list[int] = []

    async def reader() -> asyncio.StreamReader:
        read, write = os.pipe()
        theirs.append(write)
        stream = asyncio.StreamReader()
        pipe = os.fdopen(read, "rb", 0)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), pipe
        )
        transports.append(transport)
        return stream

    read, write = os.pipe()
    theirs.append(read)
    pipe = os.fdopen(write, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    transports.append(transport)
    stdin = asyncio.StreamWriter(transport, protocol, None, loop)
    stdout, stderr, status = [await reader() for _ in range(3)]
    return _Pipes(stdin, stdout, stderr, transports), status, theirs


# From here on the process that forks


def _import_all() -> None:
    """Import what servers import, at their start and later, and read the tables of the package."""
    import aish_lsp
    from aish_lsp.lsp.server import create_server
    from aish_lsp.offline.ranking import ranking
    from aish_lsp.offline.results import known_errors
    from aish_lsp.offline.table import table
    from aish_lsp.shell.risk.rules import tables

    for module in pkgutil.walk_packages(aish_lsp.__path__, "aish_lsp."):
        if not module.name.startswith(("aish_lsp.cli", "aish_lsp.__main__")):
            importlib.import_module(module.name)
    create_server()
    for read in (table, ranking, known_errors, tables):
        read()


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return the request in the child, and None at the end."""
    statuses: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in statuses:
                poll.unregister(fd)
                _tell_end(fd, *statuses.pop(fd))
                continue
            data, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, 4)
            if not data:
                return None
            pid = os.fork()
            if pid == 0:
                channel.detach()
                for number, one in enumerate(fds[:3]):
                    os.dup2(one, number)
                os.closerange(3, 1 << 16)
                request: dict[str, Any] = json.loads(data)
                return request
            os.write(fds[3], b"%d\n" % pid)
            for one in fds[:3]:
                os.close(one)
            watched = os.pidfd_open(pid)
            statuses[watched] = (pid, fds[3])
            poll.register(watched, select.POLLIN)


def _tell_end(watched: int, pid: int, status: int) -> None:
    _, ended = os.waitpid(pid, 0)
    # A test may have closed its end.
    with suppress(OSError):
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os.close(watched)
    os.close(status)


def _run(request: Mapping[str, Any]) -> None:
    """Become what the request asks for."""
    if request["takesInterrupts"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    program, sys.argv[1:] = _program(request["command"]) or ("", [])
    # Where it would import from first; so far it is where this file is.
    del sys.path[0]
    if program.startswith("-"):
        sys.path[:0] = [request["cwd"]] if program == "-m" else []
        runpy.run_module("aish_lsp", run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    # A Ctrl-C is for the tests, which end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        _request = _serve(_channel)
    if _request is not None:
        _run(_request)
