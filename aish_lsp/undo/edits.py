"""Changes of texts that an editor has open, which no snapshot of the files holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.foundation.files import put_in_place
from aish_lsp.foundation.ports import EditOpen
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.project.safe_read import read_regular
from aish_lsp.undo.git import Git
from aish_lsp.undo.records import KeptEdit
from aish_lsp.undo.snapshots import as_name, as_text

_BOM: Final = "\ufeff"

#: Bytes of a file that is changed on the disk.
_LARGEST: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that took the place of another, LF at the line ends of both.

    ``name`` is the file's, relative to the work tree.
    """

    name: bytes
    old: str
    new: str


def keep(git: Git, edits: Iterable[Edit]) -> list[KeptEdit]:
    """Write down edits, their texts as objects of git.

    Raises:
        NoUndo: they cannot be written.
    """

    def kept(text: str) -> str:
        made = git.own("hash-object", "-w", "--stdin", feed=text.encode("utf-8", "surrogatepass"))
        return made.decode().strip()

    return [KeptEdit(as_text(edit.name), kept(edit.old), kept(edit.new)) for edit in edits]


def backwards(edits: Sequence[KeptEdit]) -> list[KeptEdit]:
    """Return the edits that take back ``edits``."""
    return [KeptEdit(edit.name, old=edit.new, new=edit.old) for edit in reversed(edits)]


def read(git: Git, edits: Sequence[KeptEdit]) -> list[Edit]:
    """Return edits that were written down.

    Raises:
        NoUndo: a text of theirs is gone.
    """
    ids = [text for edit in edits for text in (edit.old, edit.new)]
    git.check_contents(ids)
    texts = [found.decode("utf-8", "surrogatepass") for found in git.contents(ids)]
    return [
        Edit(as_name(edit.name), old, new)
        for edit, old, new in zip(edits, texts[::2], texts[1::2], strict=True)
    ]


async def make(edits: Iterable[Edit], top: Path, edit_open: EditOpen) -> dict[bytes, bool]:
    """Make edits in the work tree ``top``; return whether each file's could be made.

    A file that is not open any more is changed on the disk, if it holds what the editor held.
    """
    made: dict[bytes, bool] = {}
    for edit in edits:
        path = top / os.fsdecode(edit.name)
        is_done = await edit_open(path, edit.old, edit.new)
        if is_done is None:
            is_done = await asyncio.to_thread(_rewrite, path, edit.old, edit.new)
        made[edit.name] = is_done and made.get(edit.name, True)
    return made


def _rewrite(path: Path, old: str, new: str) -> bool:
    """Put ``new`` into a file that holds ``old``; False where it does not, or cannot be written."""
    try:
        content = read_regular(path, _LARGEST)
        text = (content or b"").decode("utf-8")
        bare = text.removeprefix(_BOM)
        if content is None or with_line_feeds(bare) != old:
            return False
        if "\r\n" in text:
            new = new.replace("\n", "\r\n")
        data = (_BOM + new if text != bare else new).encode()
        put_in_place(path, data, prefix=".aish-", before=path.lstat())
    except (OSError, ValueError):
        return False
    return True
