"""The figures of long runs: printed, and gathered in the file that ``FIGURES`` names."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def tell(what: str, **figures: object) -> None:
    """Say what a run came to, on one line; ``./dev full`` prints all such lines at its end."""
    line = f"{what}: {', '.join(f'{name} {value}' for name, value in figures.items())}\n"
    sys.stdout.write(line)
    if "FIGURES" in os.environ:
        with Path(os.environ["FIGURES"]).open("a") as file:
            file.write(line)
