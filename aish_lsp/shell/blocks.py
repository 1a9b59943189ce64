"""The commands in a reply's fenced blocks: the text of each block that is tagged as a shell's.

Of a block that shows a terminal session, only what was typed is a command. Fenced blocks are found
in a Markdown text, whole or while it streams in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.shell.unfinished import is_joined, missing_of, without_heredocs

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

#: Those that show a terminal session: commands after prompts, and what they printed.
_CONSOLES: Final = frozenset({"console", "shell-session"})

#: The shells, with the user's own, in whose grammar it is looked for whether a block is complete.
_LIKE_BASH: Final = frozenset({"", "sh", "bash", "zsh", "ksh"})

_TAG: Final = re.compile(r"[\w-]+")

#: A placeholder for something that only the user knows.
_PLACEHOLDER: Final = re.compile(
    r"""
      (?<![<\\?\w]) (?<!\?P) (?<!include[ ])             # a here-document, a group, List<String>
      <(?!/) [A-Za-z] (?: [\w ./|:@-]{0,60} [\w.] )? >     # <name>, <your name>, <user/repo>
    | \b (?i: your ) [_-] \w [\w.-]*                       # YOUR_TOKEN, your-app.example
    | (?<! \w ) (?i: /? path/to ) (?: / [\w.-]* )*          # path/to/file, /path/to/project
    | \b (?i: replace | change | insert ) _? (?i: me | this | your ) \w* \b   # CHANGE_ME
    | (?: (?<= [\s"'=(:] ) | ^ ) (?: \.\.\. | \u2026 ) (?= [\s"');:,] | $ )   # ..., not ./...
    """,
    re.VERBOSE | re.MULTILINE,
)

#: Elements of HTML without a closing tag. These, and names that have one, are not placeholders.
_VOID: Final = frozenset({"br", "hr", "p", "li"})
_CLOSING_TAG: Final = re.compile(r"</([^<>]*)>")

#: Where a suggestion is: on a ``CMD: `` line, or in a fenced block that names a shell.
Source: TypeAlias = Literal["cmd", "fence"]


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A suggested command, with its first line in the reply's text, from 0, and its line count.

    The ``text`` of a ``CMD: `` line is what follows the mark, with any spaces at its end, but
    without the line end. ``shell`` is the shell that the command is for, empty for the user's own.
    """

    text: str
    line: int
    lines: int = 1
    source: Source = "cmd"
    shell: str = ""
    placeholders: tuple[str, ...] = ()

    @property
    def end_line(self) -> int:
        """Its last line."""
        return self.line + self.lines - 1

    def repeats(self, other: FoundCommand) -> bool:
        """Return whether this line repeats ``other``, a fence before it."""
        is_pair = (self.source, other.source) == ("cmd", "fence")
        return is_pair and self.text.strip() == other.text.strip()


def tag_of(info: str) -> str:
    """Return the first word of an info string, in lower case; empty if there is none."""
    match = _TAG.match(info)
    return match[0].casefold() if match else ""


def is_shell(info: str) -> bool:
    """Return whether an info string names a shell."""
    return tag_of(info) in SHELL_TAGS


def shell_block(info: str, body: str, at: int = 0) -> FoundCommand | None:
    """Return the command in a block that is tagged as a shell's; None if there is none.

    All of its lines are one command; if the block shows a terminal session, only the lines that
    were typed are. The marks of ``CMD: `` lines are left out; a block that mixes such lines with
    others is not a script. ``at`` is the number of the line that opens the block.
    """
    tag = tag_of(info)
    if tag not in SHELL_TAGS:
        return None
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    shell = SHELL_TAGS[tag]
    first = next(filter(is_code, lines), "")
    if _POWERSHELL.match(first):
        # Whatever the tag is: no other shell understands it.
        shell, lines = SHELL_TAGS["powershell"], powershell_commands_of(lines)
    elif tag in _CONSOLES or _PROMPT.match(first):
        lines = commands_of(lines)
    marked = [line.startswith(PREFIX) for line in lines if is_code(line)]
    if any(marked):
        lines = [line.removeprefix(PREFIX) for line in lines] if all(marked) else []
    text = "\n".join(_without_blank_ends(lines))
    if not any(map(is_code, text.split("\n"))):
        return None
    gaps = placeholders_of(text)
    if shell in _LIKE_BASH and (missing := missing_of(text)):
        gaps.insert(0, missing)
    # The two fences count, too.
    return FoundCommand(text, at, body.count("\n") + 2, "fence", shell, tuple(gaps))


def is_code(line: str) -> bool:
    """Return whether a line holds anything but white space and a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _without_blank_ends(lines: list[str]) -> list[str]:
    full = [number for number, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def placeholders_of(text: str) -> list[str]:
    """Return the placeholders in a command, each once: ``<branch>``, ``YOUR_TOKEN``, ``...``."""
    elements = _VOID | set(_CLOSING_TAG.findall(text))
    return [
        placeholder
        for placeholder in dict.fromkeys(match[0] for match in _PLACEHOLDER.finditer(text))
        if not placeholder.startswith("<")
        or placeholder.strip("<>").partition(" ")[0] not in elements
    ]


# What was typed into a terminal, read from what the terminal showed.

#: What names the environment that is active, before a prompt: ``(venv) ``.
_ACTIVE: Final = r"(?:\([\w.+-]+\) ?)?"

#: What a prompt may show before its end: ``user@host:~``, ``[user@host dir]``, ``user@host dir ``.
_USER: Final = r"[\w.-]+@[\w.-]+"
_PLACE: Final = (
    rf"(?:{_USER}:[^$%#\n]{{0,200}}|\[{_USER} [^]\n]{{0,200}}\]|{_USER} [^\s$%#]{{1,200}} )"
)

#: A shell's prompt, which is followed by what was typed. Root's ``# `` counts only after a name:
#: otherwise it looks like a comment.
_PROMPT: Final = re.compile(rf"{_ACTIVE}(?:[$%] |{_PLACE}[$%#] )")

#: PowerShell's prompt (``PS C:\Users\me> ``), and its prompt for a continued line.
_POWERSHELL: Final = re.compile(rf"{_ACTIVE}PS(?: [^>\n]*)?> ?")
_MORE_OF_POWERSHELL: Final = re.compile(r">> ?")

#: The prompt for a continued line, and the only prompt of a few shells.
_MORE: Final = "> "


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

    A here-document and a line that ends in ``\`` continue, with or without a prompt before the
    lines that follow. ``> `` is the prompt for a continued line, so it counts right after what was
    typed but not within an output (npm and diff print it); if there is no other prompt, it is one.
    """
    only_more = not any(map(_PROMPT.match, lines))
    typed: list[str] = []
    is_typed = False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        goes_on = is_typed and is_joined(typed[-1])
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
        for word, tabs in without_heredocs(text)[1]:
            end = _end_of_heredoc(lines, number, word, tabs=tabs)
            if end is None:
                # Its end is unknown, and what follows may be output.
                return []
            body = lines[number : end + 1]
            # If its last line has a prompt, they all do.
            is_prompted = body[-1].startswith(_MORE)
            typed += (line.removeprefix(_MORE) for line in body) if is_prompted else body
            number = end + 1
    return typed


def _end_of_heredoc(lines: Sequence[str], start: int, word: str, *, tabs: bool) -> int | None:
    for number in range(start, len(lines)):
        for line in (lines[number], lines[number].removeprefix(_MORE)):
            if (line.lstrip("\t") if tabs else line) == word:
                return number
    return None


#: What may precede a fence: the marks of the quotes and list items that it is in.
_MARKS: Final = r"(?:[ \t]{0,12}(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]{0,12}"
_OPENING: Final = re.compile(rf"({_MARKS})(`{{3,}}|~{{3,}})[ \t]*(.*)")
_CLOSING: Final = re.compile(r"[ \t]{0,12}(`{3,}|~{3,})[ \t]*")
_QUOTE: Final = re.compile(r"[ \t]{0,12}> ?")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its info string, its text, and its first and last line in the whole, from 0.

    The text ends with LF, without the indentation of the fence and the marks of the quotes around
    it. ``fence`` holds the backticks or tildes that open it.
    """

    info: str
    text: str
    first: int
    last: int
    fence: str


def fenced_blocks(text: str) -> list[Block]:
    """Return the closed blocks of ``text``, whose lines end with LF."""
    scanner = FenceScanner()
    return [block for line in text.split("\n") if (block := scanner.take(line))]


class Lines:
    """The whole lines of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def rest(self) -> str:
        """What has arrived of the last line."""
        return "".join(self._pieces)

    def feed(self, delta: str) -> list[str]:
        """Take the next piece; return the lines that it completes."""
        whole, newline, rest = delta.rpartition("\n")
        if not newline:
            self._pieces.append(rest)
            return []
        lines = "".join([*self._pieces, whole]).split("\n")
        self._pieces = [rest]
        return lines


class FenceScanner:
    """Finds the blocks of a text, line by line or in pieces.

    Only blocks whose info string is ``wanted`` are found; nothing is kept of other blocks, or of
    the text between blocks.
    """

    def __init__(self, wanted: Callable[[str], bool] = lambda _: True) -> None:
        self._wanted = wanted
        self._number = -1
        self._lines = Lines()
        self._open: _Open | None = None

    @property
    def is_open(self) -> bool:
        """Whether the lines so far end inside a block."""
        return self._open is not None

    def feed(self, delta: str) -> list[Block]:
        """Take the next piece of the text; return the blocks that it completes."""
        return [block for line in self._lines.feed(delta) if (block := self.take(line))]

    def take(self, line: str) -> Block | None:
        """Take the next line, without its end; return the block that it closes."""
        self._number += 1
        opened = self._open
        inner = opened.without_marks(line) if opened else None
        if opened is None or inner is None:
            # A block is left unfinished if the quote around it ends.
            self._open = self._opening(line)
        elif opened.is_closed_by(inner):
            self._open = None
            if opened.is_wanted:
                return Block(opened.info, opened.text(), opened.first, self._number, opened.fence)
        elif opened.is_wanted:
            opened.lines.append(inner)
        return None

    def _opening(self, line: str) -> _Open | None:
        match = _OPENING.match(line)
        # With another backtick further on, the line holds inline code.
        if match is None or (match[2][0] == "`" and "`" in match[3]):
            return None
        info = match[3].strip()
        return _Open(info, match[1], match[2], self._number, self._wanted(info), [])


@dataclass(frozen=True, slots=True)
class _Open:
    """A block that is not closed yet: its fence, the ``marks`` before it, and its lines so far."""

    info: str
    marks: str
    fence: str
    first: int
    is_wanted: bool
    lines: list[str]

    def without_marks(self, line: str) -> str | None:
        """Return a line without the marks of the quotes; None if it lacks one of them."""
        for _ in range(self.marks.count(">")):
            quote = _QUOTE.match(line)
            if quote is None:
                return None
            line = line[quote.end() :]
        return line

    def is_closed_by(self, line: str) -> bool:
        """Return whether a line, without its marks, closes the block."""
        closing = _CLOSING.fullmatch(line.removesuffix("\r"))
        return closing is not None and closing[1].startswith(self.fence)

    def text(self) -> str:
        """Return the lines, each without up to as many blanks as the fence is indented by."""
        _, quote, rest = self.marks.rpartition(">")
        width = len(rest.removeprefix(" ") if quote else rest)
        return "".join(f"{_without_indent(line, width)}\n" for line in self.lines)


def _without_indent(line: str, width: int) -> str:
    blanks = len(line) - len(line.lstrip(" \t"))
    return line[min(blanks, width) :]
