"""The places that configuration comes from, each read into a checked layer."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_origin

from aish_lsp.config.keys import NAME, all_keys, key_at, nested
from aish_lsp.config.rules import refused
from aish_lsp.config.schema import Config
from aish_lsp.foundation.text import shown_path
from aish_lsp.foundation.validate import PROBLEMS, Problem, sift, without
from aish_lsp.foundation.wording import arms, dotted, nearest

#: Variables that are no keys: where our files lie, what is looked for, what is logged.
SPECIAL: Final = frozenset({"AISH_CONFIG", "AISH_DATA_DIR", "AISH_DISCOVERY", "AISH_LANDLOCK_ABI"})
PREFIX: Final = "AISH_"

#: Tables of the schema lie no deeper than this; below it, null is a value (in ``extra_body``).
_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: valid data, what was wrong, and where its keys stand.

    Attributes:
        data: the good part, ready to be merged.
        problems: what was left out, and why.
        locate: the place of a key (by its dotted path) for a person.
    """

    data: Mapping[str, Any]
    problems: tuple[Problem, ...]
    locate: Callable[[str], str]


def checked(data: object, locate: Callable[[str], str]) -> Layer:
    """Return the layer of plain ``data``, its bad keys left out."""
    bad = list(refused(data))
    good, problems = sift(without(data, [path for path, _ in bad]), Config)
    told = [Problem(dotted(path), reason) for path, reason in bad[:PROBLEMS]] + problems
    return Layer(
        good, tuple(replace(problem, where=locate(problem.path)) for problem in told), locate
    )


def from_file(path: Path) -> Layer:
    """Return the layer of a TOML file; a missing file says nothing."""
    try:
        text = read_text(path)
        data = parse(text)
    except BadFile as error:
        where = _place(path, error.line)
        problem = Problem("", error.reason, where)
        return Layer({}, (problem,), lambda _: shown_path(path))
    lines = Lines(text)

    def locate(key: str) -> str:
        line = lines.find(key)
        return _place(path, line)

    return checked(data, locate)


def from_workspace(root: Path) -> Layer:
    """Return the layer of a workspace's ``.aish.toml``; it is not followed out of ``root``."""
    path = root / ".aish.toml"
    real = os.path.realpath(path)
    if Path(os.path.realpath(root)) not in Path(real).parents:
        problem = Problem("", "it is outside the workspace and is not read", str(path))
        return Layer({}, (problem,), lambda _: str(path))
    return from_file(path)


def from_client(data: object, source: str) -> Layer:
    """Return the layer of an object that the editor sent; its nulls are keys left unset."""
    return checked(_without_nulls(data, _DEPTH), lambda _: source)


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Return the layer of the ``AISH_`` variables; an empty one is not set.

    A variable is named ``AISH_`` and its key in capitals with ``__`` for each dot. Texts stand as
    they are, all else as in JSON.
    """
    values: dict[tuple[str, ...], Any] = {}
    unknown: list[Problem] = []
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or not text or _special(variable):
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        key = key_at(path)
        if key is None:
            known = [variable_of(key.path) for key in all_keys() if NAME not in key.path]
            hint = nearest(variable, known)
            unknown.append(Problem("", f"unknown variable; {hint}", variable))
        else:
            values[path] = _value(text, key.kind)
    layer = checked(nested(values), lambda key: _variable_at(key, environ))
    return replace(layer, problems=(*layer.problems, *unknown))


def variable_of(path: tuple[str, ...]) -> str:
    """Return the environment variable of a key."""
    return PREFIX + "__".join(path).upper()


def _special(variable: str) -> bool:
    return variable in SPECIAL or variable == "AISH_LOG" or variable.startswith("AISH_LOG_")


def _value(text: str, kind: Any) -> object:
    """Return what a variable says: JSON, unless a text is wanted."""
    wanted = (arms(kind) or [kind])[0]
    if wanted not in (bool, int, float) and get_origin(wanted) not in (list, dict):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # which validation then refuses, and shows


def _variable_at(key: str, environ: Mapping[str, str]) -> str:
    """Return the variable that set ``key`` or what is around it."""
    while key:
        variable = variable_of(tuple(key.split(".")))
        if variable in environ:
            return variable
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return "environment"


def _without_nulls(data: object, depth: int) -> object:
    if not isinstance(data, Mapping) or depth == 0:
        return data
    return {
        key: _without_nulls(value, depth - 1) for key, value in data.items() if value is not None
    }


def _place(path: Path, line: int | None) -> str:
    """Return a line of a file for a person."""
    return shown_path(path) if line is None else f"{shown_path(path)}:{line}"


# Configuration files: read with care, and where in them a key stands.

#: Bytes of a configuration file; a larger one is a mistake.
LARGEST_FILE: Final = 1 << 18
#: Characters of a key whose line is looked for.
LONGEST_KEY: Final = 200
#: A dotted key of more than 64 parts; tomllib's time for one grows with the square of its length.
_LONG_KEY: Final = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}"""
)
_HEADER: Final = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(#.*)?")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


class BadFile(Exception):
    """A configuration file cannot be used at all; ``line`` is where, as far as it is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def read_text(path: Path) -> str:
    """Return the text of a configuration file; a missing one is empty.

    Raises:
        BadFile: it is not a regular file, too large, not UTF-8, or cannot be read.
    """
    try:
        status = path.stat()
        # Before it is opened: opening a FIFO waits for a writer.
        if not stat.S_ISREG(status.st_mode):
            raise BadFile("it is not a regular file; put a TOML file there or remove it")
        if status.st_size > LARGEST_FILE:
            raise BadFile(f"it holds more than {LARGEST_FILE} bytes, too much for a configuration")
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise BadFile(f"it is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadFile(f"it cannot be read: {reason}") from error


def parse(text: str) -> dict[str, Any]:
    """Return the data of a TOML text.

    Raises:
        BadFile: it is not TOML.
    """
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise BadFile("it has a key of more than 64 parts", line)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise BadFile("it is nested too deeply") from error
    except ValueError as error:
        # A TOMLDecodeError, or a number with more digits than Python takes.
        found = _PLACE.fullmatch(str(error))
        if found is None:
            raise BadFile(f"it is not TOML: {error}") from error
        last = text.count("\n") + 1
        line = int(found[2]) if found[2] else last
        column = f", column {found[3]}" if found[3] else ""
        raise BadFile(f"it is not TOML: {found[1]} (line {line}{column})", line) from error


class Lines:
    """Where the keys of a TOML text stand, as well as a look at each line can tell."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[str, int] | None = None

    def find(self, path: str) -> int | None:
        """Return the line (from 1) of the key at ``path``, or of the table around it."""
        if self._lines is None:
            self._lines = _index(self._text)
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines.get(path)


def _index(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        before, assigned, _ = line.partition("=")
        key = before.strip()
        if assigned and (parts := _parts(key)):
            lines.setdefault(dotted((*table, *parts)), number)
        elif key.startswith("[") and (header := _HEADER.fullmatch(line.strip())):
            table = _parts(header[1])
            lines.setdefault(dotted(table), number)
    return lines


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a dotted key; nothing where it is none after all."""
    if _BARE_KEY.fullmatch(name):
        return (name,)
    if len(name) > LONGEST_KEY:
        return ()
    try:
        data: Any = tomllib.loads(f"{name} = 0")
    except ValueError:
        return ()
    parts: list[str] = []
    while isinstance(data, dict) and len(data) == 1:
        ((part, data),) = data.items()
        parts.append(part)
    return tuple(parts)
