"""The profile that ``sandbox-exec`` confines a command with (macOS).

It was written from Apple's own profiles in ``/System/Library/Sandbox/Profiles``; the last rule that
matches decides. Whether it holds is settled by the probe, as on every system.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aish_lsp.shell.confinement.places import Closed

PROGRAM: Final = "/usr/bin/sandbox-exec"

#: What is the same for every command.
_HEAD: Final = Path(__file__).with_name("macos.sb").read_text("utf-8")


def profile(closed: Closed, writable: Path, readable: Path | None) -> str:
    """Return the profile: all but what is ``closed`` is read, ``writable`` is written.

    ``readable`` is read even where it lies in a closed place.

    Raises:
        ValueError: a path holds a character that a profile cannot name.
    """
    places = list(_filters(closed))
    rules = [
        f"(deny file-read-data process-exec {' '.join(places)})",
        # The names in a closed place may be seen.
        *(
            f"(allow file-read-data (require-all {place} (vnode-type DIRECTORY)))"
            for place in places
        ),
        f"(allow file-write* (subpath {_quoted(os.fspath(writable))}))",
    ]
    if readable is not None and closed.contains(readable):
        rules.append(
            f"(allow file-read-data process-exec (subpath {_quoted(os.fspath(readable))}))"
        )
    return _HEAD + "\n".join(rules) + "\n"


def _filters(closed: Closed) -> Iterator[str]:
    for folder, names in closed.patterns.items():
        for name in names:
            if "*" not in name:
                yield f"(subpath {_quoted(f'{folder}/{name}')})"
            else:
                yield f"(regex {_quoted(_regex(folder, name))})"


def _regex(folder: str, pattern: str) -> str:
    """Return the pattern of one name in ``folder``, and all below what has it."""
    literal = "".join(f"[{c}]" if c in ".+*?()|{}$^" else c for c in f"{folder}/")
    name = "".join("[^/]*" if c == "*" else "[.]" if c == "." else c for c in pattern)
    return f"^{literal}{name}(/|$)"


def _quoted(text: str) -> str:
    if not text.isprintable():
        msg = "a path holds a character that no sandbox profile can name"
        raise ValueError(msg)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
