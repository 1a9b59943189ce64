"""What the editor's terminal ran last, where a question names it: ``@terminal``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aish_lsp.context.attached.mentions import Named, mentions
from aish_lsp.context.attached.selection import EACH_END
from aish_lsp.context.budget import shortened
from aish_lsp.context.messages import Attached
from aish_lsp.foundation.text import clipped, escaped, one_line
from aish_lsp.shell.output import clean_output

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import ReadTerminal

#: How a question names it. A file that is called so is ``@./terminal``.
TERMINAL: Final = Named("terminal")

#: Characters of an output that are looked at, from its end, and of the command that are shown.
_MOST: Final = 1 << 20
_COMMAND: Final = 200


async def named_terminal(question: str, read: ReadTerminal) -> tuple[list[Attached], str]:
    """Return what the terminal ran, where ``question`` names it; else why it is not sent."""
    if not any(TERMINAL in mention.readings for mention in mentions(question)):
        return [], ""
    shown = await read()
    if shown is None:
        return [], "The editor does not tell what its terminal ran last: @terminal was not sent."
    command = clipped(escaped(one_line(shown.command)), _COMMAND) or "its last lines"
    ended = "" if shown.exit_code is None else f"exit {shown.exit_code}"
    place = f"in {escaped(one_line(shown.cwd))}" if shown.cwd else ""
    head = ", ".join(filter(None, (ended, place)))
    output = clean_output(shown.output[-_MOST:]).strip("\n")
    ran = f"$ {shown.command}\n" if shown.command else ""
    text = f"{ran}{output}\n" + (f"({head})\n" if head else "")
    return [shortened(Attached("terminal", command, text, "console"), EACH_END)], ""
