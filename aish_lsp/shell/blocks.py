"""What the fenced blocks of a reply suggest: the command in one that is tagged as a shell's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aish_lsp.shell.console import (
    commands_of,
    is_console,
    is_powershell,
    powershell_commands_of,
)

#: What marks a line of a reply as a command.
PREFIX: Final = "CMD: "

#: The tags that make a block a suggestion, with the shell that runs it; empty: the user's own.
SHELL_TAGS: Final[Mapping[str, str]] = {
    "sh": "sh",
    "bash": "bash",
    "zsh": "zsh",
    "fish": "fish",
    "ksh": "ksh",
    "shell": "",
    "console": "",
    "shell-session": "",
    "powershell": "pwsh",
    "pwsh": "pwsh",
}

#: Of them, what shows a terminal: its commands behind prompts, and what they printed.
_CONSOLES: Final = frozenset({"console", "shell-session"})

_TAG: Final = re.compile(r"[\w-]+")

#: What stands for something that only the user knows.
_PLACEHOLDER: Final = re.compile(
    r"""
      (?<![<\\?]) (?<!\?P) (?<!include[ ])               # a here-document, a group, a header
      <(?!/) [A-Za-z] (?: [\w ./|:@-]{0,60} [\w.] )? >     # <name>, <your name>, <user/repo>
    | \b (?i: your ) [_-] \w [\w.-]*                       # YOUR_TOKEN, your-app.example
    | (?<! \w ) (?i: /? path/to ) (?: / [\w.-]* )*          # path/to/file, /path/to/project
    | \b (?i: replace | change | insert ) _? (?i: me | this | your ) \w* \b   # CHANGE_ME
    | (?: (?<= [\s"'=(:] ) | ^ ) (?: \.\.\. | \u2026 ) (?= [\s"');:,] | $ )   # ..., not ./...
    """,
    re.VERBOSE | re.MULTILINE,
)

#: What an element of HTML looks like. One that is closed, or never is, is no placeholder.
_VOID: Final = frozenset({"br", "hr", "p", "li"})


@dataclass(frozen=True, slots=True)
class ShellBlock:
    """The command of a block, the shell that it is for (empty: the user's own), and its gaps."""

    text: str
    shell: str
    placeholders: tuple[str, ...] = ()


def tag_of(info: str) -> str:
    """Return the first word of an info string, in small letters; empty where it has none."""
    match = _TAG.match(info)
    return match[0].casefold() if match else ""


def is_shell(info: str) -> bool:
    """Return whether an info string names a shell."""
    return tag_of(info) in SHELL_TAGS


def shell_block(info: str, body: str) -> ShellBlock | None:
    """Return the command of a block that is tagged as a shell's; None where it holds none.

    All of its lines are one command; of what shows a terminal, those that were typed there. The
    marks of ``CMD: `` lines are left out; a block that has such lines among others is no script.
    """
    tag = tag_of(info)
    if tag not in SHELL_TAGS:
        return None
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    shell = SHELL_TAGS[tag]
    if is_powershell(lines):
        # Whatever its tag: no other shell would know what to make of it.
        shell, lines = SHELL_TAGS["powershell"], powershell_commands_of(lines)
    elif tag in _CONSOLES or is_console(lines):
        lines = commands_of(lines)
    marked = [line.startswith(PREFIX) for line in lines if is_code(line)]
    if any(marked):
        lines = [line.removeprefix(PREFIX) for line in lines] if all(marked) else []
    text = "\n".join(_without_blank_ends(lines))
    if not any(map(is_code, text.split("\n"))):
        return None
    return ShellBlock(text, shell, tuple(dict.fromkeys(_placeholders(text))))


def is_code(line: str) -> bool:
    """Return whether there is more to a line than white space and a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _without_blank_ends(lines: list[str]) -> list[str]:
    full = [number for number, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _placeholders(text: str) -> Iterator[str]:
    for match in _PLACEHOLDER.finditer(text):
        name = match[0].strip("<>").partition(" ")[0]
        if not match[0].startswith("<") or (name not in _VOID and f"</{name}>" not in text):
            yield match[0]
