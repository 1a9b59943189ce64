"""git, as snapshots need it: within a time, and deaf to what the repository would have it run.

What reads the repository (its file list, its refs) runs as all git of ours does. What reads and
writes contents runs in a git folder of our own, which has nothing of the repository but its
objects: no configuration, so no filter, hook, monitor or signing program; and an index of its own.
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

#: Above all that a work tree says in its own ``.gitattributes``: contents are kept byte for byte.
#: (``-working-tree-encoding`` would be refused.)
_ATTRIBUTES: Final = "* -text !eol !filter !ident !working-tree-encoding\n"

#: Any name that this system allows is kept: git would pass over ``git~1`` without a word.
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

#: A commit needs somebody; who the user is stays out of it, and may not be configured at all.
_IDENTITY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "aish"), ("EMAIL", "aish@localhost"))
}


#: What a snapshot is written to, or what git rewrites as one is dropped.
_WRITTEN: Final = ("objects", "refs/aish/undo", "packed-refs")


class NoUndo(Exception):
    """There is no snapshot, or none that can be used; the message says why, as a clause."""


class Nowhere(NoUndo):
    """Where the folder lies there never is one: no git, no repository, no work tree."""


class GitFailed(NoUndo):
    """git refused. ``stderr`` is all that it said."""

    def __init__(self, stderr: bytes) -> None:
        self.stderr = stderr
        lines = stderr.decode("utf-8", "replace").splitlines()
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
        super().__init__(f"git failed ({escaped(said or 'it was killed')[:300]})")


class TooSlow(NoUndo):
    """It took longer than it may."""


class Git:
    """git in one work tree, for one task and so many seconds.

    Attributes:
        top: the work tree's root, a real path. Found before anything else is asked.
        private: our own git folder for it, for what is kept between two snapshots.
    """

    def __init__(
        self, folder: Path, private: Path, seconds: float, stopped: threading.Event
    ) -> None:
        """Prepare for ``folder``, which lies in a work tree or not.

        Once ``stopped`` is set, what runs is ended, and nothing more begins.

        Raises:
            Nowhere: it does not, or git is missing.
            NoUndo: git does not want to work there.
        """
        self.private = private
        self._ends = time.monotonic() + seconds
        self._seconds = seconds
        self._stopped = stopped
        self.top = _work_tree(folder)
        command = git_command(self.top)
        if command is None:
            raise Nowhere("git was not found")
        self._command = command
        self._environment = git_environment() | {"GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
        self._own: dict[str, str] = {}

    def settle(self) -> None:
        """Look at the repository, and make the git folder of our own for it.

        Raises:
            Nowhere: git refuses it (its owner is somebody else, it is damaged), its work tree is
                elsewhere, or a link leads from where a snapshot is written.
            StoreUnavailable: our folder cannot be made.
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
        self._own = {
            **_IDENTITY,
            "GIT_DIR": str(self.private),
            "GIT_WORK_TREE": str(self.top),
            "GIT_INDEX_FILE": str(self.private / "index"),
            "GIT_OBJECT_DIRECTORY": os.fsdecode(os.path.join(os.fsencode(self.top), objects)),  # noqa: PTH118 - bytes
        }

    def ask(self, *arguments: str, below: bytes = b"", feed: bytes = b"") -> bytes:
        """Return what git answers in the work tree, or ``below`` in it, with ``feed`` as input.

        Raises:
            GitFailed, TooSlow: it did not.
        """
        return self._run(arguments, below, feed, {})

    def own(self, *arguments: str, feed: bytes = b"") -> bytes:
        """Return what git answers in the folder of our own; see ``settle``.

        Raises:
            GitFailed, TooSlow: it did not.
        """
        assert self._own, "the repository was not looked at"
        return self._run(arguments, b"", feed, self._own)

    def check_contents(self, ids: Sequence[str]) -> None:
        """Make sure that all of ``ids`` are there.

        Raises:
            NoUndo: one of them is gone.
        """
        feed = "".join(f"{wanted}\n" for wanted in ids).encode()
        if b" missing\n" in self.own("cat-file", "--batch-check", feed=feed):
            raise NoUndo("contents of the snapshot are gone from the repository")

    def contents(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the content of each object of ``ids``, in their order.

        Raises:
            NoUndo: one of them cannot be had.
        """
        process = self._start(("cat-file", "--batch"), b"", self._own)
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
        # Input from a file: ``communicate`` feeds a pipe no further after its first time-out.
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
        if time.monotonic() > self._ends:
            raise TooSlow(
                f"a snapshot of {shown_path(self.top)} takes more than {self._seconds:g} s"
            )


def _work_tree(folder: Path) -> Path:
    """Return the nearest folder from ``folder`` up that holds a ``.git``.

    Not git's own answer: a repository can say that its work tree is the user's home.
    """
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        if os.path.lexists(place / ".git"):
            return place
    raise Nowhere("the folder is not in a git work tree")


def _refuse_links(common: Path) -> None:
    """Refuse a repository where a snapshot would be written to where a link leads.

    An archive may bring such a repository, and git follows what it finds there.

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
    # Logs of ours are never made; but git writes on in one that is there, wherever it is.
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
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        # Left by a git that was killed: who is here has the lock of ours.
        (folder / "index.lock").unlink(missing_ok=True)
