"""Summarizing a conversation before it has to be: ``:compact`` and ``aish.context.compact``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aish_lsp.agent.summarizer import Summarizer
from aish_lsp.context.budget import Budget
from aish_lsp.foundation.job import Outcome
from aish_lsp.shell.pending import new_id

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.context.report import ContextReport
    from aish_lsp.foundation.job import Emit, Job


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a conversation: how many messages went into the summary, what is left.

    ``told`` says it to the user.
    """

    evicted_turns: int
    context: ContextReport
    told: str


def compact(session: Session) -> Job[Compacted]:
    """Begin to put every exchange but the last into the rolling summary.

    Where no summary comes of it nothing is lost: the messages stay.
    """
    return session.jobs.start(new_id(), lambda emit: _compact(session, emit))


async def _compact(session: Session, emit: Emit) -> Outcome[Compacted]:
    try:
        async with session.turn_lock:
            return Outcome(await _summarize(session, emit))
    except asyncio.CancelledError:
        return Outcome(_compacted(session, 0, "Stopped. Nothing was summarized."), "cancelled")


async def _summarize(session: Session, emit: Emit) -> Compacted:
    conversation, config = session.conversation, session.workspace.config
    if len(list(conversation.exchanges())) < 2:
        msg = (
            "There is nothing to summarize yet: only what came before your last question is"
            " summarized."
        )
        return _compacted(session, 0, msg)
    preset = (await session.choose_model(None)).preset
    limit = await session.accounting.limits(preset, config)
    counter = session.accounting.counter(preset, config)
    summarizer = Summarizer(session, preset, emit)
    budget = Budget(session.blocks(), config.context, limit, counter)
    done = await budget.compact(conversation, summarizer.roll)
    if done is None:
        why = summarizer.trouble or "The model's summary was of no use."
        return _compacted(session, 0, f"Nothing was summarized, and nothing is lost. {why}")
    await session.recorder.evicted(done.evicted, done.summary)
    session.meter.evicted()
    session.workspace.changed()
    count = len(done.evicted)
    return _compacted(session, count, f"{count} messages went into the summary.")


def _compacted(session: Session, evicted: int, told: str) -> Compacted:
    context = session.next_request().context()
    if evicted:
        share = f"{context.total:,} of {context.token_budget:,} tokens"
        told = f"{told} The next request takes {share}."
    return Compacted(evicted, context, told)
