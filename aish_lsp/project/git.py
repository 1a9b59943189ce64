"""git, started so that it runs nothing of the workspace's own: its repository may be hostile.

What it says of a folder: its files, where its ignore files are, what was changed of late.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Bytes that are read of git's output at a time: they are parsed in about a millisecond.
_PIECE = 1 << 16

#: Commits that are looked at for what was changed of late, and bytes of names of theirs.
_COMMITS = 20
_RECENT_LIMIT = 64 << 10

#: ``-t`` tells what a sparse checkout leaves out, ``-s`` what is a submodule.
_TRACKED = ("ls-files", "-z", "-t", "-s", "-c")
_OTHERS = ("ls-files", "-z", "-o", "--exclude-standard")
_GONE = ("ls-files", "-z", "-d")
_PLACES = ("rev-parse", "--show-toplevel", "--git-path", "info/exclude", "--git-path", "index")
_SETTINGS = ("config", "-z", "--path", "--get-regexp", r"^core\.(excludesfile|ignorecase)$")
_LATE = ("rev-list", "--no-merges", "-n", str(_COMMITS), "HEAD")
_CHANGED = ("diff-tree", "--stdin", "-r", "-z", "--relative", "--name-only", "--no-commit-id")


@dataclass(frozen=True, slots=True)
class Places:
    """Where a repository keeps what decides about its files; None where there is no such thing."""

    top: Path | None
    exclude: Path | None
    index: Path | None
    everywhere: Path | None
    case_folded: bool


class GitFailed(Exception):
    """There is no git, or it could not be started, or it says that it failed."""


class Git:
    """git in one folder. All of its processes can be ended at once, from another thread.

    Args:
        root: the folder.
        repository: the ``.git`` folder, where git is not to look for one.
    """

    def __init__(self, root: Path, repository: Path | None = None) -> None:
        self._root = root
        self._options = () if repository is None else (f"--git-dir={repository}", "--work-tree=.")
        self._running: list[subprocess.Popen[bytes]] = []
        self._ended = False
        #: Whether the repository leaves files out that are tracked.
        self.sparse = False

    def start(self, *arguments: str, feed: bool = False) -> subprocess.Popen[bytes]:
        """Start git; ``feed``: it reads its standard input.

        Raises:
            GitFailed: it cannot be started.
        """
        command = git_command(self._root, *self._options, *arguments)
        if command is None:
            raise GitFailed
        try:
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=git_environment(),
                stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        except OSError as error:
            raise GitFailed from error
        self._running.append(process)
        if self._ended:
            process.kill()
        return process

    def end(self) -> None:
        """End all that runs; what is read of it ends there. Safe in any thread."""
        self._ended = True
        for process in list(self._running):
            process.kill()

    def close(self) -> None:
        """End all that still runs and let go of it."""
        self.end()
        for process in self._running:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()

    def start_tracked(self) -> subprocess.Popen[bytes]:
        """Begin to list what is tracked; for ``tracked``."""
        return self.start(*_TRACKED)

    def start_others(self) -> subprocess.Popen[bytes]:
        """Begin to list what is new and not ignored; for ``others``."""
        return self.start(*_OTHERS)

    def tracked(self, process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
        """Yield the names of what is tracked.

        Raises:
            GitFailed: git says that it failed.
        """
        last = ""
        for records in _records(process):
            names = self._tracked(records)
            if names and names[0] == last:  # one file of a merge, cut in two
                del names[0]
            last = names[-1] if names else last
            yield names
        self._check(process)

    def others(self, process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
        """Yield the names of what is new.

        Raises:
            GitFailed: git says that it failed.
        """
        for records in _records(process):
            yield _inside(os.fsdecode(records).split("\0")[:-1], b"\0" + records)
        self._check(process)

    def gone(self) -> Iterator[list[str]]:
        """Yield the names of what is tracked and not on disk.

        Raises:
            GitFailed: git says that it failed.
        """
        yield from self.others(self.start(*_GONE))

    def places(self, asked: Sequence[subprocess.Popen[bytes]]) -> Places:
        """Return what ``ask_places`` asked for."""
        found, settings = (process.communicate()[0] for process in asked)
        configured = dict(
            setting.partition("\n")[::2] for setting in os.fsdecode(settings).split("\0") if setting
        )
        lines = os.fsdecode(found).split("\n")[:-1]
        # A name with a newline in it cannot be told from two.
        whole = len(lines) == 3
        paths = [self._root / line if whole else None for line in (*lines, "", "", "")]
        return Places(
            top=paths[0],
            exclude=paths[1],
            index=paths[2],
            everywhere=excludes_file(configured.get("core.excludesfile")),
            case_folded=configured.get("core.ignorecase", "false").lower()
            not in ("false", "no", "off", "0"),
        )

    def ask_places(self) -> Sequence[subprocess.Popen[bytes]]:
        """Begin to ask where the repository is and what is configured; for ``places``."""
        return self.start(*_PLACES), self.start(*_SETTINGS)

    def ask_commits(self) -> subprocess.Popen[bytes]:
        """Begin to ask for the last commits; for ``ask_recent``."""
        return self.start(*_LATE)

    def ask_recent(self, commits: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Begin to ask for what those commits have changed; for ``recent``."""
        asked = self.start(*_CHANGED, feed=True)
        assert asked.stdin is not None
        with suppress(OSError):
            asked.stdin.write(commits.communicate()[0])
            asked.stdin.close()
        return asked

    def recent(self, asked: subprocess.Popen[bytes]) -> tuple[str, ...]:
        """Return the names of what was changed of late, the last first; a bounded number."""
        assert asked.stdout is not None
        answer = b""
        while len(answer) < _RECENT_LIMIT and (piece := asked.stdout.read(_RECENT_LIMIT)):
            answer += piece
        return tuple(dict.fromkeys(os.fsdecode(answer).split("\0")[:-1]))

    def _tracked(self, records: bytes) -> list[str]:
        """Return the names in ``records``: TAG MODE OBJECT STAGE, a tab, the name, a zero."""
        lines = os.fsdecode(records).split("\0")[:-1]
        usual = records.count(b"\0H 100") + records.startswith(b"H 100")
        if usual == len(lines):  # plain files, and most often there is nothing else
            start = lines[0].index("\t") + 1
            return _inside([line[start:] for line in lines], records)
        names: dict[str, None] = {}
        for line in lines:
            stage, _, name = line.partition("\t")
            if stage.startswith("S"):
                self.sparse = True
            else:
                names[f"{name}/" if stage[2:].startswith("160000") else name] = None
        return _inside(list(names), records)

    def _check(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() != 0 and not self._ended:
            raise GitFailed


def excludes_file(configured: str | None = None) -> Path | None:
    """Return the user's ignore file for all repositories; ``configured``: its path, where known."""
    if configured:
        return Path(configured)
    if configured is not None:
        return None
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - that one may raise
    return Path(base, "git", "ignore")


def _records(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield git's output in pieces that end behind a zero; what is cut off there is dropped."""
    assert process.stdout is not None
    rest = b""
    while piece := process.stdout.read(_PIECE):
        whole, zero, rest = (rest + piece).rpartition(b"\0")
        if zero:
            yield whole + zero


def _inside(names: list[str], records: bytes) -> list[str]:
    """Return ``names`` without those that git itself would never have put into an index."""
    before = b"\0/" if records.startswith(b"\0") else b"\t/"
    if b".." not in records and before not in records:
        return names
    return [name for name in names if not name.startswith("/") and ".." not in name.split("/")]


_NOTHING_RUNS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)
_NOTHING_IS_FETCHED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for versions that do not know the variable above
    "GIT_TERMINAL_PROMPT": "0",
}
#: What would turn git to another repository than the workspace's (``rev-parse --local-env-vars``).
_OTHER_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)


def git_command(root: Path, *arguments: str) -> list[str] | None:
    """Return the command that runs git with ``arguments``, or None where there is no git.

    One that an absolute entry of PATH names, and none that the workspace at ``root`` holds.
    """
    real_root = Path(os.path.realpath(root))
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    trusted = [
        entry
        for entry in entries
        if Path(entry).is_absolute() and not Path(os.path.realpath(entry)).is_relative_to(real_root)
    ]
    git = shutil.which("git", path=os.pathsep.join(trusted)) if trusted else None
    return None if git is None else [git, "--no-pager", *_NOTHING_RUNS, *arguments]


def git_environment() -> dict[str, str]:
    """Return the environment for ``git_command``, to be run in the workspace's folder."""
    kept = {key: value for key, value in os.environ.items() if key not in _OTHER_REPOSITORY}
    return kept | _NOTHING_IS_FETCHED
