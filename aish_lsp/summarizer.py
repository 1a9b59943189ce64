"""Asking a model to summarize the turns that no longer fit."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from aish_lsp.conversation.measure import Draft, Measure, measure
from aish_lsp.conversation.prompt import Blocks
from aish_lsp.conversation.summary import rolled, summary_request
from aish_lsp.conversation.turns import Turn
from aish_lsp.conversation.usage import Category, is_local
from aish_lsp.errors import AishError, BackendUnavailable
from aish_lsp.events import Notice, Text, Usage
from aish_lsp.models.request import ModelRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.config.schema import Preset
    from aish_lsp.job import Emit
    from aish_lsp.models.request import Message
    from aish_lsp.workspace import Workspace

_CATEGORY: Final[Category] = "summary"


class Summarizer:
    """Extends the rolling summary, for one turn.

    Args:
        workspace: whose conversation it is.
        active: the model that answers; it summarizes too, unless another one is configured.
        emit: where the user is told.
    """

    def __init__(self, workspace: Workspace, active: Preset, emit: Emit) -> None:
        self._workspace = workspace
        self._active = active
        self._emit = emit

    async def roll(self, prior: str, evicted: Sequence[Turn], max_chars: int) -> str:
        """Return the summary with the evicted turns in it; ``prior`` where that failed."""
        try:
            preset = await self._preset()
        except AishError as error:
            await self._emit(Notice("warning", f"Old turns are not summarized: {error.message}"))
            return prior
        if preset.provider == "offline":
            return prior
        await self._emit(Notice("info", f"Summarizing {len(evicted)} turns that no longer fit."))

        async def summarize(prior: str | None, turns: Sequence[Turn] | None) -> str | None:
            return await self._ask(preset, prior, turns, max_chars)

        return await rolled(prior, evicted, summarize, max_chars)

    async def _preset(self) -> Preset:
        name = self._workspace.config.context.summary_model
        if not name:
            return self._active
        services = self._workspace.services
        chosen = await services.catalog.choose(self._workspace.config, name, services.ask_user)
        return chosen.preset

    async def _ask(
        self, preset: Preset, prior: str | None, evicted: Sequence[Turn] | None, max_chars: int
    ) -> str | None:
        """Ask for a summary; None where not even a short request fits.

        Raises:
            AishError: the model did not answer, or may not be paid for.
        """
        workspace = self._workspace
        config, accounting = workspace.config, workspace.accounting
        counter = accounting.counter(preset, config)
        limit = await accounting.limits(preset, config)

        def size(messages: Sequence[Message]) -> Measure:
            system, user = messages
            turns = (Turn("user", user.content),)
            return measure(Draft(Blocks(system.content), turns), counter)

        def fits(messages: Sequence[Message]) -> bool:
            measured = size(messages)
            return limit.hold(measured.total, measured.margin)

        messages = summary_request(prior, evicted, max_chars=max_chars, fits=fits)
        if messages is None:
            return None
        tokens = size(messages).total
        accounting.check_cap(preset, config, tokens)
        text, usage = await self._receive(ModelRequest(preset, messages))
        estimated = usage is None
        usage = usage or Usage(tokens, counter.settled(counter.text(text)))
        usage = accounting.meter.call_ended(preset, _CATEGORY, usage)
        local = is_local(preset) and usage.cost is None
        await workspace.recorder.usage(preset, _CATEGORY, usage, local=local, estimated=estimated)
        return text

    async def _receive(self, request: ModelRequest) -> tuple[str, Usage | None]:
        """Return the reply's text and its usage.

        Raises:
            AishError: no whole reply, within the preset's timeout.
        """
        model = self._workspace.open_model(request.preset)
        pieces: list[str] = []
        usage = None
        try:
            async with (
                asyncio.timeout(request.preset.timeout),
                aclosing(model.stream(request)) as stream,
            ):
                async for event in stream:
                    match event:
                        case Text():
                            pieces.append(event.delta)
                        case Usage():
                            usage = event
        except TimeoutError:
            seconds = request.preset.timeout
            raise BackendUnavailable(f"The summary took longer than {seconds:g} s.") from None
        return "".join(pieces), usage
