"""What the fenced blocks of a reply suggest: the command in one that is tagged as a shell's.

And what was typed, in one that shows a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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

#: What an element of HTML looks like. One that is closed, or never is, is not a placeholder.
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
    marks of ``CMD: `` lines are left out; a block that has such lines among others is not a script.
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


# What was typed into a terminal, read from what the terminal showed.

#: What names the environment that is active, before a prompt: ``(venv) ``.
_ACTIVE: Final = r"(?:\([\w.+-]+\) ?)?"

#: What a prompt may name before its end: ``user@host:~``, ``[user@host dir]``, ``user@host dir ``.
_USER: Final = r"[\w.-]+@[\w.-]+"
_PLACE: Final = (
    rf"(?:{_USER}:[^$%#\n]{{0,200}}|\[{_USER} [^]\n]{{0,200}}\]|{_USER} [^\s$%#]{{1,200}} )"
)

#: What a shell's prompt ends with; behind it stands what was typed. Root's looks like a comment
#: where nothing is named before it.
_PROMPT: Final = re.compile(rf"{_ACTIVE}(?:[$%] |{_PLACE}[$%#] )")

#: PowerShell's prompt (``PS C:\Users\me> ``), and that of a line that goes on.
_POWERSHELL: Final = re.compile(rf"{_ACTIVE}PS(?: [^>\n]*)?> ?")
_MORE_OF_POWERSHELL: Final = re.compile(r">> ?")

#: The prompt of a line that goes on, and that of a few shells.
_MORE: Final = "> "

#: What begins a here-document: ``<<EOF``, ``<<-'EOF'``; not ``<<<``.
_HEREDOC: Final = re.compile(
    r"(?<![<(])<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_]\w*))"
)

#: Where ``<<`` shifts a number.
_ARITHMETIC: Final = re.compile(r"\(\([^()]*\)\)")


def is_console(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not blank or a comment stands behind a prompt."""
    return _PROMPT.match(_first(lines)) is not None


def is_powershell(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not blank or a comment stands behind PowerShell's."""
    return _POWERSHELL.match(_first(lines)) is not None


def _first(lines: Sequence[str]) -> str:
    code = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return next(code, "")


def powershell_commands_of(lines: Sequence[str]) -> list[str]:
    """Return the lines that were typed into PowerShell, without their prompts."""
    typed: list[str] = []
    is_typed = False
    for line in lines:
        prompt = _POWERSHELL.match(line) or (is_typed and _MORE_OF_POWERSHELL.match(line))
        is_typed = bool(prompt)
        if prompt:
            typed.append(line[prompt.end() :])
    return typed


def commands_of(lines: Sequence[str]) -> list[str]:
    r"""Return the lines that were typed, without their prompts.

    A here-document and a line that ends in ``\`` go on, with or without a prompt before what
    follows. ``> `` is the prompt of a line that goes on, so it counts right behind what was typed
    and not within an output (npm and diff print it); where no other prompt is, it is the prompt.
    """
    only_more = not any(map(_PROMPT.match, lines))
    typed: list[str] = []
    is_typed = False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        goes_on = is_typed and _goes_on(typed[-1])
        prompt = _PROMPT.match(line)
        if prompt and not goes_on:
            text = line[prompt.end() :]
        elif line.startswith(_MORE) and (is_typed or only_more):
            text = line[len(_MORE) :]
        elif goes_on:
            text = line
        else:
            is_typed = False
            continue
        typed.append(text)
        is_typed = True
        for word, tabs in _heredocs(text):
            end = _end_of_heredoc(lines, number, word, tabs=tabs)
            if end is None:
                # Where it ends nobody can tell, and what follows may be an output.
                return []
            body = lines[number : end + 1]
            typed += (line.removeprefix(_MORE) for line in body) if _is_prompted(body) else body
            number = end + 1
    return typed


def _goes_on(line: str) -> bool:
    r"""Return whether a line ends in a ``\`` that is not escaped itself."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _heredocs(line: str) -> list[tuple[str, bool]]:
    """Return the words that end the here-documents of a line; whether tabs may stand before."""
    found = _HEREDOC.finditer(_ARITHMETIC.sub("", line))
    return [(m[2] or m[3] or m[4], m[1] == "-") for m in found]


def _end_of_heredoc(lines: Sequence[str], start: int, word: str, *, tabs: bool) -> int | None:
    for number in range(start, len(lines)):
        for line in (lines[number], lines[number].removeprefix(_MORE)):
            if (line.lstrip("\t") if tabs else line) == word:
                return number
    return None


def _is_prompted(body: Sequence[str]) -> bool:
    """Return whether each line of a here-document stands behind a prompt: its last one tells."""
    return body[-1].startswith(_MORE)
