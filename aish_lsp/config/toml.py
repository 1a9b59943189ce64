"""Configuration files: read with care, and where in them a key stands."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.wording import dotted

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
        BadFile: it is no regular file, too large, not UTF-8, or cannot be read.
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
