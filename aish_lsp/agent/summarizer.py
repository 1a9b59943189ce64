"""Asking a model to summarize the turns that no longer fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.agent.events import Notice
from aish_lsp.agent.side_request import ask_aside
from aish_lsp.context.summary import rolled, summary_request
from aish_lsp.foundation.errors import AishError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.transcript import Fits
    from aish_lsp.context.turns import Turn
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import Message


class Summarizer:
    """Extends the rolling summary, for one turn.

    Args:
        session: whose conversation it is.
        active: the model that answers; it summarizes too, unless another one is configured.
        emit: where the user is told.

    Attributes:
        trouble: what kept the last summary from being written; empty where nothing did.
    """

    def __init__(self, session: Session, active: Preset, emit: Emit) -> None:
        self._session = session
        self._active = active
        self._emit = emit
        self.trouble = ""

    async def roll(self, prior: str, evicted: Sequence[Turn], max_chars: int) -> str:
        """Return the summary with the evicted turns in it; ``prior`` where that failed."""
        try:
            preset = await self._preset()
        except AishError as error:
            self.trouble = error.message
            await self._emit(Notice("warning", f"Old messages are not summarized: {self.trouble}"))
            return prior
        if preset.provider == "offline":
            self.trouble = "The offline model cannot summarize. `:model NAME` chooses another."
            return prior
        await self._emit(Notice("info", f"Summarizing {len(evicted)} old messages."))

        async def summarize(prior: str | None, turns: Sequence[Turn] | None) -> str | None:
            try:
                return await self._ask(preset, prior, turns, max_chars)
            except AishError as error:
                self.trouble = error.message
                raise

        return await rolled(prior, evicted, summarize, max_chars)

    async def _preset(self) -> Preset:
        workspace = self._session.workspace
        name = workspace.config.context.summary_model
        if not name:
            return self._active
        services = workspace.services
        chosen = await services.catalog.choose(workspace.config, name, services.ask_user)
        return chosen.preset

    async def _ask(
        self, preset: Preset, prior: str | None, evicted: Sequence[Turn] | None, max_chars: int
    ) -> str | None:
        """Ask for a summary; None where not even a short request fits.

        Raises:
            AishError: the model did not answer, or may not be paid for.
        """

        def compose(fits: Fits) -> tuple[Message, ...] | None:
            return summary_request(prior, evicted, max_chars=max_chars, fits=fits)

        reply = await ask_aside(self._session, preset, "summary", compose)
        return reply.text if reply else None
