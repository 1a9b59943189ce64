"""``context.*`` and ``status``: where the tokens of the next request go; a session at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from aish_lsp.agent.compaction import compact as begin
from aish_lsp.agent.session import Status
from aish_lsp.context.report import ContextReport, context_page
from aish_lsp.operations.operation import Answer, Line, Nothing, Place, SessionTarget, operation


@operation(
    "context.show",
    SessionTarget,
    Line("context", help="where the tokens of the next request go"),
    shows=True,
)
async def show(place: Place, _params: SessionTarget) -> Answer[ContextReport]:
    """Where the tokens of the next request go."""
    for trouble in await place.session.refresh():
        place.face.tell(trouble)
    upcoming = place.session.next_request()
    await upcoming.count()
    report = upcoming.context()
    tools = place.session.tools.costs(place.session.preset, report.context_window)
    return Answer(report, context_page(report, upcoming.messages(), tools))


@operation(
    "context.reset",
    SessionTarget,
    Line("reset", help="forget the conversation; memory, project and costs stay"),
)
async def reset(place: Place, _params: SessionTarget) -> Answer[Nothing]:
    """Forget the conversation; memory, project and costs stay."""
    await place.session.reset()
    return Answer(Nothing(), "The conversation starts over.")


@dataclass(frozen=True, slots=True)
class Compaction:
    """How many messages went into the summary, and what the next request takes now."""

    evicted_turns: int
    context: ContextReport


@operation(
    "context.compact",
    SessionTarget,
    Line("compact", help="summarize now all that was said before the last question"),
    needs_settings=True,
)
async def compact(place: Place, _params: SessionTarget) -> Answer[Compaction]:
    """Summarize now what an eviction would, which is all that was said before the last question.

    `evictedTurns` counts messages, `context` is as for aish.context.show. Where no summary comes of
    it nothing is lost, `evictedTurns` is 0, and the user is told why.
    """
    done = await place.face.wait(begin(place.session), "aish summarizes the conversation")
    return Answer(Compaction(done.evicted_turns, done.context), done.told, is_told=True)


@operation("status", SessionTarget, shows=True)
async def status(place: Place, _params: SessionTarget) -> Answer[Status]:
    """The workspace at a glance."""
    return Answer(place.session.status())
