"""Reading text files of a workspace, up to a limit and never from outside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from aish_lsp.foundation.redaction import is_secret_file


def read_head(
    root: Path, name: str, limit: int, *, secret: bool = False
) -> tuple[str, bool] | None:
    """Return up to ``limit`` bytes of the file ``name`` under ``root``, and whether that is all.

    None if the file does not exist, cannot be read, is not a regular file, is binary, or is outside
    ``root`` once links are followed. Also None if its name or a link's target is that of a file
    with secrets, unless ``secret`` says that the caller asks the user. Bytes that are not UTF-8 are
    replaced.
    """
    try:
        real_root, real = os.path.realpath(root), Path(os.path.realpath(Path(root, name)))
    except ValueError:  # a NUL or a lone surrogate in the name
        return None
    if not real.is_relative_to(real_root):
        return None
    names = (name, real.relative_to(real_root).as_posix())
    if not secret and any(map(is_secret_file, names)):
        return None
    content = read_regular(real, limit + 1)
    if content is None or b"\0" in content:
        return None
    text = content[:limit].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text, len(content) <= limit


def read_regular(path: Path, limit: int) -> bytes | None:
    """Return up to ``limit`` bytes of ``path``, or None if it is not a readable regular file.

    It does not follow a link as the last part of ``path``, or wait for the other end of a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = bytearray()
        while len(content) < limit and (piece := os.read(descriptor, limit - len(content))):
            content += piece
        return bytes(content)
    except OSError:
        return None
    finally:
        os.close(descriptor)
