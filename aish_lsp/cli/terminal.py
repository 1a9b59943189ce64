"""The user at a terminal: asking them, and opening a workspace for them.

The workspace's folder is the one that ``--workspace`` names, else the current one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.cli import output
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.ports import nobody

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser, Question

#: Bytes of a line that are read at a time.
_PIECE = 4096


def asker() -> AskUser:
    """Return how to ask the user at this terminal; without one, nobody answers."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else nobody


async def _ask(question: Question) -> bool | None:
    """Ask on stderr; only a plain yes is a yes."""
    whole = f"{question.whole}\n\n" if question.whole else ""
    answer = await read_line(f"{whole}{question.message}\n{question.yes}? [y/N] ")
    return None if answer is None else answer.strip().lower() in ("y", "yes")


async def read_line(prompt: str, *, ctrl_c_ends: bool = True) -> str | None:
    """Read a line from the terminal after ``prompt`` on stderr; None at its end.

    Ctrl-C at the prompt ends the program, even where it would stop a job otherwise; or, where it
    must not end, whatever it stops at that time.
    """
    line = b""
    with _ctrl_c_ends_the_program() if ctrl_c_ends else contextlib.nullcontext():
        _forget_what_was_typed()
        output.ask(prompt)
        while not line.endswith(b"\n"):
            piece = await _read_piece(sys.stdin.fileno())
            if not piece:
                break
            line += piece
    return line.decode(sys.stdin.encoding, "replace").rstrip("\n") if line else None


def _forget_what_was_typed() -> None:
    """Drop what was typed before a question was shown: it is not an answer to that."""
    with contextlib.suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _read_piece(terminal: int) -> bytes:
    """Return what can be read at once; empty at the end. A thread that reads cannot be ended."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(terminal)
    try:
        return os.read(terminal, _PIECE)
    except OSError:
        return b""  # The terminal was closed.


def edit_text(text: str, suffix: str) -> str:
    """Have the user change ``text`` in their editor; return it, or nothing where that fails."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="aish-") as folder:
        file = Path(folder, f"command{suffix}")
        file.write_text(f"{text}\n", encoding="utf-8")
        try:
            done = subprocess.run([*editor, str(file)], check=False)
        except OSError as error:
            output.tell(f"{editor[0]}: {error.strerror}. Set EDITOR to yours.")
            return ""
        return file.read_text(encoding="utf-8").rstrip("\n") if done.returncode == 0 else ""


@contextlib.contextmanager
def _ctrl_c_ends_the_program() -> Iterator[None]:
    """Let Ctrl-C end the program for a while, whatever it does else.

    Nothing runs while a question stands, and what was asked is on the disk: there is nothing to
    wind up, and an exception in the middle of somebody's task would wind up the wrong things.
    """
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(_number: int, _frame: object) -> None:
    os.write(2, b"\n")
    os._exit(130)


@contextlib.asynccontextmanager
async def open_workspace(root: Path, ask: AskUser | None = None) -> AsyncIterator[Workspace]:
    """Open the workspace at ``root`` with the user's configuration; close it at the end.

    ``ask`` asks the user; by default this terminal does.
    """
    from aish_lsp.config.loading import Configuration  # noqa: PLC0415 - brings the validator

    services = Services(ask or asker(), tools_of=tools_of)
    workspace = Workspace(root, services, Configuration(root, services.trust))
    try:
        yield workspace
    finally:
        await workspace.aclose()
        await services.aclose()


def folder(text: str) -> Path:
    """Return the folder ``text`` names, absolute, for argparse."""
    path = Path(text)
    try:
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be used: {error.strerror}") from error
    raise argparse.ArgumentTypeError(f"{text} is not a folder")


def workspace_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder of the workspace that the command line is about.

    Raises:
        NotFound: none is named, and the current folder was deleted.
    """
    named: Path | None = arguments.workspace
    try:
        return named or Path.cwd()
    except OSError as error:
        msg = "The current folder is gone. Go to another, or name the workspace by --workspace."
        raise NotFound(msg) from error
