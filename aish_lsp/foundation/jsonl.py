"""JSON in our files: JSON lines, and small documents.

Whatever is read can be written again: a line with a number that is not finite counts as bad, and
such a document as damaged.
"""

from __future__ import annotations

import codecs
import io
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.files import (
    open_to_read,
    put_aside,
    read_file,
    stamp_of,
    store_errors,
    write_atomic,
)
from aish_lsp.foundation.text import count_of

_TOO_DEEP: Final = "it is nested too deeply"

#: How many bad lines of a file are reported individually.
MOST_REPORTED: Final = 3


def _refuse(constant: str) -> NoReturn:
    msg = f"it holds the number {constant}, which is not valid JSON"
    raise ValueError(msg)


def _finite(digits: str) -> float:
    value = float(digits)
    if abs(value) == float("inf"):
        raise ValueError("it holds a number that is too large")
    return value


# A hook for integers would cost as much as everything else together.
_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)

# Created once: json.dumps creates an encoder for each call that has options.
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_line(record: Mapping[str, Any]) -> str:
    r"""Return ``record`` as one line of JSON, without its ``\n``, that UTF-8 can encode.

    Raises:
        TypeError: it holds a value that JSON cannot represent.
        ValueError: it holds a number that is not finite, or is nested too deeply.
    """
    try:
        line = _encode(record)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    try:
        line.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form, but its escape is valid JSON.
        return json.dumps(record, allow_nan=False)
    return line


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a JSON object, and the reason."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TornLine:
    r"""An unfinished last line, and its offset in bytes.

    A complete object that lacks only its ``\n`` is not torn.
    """

    number: int
    offset: int


class Flaws:
    """Collects what is wrong with the lines of a file; only the first few are reported in full."""

    def __init__(self, path: Path, fate: str) -> None:
        """Start empty. ``fate`` is a sentence that says what happens to a bad line."""
        self._path = path
        self._fate = fate
        self._reports: list[str] = []
        self._more = 0
        self._first_more = 0

    def add(self, number: int, reason: str) -> None:
        """Note a bad line."""
        if len(self._reports) < MOST_REPORTED:
            self._reports.append(f"{self._path}, line {number}: {reason}. {self._fate}")
            return
        self._first_more = self._first_more or number
        self._more += 1

    def messages(self) -> list[str]:
        """Return a message for each of the first bad lines, and one for all the others."""
        if not self._more:
            return self._reports
        lines = count_of(self._more, "more bad line")
        return [*self._reports, f"{self._path}: {lines}, the first at line {self._first_more}."]


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadLine | TornLine]]:
    """Return the lines of a file as ``iter_jsonl`` does; a missing file counts as empty.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    return iter_jsonl(read_file(path))


def iter_jsonl(
    data: bytes, first_number: int = 1
) -> Iterator[tuple[int, dict[str, Any] | BadLine | TornLine]]:
    """Yield each line of JSON lines, numbered from ``first_number``; skip blank lines.

    ``data`` is a whole file or the end of one.
    """
    # One line at a time: a list of all lines would take many times the memory of ``data``.
    for number, line in enumerate(io.BytesIO(data), start=first_number):
        bare = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        record = _record(bare.strip(b" \t\r\n"), number)
        if type(record) is BadLine and not line.endswith(b"\n"):
            yield number, TornLine(number, len(data) - len(line))
        elif record is not None:
            yield number, record


def _record(line: bytes, number: int) -> dict[str, Any] | BadLine | None:
    """Return the object in a line, or why it is bad; None for a blank line."""
    if not line:
        return None
    try:
        text = line.decode()
        # Half as long as ``decode``, which looks for blanks around it; there are none.
        record, end = _decoder.raw_decode(text)
        if end != len(text):
            _decoder.decode(text)  # raises an error that says where it should have ended
        if type(record) is not dict:
            return BadLine(number, "it is not an object")
    except (ValueError, RecursionError) as error:
        return BadLine(number, _reason(error))
    return record


def _reason(error: ValueError | RecursionError) -> str:
    """Return why a line is bad, without its position in the file."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if "Exceeds the limit" in str(error):
        return "it holds a number with too many digits"
    return str(error)


#: The format of each ``ts`` in our files: UTC, to the second.
TIMESTAMP: Final = "%Y-%m-%dT%H:%M:%SZ"


def now() -> str:
    """Return the current time in the format TIMESTAMP."""
    return datetime.now(UTC).strftime(TIMESTAMP)


# Documents: objects with a version, each in its own file.

#: The format version that is written, and the newest that can be read.
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A small file shared by all processes: ``{"version": 1, PART: ...}``. All methods block.

    Attributes:
        path: the file, which may be missing.
        part: the key of its contents.
        kind: the type of the contents: ``list`` or ``dict``.
        largest: the maximum size in bytes; a larger file counts as damaged.
    """

    path: Path
    part: str
    kind: type
    largest: int

    def state(self) -> tuple[int, ...]:
        """Return a value that changes when the file does, even if it is missing.

        Raises:
            StoreUnavailable: the file cannot be examined.
        """
        with store_errors(self.path, "read"):
            try:
                status = self.path.stat()
            except FileNotFoundError:
                return ()
        # The change time reflects changed permissions.
        return (*stamp_of(status), status.st_ctime_ns)

    def read(self) -> dict[str, Any]:
        """Return the document.

        Raises:
            StoreUnavailable: it cannot be read, or is from a newer version.
            ValueError: it is damaged.
        """
        with store_errors(self.path, "read"):
            try:
                fd = open_to_read(self.path)
            except FileNotFoundError:
                return self.empty()
            with os.fdopen(fd, "rb") as file:
                data = file.read(self.largest + 1)
        try:
            # An editor may have saved it as UTF-16, or with a byte order mark.
            text = data.decode(json.detect_encoding(data)) if len(data) <= self.largest else ""
            document = _decoder.decode(text)
        except (ValueError, RecursionError):
            document = None
        content = document if isinstance(document, dict) else {}
        version = content.get("version")
        if type(version) is int and version > VERSION:
            raise StoreUnavailable(
                f"{self.path} is from a newer version ({version}). Update aish-lsp, or move the"
                " file away.",
                path=str(self.path),
            )
        is_ours = type(version) is int and version == VERSION
        is_kind = type(content.get(self.part)) is self.kind
        if not is_ours or not is_kind:
            raise ValueError("it is damaged")
        return content

    def empty(self) -> dict[str, Any]:
        """Return the document that a missing file represents."""
        return {"version": VERSION, self.part: self.kind()}

    def read_to_write(self, otherwise: dict[str, Any]) -> dict[str, Any]:
        """Return the document to change; the caller holds the lock.

        A damaged file is set aside, and ``otherwise`` is returned instead.

        Raises:
            StoreUnavailable: it cannot be read or set aside, or is from a newer version.
        """
        try:
            return self.read()
        except ValueError:
            with store_errors(self.path, "put aside"):
                put_aside(self.path)
            return otherwise

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the whole document.

        Raises:
            StoreUnavailable: it cannot be written; the old contents stay.
        """
        write_atomic(self.path, json.dumps(document, indent=2) + "\n")
