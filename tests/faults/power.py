"""What the power may take: a disk as far as it was synced, by a trace of the system's calls.

What was written to a file is safe with the fsync of that file; a name that was made, replaced or
removed, with the fsync of its folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from machine import without_tracing

#: What every traced script begins with.
PRELUDE = """
import os, sys
from pathlib import Path

def step(name, work):
    os.write(2, f"begin {name}".encode())
    result = work()
    os.write(2, f"end {name}".encode())
    return result
"""

_NAMES = ("openat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat")
_BYTES = ("write", "pwrite64", "writev", "pwritev", "ftruncate")
_SYNCS = ("fsync", "fdatasync")
# One that failed is none.
_CALL = re.compile(r"(\w+)\((.*)\)\s+= \d")
_MARK = re.compile(r'"(begin|end) (.*)"')
_OF = re.compile(r"\d+<([^>]*)>")
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Step:
    """A step of a script: what it wrote, and what the power could still take when it ended."""

    name: str
    written: set[str] = field(default_factory=set)
    unsynced: set[str] = field(default_factory=set)


def traced(script: str, folder: Path, *arguments: object) -> list[Step]:
    """Run a script under strace; return the steps it says it takes, as far as below ``folder``.

    A file that is renamed unsynced fails at once: the power could leave it empty.
    """
    if missing := without_tracing():
        pytest.skip(f"nothing is known of what the power may take: {missing}")
    trace = folder.with_name("trace")
    calls = ",".join(_NAMES + _BYTES + _SYNCS)
    command = ["strace", "-f", "-y", "-s", "200", "-e", f"trace={calls}", "-o", str(trace)]
    command += [sys.executable, "-c", PRELUDE + script, *map(str, (folder, *arguments))]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(_steps(_whole_lines(trace.read_text()), f"{folder}"))


def _whole_lines(trace: str) -> Iterator[str]:
    """Yield each call when it has returned, those that another thread stood between too."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>")
        elif call.startswith("<... "):
            yield begun.pop(thread) + call.partition("resumed>")[2]
        else:
            yield call


def _steps(calls: Iterator[str], folder: str) -> Iterator[Step]:
    now = Step("before the first")
    unsynced: set[str] = set()
    for line in calls:
        call = _CALL.match(line)
        if call is None:
            continue
        name, arguments = call.groups()
        mark = _MARK.search(arguments) if name == "write" else None
        of = _OF.match(arguments)
        if mark and mark[1] == "begin":
            now = Step(mark[2])
        elif mark:
            now.unsynced = set(unsynced)
            yield now
        elif name in ("fsync", "fdatasync") and of:
            unsynced.discard(of[1])
        elif name in _BYTES and of and of[1].startswith(folder):
            unsynced.add(of[1])
            now.written.add(of[1])
        elif name in _NAMES:
            paths = [path for path in _PATH.findall(arguments) if path.startswith(folder)]
            _rename(name, arguments, paths, unsynced)


def _rename(name: str, arguments: str, paths: list[str], unsynced: set[str]) -> None:
    """Take a call in that makes, replaces or removes names."""
    if not paths or (name == "openat" and "O_CREAT" not in arguments):
        return
    if name.startswith("rename"):
        assert paths[0] not in unsynced, f"{paths[0]} was renamed before it was synced"
    if name != "openat":
        unsynced.difference_update(paths[:1])
    # A file that is there already is never opened with O_CREAT.
    unsynced.update(map(_folder, paths))


def _folder(path: str) -> str:
    return str(Path(path).parent)
