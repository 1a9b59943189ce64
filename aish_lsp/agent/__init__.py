"""A ``Workspace``: the context of a folder, and the conversations in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.agent.folder import FolderContext
from aish_lsp.agent.sessions import OpenSessions

if TYPE_CHECKING:
    from aish_lsp.agent.services import Services
    from aish_lsp.agent.session import Session
    from aish_lsp.config.loading import Configuration


class Workspace(FolderContext):
    """The context of one folder, and the sessions in it."""

    def __init__(self, root: Path | None, services: Services, configuration: Configuration) -> None:
        super().__init__(root, services, configuration)
        self.sessions = OpenSessions(self)

    @property
    def shown(self) -> Session:
        """The session that the editor shows."""
        return self.sessions.shown

    async def aclose(self) -> None:
        """Stop running jobs, wait until they have recorded their results, and close the files."""
        await asyncio.gather(*(session.jobs.stop() for session in self.sessions.open))
        await super().aclose()
        await self.sessions.aclose()
