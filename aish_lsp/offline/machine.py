"""The machine that commands are for: its system, and the tools that are installed on it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Machine:
    """A system (``linux``, ``darwin``), the folders that tools are looked for in, and a home."""

    system: str
    path: str
    home: Path
    _found: dict[str, str | None] = field(default_factory=dict, compare=False)

    @classmethod
    def here(cls) -> Self:
        """Return this machine as it is now."""
        system = "darwin" if sys.platform == "darwin" else "linux"
        return cls(system, os.environ.get("PATH", os.defpath), Path.home())

    def which(self, tool: str) -> str | None:
        """Return where ``tool`` is installed, if it is."""
        if tool not in self._found:
            self._found[tool] = shutil.which(tool, path=self.path)
        return self._found[tool]

    def has(self, tool: str) -> bool:
        """Return whether ``tool`` is installed."""
        return self.which(tool) is not None
