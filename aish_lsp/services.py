"""What all workspaces of a process share: the way out to models, the grants, the environment."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from aish_lsp.conversation.calibration import Calibration
from aish_lsp.models.catalog import Catalog
from aish_lsp.paths import data_dir
from aish_lsp.questions import nobody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset, Tokenize
    from aish_lsp.config.trust import TrustStore
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.tokenizer import EndpointTokenizer
    from aish_lsp.questions import AskUser


class Services:
    """Shared parts. Nothing is opened, probed or imported before it is first used."""

    def __init__(self, ask_user: AskUser = nobody, environ: Mapping[str, str] = os.environ) -> None:
        self.ask_user = ask_user
        self.environ = environ
        self._http: HttpClient | None = None
        self._trust: TrustStore | None = None
        self._catalog: Catalog | None = None
        self._calibration: Calibration | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._tokenizers: dict[tuple[str, str], tuple[Preset, float, EndpointTokenizer]] = {}

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

            self._trust = TrustStore(data_dir() / "trust.json")
        return self._trust

    @property
    def catalog(self) -> Catalog:
        """The models there are."""
        if self._catalog is None:
            self._catalog = Catalog(self.http, self.trust, self.environ)
        return self._catalog

    @property
    def calibration(self) -> Calibration:
        """What models' tokens come to, against what is estimated."""
        if self._calibration is None:
            self._calibration = Calibration(data_dir() / "calibration.json")
        return self._calibration

    def keep_calibration(self) -> None:
        """Write down what was learned, without anybody waiting for it."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self.calibration.save(), name="keep calibration")

    def tokenizer(self, preset: Preset, tokenize: Tokenize) -> EndpointTokenizer | None:
        """Return the tokenizer of the model's own server; None where it is not to be asked."""
        if not tokenize.use_endpoint or preset.provider != "openai":
            return None
        timeout_s = tokenize.timeout_ms / 1000
        key = preset.endpoint, preset.model
        known = self._tokenizers.get(key)
        # With another key, say, one that was refused may answer.
        if known is None or known[:2] != (preset, timeout_s):
            from aish_lsp.models.tokenizer import (  # noqa: PLC0415 - not needed by default
                EndpointTokenizer,
            )

            tokenizer = EndpointTokenizer(self.http, preset, self.environ, timeout_s=timeout_s)
            known = self._tokenizers[key] = preset, timeout_s, tokenizer
        return known[2] if known[2].capable else None

    def distrust_tokenizer(self, preset: Preset, counted: int, actual: int) -> None:
        """Ask the tokenizer no more that counted so much otherwise than the model itself."""
        known = self._tokenizers.get((preset.endpoint, preset.model))
        if known is not None:
            known[2].distrust(counted, actual)

    def take_troubles(self) -> list[str]:
        """Return, once each, what the user should know of these parts."""
        troubles = [*self.catalog.take_troubles(), *self.calibration.take_troubles()]
        for _, _, tokenizer in self._tokenizers.values():
            troubles += tokenizer.take_notices()
        return troubles

    async def aclose(self) -> None:
        """Write down what was learned, and close connections."""
        try:
            if self._keeping is not None:
                await asyncio.wait([self._keeping])
                await self.calibration.save()
        finally:
            if self._http is not None:
                await self._http.aclose()
