"""Emacs with editors/emacs, set up as docs/editors/emacs.md says, by a user's keys."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shlex
import shutil
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from editor_parts import CONVERSATION, QUESTION, Place, blocks
from lsprotocol import types

pytestmark = pytest.mark.editor

TIMEOUT = 180.0

PACKAGE = Path(__file__).resolve().parents[2] / "editors" / "emacs" / "aish.el"

#: Without the user's own files; those of the site say where Debian's packages are.
CLEAN = ["-q", "--no-splash"]

#: A new home has nothing compiled yet: in the background Emacs would do that now, for minutes,
#: with warnings in a window. A loaded machine needs more than the ten seconds that eglot waits.
#: It also waits for the server to answer, three seconds, but no longer once emacsclient comes: who
#: only presses keys has it wait.
QUIET = (
    "(progn (setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)"
    " (require 'jsonrpc) (setq jsonrpc-default-request-timeout 180"
    " eglot-connect-timeout 180 eglot-sync-connect t))"
)


@functools.cache
def find() -> str:
    """Return an Emacs that has eglot; skip where there is none."""
    program = shutil.which("emacs")
    if program is None or shutil.which("emacsclient") is None:
        pytest.skip("Emacs is not installed: apt-get install emacs-nox elpa-eglot")
    ask = "(kill-emacs (if (require 'eglot nil t) 0 3))"
    probe = [program, *CLEAN, "--batch", "--eval", QUIET, "--eval", ask]
    answer = subprocess.run(probe, capture_output=True, check=False).returncode
    assert answer in (0, 3)
    if answer == 3:
        pytest.skip("Emacs has no eglot: apt-get install elpa-eglot, or Emacs 29")
    return program


class Emacs:
    """Emacs in a terminal; emacsclient tells what its user sees."""

    def __init__(self, init: Path, file: Path) -> None:
        self._socket = init.with_name("emacs") / "server"
        listen = (
            "(progn (require 'server) (setq"
            f' server-socket-dir "{self._socket.parent}" server-name "{self._socket.name}")'
            " (server-start))"
        )
        argv = [
            find(),
            *CLEAN,
            "-nw",
            "--eval",
            QUIET,
            "--eval",
            listen,
            "-l",
            str(init),
            str(file),
        ]
        self._terminal, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        name = os.ttyname(terminal)
        # What a new session opens first becomes its terminal.
        self._process = subprocess.Popen(
            ["sh", "-c", f"exec {shlex.join(argv)} <{name} >{name} 2>&1"], start_new_session=True
        )
        self._printed = b""
        # What emacsclient answered last, also where it failed.
        self._said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.until("Emacs to start", "t")
        except BaseException:
            os.close(terminal)
            self.close()
            raise
        # Closed before Emacs has opened it, it would have ended for the reader.
        os.close(terminal)

    def close(self) -> None:
        """End it, and with it the server."""
        self._process.kill()
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        os.close(self._terminal)

    def keys(self, keys: str) -> None:
        """Press keys; C-c is written as "^c ".

        They go behind what Emacs has still to read, so that its command loop takes them one after
        another. A C-g that came by the terminal while Emacs answers emacsclient would end that
        answer, and not what the user would quit.
        """
        plain = re.sub(r"\^(.) ", lambda key: chr(ord(key[1].upper()) - 64), keys)
        events = f"(append unread-command-events (string-to-list {lisp(plain)}))"
        assert self.evaluate(f"(progn (setq unread-command-events {events}) t)") == "t"

    def evaluate(self, expression: str) -> str | None:
        """Return what an expression gives in the buffer that is seen; None where it fails."""
        seen = f"(with-current-buffer (window-buffer (minibuffer-selected-window)) {expression})"
        alone = f"(with-current-buffer (window-buffer) {expression})"
        done = subprocess.run(
            [
                *("emacsclient", "-s", self._socket, "--eval"),
                f"(if (minibuffer-selected-window) {seen} {alone})",
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        self._said = done.stdout + done.stderr
        return done.stdout.strip() if done.returncode == 0 else None

    def until(self, what: str, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + TIMEOUT
        while self.evaluate(expression) in {"nil", None}:
            said = self._said
            assert time.monotonic() < end, f"waited for: {what}; {said}\n{self.evaluate(STATE)}"
            time.sleep(0.05)

    def until_asked(self, text: str) -> None:
        """Wait until the minibuffer asks something in which ``text`` stands."""
        window = "(window-buffer (active-minibuffer-window))"
        found = f"(string-match-p {lisp(text)} (buffer-string))"
        self.until(text, f"(and (active-minibuffer-window) (with-current-buffer {window} {found}))")

    @property
    def printed(self) -> str:
        """What was printed on the terminal, without the codes that place and color it."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._printed.decode(errors="replace"))

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 1 << 16):
                self._printed += data
        except OSError:
            pass  # Emacs has ended


STATE = """
(list (buffer-string)
      (and (active-minibuffer-window)
           (with-current-buffer (window-buffer (active-minibuffer-window)) (buffer-string)))
      (list (window-list) (buffer-list))
      (with-current-buffer "*Messages*" (buffer-string)))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    # eglot 1.9 does not find a buffer whose path is not ASCII.
    made = Place.make(tmp_path, "work 1")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(made.programs), prepend=":")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return made


@contextmanager
def opened(folder: Path, file: Path) -> Iterator[Emacs]:
    """Open a file in the Emacs of somebody who has copied the page's lines to a folder."""
    init = folder / "init.el"
    [page] = blocks("emacs.md", "elisp")
    shutil.copy(PACKAGE, folder / "aish.el")
    init.write_text(page.replace("~/src/aish-lsp/editors/emacs", str(folder)))
    started = Emacs(init, file)
    try:
        yield started
        said = started.evaluate('(with-current-buffer "*Messages*" (buffer-string))')
    finally:
        started.close()
    # What fails behind the user's back is told nowhere else.
    assert said is not None
    assert not re.search("error (in|during)|invalid json", said, re.IGNORECASE), said


@pytest.fixture
def emacs(place: Place, tmp_path: Path) -> Iterator[Emacs]:
    place.ask_always()
    with opened(tmp_path, place.folder / "main.py") as started:
        yield started


def in_the_chat(emacs: Emacs) -> None:
    emacs.keys("^c ao")
    emacs.until("the chat", '(string-suffix-p "chat.md" buffer-file-name)')
    emacs.until("its server", "(and (eglot-current-server) t)")
    emacs.until("that the server manages it", "(eglot-managed-p)")


def test_a_conversation(emacs: Emacs, place: Place) -> None:
    in_the_chat(emacs)
    emacs.keys(f"{QUESTION}^c as")
    emacs.until("a reply", headings(2))

    emacs.keys("\x1b<^s CMD: make\r^c aa")
    emacs.until_asked("Pick an action")
    emacs.keys("\r")
    emacs.until_asked("default Cancel")
    emacs.keys("Run\r")
    emacs.until("some output", '(string-match-p "^tests ran" (buffer-string))')
    emacs.until("the output", '(string-match-p "tests ran\\n````\\n\\n> exit 0" (buffer-string))')

    emacs.keys("\x1b>did that work?^c as")
    emacs.until("a second reply", headings(3))
    end = time.monotonic() + TIMEOUT
    while emacs.evaluate(f"(string= (buffer-string) {lisp(told(place))})") != "t":
        assert time.monotonic() < end, f"{emacs.evaluate('(buffer-string)')}\n{told(place)}"
        time.sleep(0.1)
    assert QUESTION in told(place)
    assert "exit 0" in told(place).rpartition("## aish")[2]


def test_the_default_on_a_line_of_the_chat_is_to_run_it_or_to_edit_what_can_do_harm(
    emacs: Emacs,
) -> None:
    in_the_chat(emacs)
    for command, default in (("make test", "Run"), ("rm -rf build", "Edit and run")):
        # A word is marked: what eglot takes for the place.
        emacs.keys(f"\x1b>CMD: {command}\r\x1b<^s CMD: {command[:2]}\r\x1bb\x1b@^c aa")
        emacs.until_asked(f"Pick an action (default {default}: {command}")
        emacs.keys("^g ")
        emacs.until("no question", "(not (active-minibuffer-window))")


@pytest.mark.parametrize("answer", ["^g ", "\r", "Cancel\r"])
def test_to_quit_a_question_and_to_take_its_default_is_a_no(emacs: Emacs, answer: str) -> None:
    in_the_chat(emacs)
    emacs.keys("\x1b>:run rm main.py^c as")
    emacs.until_asked("default Cancel")
    # All of it is seen, although the minibuffer is small.
    shown = (
        '(with-current-buffer "*aish asks*" (string-match-p "^    rm main.py$" (buffer-string)))'
    )
    emacs.until("what would run", shown)
    window = '(get-buffer-window "*aish asks*")'
    emacs.until("its window", window)
    # What else is displayed meanwhile does not take it.
    assert emacs.evaluate('(progn (display-buffer (get-buffer-create "other")) t)') == "t"
    assert emacs.evaluate(window) != "nil"
    emacs.keys(answer)
    emacs.until("no question", "(not (active-minibuffer-window))")
    # At once, and not with the next command.
    emacs.until("a word", '(string-match-p "^> Not run" (buffer-string))')
    assert emacs.evaluate('(get-buffer "*aish asks*")') == "nil"
    assert emacs.evaluate('(file-exists-p "../main.py")') == "t"


@pytest.mark.parametrize("waits", ["t", "nil"])
def test_the_chat_is_served_where_emacs_waits_for_the_server_and_where_not(
    emacs: Emacs, place: Place, waits: str
) -> None:
    emacs.evaluate(f"(setq eglot-sync-connect {waits})")
    in_the_chat(emacs)
    assert emacs.evaluate("(project-root (eglot--current-project))") == lisp(f"{place.folder}/")
    # Also where the user goes to another folder in it.
    emacs.evaluate('(setq default-directory "/")')
    assert emacs.evaluate("(project-root (eglot--current-project))") == lisp(f"{place.folder}/")


def test_a_region_is_asked_about_from_any_buffer(emacs: Emacs) -> None:
    emacs.keys("^x h^c ar")
    emacs.until_asked("Ask about the region")
    emacs.keys("what is this?\r")
    emacs.until("a reply", headings(2))
    assert emacs.evaluate('(string-match-p "Sent along: main.py, line 1" (buffer-string))') != "nil"


def test_nothing_floods_the_messages(emacs: Emacs) -> None:
    in_the_chat(emacs)
    emacs.keys("\x1b>how do I run the tests here?^c as")
    emacs.until("a reply", headings(2))
    messages = (
        '(with-current-buffer "*Messages*" (how-many "eglot. \\(apply\\|Edit\\)" (point-min)))'
    )
    assert emacs.evaluate(messages) == "0"
    emacs.keys("\x1b>:run sleep 600^c as")
    emacs.until_asked("default Cancel")
    emacs.keys("Run\r")
    emacs.until("it goes on", '(string-match-p "sleep 600 [0-9]+ s" (aish--mode-line))')
    emacs.keys("^c ak")
    emacs.until("nothing goes on", '(equal (aish--mode-line) "")')


def test_outside_of_a_repository_the_chat_is_the_folders(emacs: Emacs, place: Place) -> None:
    (place.folder / ".git").rmdir()
    folder = lisp(f"{place.folder}/")
    finds = f"(lambda (_) (cons 'transient {folder}))"
    emacs.evaluate(f"(setq project-find-functions (list {finds}))")
    in_the_chat(emacs)
    emacs.keys("what is here?^c ^c ")
    emacs.until("a reply", headings(2))
    assert not (place.folder / ".aish" / ".aish").exists()


def test_a_question_is_asked_while_the_minibuffer_is_in_use(emacs: Emacs, place: Place) -> None:
    in_the_chat(emacs)
    emacs.keys("\x1b>:run rm main.py^c as\x1bx")
    emacs.until_asked("default Cancel")
    emacs.keys("^g ")
    emacs.until(
        "a word", '(string-match-p "Not run" (with-current-buffer "chat.md" (buffer-string)))'
    )
    emacs.keys("^g ")
    assert (place.folder / "main.py").exists()


def test_what_the_server_refuses_is_seen(emacs: Emacs) -> None:
    in_the_chat(emacs)
    # Nothing stands below the heading.
    emacs.keys("\x1b>^c as")
    emacs.until(
        "a word",
        '(with-current-buffer "*Messages*"'
        ' (string-match-p "^aish: Nothing is written under the last" (buffer-string)))',
    )


def test_a_server_that_is_not_there_is_told(emacs: Emacs) -> None:
    emacs.evaluate('(setq aish-command (list "no-such-aish"))')
    emacs.keys("^c ao")
    emacs.until(
        "a word",
        '(with-current-buffer "*Messages*" (string-match-p'
        ' "no-such-aish is not there: pipx install aish-lsp" (buffer-string)))',
    )


def test_a_conversation_by_keys(emacs: Emacs, place: Place) -> None:
    """The same as in Vim: ``CONVERSATION``."""
    place.config.write_text("")
    in_the_chat(emacs)
    emacs.keys(f"{CONVERSATION.question}^c ^c ")
    emacs.until("a reply", headings(2))
    emacs.keys("\x1b<^s CMD: \r^c ^c ")
    emacs.until("the output", '(string-match-p "> exit 0" (buffer-string))')
    emacs.keys(f"\x1b>{CONVERSATION.destructive}^c ^c ")
    emacs.until_asked("default Cancel")
    emacs.keys("\r")
    emacs.until("a word", '(string-match-p "^> Not run" (buffer-string))')
    emacs.until("a heading", headings(3))
    emacs.keys(f"\x1b>{CONVERSATION.follow_up}^c ^c ")
    emacs.until("a reply", headings(4))
    emacs.keys(f"\x1b>{CONVERSATION.long}^c ^c ")
    emacs.until("it runs", '(string-match-p "^> Running" (buffer-string))')
    emacs.keys("^c ^k ")
    emacs.until("the end", headings(5))
    assert CONVERSATION.shown_in(place.sessions()) == CONVERSATION.expected


def test_point_follows_a_long_reply_and_stays_where_it_is_moved(emacs: Emacs) -> None:
    in_the_chat(emacs)
    # Sent from the first of two lines.
    emacs.keys(":run seq 200\x1b<")
    emacs.until("point is elsewhere", "(= (point) (point-min))")
    emacs.keys("^c as")
    emacs.until_asked("default Cancel")
    emacs.keys("Run\r")
    emacs.until("the output", headings(2))
    emacs.until("the end is seen", "(and (eobp) (pos-visible-in-window-p (point-max)))")

    emacs.keys("how do I run the tests here?^c as\x1b<")
    emacs.until("a reply", headings(3))
    assert emacs.evaluate("(= (point) (point-min))") == "t"


def test_reply_that_a_killed_server_was_writing_is_ended_by_the_next_one(
    emacs: Emacs, place: Place
) -> None:
    place.config.write_text("")
    in_the_chat(emacs)
    emacs.keys(":run echo begun; sleep 600^c as")
    emacs.until("it runs", '(string-match-p "^begun" (buffer-string))')
    # It does not start one again that ended within its first seconds.
    emacs.until("its patience", "(not (eglot--inhibit-autoreconnect (eglot-current-server)))")
    process = "(jsonrpc--process (eglot-current-server))"
    emacs.evaluate(f"(signal-process (process-id {process}) 'SIGKILL)")
    emacs.until("its end", '(string-match-p "^> aish-lsp ended while writing" (buffer-string))')
    emacs.until("a heading", headings(2))


def test_run_far_above_the_end_goes_to_where_the_output_comes(emacs: Emacs, place: Place) -> None:
    place.config.write_text("")
    in_the_chat(emacs)
    emacs.keys(f"{CONVERSATION.question}^c ^c ")
    emacs.until("a reply", headings(2))
    emacs.keys("\x1b>:run seq 200^c ^c ")
    emacs.until("the output", headings(3))
    emacs.keys("\x1b<^s CMD: \r")
    emacs.until("it is far from the end", "(not (pos-visible-in-window-p (point-max)))")
    emacs.keys("^c ^c ")
    emacs.until("the output", '(string-match-p "^tests ran" (buffer-string))')
    emacs.until("the end is seen", "(and (eobp) (pos-visible-in-window-p (point-max)))")


def test_buffer_of_a_file_that_a_command_changes_is_read_again(emacs: Emacs, place: Place) -> None:
    in_the_chat(emacs)
    emacs.keys(":run echo changed > main.py^c as")
    emacs.until_asked("default Cancel")
    emacs.keys("Run\r")
    emacs.until("its end", headings(2))
    assert (place.folder / "main.py").read_text() == "changed\n"
    buffer = '(with-current-buffer "main.py" (buffer-string))'
    emacs.until("the buffer", f'(string= "changed\\n" {buffer})')


def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    shutil.copy(PACKAGE, tmp_path / "aish.el")
    compiling = ["--eval", "(setq byte-compile-error-on-warn t)", "-f", "batch-byte-compile"]
    done = subprocess.run(
        [find(), *CLEAN, "--batch", *compiling, str(tmp_path / "aish.el")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check = f'(progn (require (quote checkdoc)) (checkdoc-file "{tmp_path / "aish.el"}"))'
    done = subprocess.run(
        [find(), *CLEAN, "--batch", "--eval", check], capture_output=True, text=True, check=True
    )
    assert "Warning" not in done.stderr


def told(place: Place) -> str:
    """Return the chat as the server was told of it."""
    return place.text_as_told(place.chat, types.PositionEncodingKind.Utf16)


def headings(number: int) -> str:
    """Return the expression that the chat has so many headings to write under."""
    return f'(= {number} (how-many "^## You$" (point-min) (point-max)))'


def lisp(text: str) -> str:
    """Return a text as Lisp writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
