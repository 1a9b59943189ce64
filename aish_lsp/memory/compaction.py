"""What of a memory.jsonl a compaction keeps, and what a crash in mid-compaction left."""

from __future__ import annotations

import codecs
import contextlib
import glob
import os
from pathlib import Path
from typing import Any

from aish_lsp.foundation.jsonl import iter_jsonl, json_line
from aish_lsp.memory.contents import VERSION, Contents, is_header


def without_forgotten(data: bytes, contents: Contents, highest: int) -> tuple[list[bytes], int]:
    """Return the lines that are kept, header first, and how many are not.

    Kept lines stay as they are, bad ones and unknown fields included. The header keeps ``highest``,
    so that no id of what is gone is given again.

    Args:
        data: the whole file.
        contents: what it adds up to.
        highest: the highest id ever given.
    """
    meta: dict[str, Any] = {"version": VERSION}
    headers: set[int] = set()
    hidden: set[int] = set()
    for number, line in iter_jsonl(data):
        if not isinstance(line, dict):
            continue
        if is_header(line):
            headers.add(number)
            meta |= line["meta"] if isinstance(line["meta"], dict) else {}
        elif contents.hides(line):
            hidden.add(number)
    header = json_line({"meta": {**meta, "highest_id": highest}})
    lines = enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1)
    gone = headers | hidden
    kept = [line for number, line in lines if line and number not in gone]
    return [header.encode(), *kept], len(hidden)


def remove_leftovers(path: Path) -> None:
    """Remove what was to replace ``path`` when a crash came. Whoever holds the lock may do so."""
    path = Path(os.path.realpath(path))
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            leftover.unlink()
