"""All that the command line writes: no other module of it touches stdout or stderr.

Much of it was written by others: a model, a command, a file, a session's log. None of that may move
the cursor, change colors, reach the clipboard or overwrite a question, so only what is seen gets
through, with newlines and tabs. Results go to ``out``, all else to ``err``.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from aish_lsp.foundation.text import json_escaped, visible

if TYPE_CHECKING:
    from collections.abc import Callable

#: Ends colors and other attributes.
_RESET: Final = "\x1b[0m"

_RETURNS: Final = re.compile(r"\r+\n?")


class Output:
    """Where text is written in pieces of any size, made fit to be seen.

    A carriage return ends the line, so that nothing is written over: each step of a progress bar
    has a line of its own.
    """

    def __init__(self, file: Callable[[], TextIO]) -> None:
        self._file = file
        #: The file whose last line is not ended.
        self._open: TextIO | None = None
        # A line feed may follow it.
        self._return = ""

    def write(self, text: str) -> None:
        """Write ``text`` now."""
        text = self._return + text
        kept = text.rstrip("\r")
        self._return = "\r" if len(kept) < len(text) else ""
        if shown := visible(_RETURNS.sub("\n", kept)):
            self._open = None if shown.endswith("\n") else self._file()
            self._put(shown)

    def end_line(self) -> None:
        """Begin a new line, unless that is where we are."""
        if self._open is not None and self._open is self._file():
            self._put("\n")
        self._open, self._return = None, ""

    def line(self, text: str) -> None:
        """Write ``text`` on lines of its own."""
        self.end_line()
        self.write(text)
        self._put("\n")
        self._open, self._return = None, ""

    def styled(self, text: str, style: str) -> None:
        """Write ``text`` on lines of its own, in a style of rich's where there are colors."""
        # Only for a person. A text as such is not searched for markup, links or emoji.
        from rich.console import Console  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self.end_line()
        console = Console(file=self._file(), highlight=False, soft_wrap=True)
        console.print(Text(visible(text), style))

    def prompt(self, text: str) -> None:
        """Write a question on a new line, and leave that open; no color is left from before."""
        self.end_line()
        if self._file().isatty():
            self._put(_RESET)
        self.write(text)
        # The user's Enter ends it.
        self._open = None

    def as_json(self, value: Any, *, indent: int | None = None) -> None:
        """Write ``value`` as JSON on a line, or more with ``indent``."""
        self.json_line(json.dumps(value, ensure_ascii=False, indent=indent))

    def json_line(self, text: str) -> None:
        """Write ``text``, which is JSON, on a line; what is not seen in it is escaped."""
        file = self._file()
        file.flush()
        # UTF-8, wherever the terminal is.
        file.buffer.write(json_escaped(text).encode() + b"\n")
        file.buffer.flush()

    def _put(self, text: str) -> None:
        file = self._file()
        file.write(text)
        file.flush()


out: Final = Output(lambda: sys.stdout)
err: Final = Output(lambda: sys.stderr)


def tell(message: str) -> None:
    """Tell the user something that is not a result."""
    if sys.stdout.isatty():
        out.end_line()
    err.line(f"aish-lsp: {message}")


def ask(question: str) -> None:
    """Write a question to the user, who answers on its last line."""
    if sys.stdout.isatty():
        out.end_line()
    err.prompt(question)
