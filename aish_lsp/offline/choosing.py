"""The parts of an answer: commands for this machine and workspace, and the text around them.

Each value is quoted for the shell, so it is one word of one command whatever it contains. A path
that begins with a dash becomes ``./-name``; the table has ``--`` or ``-e`` before other values that
may begin with a dash (the tests check that). Text from files and outputs is shortened and shown
without invisible characters, and never becomes a command.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.opening import opened
from aish_lsp.foundation.text import is_seen, one_line, without_hidden
from aish_lsp.offline.table import KINDS, SLOT, Intent, Way, kind_of
from aish_lsp.offline.words import group, words
from aish_lsp.offline.workspace import WorkspaceFacts

#: A word that bash takes literally without quotes.
_PLAIN: Final = re.compile(r"(?!.*[=:]~)[\w@%+=:,./^-][\w@%+=:,./^~-]*", re.ASCII)
_PIECE: Final = re.compile(r"'(?P<quoted>[^']*)'|\{(?P<name>[a-z]+\d?)(?:\|(?P<form>[a-z]+))?\}")
_PLACEHOLDER: Final = re.compile(r"<[a-z][a-z0-9 -]*>")
_PATHS: Final = frozenset(("file", "folder", "path", "archive"))
#: Kinds that may be any text, even with a dash first: the table puts them after an option.
_TEXTS: Final = frozenset(("text", "pattern", "name", "command", "glob"))


@dataclass(frozen=True, slots=True)
class Suggested:
    """The commands to suggest, and a note about what can go wrong with them."""

    commands: tuple[str, ...]
    note: str = ""


def suggested(
    intent: Intent, values: Mapping[str, str], workspace: WorkspaceFacts, ways: tuple[Way, ...] = ()
) -> Suggested | None:
    """Return what to run for ``intent``, or None if none of its ways can be used here.

    ``ways``, if any, replace the intent's own.
    """
    note = "" if ways else intent.note
    return chosen(ways or intent.ways, {**intent.defaults, **values}, values, workspace, note)


def chosen(
    ways: tuple[Way, ...],
    values: Mapping[str, str],
    given: Mapping[str, str],
    workspace: WorkspaceFacts,
    note: str = "",
) -> Suggested | None:
    """Return the first of ``ways`` whose conditions hold, with its slots filled.

    ``given`` are the values that the question contains, ``values`` those with the defaults.
    """
    for way in ways:
        if all(_holds(term, values, given, workspace) for term in way.when):
            rights = workspace.machine.with_rights
            commands = tuple(render(rights(command), values) for command in way.run)
            return Suggested(commands, way.note or note)
    return None


def _holds(  # noqa: C901, PLR0911 - one case for each kind of condition
    term: str, values: Mapping[str, str], given: Mapping[str, str], workspace: WorkspaceFacts
) -> bool:
    """Return whether one condition of a way holds; ``!`` negates it.

    Raises:
        ValueError: there is no such condition.
    """
    if term.startswith("!"):
        return not _holds(term[1:], values, given, workspace)
    slot, equals, globs = term.partition("=")
    if equals:
        value = values.get(slot, "").lower()
        if globs.startswith("@"):
            return value in group(globs[1:])
        return any(fnmatch.fnmatchcase(value, glob) for glob in globs.split("|"))
    what, _, argument = term.partition(":")
    names = argument.split("|")
    match what:
        case "has":
            return any(map(workspace.machine.has, names))
        case "on":
            return workspace.machine.system in names
        case "given":
            return any(name in given for name in names)
        case "here":
            return any(any(workspace.root.glob(name)) for name in names)
        case "git":
            return workspace.in_git
        case "isdir":
            return any(workspace.is_folder(values.get(name, "")) for name in names)
        case "crlf":
            return any(_has_crlf(workspace.root, values.get(name, "")) for name in names)
        case "exists":
            return any(workspace.exists(values.get(name, "")) for name in names)
        case "lacks":
            return any(workspace.lacks(values.get(name, "")) for name in names)
    raise ValueError(f"no such condition: {term}")


def _has_crlf(root: Path, name: str) -> bool:
    """Return whether a file's first line has a Windows line ending."""
    try:
        with opened(root, name) as file:
            return b"\r\n" in file.read(300)
    except (OSError, ValueError):
        return False


def render(template: str, values: Mapping[str, str]) -> str:
    """Return a command of the table with its slots filled.

    Text in single quotes is filled and then quoted as a whole; elsewhere each value is quoted.
    """
    return _PIECE.sub(lambda piece: _filled(piece, values), template)


def _filled(piece: re.Match[str], values: Mapping[str, str]) -> str:
    if piece["quoted"] is not None:
        return _filled_quote(piece["quoted"], values)
    name = piece["name"]
    if name not in values:
        return _placeholder(name) if kind_of(name) in KINDS else piece[0]
    if piece["form"] == "raw":
        return _one_command(values[name])
    if piece["form"] == "start":
        return _started(values[name])
    return _word(_formed(values[name], piece["form"]), name, piece)


def _word(value: str, slot: str, piece: re.Match[str]) -> str:
    """Return a value quoted as a word, or as part of the word that it is in."""
    kind = kind_of(slot)
    before = piece.string[piece.start() - 1] if piece.start() else " "
    if before == ":" and kind in _PATHS:
        return quoted_path(value)
    if not before.isspace():
        return quoted(value)
    if kind in _PATHS:
        return quoted_path(value)
    if value.startswith("-") and kind not in _TEXTS:
        return _placeholder(slot)
    return quoted(value)


def _filled_quote(inner: str, values: Mapping[str, str]) -> str:
    """Return the text of a pair of single quotes, with its slots filled, as one word."""
    filled = SLOT.sub(lambda slot: _slot_value(slot, values), inner)
    known = any(name in values and kind_of(name) in KINDS for name, _ in SLOT.findall(inner))
    return quoted(filled) if known else f"'{filled}'"


def _slot_value(slot: re.Match[str], values: Mapping[str, str]) -> str:
    """Return a slot's value or placeholder, unquoted; text that only looks like a slot is kept."""
    if kind_of(slot[1]) not in KINDS:
        return slot[0]
    if slot[1] not in values:
        return _placeholder(slot[1])
    return _formed(values[slot[1]], slot[2])


def _one_command(text: str) -> str:
    """Return the user's command in a form that stays one command after ``sudo``, ``time``, ...

    A script that is given by name alone is started by its interpreter, since a shell would search
    PATH for it.
    """
    try:
        parts = shlex.split(text)
    except ValueError:
        parts = []
    plain = [word for word in parts if _PLAIN.fullmatch(word)]
    if parts and len(plain) == len(parts) and not parts[0].startswith("-") and "=" not in parts[0]:
        return " ".join([_started(parts[0]) if _is_script(parts[0]) else parts[0], *parts[1:]])
    return f"bash -c -- {quoted(text)}"


def _is_script(word: str) -> bool:
    stem, dot, ending = word.rpartition(".")
    return bool(stem and dot) and ending in words().interpreters


def _started(file: str) -> str:
    """Return the command that starts a file: by its path, or by its extension's interpreter."""
    program = words().interpreters.get(file.rpartition(".")[2])
    if program and _local(file) != file:
        return f"{program} {quoted_path(file)}"
    return quoted_path(_local(file))


def _local(file: str) -> str:
    """Return a file's path in a form that a shell does not search PATH for."""
    return file if file.startswith(("/", "./", "../", "~/")) else f"./{file}"


def _placeholder(slot: str) -> str:
    kind = kind_of(slot)
    return f"<{words().placeholders.get(kind, kind)}>"


def _formed(value: str, form: str | None) -> str:
    """Return a value in the form that a slot asks for, if any."""
    return _FORMS[form](value) if form else value


def quoted(word: str) -> str:
    """Return ``word`` quoted for bash, with invisible characters escaped."""
    if _PLAIN.fullmatch(word):
        return word
    if is_seen(word):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    escaped = word.replace("\\", "\\\\").replace("'", "\\x27")
    seen = (c if is_seen(c) else _escape(c) for c in escaped)
    return f"$'{''.join(seen)}'"


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def quoted_path(path: str) -> str:
    """Return a path quoted so that it is not an option and a leading ``~`` still means the home."""
    if path == "~":
        return path
    if path.startswith("~/"):
        return f"~/{quoted(path[2:])}" if path[2:] else path
    return quoted(f"./{path}" if path.startswith("-") else path)


_FORMS: Final[dict[str, Callable[[str], str]]] = {
    "key": lambda value: value.lstrip("."),
    "seconds": lambda value: value,
    "minutes": lambda value: str(max(1, -(-int(value) // 60))),
    "hours": lambda value: str(max(1, -(-int(value) // 3600))),
    # "find -size -2G" would round up what it measures, and "head -c 2M" is of GNU alone.
    "bytes": lambda value: str(int(value[:-1]) << {"c": 0, "k": 10, "M": 20, "G": 30}[value[-1]]),
    "days": lambda value: str(max(1, -(-int(value) // 86400))),
    "start": _started,
    "stem": lambda value: re.sub(r"(?:\.tar)?\.\w+$", "", value.rstrip("/").rpartition("/")[2]),
    "bare": lambda value: re.sub(r"\.\w+$", "", value),
    "base": lambda value: value.rstrip("/").rpartition("/")[2],
    "local": _local,
    "git": lambda value: value if value.startswith("./") else f"./{value}",
    "name": lambda value: re.sub(r"\W", "", value.lstrip("$"), flags=re.ASCII) or "NAME",
    "regex": lambda value: re.sub(r"([][\\.*^$/])", r"\\\1", value).replace("\n", "\\n"),
    "replacement": lambda value: re.sub(r"([\\/&])", r"\\\1", value).replace("\n", "\\n"),
}


#: The longest line that is shown in full, in characters.
_LINE_LIMIT = 300

#: A terminal's color sequence, even if its escape character was removed earlier.
_COLORS = re.compile(r"\x1b?\[[0-9;]{0,20}m")


def plain_line(text: str) -> str:
    """Return ``text`` as one visible line."""
    line = without_hidden(one_line(_COLORS.sub("", text)))
    return line.replace("\t", " ").strip()


def shortened(line: str) -> str:
    """Return ``line``, or its beginning if it is long."""
    return line if len(line) <= _LINE_LIMIT else f"{line[:_LINE_LIMIT]}…"


def _quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line after ``> ``, so that a ``CMD: `` in it is not taken for a suggestion.

    An empty line ends the quotation, of which the next sentence would be a part otherwise.
    """
    quotation = [f"> {shortened(plain_line(line))}" for line in lines]
    yield from [*quotation, ""] if quotation else ()


#: The one line about other models.
CONNECT: Final = "I am aish's offline model. This says how to connect a real one:"

#: Commands that change or report on the shell in which they are typed, and are useless in another.
_OF_ONE_SHELL: Final = re.compile(
    r"(?:cd|pushd|popd|export|unset|alias|unalias|history|source|\.|set|shopt|umask|ulimit|jobs|fg|bg"
    r"|disown|exit|logout|deactivate|eval|exec|fc|nvm\s+use|conda\s+(?:de)?activate)(?=\s|$)|echo\s+\"?\$[?!]|(?:sudo\s+)?!\S"
)
_IN_YOUR_TERMINAL: Final = (
    "Type it in your own terminal; run from here, it would change nothing there:"
)


def acts_on_its_shell(command: str) -> bool:
    """Return whether ``command`` only has an effect in the shell in which it is typed."""
    return _OF_ONE_SHELL.match(command) is not None


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, quoted lines, commands and a note, in this order."""

    sentence: str
    commands: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether it has a command, and no command of it has a placeholder to fill in."""
        return bool(self.commands) and not any(map(_PLACEHOLDER.search, self.commands))

    def lines(self) -> Iterable[str]:
        """Yield the lines; only commands that work in another shell begin with ``CMD: ``."""
        yield plain_line(self.sentence)
        yield from _quoted(self.quote)
        for command in self.commands:
            if acts_on_its_shell(command):
                yield from (_IN_YOUR_TERMINAL, "```sh", plain_line(command), "```")
            else:
                yield f"CMD: {plain_line(command)}"
        if self.note:
            yield plain_line(self.note)


def overwrites_its_input(command: str) -> bool:
    """Return whether a command writes its output to a file that it reads."""
    sources, writes, target = command.rpartition(" > ")
    return bool(writes) and target in sources.split()
