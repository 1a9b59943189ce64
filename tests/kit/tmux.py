"""The command line of a user in a real terminal: tmux."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self


class Tmux:
    """A terminal of its own, for a user whose home is ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def running(
        self, command: str, columns: int, rows: int, *, before: str = "", **env: str
    ) -> AsyncIterator[Self]:
        """Run ``aish-lsp COMMAND`` in a terminal of this size, behind ``before``."""
        environment = {
            "HOME": str(self._folder),
            "AISH_CONFIG": str(self._folder / "config.toml"),
            "AISH_DATA_DIR": str(self._folder / "data"),
            # Who runs the tests may have named another width.
            "COLUMNS": "",
            **env,
        }
        variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
        program = f"{shlex.quote(sys.executable)} -m aish_lsp {command}"
        line = f"{before}env {' '.join(variables)} {program}; echo exit $?; sleep 100"
        try:
            await self.run("new-session", "-d", "-x", str(columns), "-y", str(rows), line)
            yield self
        finally:
            await self.run("kill-server")

    async def run(self, *arguments: str) -> str:
        """Run a command of tmux; return what it printed."""
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-S", str(self._folder / "tmux"), "-f", os.devnull, *arguments),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )
        printed, _ = await process.communicate()
        return printed.decode()

    async def keys(self, *names: str) -> None:
        """Press keys, each a text or a name of tmux's."""
        await self.run("send-keys", *names)

    async def screen(self) -> str:
        """Return what is shown, and what was before, with its colours."""
        return await self.run("capture-pane", "-p", "-e", "-J", "-S", "-")

    async def until(self, text: str) -> str:
        """Wait until a text is shown; return all that is."""
        async with asyncio.timeout(60):
            while text not in (screen := await self.screen()):
                await asyncio.sleep(0.1)
        return screen
