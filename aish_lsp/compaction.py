"""Summarizing a conversation before it has to be: ``:compact`` and ``aish.context.compact``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aish_lsp.conversation.budget import Budget
from aish_lsp.shell.pending import new_id
from aish_lsp.summarizer import Summarizer

if TYPE_CHECKING:
    from aish_lsp.conversation.report import ContextReport
    from aish_lsp.job import Emit, Job
    from aish_lsp.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a conversation: how many messages went into the summary, what is left.

    ``told`` says it to the user.
    """

    evicted_turns: int
    context: ContextReport
    told: str


def compact(workspace: Workspace) -> Job[Compacted]:
    """Begin to put every exchange but the last into the rolling summary.

    Where no summary comes of it nothing is lost: the messages stay.
    """
    return workspace.jobs.start(new_id(), lambda emit: _compact(workspace, emit))


async def _compact(workspace: Workspace, emit: Emit) -> Compacted:
    try:
        async with workspace.turn_lock:
            return await _summarize(workspace, emit)
    except asyncio.CancelledError:
        return _compacted(workspace, 0, "Stopped. Nothing was summarized.")


async def _summarize(workspace: Workspace, emit: Emit) -> Compacted:
    conversation, config = workspace.conversation, workspace.config
    if len(list(conversation.exchanges())) < 2:
        msg = (
            "There is nothing to summarize yet: only what came before your last question is"
            " summarized."
        )
        return _compacted(workspace, 0, msg)
    preset = (await workspace.choose_model(None)).preset
    limit = await workspace.accounting.limits(preset, config)
    counter = workspace.accounting.counter(preset, config)
    summarizer = Summarizer(workspace, preset, emit)
    budget = Budget(workspace.blocks(), config.context, limit, counter)
    done = await budget.compact(conversation, summarizer.roll)
    if done is None:
        why = summarizer.trouble or "The model's summary was of no use."
        return _compacted(workspace, 0, f"Nothing was summarized, and nothing is lost. {why}")
    await workspace.recorder.evicted(done.evicted, done.summary)
    workspace.meter.evicted()
    workspace.changed()
    count = len(done.evicted)
    return _compacted(workspace, count, f"{count} messages went into the summary.")


def _compacted(workspace: Workspace, evicted: int, told: str) -> Compacted:
    context = workspace.next_request().context()
    if evicted:
        share = f"{context.total:,} of {context.token_budget:,} tokens"
        told = f"{told} The next request takes {share}."
    return Compacted(evicted, context, told)
