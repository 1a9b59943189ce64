"""git, started so that it runs nothing from the workspace, whose repository may be hostile.

It lists a folder's files, those that are gone, and what recent commits changed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from aish_lsp.foundation.git import git_command, git_environment
from aish_lsp.foundation.opening import read_regular

#: Bytes of git's output that are read at a time; parsing them takes about a millisecond.
_PIECE = 1 << 16

#: The longest name, in bytes; no file system allows a longer one.
_NAME_LIMIT = 16 << 10

#: Bytes of a repository's own ignore file that are read if git refuses the repository.
_EXCLUDE_LIMIT = 128 << 10

#: ``-t`` shows what a sparse checkout leaves out, ``-s`` what is a submodule.
_TRACKED = ("--literal-pathspecs", "ls-files", "-z", "-t", "-s", "-c")
_OTHERS = ("--literal-pathspecs", "ls-files", "-z", "-o", "--exclude-standard")
_BOTH = (*_TRACKED, "-o", "--exclude-standard")
_GONE = ("ls-files", "-z", "-d")
_DECIDING = ("rev-parse", "--git-path", "index", "--git-path", "info/exclude")
#: The commits whose changes count as recent.
_LATE = ("rev-list", "--no-merges", "-n", "20", "HEAD")
_CHANGED = ("diff-tree", "--stdin", "-r", "-z", "--relative", "--name-only", "--no-commit-id")


class GitUnavailable(Exception):
    """git is not installed, could not be started, or reported a failure."""


class ProjectGit:
    """git in the folder ``root``. All of its processes can be ended at once, from any thread.

    Each question immediately starts a process, whose answer is read when it is needed. An instance
    is used once, for one block of ``at_work``.

    Args:
        root: the folder.
        given: whether git is given an empty repository. With one, git can apply its ignore rules to
            a folder that is in no repository, or in one that it refuses.

    Attributes:
        ended: whether git was ended, by a caller or because it took too long.
        late: whether git took too long.
    """

    def __init__(self, root: Path, *, given: bool = False) -> None:
        self.ended = False
        self.late = False
        self._root = root
        self._given = given
        self._options: list[str] = []
        self._running: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def at_work(self, seconds: float) -> Iterator[None]:
        """Let git work within the block; end what still runs at its end or after ``seconds``.

        Raises:
            GitFailed: the empty repository could not be made.
        """
        timer = threading.Timer(seconds, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            with ExitStack() as stack:
                if self._given:
                    self._make_repository(stack)
                yield
        finally:
            timer.cancel()
            self.end()
            for process in self._running:
                if process.stdout is not None:
                    process.stdout.close()
                process.wait()

    def _make_repository(self, stack: ExitStack) -> None:
        try:
            made = tempfile.TemporaryDirectory(prefix="aish-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            (folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
            for name in ("objects", "refs", "info"):
                (folder / name).mkdir()
            exclude = read_regular(self._root / ".git" / "info" / "exclude", _EXCLUDE_LIMIT)
            (folder / "info" / "exclude").write_bytes(exclude or b"")
        except OSError as error:
            raise GitUnavailable from error
        self._options += [f"--git-dir={folder}", "--work-tree=."]

    def end(self) -> None:
        """End all processes, and with them their output. Safe in any thread."""
        self.ended = True
        for process in list(self._running):
            process.kill()

    def _end_late(self) -> None:
        self.late = True
        self.end()

    def _start(self, *arguments: str, fed_by: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        command = git_command(self._root, *self._options, *arguments)
        if command is None:
            raise GitUnavailable
        try:
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=git_environment(),
                stdin=fed_by or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in a name
            raise GitUnavailable from error
        self._running.append(process)
        if self.ended:
            process.kill()
        return process

    # Each of these raises GitFailed: at once if git cannot be started, or while its answer is read
    # if git has failed.

    def tracked(self) -> Iterator[list[str]]:
        """Return the names of what is tracked."""
        return self._read(self._start(*_TRACKED), _tagged_names)

    def others(self) -> Iterator[list[str]]:
        """Return the names of what is new and not ignored."""
        return self._read(self._start(*_OTHERS), _names)

    def at(self, places: Iterable[str]) -> Iterator[list[str]]:
        """Return the names of both at some places: one process reads the index once."""
        return self._read(self._start(*_BOTH, "--", *places), _tagged_names)

    def gone(self) -> Iterator[list[str]]:
        """Return the names of what is tracked but not on the disk."""
        return self._read(self._start(*_GONE), _names)

    def recent(self) -> Iterator[list[str]]:
        """Return the names that the last commits changed, the latest first."""
        commits = self._start(*_LATE)
        return self._read(self._start(*_CHANGED, fed_by=commits.stdout), _names)

    def deciding(self) -> Iterator[Path]:
        """Return the repository's files whose changes may change the list."""
        answer = self._start(*_DECIDING).stdout
        assert answer is not None
        return (self._root / os.fsdecode(line).rstrip("\n") for line in answer)

    def ignores(self, name: str) -> bool:
        """Return whether a file of that name is ignored, whether it exists or not."""
        # check-ignore has no --literal-pathspecs; with --no-index, "./" makes any name literal.
        status = self._start("check-ignore", "-q", "--no-index", "--", f"./{name}").wait()
        if status > 1 or self.ended:
            raise GitUnavailable
        return status == 0

    def _read(
        self, process: subprocess.Popen[bytes], names_of: Callable[[bytes], list[str]]
    ) -> Iterator[list[str]]:
        """Yield the names that git prints, in pieces; text after the last NUL is dropped."""
        assert process.stdout is not None
        rest, last = b"", ""
        while piece := process.stdout.read(_PIECE):
            records, zero, rest = (rest + piece).rpartition(b"\0")
            if len(rest) > _NAME_LIMIT:
                raise GitUnavailable
            names = names_of(records + zero) if zero else []
            if names and names[0] == last:  # the stages of an unmerged file, cut in two
                del names[0]
            last = names[-1] if names else last
            yield names
        if process.wait() != 0 and not self.ended:
            raise GitUnavailable


def _tagged_names(records: bytes) -> list[str]:
    """Return the names in ``records``: TAG MODE OBJECT STAGE, a tab, the name, a NUL.

    What is not tracked is a question mark, a space, the name, a NUL.
    """
    lines = os.fsdecode(records).split("\0")[:-1]
    usual = records.count(b"\0H 100") + records.startswith(b"H 100")
    if usual == len(lines):  # plain files: usually there is nothing else
        start = lines[0].index("\t") + 1
        return _inside([line[start:] for line in lines], records)
    names: dict[str, None] = {}  # an unmerged file is listed once for each stage
    for line in lines:
        if line.startswith("? "):
            names[line[2:]] = None
            continue
        stage, _, name = line.partition("\t")
        if not stage.startswith("S"):
            names[f"{name}/" if stage[2:].startswith("160000") else name] = None
    return _inside(list(names), records)


def _names(records: bytes) -> list[str]:
    return _inside(os.fsdecode(records).split("\0")[:-1], b"\0" + records)


def _inside(names: list[str], records: bytes) -> list[str]:
    """Return ``names`` without those that lead outside, which git itself never puts in an index."""
    if not any(sign in records for sign in (b"..", b"\0/", b"\t/", b"? /")):
        return names
    return [name for name in names if not name.startswith("/") and ".." not in name.split("/")]
