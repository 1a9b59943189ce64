"""``aish-lsp chat``, in a real terminal of its own, on the offline model."""

from __future__ import annotations

import asyncio
import bisect
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fault_server import FaultServer, Peer, Request, chunk_of

pytestmark = pytest.mark.slow

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()=>].?|\][^\x07]*\x07)")

#: How prompt_toolkit begins to read: pasted text is to be marked.
_READS = "\x1b[?2004h"

#: Makes the terminal that it is started at its own, and becomes what it is told to.
LEADER = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def _cleaned(text: str) -> str:
    return _SEQUENCE.sub("", text).replace("\r", "")


class Terminal:
    """A program at a terminal; all that it ever wrote there."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self._process, self._fd = process, fd
        self.raw = ""
        self._seen = 0
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
        self.raw += data.decode(errors="replace")
        self._changed.set()

    @property
    def text(self) -> str:
        """What it wrote since ``until`` last returned, without control sequences."""
        return _cleaned(self.raw[self._seen :])

    async def until(self, text: str) -> str:
        """Wait until it has written ``text``; return all up to that."""
        await self._wait(lambda: text in self.text, text)
        new = self.raw[self._seen :]
        length = bisect.bisect_left(range(len(new)), 1, key=lambda end: text in _cleaned(new[:end]))
        self._seen += length
        return _cleaned(new[:length])

    async def prompted(self) -> None:
        """Wait until it reads a message."""
        await self._wait(lambda: _READS in self.raw[self._seen :], "the prompt")
        self._seen = self.raw.index(_READS, self._seen) + len(_READS)

    async def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(90):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pytest.fail(f"waited for {what!r} in {self.text!r}")

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    async def line(self, text: str) -> None:
        """Type a line once it is asked for."""
        await self.prompted()
        self.type(f"{text}\r")

    async def ended(self) -> int:
        async with asyncio.timeout(90):
            while (code := self._process.poll()) is None:
                await asyncio.sleep(0.05)
        return code


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("the answer is 42\n")
    return folder


@asynccontextmanager
async def chatting(project: Path, *arguments: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    home = project.parent
    environment = {
        **os.environ,
        "HOME": str(home),
        "AISH_CONFIG": str(home / "config.toml"),
        "AISH_DATA_DIR": str(home / "data"),
        "AISH_DISCOVERY": "off",
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            LEADER,
            sys.executable,
            "-m",
            "aish_lsp",
            "chat",
            "--workspace",
            str(project),
            *arguments,
        ],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    terminal = Terminal(process, ours)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)


async def test_a_conversation(project: Path) -> None:
    async with chatting(project) as chat:
        await chat.line("how do I list the files here?")
        await chat.until("[1] ls -la  (safe)")
        await chat.line(":run 1")
        await chat.until("notes.txt")
        await chat.until("exit 0")
        await chat.line(":remember it is sunny")
        await chat.until("Remembered as item 1")
        await chat.line(":prompt and now?")
        await chat.until("(fact) it is sunny")
        await chat.until("user\n")
        await chat.until("exit 0")
        await chat.until("and now?")
        await chat.line(":modle")
        await chat.until("Did you mean `:model`")
        await chat.line("!echo $((6 * 7))")
        await chat.until("42\n")
        await chat.line("exit")
        assert await chat.ended() == 0
    data = project.parent / "data"
    [log] = data.glob("workspaces/*/sessions/*.jsonl")
    assert "how do I list" in log.read_text()
    assert data.stat().st_mode & 0o777 == 0o700


async def test_what_is_destructive_asks_and_ctrl_c_is_a_no(project: Path) -> None:
    async with chatting(project) as chat:
        await chat.line(":run rm -rf notes.txt")
        await chat.until("Run? [y/N]")
        chat.type("n\r")
        await chat.until("aish-lsp: not run")
        await chat.line(":run rm -rf notes.txt")
        await chat.until("Run? [y/N]")
        chat.type("\x03")
        await chat.line(":memory add fact x")
        await chat.line(":memory clear")
        await chat.until("Forget all? [y/N]")
        chat.type("\x03")
        await chat.line(":memory")
        await chat.until("(fact) x")
        assert (project / "notes.txt").exists()
        await chat.line(":run rm -rf notes.txt")
        await chat.until("Run? [y/N]")
        chat.type("y\r")
        await chat.until("exit 0")
        assert not (project / "notes.txt").exists()


async def test_ctrl_c_stops_a_reply_and_not_the_program(project: Path) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("a beginning \x1b[31m[red]no[/red]\n\n"))
        await peer.wait_closed()

    async with FaultServer(script) as server:
        model = f'[models.m]\nendpoint = "{server.url}"\nmodel = "m"\ncontext_window = 8192\n'
        (project.parent / "config.toml").write_text(f'default_model = "m"\n{model}')
        async with chatting(project) as chat:
            await chat.line("why?")
            await chat.until(r"a beginning \x1b[31m[red]no[/red]")
            chat.type("\x03")
            await chat.until("stopped")
            await chat.line(":history")
            await chat.until("ended: cancelled")
            await chat.line(":run sleep 1000")
            await chat.until("$ sleep 1000")
            chat.type("\x03")
            await chat.until("stopped after ")
            await chat.prompted()
            chat.type("half a message\x03")
            await chat.line(":sessions")
            await chat.until("why?")
            assert "half a message" not in await chat.until("1 question")


async def test_commands_and_files_complete(project: Path) -> None:
    async with chatting(project) as chat:
        await chat.prompted()
        chat.type(":contex")
        await chat.until("where the tokens")
        chat.type("\t\r")
        await chat.until("tokens (")
        await chat.prompted()
        chat.type("@not")
        await chat.until("notes.txt")
        chat.type("\t says what?\r")
        await chat.line("exit")
        assert await chat.ended() == 0
    [log] = (project.parent / "data").glob("workspaces/*/sessions/*.jsonl")
    asked = json.loads(log.read_text().splitlines()[1])
    assert asked["content"] == "@notes.txt says what?"
    assert asked["attached"][0]["text"].startswith("the answer is 42")


async def test_a_placeholder_is_to_be_filled_in_and_is_not_run(project: Path) -> None:
    async with chatting(project) as chat:
        await chat.line("delete a folder")
        await chat.until("[1] rm -r <folder>  (destructive, fill in <folder>)")
        await chat.line(":run 1")
        await chat.until("Not run: fill in <folder> first: edit the command")


async def test_lines_from_a_pipe(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISH_CONFIG", str(project.parent / "config.toml"))
    monkeypatch.setenv("AISH_DATA_DIR", str(project.parent / "data"))
    monkeypatch.setenv("AISH_DISCOVERY", "off")
    command = [sys.executable, "-m", "aish_lsp", "chat", "--workspace", str(project)]
    lines = "how do I list the files here?\n:run 1\n:nosuch\n"
    told = await asyncio.to_thread(
        subprocess.run, command, input=lines, capture_output=True, text=True, check=True
    )
    assert "[1] ls -la  (safe)" in told.stdout
    assert "notes.txt" in told.stdout
    assert "no command `:nosuch`" in told.stderr
    told = await asyncio.to_thread(
        subprocess.run,
        [*command, "--continue", "--json"],
        input=":memory\n:norris say\n",
        capture_output=True,
        text=True,
        check=True,
    )
    *said, refused = [json.loads(line) for line in told.stdout.splitlines() if line]
    assert "continues, with 2 messages" in said[0]["text"]
    assert "Nothing is remembered" in said[1]["text"]
    assert (refused["error"]["kind"], refused["error"]["path"]) == ("invalidArgument", "text")
