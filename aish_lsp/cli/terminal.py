"""The terminal: all output of the command line, and how it asks. No other module writes to it.

Much of the output comes from untrusted sources: a model, a command, a file, a session's log. It
must not move the cursor, change colors, reach the clipboard or overwrite a question, so only
visible characters, newlines and tabs are written. Results go to ``out``, everything else to
``err``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from aish_lsp.cli.spelling import for_shell
from aish_lsp.foundation.text import escaped, json_escaped, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.ports import Question, UserAnswer

#: How many bytes of a line to read at a time.
_PIECE = 4096

#: Seconds in which the next piece of a paste arrives.
_PASTE_SECONDS: Final = 0.1

#: Resets colors and other attributes.
_RESET: Final = "\x1b[0m"

_RETURNS: Final = re.compile(r"\r+\n?")


class OutputStream:
    """Writes text in pieces of any size, with invisible characters escaped.

    A carriage return ends the line, so that nothing is overwritten: each step of a progress bar
    gets its own line.
    """

    def __init__(self, file: Callable[[], TextIO]) -> None:
        self._file = file
        #: The file, while its last line is unfinished.
        self._open: TextIO | None = None
        # Carriage return at the end of the last piece, which a line feed may follow.
        self._return = ""

    def write(self, text: str) -> None:
        """Write ``text`` now."""
        text = self._return + text
        line = text.rstrip("\r")
        self._return = "\r" if len(line) < len(text) else ""
        if shown := visible(_RETURNS.sub("\n", line)):
            self._open = None if shown.endswith("\n") else self._file()
            self._put(shown)

    def end_line(self) -> None:
        """Start a new line, unless we are already at the start of one."""
        if self._open is not None and self._open is self._file():
            self._put("\n")
        self._open, self._return = None, ""

    def line(self, text: str) -> None:
        """Write ``text`` on separate lines."""
        self.end_line()
        self.write(text)
        self._put("\n")
        self._open, self._return = None, ""

    def rows(self, text: str) -> None:
        """Write the rows of a list, at a terminal with their words wrapped."""
        self.line(wrapped(text, listed=True) if self._file().isatty() else text)

    def styled(self, text: str, codes: str) -> None:
        """Write ``text`` on separate lines, with these attributes (SGR) if there are colours."""
        shown = visible(text)
        self.rendered(
            f"\x1b[{codes}m{shown}{_RESET}\n" if has_colours(self._file()) else f"{shown}\n"
        )

    def rendered(self, text: str) -> None:
        """Write whole lines that ``rendering`` has made safe, as they are."""
        self.end_line()
        if text:
            self._put(text)

    def prompt(self, text: str) -> None:
        """Write a question on a new line, and leave the line open; reset colors first."""
        self.end_line()
        if self._file().isatty() and not is_dumb():
            self._put(_RESET)
        self.write(text)
        # The user's Enter ends it.
        self._open = None

    def as_json(self, value: Any, *, indent: int | None = None) -> None:
        """Write ``value`` as JSON on one line, or on several with ``indent``."""
        self.json_line(json.dumps(value, ensure_ascii=False, indent=indent))

    def json_line(self, text: str) -> None:
        """Write ``text``, which is JSON, as a line, with invisible characters escaped."""
        file = self._file()
        file.flush()
        # Always UTF-8, regardless of the locale.
        file.buffer.write(json_escaped(text).encode() + b"\n")
        file.buffer.flush()

    def _put(self, text: str) -> None:
        file = self._file()
        file.write(text)
        file.flush()


out: Final = OutputStream(lambda: sys.stdout)
err: Final = OutputStream(lambda: sys.stderr)


def is_dumb() -> bool:
    """Return whether the terminal knows no control sequences."""
    return os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")


def has_colours(file: TextIO) -> bool:
    """Return whether to write colours to a file: to a terminal that knows them, if wanted."""
    return file.isatty() and not is_dumb() and not os.environ.get("NO_COLOR")


def tell(message: str) -> None:
    """Show the user a message that is not a result."""
    if sys.stdout.isatty():
        out.end_line()
    text = f"aish-lsp: {for_shell(message)}"
    err.line(wrapped(text) if sys.stderr.isatty() else text)


def columns() -> int:
    """Return the width of the terminal."""
    return shutil.get_terminal_size().columns


def from_home(path: Path) -> str:
    """Return a path for people, with ``~`` for the home folder."""
    shown, home = str(path), os.path.expanduser("~")  # noqa: PTH111 - Path's may raise
    return escaped(shown.replace(home, "~", 1) if f"{shown}/".startswith(f"{home}/") else shown)


def wrapped(text: str, *, listed: bool = False) -> str:
    """Return prose with its words wrapped; indented lines, such as commands, stay as they are.

    With ``listed``, each line is a row of a list: it is wrapped even if it is indented, and what
    follows its first line is indented further.
    """
    width, rows = columns(), []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if len(line) > width and (listed or not indent):
            below = " " * (indent + 2) if listed else ""
            line = textwrap.fill(  # noqa: PLW2901 - the same line, wrapped
                line,
                width,
                subsequent_indent=below,
                break_long_words=False,
                break_on_hyphens=False,
            )
        rows.append(line)
    return "\n".join(rows)


def refuse(error: AishError, *, as_json: bool) -> None:
    """Show an error to the user, and also write it to stdout with ``as_json``."""
    if as_json:
        out.as_json({"error": error.to_wire() | error.data})
    tell(error.message)


def can_ask() -> bool:
    """Return whether a user can answer at this terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_user(question: Question, *, ctrl_c_ends: bool = True) -> UserAnswer:
    """Ask on stderr; only a plain yes is a yes. ``ctrl_c_ends`` is as for ``read_line``."""
    text, prompt = shown_question(question)
    return meant(question, await read_line(f"{text}\n{prompt}", ctrl_c_ends=ctrl_c_ends))


def shown_question(question: Question) -> tuple[str, str]:
    """Return what to show of a question, and the line behind which it is answered."""
    # A diff is shown as it is: a part of a line below it would be taken for a line of its own.
    whole = f"{question.whole}\n\n" if question.whole else ""
    text = f"{whole}{wrapped(for_shell(question.message))}"
    if not question.remember:
        return text, f"{question.yes}? [y/N] "
    # The first letter of how long it is remembered: s, f.
    rows = [f"  {scope[0]}  {label}" for scope, label in question.remember.items()]
    keys = "/".join(scope[0] for scope in question.remember)
    return "\n".join([text, "", f"  y  {question.yes}", *rows]), f"[y/{keys}/N] "


def meant(question: Question, answer: str | None) -> UserAnswer:
    """Return what a typed answer to a question means."""
    if answer is None:
        return None
    word = answer.strip().lower()
    scopes = (scope for scope in question.remember if word in (scope, scope[0]))
    return next(scopes, word in ("y", "yes"))


async def read_secret(prompt: str) -> str | None:
    """Read what is typed or pasted, without showing it; None at the end of the input.

    A paste may begin with empty lines, and is read to its end.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    hidden = [*before[:3], before[3] & ~termios.ECHO | termios.ECHONL, *before[4:]]
    restore = partial(termios.tcsetattr, terminal, termios.TCSAFLUSH, before)
    termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
    text = b""
    try:
        with _ctrl_c_ends_the_program(restore):
            err.prompt(prompt)
            while not text.endswith(b"\n") or select.select([terminal], [], [], _PASTE_SECONDS)[0]:
                piece = await _read_piece(terminal)
                if not piece:
                    break
                text += piece
    finally:
        restore()
    return text.decode(sys.stdin.encoding, "replace").strip() if text else None


async def read_line(prompt: str, *, ctrl_c_ends: bool = True) -> str | None:
    """Read a line from the terminal after ``prompt`` on stderr; None at the end of the input.

    Ctrl-C at the prompt ends the program, even if it would otherwise stop a job. Without
    ``ctrl_c_ends``, it does what it otherwise does.
    """
    line = b""
    with _ctrl_c_ends_the_program() if ctrl_c_ends else contextlib.nullcontext():
        discard_typeahead()
        if sys.stdout.isatty():
            out.end_line()
        err.prompt(prompt)
        while not line.endswith(b"\n"):
            piece = await _read_piece(sys.stdin.fileno())
            if not piece:
                break
            line += piece
    return line.decode(sys.stdin.encoding, "replace").rstrip("\n") if line else None


async def read_plainly(prompt: str) -> str:
    """Return a line. This blocks the event loop, but nothing else runs meanwhile.

    Raises:
        EOFError: the input has ended.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt)  # noqa: ASYNC250 - see above
    except KeyboardInterrupt:
        return ""
    finally:
        signal.signal(signal.SIGINT, before)


def discard_typeahead() -> None:
    """Discard what was typed before the question was shown, as it is not an answer to it."""
    with contextlib.suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _read_piece(terminal: int) -> bytes:
    """Return the available input; empty at the end.

    This does not read in a thread, since that could not be ended.
    """
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


def edit_line(prompt: str, text: str) -> str:
    """Let the user change a line, with line editing; return it, empty at the end of the input.

    This blocks the event loop, but nothing else runs meanwhile. Ctrl-C ends the program.
    """
    import readline  # noqa: PLC0415 - for this alone

    discard_typeahead()
    err.end_line()
    readline.set_startup_hook(lambda: readline.insert_text(text))
    # The exception has readline restore the terminal, before the program ends.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt)
    except EOFError:
        return ""
    except KeyboardInterrupt:
        _exit(signal.SIGINT, None)
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        readline.set_startup_hook(None)


def edit_command(text: str) -> str:
    """Let the user change a command in their editor; return it, or nothing if that fails."""
    names = (os.environ.get(variable, "").strip() for variable in ("VISUAL", "EDITOR"))
    editor = next(filter(None, names), "vi")
    with tempfile.TemporaryDirectory(prefix="aish-") as folder:
        file = Path(folder, "command.sh")
        file.write_text(f"{text}\n", encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
            return file.read_text(encoding="utf-8").rstrip("\n") if done.returncode == 0 else ""
        except OSError as error:
            tell(f"{editor}: {error.strerror}. Set EDITOR to your editor.")
        except ValueError as error:
            # Unbalanced quotes in the variable, or a file that is no longer UTF-8.
            tell(f"{editor}: {error}")
    return ""


@contextlib.contextmanager
def _ctrl_c_ends_the_program(restore: Callable[[], object] = object) -> Iterator[None]:
    """Let Ctrl-C end the program during the block, after calling ``restore``.

    Nothing runs while a question is open, and the conversation is on the disk, so there is nothing
    to clean up. An exception in the middle of some task would clean up the wrong things.
    """

    def end(number: int, frame: object) -> None:
        restore()
        _exit(number, frame)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit(_number: int, _frame: object) -> None:
    os.write(2, b"\n")
    os._exit(130)
