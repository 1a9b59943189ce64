"""The sessions of a workspace: listed, found by id, name or what was said, and deleted."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, NotFound, StoreUnavailable
from aish_lsp.foundation.files import (
    FileStamp,
    open_append,
    open_to_read,
    stamp_of,
    store_errors,
    sync_dir,
)
from aish_lsp.foundation.locks import unlock
from aish_lsp.sessions.log import hold
from aish_lsp.sessions.records import SUFFIX, SUMMARIZE, Record, is_question, load


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line of the list.

    ``questions`` counts what the user asked, ``turns`` all messages; ``cost`` is in dollars, None
    if unknown.
    """

    id: str
    name: str | None
    title: str | None
    created: str | None
    updated: str | None
    questions: int
    turns: int
    model: str | None
    cost: float | None


class _Facts(NamedTuple):
    """What is known of a log. The times of its first and last line are empty if unknown."""

    meta: Mapping[str, Any]
    first: str
    last: str
    questions: int
    turns: int
    model: str | None


_UNREADABLE: Final = _Facts({}, "", "", 0, 0, None)


def list_sessions(
    directory: Path, costs: Mapping[str, float | None] | None = None
) -> list[SessionInfo]:
    """Return the sessions of a folder, the last written to first.

    A log that cannot be read, or is from a newer version, is listed with what is known of it.

    Args:
        directory: the folder of the workspace's sessions; it may be missing.
        costs: dollars by session, from ``usage.read_costs``.

    Raises:
        StoreUnavailable: the folder cannot be read.
    """
    with store_errors(directory, "read"):
        try:
            with os.scandir(directory) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
        except FileNotFoundError:
            return []
    folder = os.fspath(directory)
    sessions = [one for name in names if (one := _info(folder, name, costs or {})) is not None]
    # Within one second, the file's own time decides.
    sessions.sort(key=lambda one: (one[0].updated or "", one[1], one[0].id), reverse=True)
    return [info for info, _ in sessions]


def last_session(directory: Path, taken: Collection[str]) -> SessionInfo | None:
    """Return the session last written to that nobody has open; None if there is none.

    Args:
        directory: the folder of the workspace's sessions; it may be missing.
        taken: the ids of sessions to skip.

    Raises:
        StoreUnavailable: the folder cannot be read.
    """
    infos = (info for info in list_sessions(directory) if info.id not in taken)
    return next((info for info in infos if _is_free(directory / f"{info.id}{SUFFIX}")), None)


def _is_free(path: Path) -> bool:
    """Return whether no editor has a log open."""
    try:
        fd = open_to_read(path)
    except OSError:
        return False
    try:
        hold(fd, path)
    except AishError:
        return False
    finally:
        unlock(fd)
    return True


def find_session(directory: Path, key: str) -> Path:
    """Return the log of the session with this id, or else this name, or else this title.

    Raises:
        NotFound: there is none; the message names the nearest.
        StoreUnavailable: the folder cannot be read.
    """
    infos = list_sessions(directory)
    # If several have the same name or title, the one last written to counts.
    ids = {info.title: info.id for info in reversed(infos) if info.title}
    ids |= {info.name: info.id for info in reversed(infos) if info.name}
    ids |= {info.id: info.id for info in infos}
    if key in ids:
        return directory / f"{ids[key]}{SUFFIX}"
    near = difflib.get_close_matches(key, ids, n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(near)}?" if near else " `:sessions` lists them."
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
        unlock(fd)
    return path.name.removesuffix(SUFFIX)


def _info(
    folder: str, name: str, costs: Mapping[str, float | None]
) -> tuple[SessionInfo, int] | None:
    """Return the list's line for one log, and when it was written, in nanoseconds.

    Return None for an empty file, which holds no session.
    """
    session_id = name.removesuffix(SUFFIX)
    path = f"{folder}/{name}"
    written, facts = 0, _UNREADABLE
    with suppress(OSError, StoreUnavailable, NotFound):
        status = os.stat(path)  # noqa: PTH116 - for many files
        if not status.st_size:
            return None
        written = status.st_mtime_ns
        facts = _facts(path, stamp_of(status))
    meta = facts.meta
    info = SessionInfo(
        id=session_id,
        name=_text(meta.get("name")),
        title=_text(meta.get("title")),
        created=_text(meta.get("created")) or facts.first or None,
        updated=facts.last or _text(meta.get("created")),
        questions=facts.questions,
        turns=facts.turns,
        model=facts.model,
        cost=costs.get(session_id),
    )
    return info, written


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@lru_cache(maxsize=10_000)
def _facts(path: str, _stamp: FileStamp) -> _Facts:
    """Return what a log says, which is read again when it has changed."""
    loaded = load(Path(path), newer=True)
    times = [ts for line in loaded.records if isinstance(ts := line.get("ts"), str)]
    first, last = (times[0], times[-1]) if times else ("", "")
    lines = [line for line in loaded.records if line.get("meta") != SUMMARIZE]
    replies = [line for line in lines if line.get("role") == "assistant"]
    model = _text(replies[-1].get("model")) if replies else None
    questions = _count_questions(lines)
    turns = sum("role" in line for line in lines)
    return _Facts(loaded.meta, first, last, questions, turns, model)


def _count_questions(lines: Iterable[Mapping[str, Any]]) -> int:
    """Return how many questions were asked; one that is asked again counts once.

    So does one that repeats, word for word, the question before it that got no answer.
    """
    count = 0
    waiting: object = None
    for line in lines:
        if is_question(line):
            count += "again" not in line and line.get("content") != waiting
            waiting = line.get("content")
        elif line.get("role") == "assistant":
            waiting = None
    return count


# Searching sessions for what was said in them. These functions block.

#: Characters of a snippet, and of what it shows before the word found.
_SNIPPET: Final = 120
_BEFORE: Final = 40


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A session in which something was found, and a line of text around that."""

    session: SessionInfo
    snippet: str


def search(directory: Path, infos: Sequence[SessionInfo], query: str) -> list[SearchHit]:
    """Return those of ``infos`` that contain every word of ``query``, in their order.

    All words must be in the title and the name, or in one message or command's output; case does
    not matter. A log that cannot be read is found by its title or name alone.
    """
    words = [word.casefold() for word in query.split()]
    hits = []
    for info in infos:
        snippet = _snippet(f"{info.title or ''} {info.name or ''}", words)
        if snippet is None:
            snippet = _snippet_in_log(directory / f"{info.id}{SUFFIX}", words)
        if snippet is not None:
            hits.append(SearchHit(info, snippet))
    return hits


def _snippet_in_log(path: Path, words: Sequence[str]) -> str | None:
    """Return a snippet of the first text in a log that contains all ``words``, or None."""
    try:
        records = load(path, newer=True).records
    except AishError:
        return None
    snippets = (_snippet(text, words) for record in records for text in _texts(record))
    return next((snippet for snippet in snippets if snippet is not None), None)


def _texts(record: Record) -> Iterator[str]:
    """Yield what a line says: a message, and the commands and outputs that it carries."""
    if "role" in record and record.get("meta") != SUMMARIZE:
        yield record["content"]
        for run in record.get("exec") or ():
            yield f"$ {run['command']}\n{run['output']}"


def _snippet(text: str, words: Sequence[str]) -> str | None:
    """Return the text around the first of ``words`` in ``text``, None unless all are there."""
    line = " ".join(text.split())
    folded = line.casefold()
    offsets = [folded.find(word) for word in words]
    if -1 in offsets:
        return None
    # Folding may lengthen a text: the place found is then a little too late, which does no harm.
    start = max(0, min(offsets, default=0) - _BEFORE)
    start = line.find(" ", start) + 1 if start else 0
    end = start + _SNIPPET
    return f"{'…' if start else ''}{line[start:end].rstrip()}{'…' if end < len(line) else ''}"
