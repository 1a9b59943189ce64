"""Text files of a workspace, read with a bound and never from outside of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from aish_lsp.foundation.redaction import is_secret_file


def read_head(
    root: Path, name: str, limit: int, *, secret: bool = False
) -> tuple[str, bool] | None:
    """Return up to ``limit`` bytes of the file ``name`` under ``root``, and whether that is all.

    None where there is no such file, where it cannot be read, is no regular file, is binary, or
    where its real path is outside of ``root``; and where secrets are kept under its name or under
    that which a link leads to, unless it is known to be ``secret`` and the user is asked. What is
    no UTF-8 is replaced.
    """
    real_root = os.path.realpath(root)
    real = Path(os.path.realpath(Path(root, name)))
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
    """Return up to ``limit`` bytes of ``path``, or None where it is not a readable regular file.

    A link as the last part is not followed, and nothing is waited for: not a pipe's other end.
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
