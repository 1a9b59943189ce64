"""How a message says to a shell what it says to the chat: its ``:`` commands, spelled for a shell.

Messages name the commands of the chat, in which most of them are read. What the shell has no
command for is done in ``aish-lsp chat``.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final

#: Whether ``:`` commands can be typed where messages appear, as in ``aish-lsp chat``.
in_chat: ContextVar[bool] = ContextVar("in_chat", default=False)

_CITED: Final = re.compile(r"`:([a-z][^`\n]*)`(?: in the chat)?")

#: Commands of the chat that the shell has too, and how they are spelled there.
_IN_SHELL: Final = tuple(
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (r"model add\b.*", "aish-lsp setup"),
        (r"model ([^ ]+)|retry (NAME)", r"--model \1\2"),
        (r"model|models", "aish-lsp models"),
        (r"remember (.+)", r"aish-lsp memory add \1"),
        (r"memory (list|add|forget|edit|clear)\b(.*)", r"aish-lsp memory \1\2"),
        (r"(sessions|session list)", "aish-lsp sessions"),
        (r"approvals\b(.*)", r"aish-lsp approvals\1"),
        (r"resume ([^ ]+)", r"aish-lsp chat --session \1"),
        (r"resume", "aish-lsp chat --continue"),
        (r"norris (?!resume|stop)(.+)", r'aish-lsp norris "\1"'),
    )
)


def for_shell(message: str) -> str:
    """Return ``message`` with the commands of the chat spelled as one types them here."""
    return message if in_chat.get() else _CITED.sub(_spelled, message)


def _spelled(cited: re.Match[str]) -> str:
    for pattern, spelling in _IN_SHELL:
        if match := pattern.fullmatch(cited[1]):
            return f"`{match.expand(spelling)}`"
    return f"`:{cited[1]}` in `aish-lsp chat`"
