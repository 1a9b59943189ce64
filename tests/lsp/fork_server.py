"""Starts servers by forking a process that has imported all that they import.

A server's imports are nine tenths of what its start costs, and most tests are not about them. The
child runs the same ``python -m aish_lsp`` (or the same script), with the arguments, environment,
folder and pipes that it would have been started with.

``spawn`` and ``command_for`` are the tests' side, the latter for what starts its server itself. Run
as a program, this file is the process that forks: one for all workers.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import fork_client

#: Whether servers are forked; the tests' conftest says so for each test.
wanted = False

#: The environment of the fork server, which is that of the tests before the first one.
environment: dict[str, str] = {}

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

#: The variables that name the socket of the fork server, and the process that it ends with.
_SOCKET: Final = "TESTS_FORK_SERVER"
_OWNER: Final = "TESTS_OWNER"

_started: list[subprocess.Popen[bytes]] = []


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
    if not wanted or not _can_fork() or _program(command) is None:
        return None
    pipes, status, theirs = await _open_pipes()
    try:
        asked = fork_client.ask(_socket(), command, env, str(cwd or Path.cwd()), theirs)
    finally:
        for fd in theirs:
            os.close(fd)
    pid = int(await status.readline() or 0) if asked else 0
    if pid == 0:
        pipes.close()
        return None
    return Forked(pid, pipes, status)


def command_for(command: Sequence[str]) -> list[str]:
    """Return what others can start instead of ``command``, to the same effect."""
    if not wanted or not _can_fork():
        return list(command)
    return [sys.executable, "-S", "-E", fork_client.__file__, _socket(), *command]


def _can_fork() -> bool:
    return hasattr(os, "pidfd_open")


def begin(folder: Path) -> None:
    """Choose where the fork server of this run listens: in ``folder``, until this process ends."""
    os.environ.update({_SOCKET: str(folder / "fork-server"), _OWNER: str(os.getpid())})


@cache
def _socket() -> str:
    """Return where the fork server listens; it is started by whoever of all workers is first."""
    path = os.environ[_SOCKET]
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not Path(path).exists():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
                listening.bind(path)
                # What asks before all is imported waits.
                listening.listen(1000)
                # It is kept, since nobody waits for its end.
                _started.append(
                    subprocess.Popen(
                        [sys.executable, __file__, str(listening.fileno()), os.environ[_OWNER]],
                        pass_fds=[listening.fileno()],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        # Without what the test that is first has set for itself.
                        env=environment,
                    )
                )
    return path


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}


def _program(command: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return what a command runs, and the arguments of that; None where it is started by itself.

    ``-m`` stands for aish-lsp, ``-P`` for the same without imports from its current folder;
    anything else is a script.
    """
    match command:
        # A command of the shell reads and writes by streams that are made at the start.
        case [_, "-m", "aish_lsp", word, *_] if word[:1] != "-" and word != "serve":
            return None
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
    import httpx  # noqa: F401 - imported for the first request
    import httpx_sse  # noqa: F401
    from client import CAPABILITIES
    from lsprotocol import types

    import aish_lsp
    from aish_lsp.agent.model_choice import rules
    from aish_lsp.lsp.overrides import converter
    from aish_lsp.lsp.server import create_server
    from aish_lsp.offline.ranking import ranking
    from aish_lsp.offline.results import known_errors
    from aish_lsp.offline.table import table
    from aish_lsp.shell.risk.rules import tables

    for module in pkgutil.walk_packages(aish_lsp.__path__, "aish_lsp."):
        if not module.name.startswith(("aish_lsp.cli", "aish_lsp.__main__")):
            importlib.import_module(module.name)
    create_server()
    for request, response, params, _ in types.METHOD_TO_TYPES.values():
        for kind in filter(inspect.isclass, (request, response, params)):
            converter().get_structure_hook(kind)
            converter().get_unstructure_hook(kind)
    # The hook of an optional field is looked up when a message has that field.
    initialize = {"processId": None, "rootUri": None, "capabilities": CAPABILITIES}
    converter().structure(initialize, types.InitializeParams)
    for read in (table, ranking, known_errors, rules, tables):
        read()


class _Child(NamedTuple):
    """A process that was forked, the descriptor of its end, and the pipe to whoever asked."""

    pid: int
    end: int
    status: int


def _serve(listening: socket.socket, owner: int) -> dict[str, Any] | None:
    """Fork for each request; return the request in the child, and None when ``owner`` has ended."""
    read_at_start = _read_at_start(os.environ)
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ)
    selector.register(os.pidfd_open(owner), selectors.EVENT_READ, owner)
    while True:
        for key, _ in selector.select():
            if key.data == owner:
                return None
            if isinstance(key.data, _Child):
                _attend(selector, key)
                continue
            request, fds = _accept(listening)
            if not request:
                continue
            if _is_served(request, read_at_start):
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    listening.close()
                    for number, one in enumerate(fds[:3]):
                        os.dup2(one, number)
                    os.closerange(3, 1 << 16)
                    return request
                child = _Child(pid, os.pidfd_open(pid), os.dup(fds[3]))
                selector.register(child.end, selectors.EVENT_READ, child)
                # Nothing is ever read from it; its other end's closing counts as well.
                selector.register(child.status, selectors.EVENT_READ, child)
                _tell(child.status, pid)
            else:
                _tell(fds[3], 0)
            for one in fds:
                os.close(one)


def _accept(listening: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and its descriptors; nothing if whoever asked is gone."""
    channel, _ = listening.accept()
    with channel:
        data, fds, _, _ = socket.recv_fds(channel, fork_client.MOST_BYTES, 4)
    return (json.loads(data), fds) if data else ({}, [])


def _is_served(request: Mapping[str, Any], read_at_start: Mapping[str, str]) -> bool:
    """Return whether what a request asks for can be forked."""
    program = _program(request["command"])
    return program is not None and _read_at_start(request["env"]) == read_at_start


def _attend(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Tell how a child ended; or end it, because whoever asked for it is gone."""
    if selector.get_map().get(key.fd) != key:
        return  # It went with what was attended to just now.
    child: _Child = key.data
    if key.fd == child.status:
        selector.unregister(child.status)
        os.kill(child.pid, signal.SIGKILL)
        return
    _, ended = os.waitpid(child.pid, 0)
    with suppress(KeyError):
        selector.unregister(child.status)
    selector.unregister(child.end)
    _tell(child.status, os.waitstatus_to_exitcode(ended))
    os.close(child.end)
    os.close(child.status)


def _tell(status: int, number: int) -> None:
    # A test may have closed its end.
    with suppress(OSError):
        os.write(status, b"%d\n" % number)


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
    with socket.socket(fileno=int(sys.argv[1])) as _listening:
        _request = _serve(_listening, int(sys.argv[2]))
    if _request is not None:
        _run(_request)
