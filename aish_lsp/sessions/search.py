"""Sessions found by what was said in them. All of it blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import read_file
from aish_lsp.sessions.listing import SessionInfo
from aish_lsp.sessions.reading import SUFFIX, load
from aish_lsp.sessions.records import SUMMARIZE, Record

#: Characters of a snippet, and of what it shows before the word that was found.
_SNIPPET: Final = 120
_BEFORE: Final = 40


@dataclass(frozen=True, slots=True)
class Found:
    """A session in which something was found, with one line of where it stands."""

    session: SessionInfo
    snippet: str


def search(directory: Path, infos: Sequence[SessionInfo], query: str) -> list[Found]:
    """Return those of ``infos`` in which every word of ``query`` stands, in their order.

    All words are to stand in the title and the name, or in one message or command's output,
    whatever their case. A log that cannot be read is found by its title alone.
    """
    words = [word.casefold() for word in query.split()]
    found = []
    for info in infos:
        snippet = _snippet(f"{info.title or ''} {info.name or ''}", words)
        if snippet is None:
            snippet = _said(directory / f"{info.id}{SUFFIX}", words)
        if snippet is not None:
            found.append(Found(info, snippet))
    return found


def _said(path: Path, words: Sequence[str]) -> str | None:
    """Return a snippet of the first text of a log that holds all ``words``, or None."""
    try:
        if not _may_hold(read_file(path), words):
            return None
        records = load(path, newer=True).records
    except AishError:
        return None
    snippets = (_snippet(text, words) for record in records for text in _texts(record))
    return next((snippet for snippet in snippets if snippet is not None), None)


def _may_hold(data: bytes, words: Sequence[str]) -> bool:
    """Return whether a log could hold ``words``: to parse it takes much longer than to look."""
    lower = data.lower()
    return all(word.encode() in lower for word in words if word.isascii() and word.isalnum())


def _texts(record: Record) -> Iterator[str]:
    """Yield what a line says: a message, and the commands and outputs that it carries."""
    if "role" in record and record.get("meta") != SUMMARIZE:
        yield record["content"]
        for run in record.get("exec") or ():
            yield f"$ {run['command']}\n{run['output']}"


def _snippet(text: str, words: Sequence[str]) -> str | None:
    """Return the surroundings of the first of ``words`` in ``text``, None unless all are there."""
    line = " ".join(text.split())
    folded = line.casefold()
    places = [folded.find(word) for word in words]
    if -1 in places:
        return None
    # Folding may lengthen a text: the place is then a little late, and still one of the text.
    start = max(0, min(places, default=0) - _BEFORE)
    start = line.find(" ", start) + 1 if start else 0
    end = start + _SNIPPET
    return f"{'…' if start else ''}{line[start:end].rstrip()}{'…' if end < len(line) else ''}"
