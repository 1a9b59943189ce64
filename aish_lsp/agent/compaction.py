"""The rolling summary of messages that are evicted, by the budget or by ``:compact``.

A model is asked for it outside the conversation. If there is none, the budget evicts messages
without a summary, and ``:compact`` does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from aish_lsp.agent.events import Notice
from aish_lsp.agent.side_call import SideCall
from aish_lsp.context.budget import Budget
from aish_lsp.context.summary import cleaned, cut_to, summary_request
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.job import Outcome, run_uncancellable
from aish_lsp.foundation.text import count_of
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.budget import Prepared
    from aish_lsp.context.measure import ContextReport
    from aish_lsp.context.messages import Message
    from aish_lsp.context.summary import Fits
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.models.request import RequestMessage

logger = logging.getLogger(__name__)

#: Called as ``(None, messages)`` for a first summary, ``(prior, messages)`` to extend one, and
#: ``(prior, None)`` to compress it. None, an empty text and an AishError mean that there is none.
AskSummary: TypeAlias = "Callable[[str | None, Sequence[Message] | None], Awaitable[str | None]]"


class Summarizer:
    """Extends the rolling summary of a session by the messages that the budget evicts.

    Args:
        session: the session of the conversation.
        active: the model that answers; it also summarizes, unless another one is configured.
        emit: reports events.

    Attributes:
        trouble: why the last summary failed; empty if it did not.
    """

    def __init__(self, session: Session, active: Preset, emit: Emit) -> None:
        self._session = session
        self._active = active
        self._emit = emit
        self.trouble = ""

    async def summarize(self, plan: Prepared) -> str:
        """Return the summary, extended by what the plan evicts; if that fails, the old summary."""
        prior = self._session.conversation.summary
        try:
            preset = await self._preset()
        except AishError as error:
            self.trouble = error.message
            await self._emit(Notice("warning", f"Old messages are not summarized: {self.trouble}"))
            return prior
        if preset.provider == "offline":
            self.trouble = "The offline model cannot summarize. `:model NAME` chooses another."
            return prior
        await self._emit(Notice("info", f"Summarizing {len(plan.evicted)} old messages."))

        async def ask(prior: str | None, messages: Sequence[Message] | None) -> str | None:
            def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
                return summary_request(prior, messages, max_chars=plan.summary_chars, fits=fits)

            call = SideCall(self._session, preset, "summary", compose)
            try:
                return call.text if await call.complete() else None
            except AishError as error:
                self.trouble = error.message
                raise

        return await rolled(prior, plan.evicted, ask, plan.summary_chars)

    async def _preset(self) -> Preset:
        workspace = self._session.workspace
        name = workspace.config.context.summary_model
        if not name:
            return self._active
        services = workspace.services
        chosen = await services.catalog.choose(workspace.config, name, services.ask_user)
        return chosen.preset


async def rolled(prior: str, evicted: Sequence[Message], ask: AskSummary, max_chars: int) -> str:
    """Return a summary that also covers ``evicted``, of at most ``max_chars`` characters.

    A longer one is sent back once to be compressed, then cut. If the summarizer fails or returns
    nothing, return ``prior``.
    """
    summary = await _asked(ask, prior or None, evicted) if evicted else ""
    if len(summary) > max_chars:
        compressed = await _asked(ask, summary, None)
        if compressed and len(compressed) < len(summary):
            summary = compressed
    return cut_to(summary, max_chars) if summary else prior


async def _asked(ask: AskSummary, prior: str | None, evicted: Sequence[Message] | None) -> str:
    """Return the summarizer's reply, cleaned; empty if it fails."""
    try:
        reply = await ask(prior, evicted)
    except AishError as error:
        logger.info("no summary of %d messages: %s", len(evicted or ()), error.message)
        return ""
    summary = cleaned(reply or "")
    if reply and not summary:
        logger.info("no summary of %d messages: the reply is not usable", len(evicted or ()))
    return summary


@dataclass(frozen=True, slots=True)
class Compaction:
    """How many messages went into the summary, and the context of the next request."""

    evicted_turns: int
    context: ContextReport


#: The result, and a notice about it for the user.
Compacted: TypeAlias = tuple[Compaction, str]


def compact(session: Session) -> Job[Compacted]:
    """Begin to summarize every exchange but the last.

    If that fails, the messages stay.
    """
    return session.jobs.start(new_id(), lambda emit: _compact(session, emit))


async def _compact(session: Session, emit: Emit) -> Outcome[Compacted]:
    try:
        async with session.in_turn(emit):
            return Outcome(await _summarize(session, emit))
    except asyncio.CancelledError:
        return Outcome(_compacted(session, 0, "Stopped. Nothing was summarized."), "cancelled")


async def _summarize(session: Session, emit: Emit) -> Compacted:
    conversation, config = session.conversation, session.workspace.config
    if len(list(conversation.exchanges())) < 2:
        message = "There is nothing to summarize yet: the last question and its answer are kept."
        return _compacted(session, 0, message)
    preset = (await session.models.choose(None)).preset
    limit = await session.accounting.limits(preset, config)
    counter = session.accounting.counter(preset, config)
    tools = session.tools_for(preset, limit)
    budget = Budget(session.blocks(), config.context, limit, counter, tools)
    plan = await budget.plan_compact(conversation)
    why = "The model's window, or `context.max_summary_chars`, has no room for a summary."
    if plan.summary_chars:
        summarizer = Summarizer(session, preset, emit)
        summary = await summarizer.summarize(plan)
        plan = await budget.summarized(conversation.summary, plan, summary)
        why = summarizer.trouble or "The model's summary is not usable."
    if plan.summary is None:
        return _compacted(session, 0, f"Nothing was summarized, and nothing is lost. {why}")
    budget.apply(conversation, plan)
    session.meter.evicted()
    session.workspace.changed()
    # It is too late for a cancel.
    await run_uncancellable(session.recorder.evicted(plan.evicted, plan.summary))
    count = len(plan.evicted)
    return _compacted(session, count, f"{count_of(count, 'message')} went into the summary.")


def _compacted(session: Session, evicted: int, notice: str) -> Compacted:
    context = session.next_request().context()
    if evicted:
        share = f"{context.total:,} of {context.token_budget:,} tokens"
        notice = f"{notice} The next request takes {share}."
    return Compaction(evicted, context), notice
