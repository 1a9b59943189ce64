"""What all workspaces of a process share: the way out to models, the grants, the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aish_lsp.models.catalog import Catalog
from aish_lsp.questions import nobody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.trust import TrustStore
    from aish_lsp.models.http import HttpClient
    from aish_lsp.questions import AskUser


class Services:
    """Shared parts. Nothing is opened, probed or imported before it is first used."""

    def __init__(self, ask_user: AskUser = nobody, environ: Mapping[str, str] = os.environ) -> None:
        self.ask_user = ask_user
        self.environ = environ
        self._http: HttpClient | None = None
        self._trust: TrustStore | None = None
        self._catalog: Catalog | None = None

    @property
    def http(self) -> HttpClient:
        """The client for model servers."""
        if self._http is None:
            from aish_lsp.models.http import HttpClient  # noqa: PLC0415 - httpx waits for a question

            self._http = HttpClient()
        return self._http

    @property
    def trust(self) -> TrustStore:
        """What the user has granted."""
        if self._trust is None:
            from aish_lsp.config.trust import TrustStore  # noqa: PLC0415 - not needed at start
            from aish_lsp.paths import data_dir  # noqa: PLC0415 - as above

            self._trust = TrustStore(data_dir() / "trust.json")
        return self._trust

    @property
    def catalog(self) -> Catalog:
        """The models there are."""
        if self._catalog is None:
            self._catalog = Catalog(self.http, self.trust, self.environ)
        return self._catalog

    async def aclose(self) -> None:
        """Close connections."""
        if self._http is not None:
            await self._http.aclose()
