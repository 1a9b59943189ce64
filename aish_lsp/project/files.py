"""The files of a workspace: those that git knows or would add, else those a walk finds.

Opening a stranger's folder must run nothing of its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from aish_lsp.project.git import git_command, git_environment
from aish_lsp.project.ignore import Rule, parse, verdict
from aish_lsp.project.safe_read import read_regular

#: Files of one listing; more are left out.
FILE_LIMIT = 200_000
#: Seconds that git, and then a walk, may take.
TIME_LIMIT = 10.0
#: Bytes of git's answer that are read.
_ANSWER_LIMIT = 64 << 20
#: Bytes of an ignore file that are read.
_IGNORE_FILE_LIMIT = 128 << 10

#: ``-t`` tags each name, so that one call tells what is tracked, deleted, sparse or new.
_LS_FILES = ("ls-files", "-z", "-t", "-s", "-c", "-o", "-d", "--exclude-standard")


@dataclass(frozen=True, slots=True)
class FileList:
    """The files of a folder: relative, ``/``-separated, sorted.

    A name that ends in ``/`` is another repository inside, which is not looked into. Bytes that
    are no UTF-8 are held as ``os.fsdecode`` holds them. ``truncated`` says that there are more;
    ``reason`` says why there is nothing, or not all.
    """

    files: tuple[str, ...]
    truncated: bool = False
    reason: str = ""


async def list_files(root: Path) -> FileList:
    """Return the files under ``root`` that no ignore rule leaves out.

    A folder that is gone or cannot be read gives an empty list with a reason. Where git is missing
    or refuses, and where an outer repository ignores the whole of ``root``, the folder is walked.
    """
    problem = await asyncio.to_thread(_problem, root)
    if problem:
        return FileList((), reason=problem)
    answer = await _ask_git(root)
    if answer:
        listed = await asyncio.to_thread(_from_git, answer)
        if listed.files:
            return listed
    return await asyncio.to_thread(_from_walk, root)


def _problem(root: Path) -> str:
    """Return why ``root`` cannot be listed, or nothing."""
    try:
        with os.scandir(root):
            return ""
    except OSError as error:
        return f"The folder {root} cannot be read: {error.strerror}."


def _bounded(names: Iterable[str], *, truncated: bool = False, reason: str = "") -> FileList:
    """Return ``names`` sorted, and cut where there are too many."""
    ordered = sorted(names)
    if len(ordered) > FILE_LIMIT:
        reason = f"Only the first {FILE_LIMIT} files are listed."
        return FileList(tuple(ordered[:FILE_LIMIT]), truncated=True, reason=reason)
    return FileList(tuple(ordered), truncated, reason)


async def _ask_git(root: Path) -> bytes | None:
    """Return git's answer, or None: no git, no repository, refused, too slow."""
    command = git_command(root, *_LS_FILES)
    if command is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=root,
            env=git_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    assert process.stdout is not None
    answer = bytearray()
    try:
        async with asyncio.timeout(TIME_LIMIT):
            while room := _ANSWER_LIMIT - len(answer):
                chunk = await process.stdout.read(min(room, 1 << 18))
                if not chunk:
                    return bytes(answer) if await process.wait() == 0 else None
                answer += chunk
            return bytes(answer)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def _from_git(answer: bytes) -> FileList:
    """Return the files of git's answer; what is tracked but not on disk is dropped."""
    truncated = len(answer) >= _ANSWER_LIMIT
    names: set[bytes] = set()
    absent: set[bytes] = set()
    for record in answer.split(b"\0")[:-1]:  # what follows the last zero is cut off, or nothing
        tag, _, rest = record.partition(b" ")
        if tag == b"?":
            names.add(rest)
            continue
        stage, _, name = rest.partition(b"\t")
        name += b"/" if stage.startswith(b"160000") else b""  # a submodule
        (absent if tag in (b"R", b"S") else names).add(name)
    kept = [os.fsdecode(name) for name in names - absent if _stays_inside(name)]
    reason = "Only the beginning of git's answer was read." if truncated else ""
    return _bounded(kept, truncated=truncated, reason=reason)


def _stays_inside(name: bytes) -> bool:
    """Return whether ``name`` is one that git itself would have put into an index."""
    return bool(name) and not name.startswith(b"/") and b".." not in name.split(b"/")


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder still to be walked, with the rules that hold in it: (segments above, rules)."""

    path: tuple[str, ...]
    rules: tuple[tuple[int, tuple[Rule, ...]], ...]

    def ignores(self, name: str, *, folder: bool) -> bool:
        """Return whether ``name`` in it is left out: the deepest ignore file that tells decides."""
        path = tuple(os.fsencode(part) for part in (*self.path, name))
        for above, rules in reversed(self.rules):
            ignored = verdict(rules, path[above:], folder=folder)
            if ignored is not None:
                return ignored
        return False


def _from_walk(root: Path) -> FileList:
    """Return the files that a walk finds, the shallow ones first where there are too many."""
    deadline = time.monotonic() + TIME_LIMIT
    names = list(islice(_walk(root, deadline), FILE_LIMIT + 1))
    if time.monotonic() <= deadline:
        return _bounded(names)
    reason = f"The folder could not be listed within {TIME_LIMIT:g} seconds."
    return _bounded(names, truncated=True, reason=reason)


def _walk(root: Path, deadline: float) -> Iterator[str]:
    """Yield the files under ``root``, folder by folder, until the ``deadline``.

    Links are named and not followed.
    """
    exclude = _rules(root / ".git" / "info" / "exclude")
    waiting = deque([_Folder((), ((0, exclude),))])
    while waiting:
        folder = waiting.popleft()
        here = root.joinpath(*folder.path)
        try:
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        if any(entry.name == ".gitignore" for entry in entries):
            own = (len(folder.path), _rules(here / ".gitignore"))
            folder = _Folder(folder.path, (*folder.rules, own))
        for entry in entries:
            if time.monotonic() > deadline:
                return
            path = (*folder.path, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git" and not folder.ignores(entry.name, folder=True):
                    waiting.append(_Folder(path, folder.rules))
            elif _is_listed(entry) and not folder.ignores(entry.name, folder=False):
                yield "/".join(path)


def _is_listed(entry: os.DirEntry[str]) -> bool:
    """Return whether ``entry`` is a file or a link, as opposed to a pipe, a socket, a device."""
    return entry.name != ".git" and (entry.is_symlink() or entry.is_file(follow_symlinks=False))


def _rules(path: Path) -> tuple[Rule, ...]:
    """Return the rules of an ignore file; one that is no regular file has none, as with git."""
    content = read_regular(path, _IGNORE_FILE_LIMIT)
    return parse(content) if content else ()
