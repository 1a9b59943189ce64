"""``run``, ``approve``, ``commands.*`` and ``norris.*``: what is run for the user.

That is a suggested command, a command that the user names, or a goal that the model pursues by
itself, step by step and within bounds.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.events import CommandInfo
from aish_lsp.agent.execution import RunReport
from aish_lsp.agent.execution import approve as begin_approved
from aish_lsp.agent.execution import run as begin
from aish_lsp.agent.norris import Pursuit
from aish_lsp.agent.norris.run import NorrisResult, pursue, unfinished
from aish_lsp.agent.planning import RunRequest
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.text import shown_path, with_line_feeds
from aish_lsp.operations.operation import (
    Answer,
    Caller,
    Line,
    Nothing,
    SessionTarget,
    Token,
    operation,
    whole,
)
from aish_lsp.shell.blocks import SHELL_TAGS, Block, fenced_blocks, tag_of

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.shell.suggestions import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParams(SessionTarget):
    """``edited`` is run instead of the suggestion; ``timeout`` is in seconds, by default an hour.

    ``cwd`` is a folder in the workspace: relative to it, absolute, or a URI. ``shell`` is the shell
    that the text is written for, by default the user's own.
    """

    command_id: str | None = None
    text: str | None = None
    edited: str | None = None
    shell: str = ""
    cwd: str | None = None
    timeout: float | None = field(default=None, metadata={"minimum": 0.001})
    partial_result_token: Token | None = None


def _read_run(caller: Caller, argument: str) -> RunParams:
    """Read the argument of ``:run``: a number, a command, or a fenced block with a command."""
    if not argument:
        raise InvalidArgument("Say what to run: `:run COMMAND`, or `:run N` for a suggestion.")
    if argument.isdecimal():
        return RunParams(command_id=_numbered(caller.session, argument))
    block = block_of(argument)
    if block is None:
        return RunParams(text=argument)
    shell = SHELL_TAGS.get(tag_of(block.info), "")
    return RunParams(text=block.text.removesuffix("\n"), shell=shell)


def _numbered(session: Session, number: str) -> str:
    """Return the id of a suggestion of the last reply, by its number in the reply, from 1."""
    waiting = {str(one.number): one.info for one in session.last_turn_suggestions}
    if number in waiting:
        return waiting[number].id
    numbers = ", ".join(sorted(waiting, key=int))
    if not waiting:
        raise NotFound("The last reply has no command left to run.")
    raise NotFound(f"The last reply has no command {number[:20]} left to run, only {numbers}.")


def block_of(argument: str) -> Block | None:
    """Return the fenced block that ``argument`` consists of; None if there is anything else."""
    text = with_line_feeds(argument).strip("\n")
    blocks = fenced_blocks(text)
    whole = (0, text.count("\n"))
    return blocks[0] if [(block.first, block.last) for block in blocks] == [whole] else None


@operation(
    "run",
    RunParams,
    Line(
        "run",
        "N|COMMAND",
        "run suggestion N of the last reply, or a command; its output goes with your next message",
        _read_run,
    ),
    asks=True,
    title="aish runs a command",
    needs_settings=True,
    quiet=True,
    comes="output",
)
async def run(caller: Caller, params: RunParams) -> Job[RunReport]:
    """Run a suggested command, or a text.

    A suggestion with `placeholders` is only run with `edited`. If there are more than 64 KiB of
    output, `output` holds its head and tail (`truncated`). `outputUri` is a file with the whole
    output, without secrets, if that has more than 60 lines or 32,000 characters; otherwise null.

    Raises:
        InvalidArgument: there is neither a command nor a text, the folder is outside the
            workspace, or the suggestion has gaps that only the user can fill in.
        NotFound: there is no such suggestion, or its folder or shell is gone.
    """
    if caller.guess and params.command_id is None:
        caller.face.tell(f"Runs in {shown_path(caller.workspace.folder)}, {caller.guess}.")
    request = RunRequest(
        command_id=params.command_id,
        text=params.text,
        edited=params.edited,
        shell=params.shell,
        cwd=params.cwd,
        timeout=params.timeout,
        origin=_origin(caller, params),
        approval=caller.approval,
        shown_whole=caller.is_alone,
    )
    return begin(caller.session, request)


def _origin(caller: Caller, params: RunParams) -> Origin:
    """Return where the text comes from; with a ``uri``, it is from that document."""
    if not caller.is_typed:
        return "document"
    if params.command_id is not None:
        return "reply"
    return "user" if params.uri is None else "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveParams(SessionTarget):
    """``command_id`` names the command that waits for approval, or the question about a file."""

    command_id: str
    partial_result_token: Token | None = None


@operation(
    "approve",
    ApproveParams,
    Line(
        "approve",
        "ID",
        "allow, once, what you were asked about and did not answer",
        whole(
            ApproveParams, "command_id", "Say which: `:approve ID`, with the ID that you were told."
        ),
    ),
    asks=True,
    title="aish runs a command",
    needs_settings=True,
    comes="output",
)
async def approve(caller: Caller, params: ApproveParams) -> Job[RunReport] | Answer[Nothing]:
    """Run, once, a command that nobody could be asked about before.

    If `commandId` belongs to a question about a file that usually holds keys, the file may be sent
    in this session from now on, and the result is `{}`.

    Raises:
        NotFound: nothing with that id is waiting for approval.
    """
    if places := caller.session.consents.approve(params.command_id):
        text = f"{places} may be sent now, in this session and with this content. Ask again."
        return Answer(Nothing(), text, is_told=True)
    return begin_approved(caller.session, params.command_id)


@dataclass(frozen=True, slots=True)
class Commands:
    """The suggestions that were neither run nor dismissed."""

    commands: list[CommandInfo]


@operation("commands.list", SessionTarget, shows=True)
async def listed(caller: Caller, _params: SessionTarget) -> Answer[Commands]:
    """The suggested commands that were neither run nor dismissed."""
    return Answer(Commands(caller.session.commands.all()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandParams(SessionTarget):
    """A suggestion, by its id."""

    command_id: str


@operation("commands.dismiss", CommandParams)
async def dismiss(caller: Caller, params: CommandParams) -> Answer[Nothing]:
    """Drop a suggestion.

    Raises:
        NotFound: it no longer exists.
    """
    await caller.session.dismiss(params.command_id)
    return Answer(Nothing())


_ALLOW: Final = "--allow-caution"


@dataclass(frozen=True, slots=True, kw_only=True)
class NorrisParams(SessionTarget):
    """``goal`` is what to achieve; ``resume`` continues the last goal instead."""

    goal: str | None = None
    resume: bool = False
    max_steps: int | None = field(default=None, metadata={"minimum": 1})
    allow_caution: bool = False
    partial_result_token: Token | None = None


def _read_start(_caller: Caller, argument: str) -> NorrisParams:
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
async def start(caller: Caller, params: NorrisParams) -> Job[NorrisResult]:
    """Pursue a goal: plan, look, change, run, read, until it is reached or given up.

    Each step is a round of tool calls or of `CMD: ` lines, reported by `step` events; their output
    is the next step's input. Safe commands run confined. A command that may change something asks
    first or, with `allowCaution`, runs where only the work tree can change. A command that could
    destroy something always asks. The first time in a folder, the user is asked whether goals may
    be pursued there at all. The run ends when the model writes a line `GOAL: complete` or
    `GOAL: blocked`, at `norris.max_steps` (or `maxSteps`), `.max_minutes`, `.max_tokens` or
    `.max_dollars`, or after three steps that change nothing. All of its changes are one undo.
    `resume` continues the last goal of the session that was not reached.

    Raises:
        InvalidArgument: there is no goal.
        NotFound: there is no goal to continue.
        Busy: a goal is being pursued in this session.
        Denied: no folder is open, or the user did not agree.
        BackendUnavailable, BackendRejected, OverBudget, CostCap: no model answered.
    """
    pursuit = Pursuit(params.goal or "", params.allow_caution, params.max_steps)
    if params.resume:
        before = unfinished(await caller.session.recorder.history())
        if before is None:
            raise NotFound("There is no goal in this session to continue.")
        pursuit = before
        pursuit.allow_caution |= params.allow_caution
        pursuit.max_steps = params.max_steps
    return pursue(caller.session, pursuit)


@operation("norris.stop", SessionTarget, Line("norris stop"), at_once=True)
async def stop(caller: Caller, _params: SessionTarget) -> Answer[Nothing]:
    """Stop pursuing a goal, and everything that runs for it.

    Raises:
        NotFound: no goal is being pursued.
    """
    session = caller.session
    if not session.jobs.cancel(session.goal_job):
        raise NotFound("No goal is being pursued in this session.")
    return Answer(Nothing(), "Stopping.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SayParams(SessionTarget):
    """What to tell the model."""

    text: str


@operation(
    "norris.say",
    SayParams,
    Line("norris say", "TEXT", "", lambda _caller, argument: SayParams(text=argument)),
    at_once=True,
)
async def say(caller: Caller, params: SayParams) -> Answer[Nothing]:
    """Add a text to the message of the next step.

    Raises:
        InvalidArgument: the text is empty.
        NotFound: no goal is being pursued.
    """
    if not params.text.strip():
        raise InvalidArgument("Say what to tell the model.", path="text")
    if caller.session.pursuit is None:
        raise NotFound("No goal is being pursued in this session.")
    caller.session.pursuit.said.append(params.text.strip())
    return Answer(Nothing(), "It goes with the next step.")
