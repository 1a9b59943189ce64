"""Whole outputs of commands: ``.aish/output/ID.txt`` in the workspace, without secrets."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aish_lsp.foundation.files import ignored_folder, own_folder, store_errors
from aish_lsp.shell.output import clean_output

#: Lines and characters of an output that a chat shows; of a longer one, its head and its tail.
SHOWN_LINES: Final = 60
SHOWN_CHARACTERS: Final = 32_000

#: Bytes that the outputs of a workspace may take together, and so one of them.
LIMIT: Final = 100 * 1024 * 1024

#: Characters that wait to be written, and of them those that stay: a secret may go on behind them.
_WAITING: Final = 1024 * 1024
_OVERLAP: Final = 64 * 1024


class WholeOutput:
    """The file of one output, made once that is longer than a chat shows.

    Args:
        folder: ``.aish`` of the workspace, made where it is missing.
        name: the command's id.
        mask: takes the secrets out of a text.
    """

    def __init__(self, folder: Path, name: str, mask: Callable[[str], str]) -> None:
        self.path = folder / "output" / f"{name}.txt"
        self._mask = mask
        self._text: list[str] = []
        self._waiting = 0
        self._lines = 0
        self._characters = 0
        self._written = 0

    @property
    def is_long(self) -> bool:
        """Whether it is longer than a chat shows."""
        return self._lines > SHOWN_LINES or self._characters > SHOWN_CHARACTERS

    async def add(self, text: str) -> None:
        """Take the next piece of the output.

        Raises:
            StoreUnavailable: the file cannot be written.
        """
        self._text.append(text)
        self._waiting += len(text)
        self._lines += text.count("\n")
        self._characters += len(text)
        if self._waiting > _WAITING:
            await asyncio.to_thread(self._write, at_end=False)

    async def close(self) -> Path | None:
        """Write the rest; return the file, None where there is no need of one.

        Raises:
            StoreUnavailable: as ``add``.
        """
        if not self.is_long:
            return None
        await asyncio.to_thread(self._write, at_end=True)
        return self.path

    def _write(self, *, at_end: bool) -> None:
        text = "".join(self._text)
        end = len(text) if at_end else self._cut(text)
        self._text, self._waiting = [text[end:]], len(text) - end
        data = self._clean(text[:end]).encode(errors="replace")[: LIMIT - self._written]
        if not data:
            return
        with store_errors(self.path, "write"):
            ignored_folder(self.path.parent.parent)
            own_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            flags |= os.O_APPEND if self._written else os.O_TRUNC
            with os.fdopen(os.open(self.path, flags, 0o600), "wb") as file:
                file.write(data)
            self._written += len(data)
            make_room(self.path.parent, LIMIT, keep=self.path)

    def _clean(self, text: str) -> str:
        return self._mask(clean_output(text))

    def _cut(self, text: str) -> int:
        """Return where ``text`` can be cut: at a line's end, and in no secret."""
        whole = self._clean(text)
        for part in (1, 2, 4, 8):
            end = text.rfind("\n", 0, len(text) - _OVERLAP // part) + 1
            if end and self._clean(text[:end]) + self._clean(text[end:]) == whole:
                return end
        # Lines without end; all of it is clean by itself.
        return len(text) if len(text) > 8 * _WAITING else 0


def make_room(folder: Path, limit: int, *, keep: Path) -> None:
    """Delete the oldest outputs in ``folder`` beyond ``limit`` bytes, but never ``keep``."""
    found = []
    for path in folder.glob("*.txt"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            found.append((path != keep, status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, _, size, _ in found)
    for is_other, _, size, path in sorted(found, key=lambda one: (not one[0], one[1])):
        if total <= limit or not is_other:
            break
        path.unlink(missing_ok=True)
        total -= size
