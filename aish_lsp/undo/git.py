"""git for snapshots: with a time limit, and running nothing that the repository configures.

Commands that read the repository (its file list, its refs) run like all our git commands. Those
that read and write contents run in a private git folder, which shares only the repository's
objects: it has its own index and none of the repository's configuration, and so no filter, hook,
monitor or signing program.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from aish_lsp.foundation.files import private_dir, store_errors
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.project.git import git_command, git_environment

#: Overrides a work tree's ``.gitattributes``: contents are kept byte for byte.
#: (``-working-tree-encoding`` would be refused.)
_ATTRIBUTES: Final = "* -text !eol !filter !ident !working-tree-encoding\n"

#: Allows any name that this system does: git would silently skip ``git~1``.
_CONFIG: Final = """\
[core]
\trepositoryformatversion = 1
\tbare = false
\tlogAllRefUpdates = false
\tprotectNTFS = false
\tuntrackedCache = false
\tfsmonitor = false
[extensions]
\tobjectFormat = {format}
"""

#: A commit needs an author. It is not the user, who may not be configured and should stay private.
_IDENTITY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "aish"), ("EMAIL", "aish@localhost"))
}


#: What a snapshot is written to, and what git rewrites when one is dropped.
_WRITTEN: Final = ("objects", "refs/aish/undo", "packed-refs")


class NoUndo(Exception):
    """There is no usable snapshot; the message says why, as a clause."""


class Nowhere(NoUndo):
    """There can be no snapshot of the folder: there is no git, repository or work tree."""


class GitFailed(NoUndo):
    """git failed. ``stderr`` is all that it reported."""

    def __init__(self, stderr: bytes) -> None:
        self.stderr = stderr
        lines = stderr.decode("utf-8", "replace").splitlines()
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
        super().__init__(f"git failed ({escaped(said or 'it was killed')[:300]})")


class TooSlow(NoUndo):
    """It took too long."""


class Git:
    """git in one work tree, for one task and a limited time.

    Attributes:
        top: the root of the work tree, a real path.
        private: our private git folder for it, which is kept between snapshots.
    """

    def __init__(
        self, folder: Path, private: Path, seconds: float, stopped: threading.Event
    ) -> None:
        """Find the work tree of ``folder``.

        Once ``stopped`` is set, running commands are ended and no more are started.

        Raises:
            Nowhere: there is none, or git is not installed.
            NoUndo: git refuses to work there.
        """
        self.private = private
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._stopped = stopped
        self.top = _work_tree(folder)
        command = git_command(self.top)
        if command is None:
            raise Nowhere("git was not found")
        self._command = command
        self._environment = git_environment() | {"GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
        self._own_environment: dict[str, str] = {}

    def settle(self) -> None:
        """Inspect the repository, and create our private git folder for it.

        Raises:
            Nowhere: git refuses it (it is damaged or another user's), its work tree is elsewhere,
                or a place that a snapshot is written to is a link.
            StoreUnavailable: our folder cannot be created.
        """
        asked = ("--is-inside-work-tree", "--show-cdup", "--show-object-format")
        try:
            answer = self.ask("rev-parse", *asked, "--git-path", "objects")
            common = self.ask("rev-parse", "--git-common-dir").removesuffix(b"\n")
        except GitFailed as error:
            raise Nowhere(str(error)) from error
        inside, up, kind, objects = answer.removesuffix(b"\n").split(b"\n", 3)
        if inside != b"true" or up:
            raise Nowhere(f"the repository of {shown_path(self.top)} has its work tree elsewhere")
        _refuse_links(Path(os.fsdecode(os.path.join(os.fsencode(self.top), common))))  # noqa: PTH118 - bytes
        _make_git_folder(self.private, kind.decode())
        self._own_environment = {
            **_IDENTITY,
            "GIT_DIR": str(self.private),
            "GIT_WORK_TREE": str(self.top),
            "GIT_INDEX_FILE": str(self.private / "index"),
            "GIT_OBJECT_DIRECTORY": os.fsdecode(os.path.join(os.fsencode(self.top), objects)),  # noqa: PTH118 - bytes
        }

    def ask(self, *arguments: str, below: bytes = b"", feed: bytes = b"") -> bytes:
        """Return the output of git in the folder ``below`` the work tree, with ``feed`` as input.

        Raises:
            GitFailed, TooSlow: git failed or took too long.
        """
        return self._run(arguments, below, feed, {})

    def own(self, *arguments: str, feed: bytes = b"") -> bytes:
        """Return the output of git in our private folder; see ``settle``.

        Raises:
            GitFailed, TooSlow: git failed or took too long.
        """
        assert self._own_environment, "settle was not called"
        return self._run(arguments, b"", feed, self._own_environment)

    def check_contents(self, ids: Sequence[str]) -> None:
        """Check that all objects of ``ids`` exist.

        Raises:
            NoUndo: one of them is gone.
        """
        feed = "".join(f"{wanted}\n" for wanted in ids).encode()
        if b" missing\n" in self.own("cat-file", "--batch-check", feed=feed):
            raise NoUndo("contents of the snapshot are gone from the repository")

    def contents(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the content of each object of ``ids``, in order.

        Raises:
            NoUndo: one of them cannot be read.
        """
        process = self._start(("cat-file", "--batch"), b"", self._own_environment)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for wanted in ids:
                self._check()
                process.stdin.write(f"{wanted}\n".encode())
                process.stdin.flush()
                about = process.stdout.readline().split()
                size = int(about[2]) if len(about) == 3 else 0
                content = process.stdout.read(size + 1)
                if len(content) != size + 1 or len(about) != 3:
                    raise NoUndo("git ended before it had given all contents")
                yield content[:size]
        finally:
            process.kill()
            process.communicate()

    def _run(
        self, arguments: Sequence[str], below: bytes, feed: bytes, more: Mapping[str, str]
    ) -> bytes:
        # Input from a file, since ``communicate`` stops writing to a pipe after its first timeout.
        with tempfile.TemporaryFile() as given:
            given.write(feed)
            given.seek(0)
            process = self._start(arguments, below, more, given)
        try:
            answer, said = self._until_end(process)
        finally:
            if process.returncode is None:
                process.kill()
                process.communicate()
        if process.returncode != 0:
            raise GitFailed(said)
        return answer

    def _start(
        self,
        arguments: Sequence[str],
        below: bytes,
        more: Mapping[str, str],
        given: IO[bytes] | int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        self._check()
        try:
            return subprocess.Popen(
                [*self._command, *arguments],
                cwd=os.path.join(os.fsencode(self.top), below),  # noqa: PTH118 - bytes
                env={**self._environment, **more},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise NoUndo(f"git cannot be started ({error.strerror})") from error

    def _until_end(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=0.2)
            self._check()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise NoUndo("it was stopped")
        if time.monotonic() > self._deadline:
            raise TooSlow(
                f"a snapshot of {shown_path(self.top)} takes more than {self._seconds:g} s"
            )


def _work_tree(folder: Path) -> Path:
    """Return the nearest folder with a ``.git``, from ``folder`` upwards.

    git itself is not asked: a repository can claim that its work tree is the user's home.
    """
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        if os.path.lexists(place / ".git"):
            return place
    raise Nowhere("the folder is not in a git work tree")


def _refuse_links(common: Path) -> None:
    """Refuse a repository if writing a snapshot to it would follow a link.

    An archive may contain such a repository, and git follows its links.

    Raises:
        Nowhere: it has such a link; the message names it.
    """
    for place in _WRITTEN:
        path = common
        for part in ("", *place.split("/")):
            path = path / part
            if path.is_symlink():
                raise _leads_away(path)
    for folder in (common / "objects", common / "refs/aish/undo"):
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _leads_away(Path(entry.path))
    # We never create reflogs, but git appends to any that exist, even through links.
    logs = common / "logs/refs/aish"
    if os.path.lexists(logs):
        raise Nowhere(f"{shown_path(logs)} does not belong to aish, and git would write there")


def _leads_away(link: Path) -> Nowhere:
    return Nowhere(
        f"{shown_path(link)} is a symbolic link, and no snapshot is written to where it leads"
    )


def _make_git_folder(folder: Path, kind: str) -> None:
    if not re.fullmatch(r"sha(1|256)", kind):
        raise NoUndo(f"the repository's objects are of an unknown kind ({escaped(kind)})")
    private_dir(folder)
    wanted = {
        "HEAD": "ref: refs/heads/none\n",
        "config": _CONFIG.format(format=kind),
        "info/attributes": _ATTRIBUTES,
    }
    with store_errors(folder, "write to"):
        for name in ("refs", "objects", "info"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        for name, text in wanted.items():
            path = folder / name
            if not path.exists() or path.read_bytes() != text.encode():
                path.write_text(text)
        # A git that was killed left it; no other git runs here, since we hold our own lock.
        (folder / "index.lock").unlink(missing_ok=True)
