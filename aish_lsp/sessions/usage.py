"""usage.jsonl: what each call to a model took, across sessions. All of it blocks."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.files import append_line, locked, open_append, read_file
from aish_lsp.foundation.jsonl import json_line, read_jsonl

_COST: Final = b'"cost": '

_WIRE_NAMES: Final = {"cache_read": "cacheRead", "cache_write": "cacheWrite"}


_FIELDS: Final = tuple((f.name, _WIRE_NAMES.get(f.name, f.name)) for f in fields(UsageRecord))
_REQUIRED: Final = frozenset({"ts", "session", "model", "provider", "category", "input", "output"})
#: No call has so many tokens, nor so many dollars; sums of damaged numbers would have no end.
_MOST: Final = 10**15

_COUNTS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")


def append_usage(path: Path, record: UsageRecord) -> None:
    """Add a call to ``usage.jsonl``; return when it is on the disk.

    Raises:
        Busy: another process held the file for too long.
        StoreUnavailable: it could not be written.
    """
    values = asdict(record)
    line = json_line({wire: values[name] for name, wire in _FIELDS})
    with locked(path):
        fd = open_append(path)
        try:
            append_line(fd, path, line, sync=True)
        finally:
            os.close(fd)


def read_usage(path: Path, session: str | None = None) -> list[UsageRecord]:
    """Return the calls of one session, or all, in their order. Damaged lines are left out.

    Raises:
        StoreUnavailable: the file is there and cannot be read.
    """
    return [
        record
        for _, line in read_jsonl(path)
        if isinstance(line, dict)
        and (session is None or line.get("session") == session)
        and (record := _record(line)) is not None
    ]


def _record(line: dict[str, Any]) -> UsageRecord | None:
    """Return a line's call, or None where a field is missing or of the wrong type."""
    if not line.keys() >= _REQUIRED:
        return None
    values = {name: line[wire] for name, wire in _FIELDS if wire in line}
    texts = (values.get(name) for name in ("ts", "session", "model", "provider", "category"))
    counts = (values.get(name, 0) for name in _COUNTS)
    flags = (values.get(name, False) for name in ("local", "estimated"))
    cost = values.get("cost")
    if (
        not all(isinstance(text, str) for text in texts)
        or not all(type(number) is int and 0 <= number <= _MOST for number in counts)
        or not (cost is None or (type(cost) in (int, float) and 0 <= cost <= _MOST))
        or not all(type(flag) is bool for flag in flags)
    ):
        return None
    return UsageRecord(**values)


def read_costs(path: Path) -> dict[str, float | None]:
    """Return the dollars of each session; None where no call of it had a price.

    Raises:
        StoreUnavailable: the file is there and cannot be read.
    """
    sums = _quick_sums(read_file(path))
    if sums is None:
        sums = {}
        for call in read_usage(path):
            before = sums.setdefault(call.session, None)
            if call.cost is not None:
                sums[call.session] = (before or 0.0) + call.cost
    return sums


def _quick_sums(data: bytes) -> dict[str, float | None] | None:
    """Return the dollars by session if all lines look as they are written here, else None.

    Quotation marks in texts are escaped there, so that nothing in a text can look like a field.
    """
    calls = data.split(b'"session": "')[1:]
    if len(calls) != data.count(b"\n") or b"\\" in data:
        return None
    try:
        sessions = [call[: call.index(b'"')] for call in calls]
        costs = [
            call[(begin := call.rindex(_COST) + len(_COST)) : call.index(b", ", begin)]
            for call in calls
        ]
        sums: dict[bytes, float | None] = dict.fromkeys(sessions)
        for session, cost in zip(sessions, costs, strict=True):
            if cost != b"null":
                dollars = float(cost)
                if not 0 <= dollars <= _MOST:
                    return None
                sums[session] = (sums[session] or 0.0) + dollars
    except ValueError:
        return None
    return {session.decode(errors="replace"): dollars for session, dollars in sums.items()}
