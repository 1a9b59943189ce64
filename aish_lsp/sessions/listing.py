"""The sessions of a workspace: listed, found by id or name, deleted."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aish_lsp.errors import NotFound, StoreUnavailable
from aish_lsp.files import open_append, store_errors, sync_dir
from aish_lsp.sessions.log import hold
from aish_lsp.sessions.reading import SUFFIX, described, load
from aish_lsp.sessions.records import Record

#: How each line begins that is written here. Inside a text a quotation mark is escaped, so that
#: nothing in a text can look like it.
_LINE: Final = re.compile(rb'\{"n": [0-9]+, "ts": "([^"\\]*)", "(?:role|event)": "([a-z]+)"')

_TURNS: Final = frozenset({b"user", b"assistant", b"tool"})


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line of the list. ``turns`` counts messages; ``cost`` is in dollars, None where unknown."""

    id: str
    name: str | None
    title: str | None
    created: str | None
    updated: str | None
    turns: int
    model: str | None
    cost: float | None


def list_sessions(
    directory: Path, costs: Mapping[str, float | None] | None = None
) -> list[SessionInfo]:
    """Return the sessions of a folder, the one that was last written to first.

    Each file is read, and of its lines only those are parsed that say something here. A log that
    cannot be read, or is from a newer version, is listed with what can be told of it.

    Args:
        directory: the folder of the workspace's sessions; it may be missing.
        costs: dollars by session, from ``usage.costs``.

    Raises:
        StoreUnavailable: the folder cannot be read.
    """
    with store_errors(directory, "read"):
        try:
            with os.scandir(directory) as entries:
                paths = [Path(entry.path) for entry in entries if entry.name.endswith(SUFFIX)]
        except FileNotFoundError:
            return []
    infos = [info for path in paths if (info := _info(path, costs or {})) is not None]
    return sorted(infos, key=lambda info: (info.updated or "", info.id), reverse=True)


def find_session(directory: Path, key: str) -> Path:
    """Return the log of a session by its id, or by the name it was last saved under.

    Raises:
        NotFound: there is none; the message names the nearest.
        StoreUnavailable: the folder cannot be read.
    """
    infos = list_sessions(directory)
    for info in infos:
        if info.id == key:
            return directory / f"{info.id}{SUFFIX}"
    for info in infos:
        if info.name == key:
            return directory / f"{info.id}{SUFFIX}"
    known = [info.id for info in infos] + [info.name for info in infos if info.name]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(near)}?" if near else " `:sessions` lists those there are."
    raise NotFound(f"There is no session {key[:80]!r}.{hint}")


def delete_session(directory: Path, key: str) -> str:
    """Delete a session by its id or name; return its id.

    Raises:
        NotFound: there is none.
        Busy: an editor has it open.
        StoreUnavailable: it cannot be deleted.
    """
    path = find_session(directory, key)
    fd = open_append(path)
    try:
        hold(fd, path)
        with store_errors(path, "delete"):
            path.unlink()
            sync_dir(directory)
    finally:
        os.close(fd)
    return path.name.removesuffix(SUFFIX)


def _info(path: Path, costs: Mapping[str, float | None]) -> SessionInfo | None:
    """Return what is told of one log; None for an empty file, which holds no session."""
    session_id = path.name.removesuffix(SUFFIX)
    try:
        data = path.read_bytes()
        if not data:
            return None
        gleaned = _glean(data) or _read(path)
    except (OSError, StoreUnavailable):
        gleaned = _Gleaned({}, "", "", 0, None)
    meta = gleaned.meta
    return SessionInfo(
        id=session_id,
        name=_text(meta.get("name")),
        title=_text(meta.get("title")),
        created=_text(meta.get("created")) or gleaned.first or None,
        updated=gleaned.last or _text(meta.get("created")),
        turns=gleaned.turns,
        model=gleaned.model,
        cost=costs.get(session_id),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class _Gleaned:
    """What is told of a log: its header, times of its first and last line, and so on."""

    meta: Mapping[str, Any]
    first: str
    last: str
    turns: int
    model: str | None


def _glean(data: bytes) -> _Gleaned | None:
    """Return what a log says whose lines all look as they are written here, else None."""
    header, *lines, end = data.split(b"\n")
    matches = [_LINE.match(line) for line in lines]
    if end or None in matches:
        return None
    found = [match for match in matches if match is not None]
    kinds = [match[2] for match in found]
    wanted = [index for index, kind in enumerate(kinds) if kind == b"meta"]
    if b"assistant" in kinds:
        wanted.append(len(kinds) - 1 - kinds[::-1].index(b"assistant"))
    try:
        meta = json.loads(header)["meta"]
        if meta.get("title") is None:
            # The log did not begin with a question: the first one is its title.
            wanted += [index for index, kind in enumerate(kinds) if kind == b"user"]
        records = [json.loads(lines[index]) for index in sorted(wanted)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    times = [match[1].decode(errors="replace") for match in (found[:1] + found[-1:])]
    return _summed(meta, records, times, sum(kind in _TURNS for kind in kinds))


def _read(path: Path) -> _Gleaned:
    """Return what a log says, line for line."""
    loaded = load(path, newer=True)
    lines = list(loaded.records)
    times = [ts for line in lines if isinstance(ts := line.get("ts"), str)]
    return _summed(loaded.meta, lines, times, sum("role" in line for line in lines))


def _summed(meta: Mapping[str, Any], lines: list[Record], times: list[str], turns: int) -> _Gleaned:
    replies = [line for line in lines if line.get("role") == "assistant"]
    model = _text(replies[-1].get("model")) if replies else None
    first, last = (times[0], times[-1]) if times else ("", "")
    return _Gleaned(described(meta, lines), first, last, turns, model)
