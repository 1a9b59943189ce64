"""The user at a terminal: asking them, and opening a workspace for them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.questions import nobody
from aish_lsp.services import Services
from aish_lsp.workspace import Workspace

if TYPE_CHECKING:
    from aish_lsp.questions import AskUser, Question


def asker() -> AskUser:
    """Return how to ask the user at this terminal; without one, nobody answers."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else nobody


async def _ask(question: Question) -> bool | None:
    """Ask on stderr; only a plain yes is a yes."""
    answer = await read_line(f"{question.message}\n{question.yes}? [y/N] ")
    return None if answer is None else answer.strip().lower() in ("y", "yes")


async def read_line(prompt: str) -> str | None:
    """Read a line from the terminal after ``prompt`` on stderr; None at its end."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\n") if line else None


@contextlib.asynccontextmanager
async def open_workspace(root: Path) -> AsyncIterator[Workspace]:
    """Open the workspace at ``root`` with the user's configuration; close it at the end."""
    from aish_lsp.config.loading import Configuration  # noqa: PLC0415 - brings the validator

    services = Services(asker())
    workspace = Workspace(root, services, Configuration(root, services.trust))
    try:
        yield workspace
    finally:
        await workspace.aclose()
        await services.aclose()
