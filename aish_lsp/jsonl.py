"""JSON lines: how an object becomes a line, and what the lines of a file hold.

What is read can be written again: a line with a number that is not finite, or nested deeper than
MAX_DEPTH, is a bad one.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from aish_lsp.files import read_file

#: How deep a line's objects and lists may stand in each other, itself being 1. Python stops at 300
#: to 3,000, as its stack has it: what is read in one place could not be written in another.
MAX_DEPTH: Final = 100

_TOO_DEEP: Final = "it is nested too deeply"


def _refuse(constant: str) -> NoReturn:
    msg = f"it holds the number {constant}, which JSON has no form for"
    raise ValueError(msg)


def _finite(digits: str) -> float:
    value = float(digits)
    if abs(value) == float("inf"):
        raise ValueError("it holds a number that is too large")
    return value


# A hook for integers would cost as much as all the rest.
_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)
_parse_first: Final = _decoder.raw_decode

# Made once: json.dumps makes one at each call that has options.
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_line(record: Mapping[str, Any]) -> str:
    r"""Return ``record`` as one line of JSON, without its ``\n``, that UTF-8 can encode.

    Raises:
        TypeError: it holds what JSON has no form for.
        ValueError: it holds a number that JSON has no form for, or is nested too deeply.
    """
    try:
        line = _encode(record)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if len(line) > 2 * MAX_DEPTH and _is_too_deep(line, record):
        raise ValueError(_TOO_DEEP)
    try:
        line.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8; its escape is valid JSON and survives.
        return json.dumps(record, allow_nan=False)
    return line


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no JSON object, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TornLine:
    r"""A last line that was never finished, and the offset in bytes where it begins.

    One that lacks only its ``\n`` is none of those: it is a whole object.
    """

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class JsonLines:
    """What a file of JSON lines holds: the objects with the numbers of their lines, from 1."""

    records: tuple[tuple[int, dict[str, Any]], ...]
    bad: tuple[BadLine, ...]
    torn: TornLine | None


def read_jsonl(path: Path) -> JsonLines:
    """Read a file of JSON lines; a missing one is empty. Blank lines are skipped.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    records: list[tuple[int, dict[str, Any]]] = []
    bad: list[BadLine] = []
    torn = None
    for number, line in iter_jsonl(read_file(path)):
        match line:
            case BadLine():
                bad.append(line)
            case TornLine():
                torn = line
            case _:
                records.append((number, line))
    return JsonLines(tuple(records), tuple(bad), torn)


def iter_jsonl(
    data: bytes, first_number: int = 1
) -> Iterator[tuple[int, dict[str, Any] | BadLine | TornLine]]:
    """Yield each line of ``data``, a file of JSON lines or its rest from a line's start on."""
    content = data.removeprefix(codecs.BOM_UTF8)
    try:
        text, all_utf8 = content.decode(), True
    except UnicodeDecodeError:
        text, all_utf8 = content.decode(errors="surrogateescape"), False
    # Not splitlines(): U+2028 and its kin may stand inside a line.
    pieces = text.split("\n")
    last = first_number + len(pieces) - 1
    for number, piece in enumerate(pieces, start=first_number):
        if not piece or piece.isspace():
            continue
        try:
            if not all_utf8:
                piece.encode()
            record = _parsed(piece)
            if type(record) is not dict:
                raise ValueError("it is not an object")  # noqa: TRY301 - one place reports all
            # Each level takes two characters or more.
            if len(piece) > 2 * MAX_DEPTH and _is_too_deep(piece, record):
                raise ValueError(_TOO_DEEP)  # noqa: TRY301 - as above
        except (ValueError, RecursionError) as error:
            if number == last:
                yield number, TornLine(number, data.rfind(b"\n") + 1)
            else:
                yield number, BadLine(number, _reason(error))
        else:
            yield number, record


def _parsed(line: str) -> Any:
    """Do what ``json.loads`` does, in half the time where nothing stands around the value."""
    try:
        value, end = _parse_first(line)
    except json.JSONDecodeError:
        end = -1
    return value if end == len(line) else _decoder.decode(line)


def _is_too_deep(line: str, value: Any) -> bool:
    """Whether ``value``, which is ``line``, is nested deeper than MAX_DEPTH."""
    if line.count("{") + line.count("[") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [part for outer in level for part in _parts(outer)]
        level = [part for part in inner if isinstance(part, dict | list | tuple)]
    return bool(level)


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value


def _reason(error: ValueError | RecursionError) -> str:
    """Return why a line is bad, in words that do not depend on where it stands."""
    if isinstance(error, UnicodeEncodeError):
        return "it is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if "Exceeds the limit" in str(error):
        return "it holds a number of too many digits"
    return str(error)
