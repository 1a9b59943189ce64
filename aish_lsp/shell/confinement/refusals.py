"""Tells from what a confined command printed that something was refused to it."""

from __future__ import annotations

import ctypes
import errno
import locale
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

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
