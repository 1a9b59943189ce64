"""usage.jsonl: what each call to a model took, across sessions. All of it blocks."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aish_lsp.files import (
    append_line,
    json_line,
    locked,
    open_append,
    read_jsonl,
    store_errors,
)

#: Find session and cost in a line that is written here: quotation marks in texts are escaped.
_SESSION: Final = re.compile(r'"session": "([^"\\]*)"')
_COST: Final = re.compile(r'"cost": (null|[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?), "local": ')

_WIRE_NAMES: Final = {"cache_read": "cacheRead", "cache_write": "cacheWrite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """One call: tokens, and dollars (None: not known, or a local model).

    ``input`` includes what was cached, ``output`` includes reasoning; ``estimated`` where the
    server told no numbers. ``category`` is main, summary, memory, norris or route.
    """

    ts: str
    session: str
    model: str
    provider: str
    category: str
    input: int
    output: int
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    local: bool = False
    estimated: bool = False


_FIELDS: Final = tuple((f.name, _WIRE_NAMES.get(f.name, f.name)) for f in fields(UsageRecord))
_COUNTS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")


def now() -> str:
    """Return the time now as ``ts`` has it: UTC, to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


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
        for _, line in read_jsonl(path).records
        if (session is None or line.get("session") == session)
        and (record := _record(line)) is not None
    ]


def _record(line: dict[str, Any]) -> UsageRecord | None:
    """Return a line's call, or None where a field is missing or of the wrong type."""
    values = {name: line[wire] for name, wire in _FIELDS if wire in line}
    texts = (values.get(name) for name in ("ts", "session", "model", "provider", "category"))
    counts = (values.get(name, 0) for name in _COUNTS)
    cost = values.get("cost")
    if (
        not all(isinstance(text, str) for text in texts)
        or not all(type(number) is int and number >= 0 for number in counts)
        or not (cost is None or isinstance(cost, int | float))
        or not values.keys() >= {"input", "output"}
    ):
        return None
    return UsageRecord(**values)


def read_costs(path: Path) -> dict[str, float | None]:
    """Return the dollars of each session; None where no call of it had a price.

    Raises:
        StoreUnavailable: the file is there and cannot be read.
    """
    with store_errors(path, "read"):
        data = path.read_bytes() if path.exists() else b""
    text = data.decode(errors="replace")
    # Apart from each other, since that is quicker than line for line.
    sessions, dollars = _SESSION.findall(text), _COST.findall(text)
    if not len(sessions) == len(dollars) == text.count("\n") or not text.endswith("\n"):
        calls = read_usage(path)
        sessions = [call.session for call in calls]
        dollars = ["null" if call.cost is None else call.cost for call in calls]
    sums: dict[str, float | None] = dict.fromkeys(sessions)
    for session, cost in zip(sessions, dollars, strict=True):
        if cost != "null":
            sums[session] = (sums[session] or 0.0) + float(cost)
    return sums
