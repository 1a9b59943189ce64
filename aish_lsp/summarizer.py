"""Asking a model to summarize the turns that no longer fit."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aish_lsp.conversation.measure import Draft, Measure, measure
from aish_lsp.conversation.prompt import Blocks
from aish_lsp.conversation.summary import rolled, summary_request
from aish_lsp.conversation.turns import Turn
from aish_lsp.conversation.usage import Category, is_local
from aish_lsp.errors import AishError, BackendUnavailable
from aish_lsp.events import Notice, Reasoning, Text, Usage
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
        reply = _Reply()
        try:
            await self._receive(ModelRequest(preset, messages), reply)
        finally:
            # What came of a reply that broke off was paid for too.
            if reply.said or reply.usage:
                said = counter.settled(counter.text("".join(reply.said)))
                usage = reply.usage or Usage(tokens, said)
                usage = accounting.meter.call_ended(preset, _CATEGORY, usage)
                await workspace.recorder.usage(
                    preset,
                    _CATEGORY,
                    usage,
                    local=is_local(preset) and usage.cost is None,
                    estimated=reply.usage is None,
                )
        return "".join(reply.text)

    async def _receive(self, request: ModelRequest, reply: _Reply) -> None:
        """Have ``reply`` filled, as far as it arrives.

        Raises:
            AishError: no whole reply, within the preset's timeout.
        """
        model = self._workspace.open_model(request.preset)
        try:
            async with (
                asyncio.timeout(request.preset.timeout),
                aclosing(model.stream(request)) as stream,
            ):
                async for event in stream:
                    match event:
                        case Text():
                            reply.text.append(event.delta)
                            reply.said.append(event.delta)
                        case Reasoning():
                            reply.said.append(event.delta)
                        case Usage():
                            reply.usage = event
        except TimeoutError:
            seconds = request.preset.timeout
            raise BackendUnavailable(f"The summary took longer than {seconds:g} s.") from None


@dataclass(slots=True)
class _Reply:
    """What a summarizer said: its text, that with its reasoning, and what it reported."""

    text: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    usage: Usage | None = None
