"""What one command is started with, so that the kernel confines it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aish_lsp.shell.confinement.removal import remove


@dataclass(frozen=True, slots=True)
class Walls:
    """What one command is started with to be confined.

    To be entered before the command starts; what it holds is let go of at the exit. The supervisor
    removes ``temporary`` when nothing of the command is left, also where the server is gone then.

    Attributes:
        mechanism: what confines it, for the user.
        prefix: the command that confines the one behind it; empty on Linux.
        rulesets: descriptors of Landlock rulesets, which hold together; none but on Linux.
        program: the seccomp filter.
        lock: for the profile ``work``, the descriptor that keeps others off the work tree.
        work: for the profile ``work``, what the command's own world is made of.
        temporary: the command's own temporary folder.
    """

    mechanism: str
    temporary: Path
    prefix: tuple[str, ...] = ()
    rulesets: tuple[int, ...] = ()
    program: bytes = b""
    work: dict[str, object] | None = None
    lock: int | None = None

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the command, made from the one that it has unconfined."""
        names = ["TMPDIR", *(name for name in ("TMP", "TEMP") if name in environ)]
        return {**environ, **dict.fromkeys(names, os.fspath(self.temporary))}

    def plan(self) -> dict[str, object]:
        """Return what the supervisor is told, of what ``marshal`` can write."""
        told: dict[str, object] = {"temporary": os.fsencode(self.temporary)}
        told["passed"] = self.passed
        if self.rulesets:
            told |= {"rulesets": self.rulesets, "program": self.program, "work": self.work}
        return told

    @property
    def passed(self) -> tuple[int, ...]:
        """The descriptors that the supervisor needs, and the command must not get."""
        return self.rulesets if self.lock is None else (*self.rulesets, self.lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.passed:
            os.close(descriptor)
        # It is there still where no supervisor was started, or somebody killed it.
        remove(self.temporary)
