"""The clipboard of this machine, by the program that the desktop has for it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Mapping
from subprocess import DEVNULL, PIPE
from typing import Final

logger = logging.getLogger(__name__)

#: Seconds that a program may take; some stay behind, to hold what was copied.
_TIMEOUT: Final = 5.0


async def to_clipboard(text: str, environ: Mapping[str, str]) -> bool:
    """Put ``text`` into the clipboard; return whether a program was found that did."""
    for program, *options in _programs(environ):
        found = shutil.which(program, path=environ.get("PATH"))
        if found and await _copied([found, *options], text, environ):
            return True
    return False


def _programs(environ: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the programs that may work here, with their options."""
    yield ("pbcopy",)
    if "WAYLAND_DISPLAY" in environ:
        yield ("wl-copy",)
    if "DISPLAY" in environ:
        yield ("xclip", "-selection", "clipboard")
        yield ("xsel", "--clipboard", "--input")
    yield ("clip.exe",)
    if "TMUX" in environ:
        yield ("tmux", "load-buffer", "-w", "-")


async def _copied(arguments: list[str], text: str, environ: Mapping[str, str]) -> bool:
    """Hand ``text`` to a program on its stdin; return whether it took it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=dict(environ)
        )
        await asyncio.wait_for(process.communicate(text.encode(errors="replace")), _TIMEOUT)
    except (OSError, TimeoutError) as error:
        logger.info("%s did not copy: %s", arguments[0], type(error).__name__)
        return False
    return process.returncode == 0
