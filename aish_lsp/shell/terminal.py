"""Tells from its output a command that wants a terminal, where there is none: it says so itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

#: Characters at the end of an output that are looked at: what a command gave up for comes last.
_LAST_WORDS: Final = 4096

#: What an editor says that then waits for keys which never come.
_WAITS: Final = re.compile(
    r"^Vim: Warning: (?:Output is not to|Input is not from) a terminal", re.MULTILINE
)

#: What a command says that gives up: of an editor, a password, a question, a full screen.
_GAVE_UP: Final = re.compile(
    r"""
      a[ ]terminal[ ]is[ ]required | no[ ]tty[ ]present | a[ ]password[ ]is[ ]required
    | (?:is[ ]not|not|must[ ]be|connected[ ]to|run[ ]from)[ ]an?[ ](?:tty|terminal)\b
    | failed[ ]tty[ ]get | Error[ ]opening[ ]terminal | open[ ]terminal[ ]failed
    | Terminal[ ]is[ ]dumb | terminal[ ]prompts[ ]disabled
    | /dev/tty\b.{0,40}No[ ]such[ ]device
    | (?:agent|stdin|standard[ ]input).{0,20}Inappropriate[ ]ioctl[ ]for[ ]device
    | ^EOFError\b | Host[ ]key[ ]verification[ ]failed
    | Permission[ ]denied[ ]\([^)\n]{0,80}(?:password|keyboard-interactive)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def waits_for_terminal(printed: str) -> bool:
    """Return whether who ``printed`` this to stderr is likely to wait for keys for ever."""
    return _WAITS.search(printed) is not None


def gave_up_for_terminal(output: str) -> bool:
    """Return whether a command that failed with this output did so for want of a terminal."""
    return _GAVE_UP.search(output[-_LAST_WORDS:]) is not None


def line_for_terminal(text: str, folder: Path) -> str:
    """Return what the user can paste into a terminal of their own to run ``text`` in ``folder``."""
    return f"cd {shlex.quote(str(folder))} && {text}"
