"""The workspace's folder: the one that ``--workspace`` names, else the current one."""

from __future__ import annotations

import argparse
from pathlib import Path

from aish_lsp.foundation.errors import NotFound


def folder(text: str) -> Path:
    """Return the folder ``text`` names, absolute, for argparse."""
    path = Path(text)
    try:
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be used: {error.strerror}") from error
    raise argparse.ArgumentTypeError(f"{text} is not a folder")


def workspace_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder of the workspace that the command line is about.

    Raises:
        NotFound: none is named, and the current folder was deleted.
    """
    named: Path | None = arguments.workspace
    try:
        return named or Path.cwd()
    except OSError as error:
        msg = "The current folder is gone. Go to another, or name the workspace by --workspace."
        raise NotFound(msg) from error
