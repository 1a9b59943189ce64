"""The files of a folder that git cannot list: by the rules that git has."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from aish_lsp.project.ignored import Chain, IgnoreFiles, is_ignored


def walk(root: Path, ignore_files: IgnoreFiles, stopped: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield the names of the files under ``root``, folder by folder, until ``stopped`` says so.

    Links are named and not followed; of another repository only its folder is named. What cannot
    be read is passed over.
    """
    waiting: deque[tuple[tuple[str, ...], Chain]] = deque([((), ignore_files.chain(()))])
    while waiting and not stopped():
        path, chain = waiting.popleft()
        try:
            with os.scandir(root.joinpath(*path)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        if path and any(entry.name == ".git" and _is_repository(entry) for entry in entries):
            yield ["/".join(path) + "/"]
            continue
        if path and any(entry.name == ".gitignore" for entry in entries):
            chain = ignore_files.with_own(chain, path)
        names = []
        for entry in entries:
            inner = (*path, entry.name)
            folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or is_ignored(chain, inner, folder=folder):
                continue
            if folder:
                waiting.append((inner, chain))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                names.append("/".join(inner))
        yield names


def _is_repository(entry: os.DirEntry[str]) -> bool:
    """Return whether ``entry``, called ``.git``, makes a repository of the folder it is in."""
    if entry.is_dir(follow_symlinks=False):
        return Path(entry.path, "HEAD").exists() and Path(entry.path, "objects").exists()
    return entry.is_file(follow_symlinks=False)
