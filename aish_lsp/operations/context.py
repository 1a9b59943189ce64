"""``project.*``, ``context.*``, ``cost.*``, ``status``: what the model is told, and its cost."""

from __future__ import annotations

import asyncio
from dataclasses import field

from aish_lsp.agent.session import Status
from aish_lsp.agent.side_call import Compaction
from aish_lsp.agent.side_call import compact as begin
from aish_lsp.context.counter import Tokens
from aish_lsp.context.measure import ContextReport, context_page
from aish_lsp.context.usage import CostReport, UsageTotals, cost_page
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import count_of
from aish_lsp.operations.operation import (
    Answer,
    Caller,
    Line,
    Nothing,
    SessionTarget,
    Target,
    operation,
)
from aish_lsp.project.tree import ProjectBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectParams(Target):
    """A depth (folders) or size (characters) to use from now on, instead of the configured one."""

    depth: int | None = field(default=None, metadata={"minimum": 1})
    max_chars: int | None = field(default=None, metadata={"minimum": 0})


@operation(
    "project.show",
    ProjectParams,
    Line("tree", help="what the model is told about the project"),
    shows=True,
)
async def show_project(caller: Caller, params: ProjectParams) -> Answer[ProjectBlock]:
    """What the model is told about the project."""
    workspace = caller.workspace
    workspace.project.shape(params.depth, params.max_chars)
    config = workspace.config.project
    if not workspace.project.shown(config):
        sentence = "The model knows nothing about the project now. `:tree on` changes that."
        return Answer(ProjectBlock("", 0, truncated=False), sentence)
    await workspace.project.refresh(config, patience=None)
    block = workspace.project.block
    if not block.block:
        return Answer(block, "There is nothing to show: the folder is empty, or no folder is open.")
    cut = ", cut to fit" if block.truncated else ""
    return Answer(
        block, f"```\n{block.block.rstrip()}\n```\n\n{count_of(block.files, 'file')}{cut}."
    )


@operation("project.refresh", ProjectParams, Line("tree refresh"))
async def refresh_project(caller: Caller, params: ProjectParams) -> Answer[ProjectBlock]:
    """Look at the project again."""
    caller.workspace.project.renew()
    return await show_project(caller, params)


@operation("project.off", ProjectParams, Line("tree off"))
async def project_off(caller: Caller, params: ProjectParams) -> Answer[ProjectBlock]:
    """Tell the model nothing about the project."""
    caller.workspace.project.switch(on=False)
    return await show_project(caller, params)


@operation("project.on", ProjectParams, Line("tree on"))
async def project_on(caller: Caller, params: ProjectParams) -> Answer[ProjectBlock]:
    """Tell the model about the project again."""
    caller.workspace.project.switch(on=True)
    return await show_project(caller, params)


@operation(
    "context.show",
    SessionTarget,
    Line("context", help="where the tokens of the next request go"),
    shows=True,
)
async def show(caller: Caller, _params: SessionTarget) -> Answer[ContextReport]:
    """Where the tokens of the next request go."""
    caller.tell(await caller.session.refresh())
    upcoming = caller.session.next_request()
    await upcoming.count()
    report = upcoming.context()
    session = caller.session
    counter = session.accounting.counter(session.preset, session.workspace.config)
    costs = session.tools.costs(session.preset, report.context_window)
    tools = {name: counter.settled(Tokens(0, tokens)) for name, tokens in costs.items()}
    return Answer(report, context_page(report, upcoming.messages(), tools))


@operation(
    "context.reset",
    SessionTarget,
    Line("reset", help="forget the conversation; memory, project and costs stay"),
)
async def reset(caller: Caller, _params: SessionTarget) -> Answer[Nothing]:
    """Forget the conversation; memory, project and costs stay."""
    await caller.session.reset()
    return Answer(Nothing(), "The conversation starts over.")


@operation(
    "context.compact",
    SessionTarget,
    Line("compact", help="summarize now all that was said before the last question"),
    needs_settings=True,
)
async def compact(caller: Caller, _params: SessionTarget) -> Answer[Compaction]:
    """Summarize everything that was said before the last question, as an eviction would.

    `evictedTurns` counts messages, `context` is as for aish.context.show. If no summary can be
    made, nothing is lost: `evictedTurns` is 0, and the user is told why.
    """
    done, summary = await caller.face.wait(
        begin(caller.session), "aish summarizes the conversation"
    )
    return Answer(done, summary, is_told=True)


@operation("status", SessionTarget, shows=True)
async def status(caller: Caller, _params: SessionTarget) -> Answer[Status]:
    """The workspace at a glance."""
    return Answer(caller.session.status())


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParams(SessionTarget):
    """``detail`` adds a row for each model; ``all_sessions`` includes all earlier sessions."""

    detail: bool = False
    all_sessions: bool = False


@operation(
    "cost.show",
    CostParams,
    Line("cost", help="what was used and what it cost"),
    Line("cost detail", read=lambda _caller, _argument: CostParams(detail=True)),
    shows=True,
)
async def show_cost(caller: Caller, params: CostParams) -> Answer[CostReport]:
    """What was used and what it cost.

    `models` is `{NAME: {CATEGORY: {input, output, reasoning, cacheRead, cacheWrite, calls, cost,
    local, unpriced}}}`, and `total` has the form of one category.

    Raises:
        StoreUnavailable: what earlier sessions used cannot be read.
    """
    usage = None
    if params.all_sessions:
        calls = await asyncio.to_thread(caller.session.recorder.usage_of_all_sessions)
        usage = UsageTotals.of(calls)
    report = caller.session.next_request().cost(usage)
    return Answer(report, cost_page(report, detail=params.detail))


@operation("cost.reset", CostParams, Line("cost reset"))
async def reset_costs(caller: Caller, params: CostParams) -> Answer[CostReport]:
    """Count this session's tokens and costs from zero again."""
    await caller.session.reset_costs()
    return await show_cost(caller, params)
