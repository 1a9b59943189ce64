"""A repository, what a command may do in it, and all that can be seen of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path
from typing import Self

from aish_lsp.undo.git import Git
from aish_lsp.undo.records import undo_folder
from aish_lsp.undo.reverting import Reverted
from aish_lsp.undo.work import Ended, RunningCommand, Worker

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "someone@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}


def git(root: Path, *arguments: str, code: int = 0) -> str:
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def repository(root: Path, **files: str) -> Path:
    """Make a repository in which ``files`` are committed, if any."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    if files:
        write(root, files)
        commit(root)
    return root


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "some")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def worker(folder: Path, seconds: float = 60) -> Worker:
    return Worker(folder, lambda top: Git(top, seconds, threading.Event()))


class Command:
    """What runs in its block is a command's doing; ``ended`` tells of it afterwards."""

    def __init__(self, folder: Path, group: str = "one") -> None:
        self._worker = worker(folder)
        self._group = group
        self._begun: RunningCommand | None = None
        self.ended = Ended([], [], [], [])

    def __enter__(self) -> Self:
        self._begun = self._worker.begin(self._group, "some command")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._begun is not None
        self.ended = self._worker.finish(self._begun)


def undo(
    folder: Path,
    overwrite: frozenset[bytes] | None = frozenset(),
    *,
    decided: bool = False,
    made: frozenset[bytes] | None = None,
) -> Reverted:
    return worker(folder).revert(overwrite, decided=decided, made=made)


def records(folder: Path) -> list[str]:
    """Return the numbers of a workspace's records."""
    return sorted(path.stem for path in undo_folder(folder).glob("*.record"))


def redo(folder: Path) -> Reverted:
    return worker(folder).revert(frozenset(), decided=False, kind="redo")


def look(root: Path) -> dict[bytes, object]:
    """Return each file and link under ``root``, but for git's: its type, permission, content."""
    seen: dict[bytes, object] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *folders]:
            path = Path(os.fsdecode(folder), os.fsdecode(name))
            found = path.lstat()
            key = os.fsencode(path.relative_to(root))
            if stat.S_ISLNK(found.st_mode):
                seen[key] = ("link", os.fsencode(path.readlink()))
            elif stat.S_ISREG(found.st_mode) and name != b".git":
                seen[key] = (oct(found.st_mode & 0o777), path.read_bytes())
    return seen


def git_state(root: Path) -> dict[str, object]:
    """Return what an undo must not touch: index, HEAD, configuration, logs, refs, objects."""
    folder = root / ".git"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def remove(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
