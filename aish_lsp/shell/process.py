"""A command under its supervisor, as the server sees it: pipes to read, and a way to end it."""

from __future__ import annotations

import asyncio
import errno
import marshal
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.shell.confinement.child import remove

READ_SIZE = 1 << 16
#: Bytes that may still be read from a pipe whose writers are ended: more than any pipe holds.
_LAST_READ_LIMIT = 1 << 20

_SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Pipe:
    """The read end of a pipe, for asyncio."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._waiter: asyncio.Future[None] | None = None
        self._left: int | None = None

    async def read(self) -> bytes:
        """Return what is there, at most READ_SIZE bytes; wait for some; nothing at the end.

        Other tasks get their turn even if there is always more to read.
        """
        await asyncio.sleep(0)
        while True:
            data = self.read_now()
            if data is not None:
                return data
            await self._readable()

    def read_now(self) -> bytes | None:
        """Return what is there without waiting: None if there is nothing yet."""
        if self._left is not None and self._left <= 0:
            return b""
        try:
            data = os.read(self._descriptor, READ_SIZE)
        except BlockingIOError:
            return None if self._left is None else b""
        if self._left is not None:
            self._left -= len(data)
        return data

    def wait_no_longer(self) -> None:
        """Treat what is in the pipe as all there is, although a process may still hold it open."""
        self._left = _LAST_READ_LIMIT
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        loop.add_reader(self._descriptor, _resolve, waiter)
        try:
            await waiter
        finally:
            loop.remove_reader(self._descriptor)
            self._waiter = None


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What one command is started with to be confined.

    Enter it before the command starts; the exit releases what it holds. The supervisor removes
    ``temporary`` when nothing of the command is left, even if the server is gone by then.

    Attributes:
        mechanism: what confines it, for the user.
        prefix: the command that confines the one after it; empty on Linux.
        rulesets: descriptors of Landlock rulesets, all of which apply; empty except on Linux.
        program: the seccomp filter.
        lock: for the profile ``work``, a descriptor that locks the work tree.
        work: for the profile ``work``, how the command's own namespaces are set up.
        settle: what is to be done, in a thread, when nothing of the command is left. It is told
            whether the command ended by itself, and returns what the user should know.
        close: what else is to be done at the end.
        temporary: the command's own temporary folder.
    """

    mechanism: str
    temporary: Path
    prefix: tuple[str, ...] = ()
    rulesets: tuple[int, ...] = ()
    program: bytes = b""
    work: dict[str, object] | None = None
    lock: int | None = None
    settle: Callable[[bool], list[str]] | None = None
    close: Callable[[], None] | None = None

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the command, given the one that it would have unconfined."""
        names = ["TMPDIR", *(name for name in ("TMP", "TEMP") if name in environ)]
        return {**environ, **dict.fromkeys(names, os.fspath(self.temporary))}

    def plan(self) -> dict[str, object]:
        """Return the plan for the supervisor, in types that ``marshal`` can write."""
        plan: dict[str, object] = {"temporary": os.fsencode(self.temporary), "passed": self.passed}
        if self.rulesets:
            plan |= {"rulesets": self.rulesets, "program": self.program, "work": self.work}
        return plan

    @property
    def passed(self) -> tuple[int, ...]:
        """The descriptors that the supervisor needs and the command must not inherit."""
        return self.rulesets if self.lock is None else (*self.rulesets, self.lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.passed:
            os.close(descriptor)
        # It still exists if no supervisor was started, or if the supervisor was killed.
        remove(self.temporary)
        if self.close is not None:
            self.close()


class SupervisedProcess:
    """A command that runs under a supervisor process, from its start until ``close``.

    ``ended`` is done when nothing of the command is left, or fails if it could not be started.

    Attributes, once it has ended:
        exit_code, signal_number: how the shell ended; at least one is None, and both are if it is
            unknown.
        left_running: whether the shell exited by itself and left processes behind; they were ended.
        not_put_aside: a file of the work tree that decides what runs, which was made although it
            must not be, and could not be put aside; empty if there is none.
        lost: whether the supervisor itself was killed, so that processes that had left the group
            may still run.
        survivors: processes that could not be ended, as ``pid 1234 (name)``; not all, if there are
            very many.
        seconds: how long it ran.
    """

    def __init__(
        self,
        command: Sequence[str | bytes],
        cwd: Path,
        env: Mapping[str, str],
        sandbox: Sandbox | None = None,
        source: int | None = None,
    ) -> None:
        """Start ``command``, whose first item is an absolute path, without waiting for it.

        It is confined by ``sandbox``, if given. Its input is the descriptor ``source``, or empty
        without one.

        Raises:
            InvalidArgument: the command is too long, or has a NUL in it.
            NotFound: the folder cannot be entered.
        """
        self.exit_code: int | None = None
        self.signal_number: int | None = None
        self.left_running = False
        self.not_put_aside = ""
        self.lost = False
        self.survivors: list[str] = []
        self.seconds = 0.0
        self._started = time.monotonic()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reports = b""
        self._status, status = os.pipe()
        try:
            self._supervisor = _start_supervisor(status, command, cwd, env, sandbox, source=source)
        except BaseException:
            os.close(self._status)
            raise
        finally:
            os.close(status)
        own = self._supervisor
        self._files = [file for file in (own.stdin, own.stdout, own.stderr) if file is not None]
        self._control, stdout, stderr = self._files
        self.stdout = Pipe(stdout.fileno())
        self.stderr = Pipe(stderr.fileno())
        os.set_blocking(self._status, False)
        asyncio.get_running_loop().add_reader(self._status, self._on_report)

    def stop(self) -> None:
        """Let the supervisor end all of the command: TERM and, 2 s later, KILL."""
        self._control.close()

    def kill(self) -> None:
        """Kill a supervisor that does not answer; the command's process group is killed then."""
        if not self.ended.done():
            self._supervisor.kill()

    def close(self) -> None:
        """Close the pipes. If the command still runs, this ends it."""
        if self._status >= 0:
            self._close_status()
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_report(self) -> None:
        try:
            data = os.read(self._status, READ_SIZE)
        except BlockingIOError:
            return
        if data:
            self._reports += data
            return
        self._close_status()
        # It is about to exit: nothing else closes its end of this pipe.
        self._supervisor.wait()
        self.seconds = time.monotonic() - self._started
        self._read_reports()
        self.stdout.wait_no_longer()
        self.stderr.wait_no_longer()
        if not self.ended.done():
            self.ended.set_result(None)

    def _close_status(self) -> None:
        asyncio.get_running_loop().remove_reader(self._status)
        os.close(self._status)
        self._status = -1

    def _read_reports(self) -> None:
        lines = [line.partition(" ")[::2] for line in self._reports.decode().splitlines()]
        survivors = [what.partition(" ")[::2] for kind, what in lines if kind == "survived"]
        self.survivors = [f"pid {pid} ({name})" for pid, name in survivors]
        # The first of a kind: a shell's end is told before that of what supervised it.
        reports = dict(reversed(lines))
        if "failed" in reports:
            self.ended.set_exception(_start_error(int(reports["failed"])))
        for kind in {"unconfined", "namespaces"} & reports.keys():
            number = int(reports[kind])
            reason = os.strerror(number)
            if kind == "namespaces":
                # The kernel's limit on them, not a disk.
                reason = "the limit on them is reached" if number == errno.ENOSPC else reason
                reason = f"there are no namespaces for it: {reason}"
            msg = f"The command was not run, since it could not be confined: {reason}."
            self.ended.set_exception(Denied(msg))
        if "exit" in reports:
            self.exit_code = int(reports["exit"])
        elif "signal" in reports:
            self.signal_number = int(reports["signal"])
        self.left_running = "left" in reports
        self.not_put_aside = os.fsdecode(bytes.fromhex(reports.get("kept", "")))
        self.lost = not {"failed", "unconfined", "namespaces", "ended"} & reports.keys()
        if self.lost and "started" in reports:
            # The supervisor was killed: end at least what stayed in the process group.
            with suppress(OSError):
                os.killpg(int(reports["started"]), signal.SIGKILL)


def _start_supervisor(
    status: int,
    command: Sequence[str | bytes],
    cwd: Path,
    env: Mapping[str, str],
    sandbox: Sandbox | None,
    *,
    source: int | None,
) -> subprocess.Popen[bytes]:
    passed = [status]
    planned: dict[str, Any] = {}
    if sandbox is not None:
        env = sandbox.environment(env)
        command = [*sandbox.prefix, *command]
        planned = sandbox.plan()
        passed += sandbox.passed
    if source is not None:
        passed.append(source)
        planned |= {"passed": [*planned.get("passed", ()), source], "stdin": source}
    plan = "-"
    if planned:
        passed.append(_file_with(marshal.dumps(planned)))
        plan = str(passed[-1])
    # Isolated and without site, so that neither the folder nor the environment can add code to it.
    arguments = [sys.executable, "-I", "-S", "-X", "utf8", str(_SUPERVISOR), str(status), plan]
    try:
        return subprocess.Popen(
            [*arguments, *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            pass_fds=passed,
            start_new_session=True,
        )
    except ValueError as error:
        msg = "The command holds a NUL character, which no shell accepts."
        raise InvalidArgument(msg, path="text") from error
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == os.fspath(cwd):
            msg = f"The command was not run: its folder {cwd} cannot be entered: {error.strerror}."
            raise NotFound(msg) from error
        raise _start_error(error.errno) from error
    finally:
        if planned:
            os.close(int(plan))


def _file_with(data: bytes) -> int:
    """Return the descriptor of an unnamed file that holds ``data``, at its beginning.

    The data might not fit into a pipe: a work tree may have thousands of modules.
    """
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _start_error(number: int | None) -> InvalidArgument:
    if number == errno.E2BIG:
        return InvalidArgument("The command is too long for the system to start.", path="text")
    reason = os.strerror(number) if number is not None else "unknown error"
    return InvalidArgument(f"The command could not be started: {reason}.")
