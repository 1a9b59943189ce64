"""Run a command as the server runs what is safe: confined. For ``inside``, in a sandbox."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command


class Confined:
    """Runs commands confined, one after another."""

    def __init__(self, environment: dict[str, str]) -> None:
        # The secret places are those of the home that the commands see.
        os.environ.update(environment)
        self._environment = environment
        self._runner = asyncio.Runner()
        self._confinement = Confinement(os.environ)
        support = self._runner.run(self._confinement.support())
        if not support.available:
            raise RuntimeError(f"no confinement: {support.detail}")

    def run(self, command: str, folder: Path, timeout: float) -> tuple[str, bool]:
        """Return what ``command`` printed, and whether it was ended."""
        return self._runner.run(self._run(command, folder, timeout))

    async def _run(self, command: str, folder: Path, seconds: float) -> tuple[str, bool]:
        async def ignore(_stream: str, _delta: str) -> None:
            """The result has it all."""

        with await self._confinement.sandbox(folder) as sandbox:
            result = await run_command(
                command,
                cwd=folder,
                shell="bash",
                timeout=seconds,
                env=self._environment,
                on_output=ignore,
                sandbox=sandbox,
            )
        return result.output, result.finish_reason != "stop"
