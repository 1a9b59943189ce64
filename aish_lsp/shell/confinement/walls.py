"""What one command is started with, so that the kernel confines it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

#: What keeps tools that only read from trying to write or connect.
_QUIET: Final = {"GIT_OPTIONAL_LOCKS": "0", "npm_config_update_notifier": "false"}
#: Settings of git for this run alone: its file system monitor is a program, or a daemon.
_GIT_SETTINGS: Final = {"core.fsmonitor": "false"}


@dataclass(frozen=True, slots=True)
class Walls:
    """What one command is started with to be confined.

    To be entered before the command starts; what it holds is let go of at the exit. The supervisor
    removes ``temporary`` when nothing of the command is left, also where the server is gone then.

    Attributes:
        mechanism: what confines it, for the user.
        prefix: the command that confines the one behind it; empty on Linux.
        ruleset: the descriptor of a Landlock ruleset; None but on Linux.
        program: the seccomp filter.
        work: for the profile ``work``, what the command's own world is made of.
        temporary: the command's own temporary folder.
    """

    mechanism: str
    temporary: Path
    prefix: tuple[str, ...] = ()
    ruleset: int | None = None
    program: bytes = b""
    work: dict[str, object] | None = None

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the command, made from the one that it has unconfined."""
        moved = {n: os.fspath(self.temporary) for n in ("TMP", "TEMP") if n in environ}
        return {
            **environ,
            **moved,
            "TMPDIR": os.fspath(self.temporary),
            **_QUIET,
            **_git_settings(environ),
        }

    def plan(self) -> dict[str, object]:
        """Return what the supervisor is told, of what ``marshal`` can write."""
        told: dict[str, object] = {"temporary": os.fsencode(self.temporary)}
        if self.ruleset is not None:
            told |= {"ruleset": self.ruleset, "program": self.program, "work": self.work}
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ruleset is not None:
            os.close(self.ruleset)
        # It is there still where no supervisor was started, or somebody killed it.
        shutil.rmtree(self.temporary, ignore_errors=True)


def _git_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that add ``_GIT_SETTINGS`` behind those that ``environ`` has."""
    given = environ.get("GIT_CONFIG_COUNT", "0")
    count = int(given) if given.isdecimal() else 0
    added: dict[str, str] = {"GIT_CONFIG_COUNT": str(count + len(_GIT_SETTINGS))}
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), count):
        added |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return added
