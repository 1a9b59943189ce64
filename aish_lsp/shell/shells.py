"""Which shell runs what: a suggestion may name another than the user's own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_POWERSHELLS: Final = frozenset({"pwsh", "powershell"})


def shell_for(named: str, own: str, path: str | None) -> tuple[str, str]:
    """Return the shell that runs what is for the shell ``named``, and what stands against it.

    Args:
        named: as a suggestion names it; empty for the user's own.
        own: the user's own (``safety.shell``), a name or a path.
        path: the folders to look in.

    What stands against it is empty where the shell can be used. PowerShell is used only where it is
    the user's own: what is written for it does something else in any other.
    """
    name = Path(own).name.removesuffix(".exe")
    if not named or name == named or {name, named} <= _POWERSHELLS:
        return own, ""
    if named in _POWERSHELLS:
        return named, f"it is for PowerShell, and your shell (`safety.shell`) is {name}"
    if shutil.which(named, path=path) is None:
        return named, f"it is for {named}, which is not installed here"
    return named, ""
