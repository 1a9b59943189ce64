"""Vim with ALE and editors/vim, set up as docs/editors/vim.md says, by a user's keys."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from editor_parts import CONVERSATION, Place, blocks

pytestmark = pytest.mark.editor

TIMEOUT = 180.0

PLUGIN = Path(__file__).resolve().parents[2] / "editors" / "vim"


def find() -> str:
    """Return Vim; skip where it is not there."""
    program = shutil.which("vim")
    if program is None:
        pytest.skip("Vim is not installed: apt-get install vim-nox")
    return program


class Vim:
    """Vim in a terminal, with the configuration of a user whose home is ``home``."""

    def __init__(self, file: Path) -> None:
        self._terminal, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self._process = subprocess.Popen(
            [find(), str(file)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=file.parent,
            start_new_session=True,
        )
        os.close(terminal)
        self.printed = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        """End it, and with it the server."""
        self._process.kill()
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        os.close(self._terminal)

    def keys(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def until(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something has happened."""
        end = time.monotonic() + TIMEOUT
        while not happened():
            assert time.monotonic() < end, f"waited for: {what}\n{self.printed[-1500:]!r}"
            time.sleep(0.05)

    def until_shown(self, text: str) -> None:
        """Wait until a text is printed, then forget what was printed up to it."""
        self.until(text, lambda: text.encode() in self.printed)
        self.printed = self.printed.partition(text.encode())[2]

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 1 << 16):
                self.printed += data
        except OSError:
            pass  # Vim has ended


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place.make(tmp_path, "work 1")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(made.programs), prepend=":")
    monkeypatch.setenv("TERM", "xterm")
    return made


def configure(text: str) -> None:
    """Install the plugin as the page says, with this in the user's configuration."""
    home = Path(os.environ["HOME"])
    shutil.copytree(PLUGIN, home / ".vim" / "pack" / "aish" / "start" / "aish")
    (home / ".vimrc").write_text(text)


def needs_ale() -> None:
    """Skip where Vim has no ALE."""
    probe = "if globpath(&packpath, 'pack/*/opt/ale') == '' | cquit | else | quit | endif"
    answer = subprocess.run([find(), "-Nes", "-c", probe], check=False).returncode
    assert answer in (0, 1)
    if answer == 1:
        pytest.skip("Vim has no ALE: apt-get install vim-ale")


@pytest.fixture
def vim(place: Place) -> Iterator[Vim]:
    needs_ale()
    [page] = blocks("vim.md", "vim")
    configure(page)
    started = Vim(place.folder / "main.py")
    yield started
    started.close()


def test_a_conversation_with_ale(vim: Vim, place: Place) -> None:
    def holds(text: str, times: int = 1) -> Callable[[], bool]:
        return lambda: place.chat.exists() and place.chat.read_text().count(text) == times

    vim.until_shown("print()")
    vim.keys("\\ao")
    vim.until_shown("## You")
    vim.keys("Ahow do I run the tests here?\x1b\\aa")
    vim.until_shown("Send")
    vim.until_shown("Type number")
    vim.keys("1\r")
    vim.until("a reply", holds("## You", 2))
    # Vim reads the file by itself.
    vim.until_shown("CMD: ")
    vim.keys("gg/^CMD: make\r\\aa")
    vim.until_shown("Run: make test")
    vim.until_shown("Type number")
    vim.keys("1\r")
    vim.until("the output", holds("\ntests ran\n````\n\n> exit 0"))
    # The heading to write under came once, although Vim had not loaded it when it was looked for.
    vim.until("one open heading", holds("## You", 2))
    assert place.chat.read_text().endswith("\n\n## You\n\n")


def test_a_command_that_takes_its_time_with_ale(vim: Vim, place: Place) -> None:
    """Vim reads the file while the line that it runs stands there, and again when it is gone."""
    (place.folder / "Makefile").write_text(
        "test:\n\t@echo tests began\n\t@sleep 3\n\t@echo tests ran\n\t@sleep 3\n\t@echo over\n"
    )

    def shown(*parts: str) -> Callable[[], bool]:
        return lambda: place.chat.exists() and all(part in place.chat.read_text() for part in parts)

    vim.until_shown("print()")
    vim.keys("\\ao")
    vim.until_shown("## You")
    vim.keys("Ahow do I run the tests here?\x1b\\aa")
    vim.until_shown("Type number")
    vim.keys("1\r")
    vim.until("a reply", lambda: place.chat.read_text().count("## You") == 2)
    vim.until_shown("CMD: ")
    before = place.chat.read_text()
    vim.keys("gg/^CMD: make\r\\aa")
    vim.until_shown("Run: make test")
    vim.until_shown("Type number")
    vim.keys("1\r")
    vim.until("what it runs", shown("> Running (", "tests began"))
    # Vim shows what the file held when it looked.
    vim.until_shown("tests began")
    vim.until("the end", shown("over", "> exit 0"))
    vim.until("one line that it runs", lambda: "> Running" not in place.chat.read_text())
    text = place.chat.read_text()
    output = "\n````console\n$ make test\ntests began\ntests ran\nover\n````\n\n> exit 0 after "
    begin, told, end = text.partition(output)
    assert told, text
    assert before.startswith(begin), text
    assert end.endswith("\n\n## You\n\n"), text
    assert end.count("#") == 2, text
    # Nothing that Vim held is written over it.
    vim.keys(":checktime\r:wall\r")
    vim.until_shown("> exit 0")
    assert place.chat.read_text() == text


def test_with_vim_lsp_the_server_is_told_of_its_edits_without_a_key(place: Place) -> None:
    """The plugin tells a server of changes at a key only; a stand-in notes when it is told to."""
    told = place.folder / "told"
    plugin = Path(os.environ["HOME"], ".vim", "autoload", "lsp.vim")
    plugin.parent.mkdir(parents=True)
    plugin.write_text(
        "function! lsp#get_server_status(name) abort\n"
        "  return a:name ==# 'aish' ? 'running' : 'unknown server'\n"
        "endfunction\n"
        "function! lsp#register_server(server) abort\n"
        "endfunction\n"
        "function! lsp#ensure_flush_all(buffer, names) abort\n"
        f"  call writefile(getbufline(a:buffer, 1, '$') + a:names, '{told}')\n"
        "endfunction\n"
    )
    # What the server would do to a chat that is in no window, while nobody presses a key.
    place.chat.parent.mkdir()
    place.chat.write_text("## You\n")
    configure(
        "autocmd VimEnter * doautocmd User lsp_setup\n"
        f"call timer_start(500, {{-> setbufline(bufnr('{place.chat.name}'), 1, '## aish')}})\n"
    )
    started = Vim(place.chat)
    try:
        started.until_shown("## You")
        started.keys(":edit ../main.py\r")
        # It is told again and again, so the file may be caught half written.
        started.until("it", lambda: told.exists() and told.read_text() == "## aish\naish\n")
    finally:
        started.close()


def test_a_conversation_by_keys(vim: Vim, place: Place) -> None:
    """The same as in Emacs: ``CONVERSATION``."""

    def holds(text: str, times: int = 1) -> Callable[[], bool]:
        return lambda: place.chat.exists() and place.chat.read_text().count(text) == times

    def ask(text: str, headings: int) -> None:
        vim.keys(f":checktime\rG:execute 'normal! A{text}'\r\\as")
        vim.until(text, holds("## You", headings))

    vim.until_shown("print()")
    vim.keys("\\ao")
    vim.until_shown("## You")
    ask(CONVERSATION.question, 2)
    vim.until_shown("CMD: ")
    vim.keys("gg/^CMD: make\r\\aa")
    vim.until_shown("Type number")
    vim.keys("1\r")
    vim.until("the output", holds("> exit 0"))
    vim.until_shown("> exit 0")
    # Nobody can be asked: it is not run.
    vim.keys(f":checktime\rG:execute 'normal! A{CONVERSATION.destructive}'\r\\as")
    vim.until("it asks", lambda: CONVERSATION.destructive in place.chat.read_text())
    said = holds("## You", 3)
    while not said():
        # It may not have come there yet.
        vim.keys("\\ac")
        time.sleep(0.5)
    vim.until("a word", holds("## You", 3))
    assert (place.folder / "main.py").exists()
    ask(CONVERSATION.follow_up, 4)
    vim.keys(f":checktime\rG:execute 'normal! A{CONVERSATION.long}'\r\\as")
    vim.until("it runs", holds("> Running ("))
    vim.keys("\\ac")
    vim.until("the end", holds("## You", 5))
    assert CONVERSATION.shown_in(place.sessions()) == CONVERSATION.expected


def run_script(*commands: str) -> subprocess.CompletedProcess[str]:
    """Run Vim without a screen, with the user's configuration; return what it said."""
    arguments = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        [find(), "-N", "-u", str(Path(os.environ["HOME"], ".vimrc")), "-es", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def test_what_the_server_refuses_is_seen_with_ale(vim: Vim, place: Place) -> None:
    vim.until_shown("print()")
    vim.keys("\\ao")
    vim.until_shown("## You")
    # Nothing stands below the heading.
    vim.keys("\\as")
    vim.until_shown("aish: ")


def test_a_file_that_ale_has_no_server_for_is_told(vim: Vim) -> None:
    vim.until_shown("print()")
    vim.keys(":edit Makefile\r")
    vim.until_shown("tests ran")
    vim.keys("\\ac")
    vim.until_shown("aish: no server for this kind of file")


def test_the_linters_that_ale_would_choose_are_still_there(vim: Vim, place: Place) -> None:
    """ALE takes what is listed for a language in place of its own choice."""
    vim.until_shown("print()")
    found = {}
    for name, before in (("with", ""), ("without", "let g:loaded_aish = 1\n")):
        home = Path(os.environ["HOME"])
        home.joinpath(".vimrc").write_text(f"{before}packadd! ale\n")
        file = place.folder / name
        languages = ["python", "sh", "c", "javascript", "markdown", "text"]
        chosen = f"map({languages}, {{_, l -> join(map(ale#linter#Get(l), 'v:val.name'))}})"
        done = run_script(
            "runtime! plugin/*.vim", "runtime! plugin/aish.vim",
            f"call writefile({chosen}, '{file}')", "quit",
        )  # fmt: skip
        assert file.exists(), done
        found[name] = [line.split() for line in file.read_text().splitlines()]
    assert any(found["without"])
    assert found["with"] == [[*chosen, "aish"] for chosen in found["without"]]


def test_without_a_client_one_message_says_what_to_do(place: Place) -> None:
    configure("")
    done = run_script("runtime! plugin/aish.vim", "AishChat", "verbose messages", "quit")
    assert "it needs vim-lsp or ALE" in done.stdout + done.stderr


def test_keys_of_the_users_are_left_alone(place: Place) -> None:
    configure(
        "let g:mapleader = ' '\nmap <leader>x <Plug>(aish-chat)\nlet g:aish_client = 'vim_lsp'\n"
    )
    there = "maparg(' ao', 'n') == '' && maparg(' as', 'n') != '' && exists(':AishStop')"
    done = run_script("runtime! plugin/aish.vim", f"if {there} | quit | else | cquit | endif")
    assert done.returncode == 0, done.stdout + done.stderr
