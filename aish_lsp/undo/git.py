"""git for snapshots: with a time limit, and running nothing that the repository configures.

git lists files and holds the contents of those that it tracks. Nothing is written to a repository,
but for gitlinks that are put back in its index.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from aish_lsp.foundation.git import git_command, git_environment
from aish_lsp.foundation.text import escaped, shown_path

Hash: TypeAlias = Literal["sha1", "sha256"]

#: The hashes that git may name objects by, with the length of such a name.
HASHES: Final[dict[Hash, int]] = {"sha1": 40, "sha256": 64}

_CONFIG: Final = """\
[core]
\trepositoryformatversion = 1
\tbare = true
[extensions]
\tobjectFormat = {}
"""


class NoUndo(Exception):
    """There is no usable snapshot; the message says why, as a clause."""


class Nowhere(NoUndo):
    """There can be no snapshot of the folder: there is no git, repository or work tree."""


class GitFailed(NoUndo):
    """git failed. ``stderr`` is all that it reported."""

    def __init__(self, stderr: bytes) -> None:
        self.stderr = stderr
        lines = stderr.decode("utf-8", "replace").splitlines()
        error_line = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
        # For another user's repository git says what allows it.
        advice = next((line.strip() for line in lines if "--add safe.directory" in line), "")
        more = f"; if you trust it: `{escaped(advice)}`" if advice else ""
        super().__init__(f"git failed ({escaped(error_line or 'it was killed')[:300]}{more})")


class TooSlow(NoUndo):
    """It took too long."""


def work_tree(folder: Path) -> Path:
    """Return the nearest folder with a ``.git``, from ``folder`` upwards, as a real path.

    git itself is not asked: a repository can claim that its work tree is the user's home.

    Raises:
        Nowhere: there is none.
    """
    real = Path(os.path.realpath(folder))
    for ancestor in (real, *real.parents):
        if os.path.lexists(ancestor / ".git"):
            return ancestor
    raise Nowhere("the folder is not in a git work tree")


class Git:
    """git in one work tree, for one task and a limited time.

    Attributes:
        top: the root of the work tree, a real path.
        kind: the hash that names the repository's objects, once ``inspect`` was called.
        instead: a git folder that ``ask`` uses in place of the repository's own, which is gone.
    """

    def __init__(self, top: Path, seconds: float, stopped: threading.Event) -> None:
        """Work in the tree at ``top``.

        Once ``stopped`` is set, running commands are ended and no more are started.
        """
        self.top = top
        self.kind: Hash = "sha1"
        self.instead: Path | None = None
        self._objects = Path()
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._stopped = stopped
        self._environment = git_environment() | {
            "GIT_CEILING_DIRECTORIES": str(top.parent),  # never the repository around this one
            "GIT_NO_REPLACE_OBJECTS": "1",
            "LC_ALL": "C",
        }

    def inspect(self) -> None:
        """Inspect the repository.

        Raises:
            Nowhere: git is not installed or refuses the repository (it is damaged or another
                user's), or its work tree is elsewhere.
            NoUndo: its objects have names of an unknown kind.
        """
        asked = ("--is-inside-work-tree", "--show-cdup", "--show-object-format")
        try:
            answer = self.ask("rev-parse", *asked, "--git-path", "objects")
        except GitFailed as error:
            raise Nowhere(str(error)) from error
        inside, up, kind, objects = answer.removesuffix(b"\n").split(b"\n", 3)
        if inside != b"true" or up:
            raise Nowhere(f"the repository of {shown_path(self.top)} has its work tree elsewhere")
        named = kind.decode("ascii", "replace")
        if named not in HASHES:
            raise NoUndo(f"the repository's objects are of an unknown kind ({escaped(named)})")
        self.kind = next(algorithm for algorithm in HASHES if algorithm == named)
        self._objects = self.top / os.fsdecode(objects)

    def ask(self, *arguments: str, below: bytes = b"", feed: bytes = b"") -> bytes:
        """Return the output of git in the folder ``below`` the work tree, with ``feed`` as input.

        Raises:
            Nowhere: git is not installed.
            GitFailed, TooSlow: git failed or took too long.
        """
        # Input from a file, since ``communicate`` stops writing to a pipe after its first timeout.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(feed)
            stdin.seek(0)
            cwd = os.path.join(os.fsencode(self.top), below)  # noqa: PTH118 - bytes
            instead = {} if below or self.instead is None else self._at(self.instead)
            process = self._start(arguments, cwd, instead, stdin)
        try:
            answer, message = self._until_end(process)
        finally:
            if process.returncode is None:
                process.kill()
                process.communicate()
        if process.returncode != 0:
            raise GitFailed(message)
        return answer

    def missing(self, ids: Collection[str]) -> set[str]:
        """Return those objects of ``ids`` that the repository does not have.

        Raises:
            GitFailed, TooSlow: git failed or took too long.
        """
        if not ids:
            return set()
        feed = "\n".join([*ids, ""]).encode()
        answer = self.ask("cat-file", "--buffer", "--batch-check=", feed=feed).decode()
        return set(re.findall(r"^(\w+) missing$", answer, re.MULTILINE))

    def borrow(self, place: Path, ids: Collection[str]) -> bool:
        """Make ``place`` a git folder with the objects of ``ids``; return whether it keeps them.

        They are not copied: their files get further names (hard links) there. If that is not
        possible, since ``place`` is on another disk, say, it has them as long as the repository.

        Raises:
            OSError: it cannot be made.
            GitFailed, TooSlow: git failed or took too long.
        """
        objects = place / "objects"
        for name in ("objects/pack", "objects/info", "refs"):
            (place / name).mkdir(parents=True)
        (place / "HEAD").write_text("ref: refs/heads/none\n")
        (place / "config").write_text(_CONFIG.format(self.kind))
        folders = [self._objects]
        if (self._objects / "info/alternates").exists():
            lines = map(os.fsdecode, self.ask("count-objects", "-v").splitlines())
            start = "alternate: "
            folders += [self.top / line[len(start) :] for line in lines if line.startswith(start)]
        try:
            for source in folders:
                self.check()
                for file in _files(source / "pack"):
                    if file.name.endswith((".pack", ".idx")):
                        _link(file, objects / "pack" / file.name)
                with os.scandir(source) as entries:
                    present = {entry.name for entry in entries}
                for two in present.intersection(wanted[:2] for wanted in ids):
                    for file in _files(source / two):
                        if two + file.name in ids:
                            (objects / two).mkdir(exist_ok=True)
                            _link(file, objects / two / file.name)
        except OSError:
            others = "".join(f"{os.path.realpath(source)}\n" for source in folders)
            (objects / "info/alternates").write_bytes(os.fsencode(others))
            return False
        return True

    def contents(self, ids: Iterable[str], place: Path) -> Iterator[tuple[str, bytes | None]]:
        """Yield each of ``ids`` with its content; None if that is gone, or git cannot read it.

        ``place`` is a git folder made by ``borrow``.

        Raises:
            NoUndo: git cannot be started.
            TooSlow: it took too long.
        """
        process = self._start(("cat-file", "--batch"), place, self._at(place))
        try:
            for wanted in ids:
                self.check()
                content = None
                with suppress(BrokenPipeError):
                    content = _content(process, wanted)
                yield wanted, content
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()

    def check(self) -> None:
        """Check that there is time left.

        Raises:
            NoUndo: the work was stopped.
            TooSlow: there is none.
        """
        if self._stopped.is_set():
            raise NoUndo("it was stopped")
        if time.monotonic() > self._deadline:
            raise TooSlow(
                f"a snapshot of {shown_path(self.top)} takes more than {self._seconds:g} s"
            )

    def _at(self, place: Path) -> Mapping[str, str]:
        return {"GIT_DIR": str(place), "GIT_WORK_TREE": str(self.top)}

    def _start(
        self,
        arguments: Sequence[str],
        cwd: Path | bytes,
        more: Mapping[str, str],
        given: IO[bytes] | int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        self.check()
        command = git_command(self.top, *arguments)
        if command is None:
            raise Nowhere("git was not found")
        try:
            return subprocess.Popen(
                command,
                cwd=cwd,
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
            self.check()


def _content(process: subprocess.Popen[bytes], wanted: str) -> bytes | None:
    """Ask ``git cat-file --batch`` for a content; None if it does not have it, or has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{wanted}\n".encode())
    process.stdin.flush()
    about = process.stdout.readline().split()
    if len(about) != 3:
        return None
    size = int(about[2])
    content = process.stdout.read(size + 1)
    return content[:size] if len(content) == size + 1 else None


def _files(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    return []


def _link(file: os.DirEntry[str], to: Path) -> None:
    with suppress(FileExistsError):
        os.link(file.path, to, follow_symlinks=False)
