"""The file of the chat document: made with care, read, appended to, replaced. All of it blocks."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aish_lsp.chat.markdown import FIRST_TEXT
from aish_lsp.errors import StoreUnavailable
from aish_lsp.project.git import git_command, git_environment

#: Seconds that git may take to say whether it tracks the file.
_GIT_TIMEOUT: Final = 5.0

#: Bytes that are no UTF-8 survive a read and a write.
_ODD_BYTES: Final = "surrogateescape"


class ChatFile:
    """``.aish/chat.md`` of one workspace.

    It is used only where it is ours: not through a symbolic link, which could lead anywhere, and
    not where git tracks it, since then a stranger may have written what would pass for the user's.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.folder = self.root / ".aish"
        self.path = self.folder / "chat.md"

    def ensure(self, *, is_open: bool = False) -> None:
        """Make what is missing: the folder, its ``.gitignore``, the file with its first text.

        Where the file ``is_open`` in an editor and missing, it is left to the editor: it would be
        newer than what the editor has.

        Raises:
            StoreUnavailable: it cannot be made, or what is there must not be used.
        """
        self._prepare()
        if self._is_tracked():
            raise StoreUnavailable(
                f"{self.path} is tracked by git, so others may have written it: it is not used as"
                " the chat. Remove it from the repository (git rm --cached .aish/chat.md), or"
                " delete it."
            )
        if is_open:
            return
        with self._errors("create"):
            self._create(self.path, FIRST_TEXT)

    def read(self) -> str:
        """Return the file's text with its line breaks as they are; a missing one is empty.

        Raises:
            StoreUnavailable: it cannot be read, or must not be used.
        """
        self._check()
        with self._errors("read"):
            try:
                return self.path.read_bytes().decode(errors=_ODD_BYTES)
            except FileNotFoundError:
                return ""

    def append(self, text: str) -> None:
        """Write ``text`` at the end, in one piece; make the file where it is gone.

        Raises:
            StoreUnavailable: it cannot be written, or must not be used.
        """
        self._prepare()
        with self._errors("write"):
            self._append(self.path, text)

    def replace(self, text: str) -> None:
        """Put ``text`` in the place of all that the file holds, or leave it as it is.

        Raises:
            StoreUnavailable: it cannot be written, or must not be used.
        """
        self._prepare()
        with self._errors("write"):
            handle, temporary = tempfile.mkstemp(prefix=".chat.md.", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode(errors=_ODD_BYTES))
                Path(temporary).replace(self.path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def _prepare(self) -> None:
        """Make the folder ready to be written in.

        Raises:
            StoreUnavailable: it cannot be made, or what is there must not be used.
        """
        self._check()
        with self._errors("create"):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._create(self.folder / ".gitignore", "*\n")

    def _check(self) -> None:
        """Refuse what is no folder and no file of our own.

        Raises:
            StoreUnavailable: with what is there instead.
        """
        for path, is_right, right in (
            (self.folder, stat.S_ISDIR, "folder"),
            (self.path, stat.S_ISREG, "regular file"),
        ):
            with self._errors("look at"):
                try:
                    mode = path.lstat().st_mode
                except FileNotFoundError:
                    return
            if stat.S_ISLNK(mode):
                raise StoreUnavailable(
                    f"{path} is a symbolic link, which the chat does not follow."
                    " Remove the link and try again."
                )
            if not is_right(mode):
                raise StoreUnavailable(f"{path} is no {right}. Move it away and try again.")

    def _is_tracked(self) -> bool:
        """Return whether git has the file; where git cannot say, it has not."""
        arguments = ("ls-files", "--error-unmatch", "--", ":(icase).aish/chat.md")
        command = git_command(self.root, *arguments)
        if command is None:
            return False
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=git_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_GIT_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _create(self, path: Path, text: str) -> None:
        """Write a file that is not there yet; leave one that is, whatever it is."""
        with contextlib.suppress(FileExistsError):
            self._append(path, text, os.O_EXCL)

    @staticmethod
    def _append(path: Path, text: str, flag: int = 0) -> None:
        """Append ``text`` to ``path``, made if missing, opened with ``flag``, through no link.

        A new file is appended to as well: another server may already have written into it.
        """
        no_link = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_link | flag
        handle = os.open(path, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode(errors=_ODD_BYTES))

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Turn an OSError into a StoreUnavailable that names the file and the reason."""
        try:
            yield
        except OSError as error:
            advice = {
                errno.ENOSPC: "Free some space and try again.",
                errno.EDQUOT: "Free some space and try again.",
            }.get(error.errno or 0, "Make the workspace writable and try again.")
            reason = error.strerror or str(error)
            raise StoreUnavailable(f"cannot {verb} {self.path}: {reason}. {advice}") from error
