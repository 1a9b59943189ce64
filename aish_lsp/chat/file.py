"""The file of the chat document: created safely, read, appended to, replaced. Everything blocks."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aish_lsp.chat.markdown import first_text
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.files import put_in_place, store_errors, workspace_dir
from aish_lsp.foundation.git import run_git
from aish_lsp.foundation.locks import lock_free, unlock
from aish_lsp.foundation.opening import ignored_folder
from aish_lsp.foundation.text import shown_path

#: Seconds that git may take to say whether it tracks the file.
_GIT_TIMEOUT: Final = 5.0

#: The most bytes that a chat may have when a message begins; a larger one is renamed. All of it is
#: read several times a second while a reply is written.
LARGEST: Final = 2 << 20
#: The most bytes that are still read: more than LARGEST, since a reply is written meanwhile.
_LARGEST_READ: Final = 2 * LARGEST

#: The names that are given here: to a chat, to one put aside, to a file that is to replace one.
OWN_NAME: Final = re.compile(r"chat(-\d+)*\.md|\.chat(-\d+)*\.md\.[0-9a-f]{12}\.tmp")

#: Bytes that are not UTF-8 survive a read and a write.
_ODD_BYTES: Final = "surrogateescape"


class Claim:
    """The chat of a folder that is this editor's, until ``release``: no other server takes it.

    It is ``chat.md``, or ``chat-2.md`` and so on while other editors have those before. One that
    the editor has open comes first: a server that was started again goes on with the same.

    Attributes:
        name: the file's name.
    """

    def __init__(self, root: Path, has_open: Callable[[Path], bool]) -> None:
        names = ["chat.md", *(f"chat-{number}.md" for number in range(2, 100))]
        names.sort(key=lambda name: not has_open(root / ".aish" / name))
        self.name = names[0]
        self._lock: int | None = None
        # Where nothing can be locked, editors share the first.
        with contextlib.suppress(StoreUnavailable):
            for name in names:
                self._lock = lock_free(workspace_dir(root) / f"{name}.lock")
                if self._lock is not None:
                    self.name = name
                    break

    def release(self) -> None:
        """Let another server have it."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            unlock(lock)


class ChatFile:
    """``.aish/chat.md`` of one workspace, or another chat of it under ``name``.

    It is used only if it is ours: not through a symbolic link, which could point anywhere, not if
    it has a second hard link, and not if git tracks it, since then somebody else may have written
    what would be taken for the user's words.
    """

    def __init__(
        self, root: Path, name: str = "chat.md", keys: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.root = root.absolute()
        self.folder = self.root / ".aish"
        self.path = self.folder / name
        self._keys = keys

    def ensure(self, *, is_open: bool = False) -> None:
        """Create what is missing: the folder, its ``.gitignore``, the file with its first text.

        A file that has grown too large is renamed. If it ``is_open`` in an editor, the file is left
        alone, missing or not: it would be newer than what the editor has.

        Raises:
            StoreUnavailable: it cannot be made, or what is there must not be used.
        """
        self._prepare()
        if self._is_tracked():
            raise StoreUnavailable(
                f"{shown_path(self.path)} is tracked by git, so others may have written it: it is"
                " not used as the chat. Remove it from the repository (git rm --cached"
                f" .aish/{self.path.name}), or delete it."
            )
        if is_open:
            return
        with store_errors(self.path, "create"):
            aside = self._put_aside()
            # A file that already exists stays as it is.
            with contextlib.suppress(FileExistsError):
                self._append(first_text(self._keys, aside), os.O_EXCL)

    def read(self) -> str:
        """Return the file's text with its own line breaks; empty if the file is missing.

        Raises:
            StoreUnavailable: it cannot be read, is too large, or must not be used.
        """
        self._check()
        with store_errors(self.path, "read"):
            try:
                handle = self._open(os.O_RDONLY)
            except FileNotFoundError:
                return ""
            with os.fdopen(handle, "rb") as file:
                data = file.read(_LARGEST_READ + 1)
        if len(data) > _LARGEST_READ:
            raise too_large(self.path)
        return data.decode(errors=_ODD_BYTES)

    def write(self, expected: str, text: str, *, appends: bool) -> bool:
        """Append ``text``, or replace all by it, unless the file no longer holds ``expected``.

        Return whether it was written.

        Raises:
            StoreUnavailable: it cannot be read or written, or must not be used.
        """
        if self.read() != expected:
            return False
        self._prepare()
        with store_errors(self.path, "write"):
            if appends:
                self._append(text)
            else:
                data = text.encode(errors=_ODD_BYTES)
                put_in_place(self.path, data, prefix=f".{self.path.name}.")
        return True

    def _prepare(self) -> None:
        """Make the folder ready to be written in.

        Raises:
            StoreUnavailable: it cannot be made, or what is there must not be used.
        """
        self._check()
        with store_errors(self.path, "create"):
            ignored_folder(self.folder)

    def _check(self) -> None:
        """Check that the folder is a folder and the file a regular file, without links.

        Raises:
            StoreUnavailable: they are not; the message says what is there instead.
        """
        for path, is_right, right in (
            (self.folder, stat.S_ISDIR, "folder"),
            (self.path, stat.S_ISREG, "regular file"),
        ):
            with store_errors(self.path, "look at"):
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    return
            if stat.S_ISLNK(status.st_mode):
                raise StoreUnavailable(
                    f"{shown_path(path)} is a symbolic link, which the chat does not follow."
                    " Remove the link and try again."
                )
            if not is_right(status.st_mode):
                raise StoreUnavailable(
                    f"{shown_path(path)} is not a {right}. Move it away and try again."
                )
        _refuse_second_name(self.path, status)

    def _is_tracked(self) -> bool:
        """Return whether git tracks the file; False if git cannot say."""
        arguments = ("ls-files", "--error-unmatch", "--", f":(icase).aish/{self.path.name}")
        done = run_git(self.root, *arguments, seconds=_GIT_TIMEOUT)
        return done is not None and done.returncode == 0

    def _put_aside(self) -> str:
        """Rename the file if it is too large; return its new name, or an empty one."""
        try:
            if self.path.lstat().st_size <= LARGEST:
                return ""
        except FileNotFoundError:
            return ""
        now = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
        numbers = ("", *(f"-{number}" for number in range(2, 100)))
        names = (f"{self.path.stem}-{now}{number}.md" for number in numbers)
        name = next(one for one in names if not os.path.lexists(self.folder / one))
        self.path.rename(self.folder / name)
        return name

    def _append(self, text: str, flag: int = 0) -> None:
        """Append ``text`` to the file, opened with ``flag`` and not through a link.

        A missing file is created, and appended to as well: another server may write into it first.
        """
        handle = self._open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | flag)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode(errors=_ODD_BYTES))

    def _open(self, flags: int) -> int:
        """Open the file, but not through a link, even one made since the check."""
        no_link = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
        handle = os.open(self.path, flags | no_link, 0o600)
        try:
            _refuse_second_name(self.path, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle


def too_large(path: Path) -> StoreUnavailable:
    """Return the error for a chat that is too large to continue."""
    return StoreUnavailable(
        f"{shown_path(path)} has grown beyond {LARGEST >> 20} MiB, too much for one chat. Close it"
        " in the editor and open the chat again: it is put aside under another name, and a new one"
        " begins."
    )


def _refuse_second_name(path: Path, found: os.stat_result) -> None:
    """Refuse a file with a second hard link, since nobody knows whose that is.

    Raises:
        StoreUnavailable: it has one.
    """
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise StoreUnavailable(
            f"{shown_path(path)} has a second name (a hard link): the chat would change that file"
            " too. Delete it, or put a copy in its place, and try again."
        )
