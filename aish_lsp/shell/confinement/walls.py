"""What one command is started with, so that the kernel confines it; what its refusals look like."""

from __future__ import annotations

import ctypes
import errno
import locale
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

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


# Tells from what a confined command printed that something was refused to it.

#: What a refused file, system call or socket comes to.
_ERRORS: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EAFNOSUPPORT,
    errno.ENETUNREACH,
    errno.ENETDOWN,
)
#: What libraries make of it, untranslated.
_OTHER_WORDS: Final = (
    "no new privileges",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "EAI_AGAIN",
    "EACCES",
    "EPERM",
    "EROFS",
)
#: ``LC_MESSAGES_MASK`` of the C library.
_MESSAGES_MASK: Final = 1 << locale.LC_MESSAGES


def pattern(environ: Mapping[str, str]) -> re.Pattern[str]:
    """Return what finds the words of a refusal, in English and in the locale of ``environ``."""
    names = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return _pattern_in(next(filter(None, names), "C"))


@lru_cache(maxsize=8)
def _pattern_in(name: str) -> re.Pattern[str]:
    texts = [os.strerror(number) for number in _ERRORS]
    words = {*texts, *_translated(name), *_OTHER_WORDS}
    # Go's programs write all of them small.
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE)


def _translated(name: str) -> list[str]:
    """Return the C library's texts in a locale; none where that is not installed."""
    libc = ctypes.CDLL(None)
    try:
        make, free, text = libc.newlocale, libc.freelocale, libc.strerror_l
    except AttributeError:
        return []
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]
    text.restype, text.argtypes = ctypes.c_char_p, [ctypes.c_int, ctypes.c_void_p]
    made = make(_MESSAGES_MASK, os.fsencode(name), None)
    if not made:
        return []
    try:
        return [text(number, made).decode("utf-8", "replace") for number in _ERRORS]
    finally:
        free(made)
