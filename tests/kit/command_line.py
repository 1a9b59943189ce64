"""The command line in this process, for tests that are not about the process itself."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Mapping
from subprocess import CompletedProcess
from typing import TypeAlias

import pytest

from aish_lsp.__main__ import main

_COMMAND = [sys.executable, "-m", "aish_lsp"]

#: Runs a command line; keywords are its environment, in addition to that of the test.
CommandLine: TypeAlias = Callable[..., "CompletedProcess[str]"]


def run_main(
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> CompletedProcess[str]:
    """Return the output and the exit code of ``aish-lsp`` with ``arguments``; stdin is empty."""
    with pytest.MonkeyPatch.context() as patch:
        if environment is not None:
            for name in os.environ.keys() - environment.keys():
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
    out, err = capsys.readouterr()
    return CompletedProcess(list(arguments), code, out, err)


def at_terminal(
    environment: dict[str, str],
    arguments: list[str],
    answers: dict[str, str],
    *,
    code: int = 0,
) -> str:
    """Run the command line at a pseudo terminal; type an answer at each prompt, once.

    It must end with ``code``.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(_COMMAND[0], [*_COMMAND, *arguments], {"TERM": "xterm", **environment})
    termios.tcsetwinsize(terminal, (24, 80))
    said, waiting = "", dict(answers)
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            readable, _, _ = select.select([terminal], [], [], 1)
            if not readable:
                continue
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            said += piece.decode(errors="replace")
            for prompt in [prompt for prompt in waiting if prompt in said]:
                os.write(terminal, waiting.pop(prompt).encode())
    finally:
        os.close(terminal)
        status = _ended(pid)
    assert not waiting, f"never asked {list(waiting)}:\n{said}"
    assert status == code, said
    return said


def _ended(pid: int) -> int:
    """Return the exit code of a process that should be at its end; a signal's number is < 0."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
