"""Where a command that was called safe is run, unconfined, and cannot hurt if it was not.

A sandbox is a set of new namespaces (user, mount, process, network) in which ``inside`` runs: the
machine is read-only there, the network is not there, and a home and a folder are thrown away.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Final, Self

_INSIDE: Final = Path(__file__).with_name("inside.py")
_ROOT: Final = Path("/tmp/aish")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMESPACES: Final = ("--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child")

#: What a run of the server has in its environment, but for what turns a trap of the scene off.
ENVIRONMENT: Final = {
    "PATH": PATH,
    "HOME": str(_ROOT / "home"),
    "TMPDIR": str(_ROOT / "tmp"),
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "USER": "user",
    "GIT_OPTIONAL_LOCKS": "0",
    "npm_config_update_notifier": "false",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one command.

    Attributes:
        command: the command.
        changes: the files that are new, gone or changed.
        calls: under strace, the system calls that wrote or reached out.
        output: the first of what it printed.
        timed_out: whether it was ended.
    """

    command: str
    changes: tuple[str, ...]
    calls: tuple[str, ...]
    output: str
    timed_out: bool


class Sandbox:
    """Namespaces of their own, with one command after another in them."""

    def __init__(self, *, confined: bool = False) -> None:
        self._process = subprocess.Popen(
            [*_how(), *_script(confined=confined)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and what runs in it."""
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def run(
        self,
        command: str,
        files: Mapping[str, str] = MappingProxyType({}),
        *,
        traced: bool = False,
        timeout: float = 2,
    ) -> Outcome:
        """Run ``command`` in the scene, with ``files`` put into it, and tell what it changed."""
        assert self._process.stdin is not None
        asked = {"command": command, "files": dict(files), "traced": traced, "timeout": timeout}
        print(
            json.dumps(asked | {"environment": ENVIRONMENT}), file=self._process.stdin, flush=True
        )
        told = self._answer(command)
        changes, calls = tuple(told["changes"]), tuple(told["calls"])
        return Outcome(command, changes, calls, told["output"], told["timed_out"])

    def _answer(self, command: str = "") -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sandbox has ended ({self._process.wait()}): {command}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_all(
    asked: Iterable[tuple[str, Mapping[str, str]]],
    *,
    traced: bool = False,
    confined: bool = False,
    timeout: float = 2,
) -> Iterator[Outcome]:
    """Run commands, some at once, each alone in the scene with its files; keep their order."""
    jobs = min(4, os.cpu_count() or 1)
    with ExitStack() as stack:
        free: SimpleQueue[Sandbox] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(Sandbox(confined=confined)))

        def run(one: tuple[str, Mapping[str, str]]) -> Outcome:
            sandbox = free.get()
            try:
                return sandbox.run(*one, traced=traced, timeout=timeout)
            finally:
                free.put(sandbox)

        yield from stack.enter_context(ThreadPoolExecutor(jobs)).map(run, asked)


def _script(*, confined: bool) -> Sequence[str]:
    """Return the script's command; it finds its modules where this process does."""
    paths = json.dumps([str(Path(path).absolute()) for path in sys.path if path])
    return (sys.executable, "-I", str(_INSIDE), paths, *(["confined"] if confined else []))


def _how() -> Sequence[str]:
    """Return how to get into new namespaces: as root of a user namespace, or as root itself."""
    if _works("--user", "--map-root-user"):
        return ("unshare", "--user", "--map-root-user", *_NAMESPACES)
    return ("unshare", *_NAMESPACES)


@cache
def _works(*options: str) -> bool:
    command = ["unshare", *options, *_NAMESPACES, "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
