"""``norris.*``: a goal that is pursued by itself, step by step, within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aish_lsp.agent.norris.run import Goal, NorrisResult, pursue, unfinished
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.operations.operation import (
    Answer,
    Line,
    Nothing,
    Place,
    SessionTarget,
    Token,
    operation,
)

_ALLOW: Final = "--allow-caution"


@dataclass(frozen=True, slots=True, kw_only=True)
class NorrisParams(SessionTarget):
    """``goal`` is what is to be reached, or `resume` goes on with the last one."""

    goal: str | None = None
    resume: bool = False
    max_steps: int | None = field(default=None, metadata={"minimum": 1})
    allow_caution: bool = False
    partial_result_token: Token | None = None


def _read_start(_place: Place, argument: str) -> NorrisParams:
    words = argument.split(maxsplit=1)
    allow = bool(words) and words[0] == _ALLOW
    goal = (words[1] if len(words) > 1 else "") if allow else argument
    if goal == "resume":
        return NorrisParams(resume=True, allow_caution=allow)
    return NorrisParams(goal=goal, allow_caution=allow)


@operation(
    "norris.start",
    NorrisParams,
    Line(
        "norris",
        f"[{_ALLOW}] GOAL",
        "pursue a goal step by step, until it is reached; `:norris resume` goes on",
        _read_start,
        choices=(_ALLOW, "resume", "say", "stop"),
    ),
    asks=True,
    needs_settings=True,
    title="aish pursues a goal",
)
async def start(place: Place, params: NorrisParams) -> Job[NorrisResult]:
    """Pursue a goal: plan, look, change, run, read, until it is reached or given up.

    Each step is a round of tool calls or of `CMD: ` lines, told by `step` events; their output is
    the next step's input. What is safe runs confined; what may change something asks, or runs where
    only the work tree can change with `allowCaution`; what could destroy something always asks. The
    first time in a folder the user is asked whether they want that at all. A line `GOAL: complete`
    or `GOAL: blocked` of the model ends it, and so do `norris.max_steps` (or `maxSteps`),
    `.max_minutes`, `.max_tokens` and `.max_dollars`, and three steps that change nothing. All that
    it changed is one undo. `resume` goes on with the last goal of the session that was not reached.

    Raises:
        InvalidArgument: there is no goal.
        NotFound: there is nothing to go on with.
        Busy: a goal is being pursued in this session.
        Denied: no folder is open, or the user did not agree.
        BackendUnavailable, BackendRejected, OverBudget, CostCap: no model answered.
    """
    goal = Goal(params.goal or "", params.allow_caution, params.max_steps)
    if params.resume:
        before = unfinished(await place.session.recorder.history())
        if before is None:
            raise NotFound("There is no goal in this session to go on with.")
        allow = params.allow_caution or before.allow_caution
        goal = Goal(before.text, allow, params.max_steps, before.group, before.steps)
    return pursue(place.session, goal)


@operation("norris.stop", SessionTarget, Line("norris stop"), at_once=True)
async def stop(place: Place, _params: SessionTarget) -> Answer[Nothing]:
    """Stop pursuing a goal, and what runs for it.

    Raises:
        NotFound: none is pursued.
    """
    session = place.session
    if not session.jobs.cancel(session.goal_job):
        raise NotFound("No goal is being pursued in this session.")
    return Answer(Nothing(), "Stopping.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SayParams(SessionTarget):
    """What the model is told."""

    text: str


def _read_say(_place: Place, argument: str) -> SayParams:
    return SayParams(text=argument)


@operation("norris.say", SayParams, Line("norris say", "TEXT", "", _read_say), at_once=True)
async def say(place: Place, params: SayParams) -> Answer[Nothing]:
    """Add a text to the message of the next step.

    Raises:
        InvalidArgument: there is nothing to say.
        NotFound: no goal is being pursued.
    """
    if not params.text.strip():
        raise InvalidArgument("Say what the model is to be told.", path="text")
    if place.session.pursuit is None:
        raise NotFound("No goal is being pursued in this session.")
    place.session.pursuit.said.append(params.text.strip())
    return Answer(Nothing(), "It goes with the next step.")
