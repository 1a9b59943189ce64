"""The autonomous loop, which pursues a goal step by step until that or a limit is reached.

Each step is a turn of one round. Its tool calls are made in that turn, the commands that it
suggests run after it, and the next step's message has the results. All changes of a run are undone
together.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.agent.events import Notice, Step
from aish_lsp.agent.norris import Pursuit, goal_said, meant
from aish_lsp.agent.norris.step import StepWork, line_of
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import WAITS, AskResult, Turn
from aish_lsp.config.sources import OFFLINE
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import (
    AishError,
    BackendUnavailable,
    Busy,
    Denied,
    InvalidArgument,
    NotFound,
)
from aish_lsp.foundation.job import Outcome, run_uncancellable
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import clipped, count_of, one_line, shown_path
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.agent.events import FinishReason
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.events import Level
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.sessions.records import LoadedSession

RunOutcome: TypeAlias = Literal["complete", "blocked", "stopped", "limit", "error"]

#: A run ends after this many successive steps that change nothing.
_MOST_SAME: Final = 3

#: The most characters of a plan that are shown.
_PLAN: Final = 300

_NO_MODEL: Final = "The offline model cannot pursue a goal: `:model add` connects one that can."


@dataclass(frozen=True, slots=True)
class NorrisResult:
    """How a run ended; ``summary`` is the model's summary, or the reason."""

    outcome: RunOutcome
    steps: int
    summary: str


def pursue(session: Session, pursuit: Pursuit) -> Job[NorrisResult]:
    """Begin to pursue a goal. If the session is answering a question, wait for that.

    Raises:
        InvalidArgument: the goal is empty.
        Busy: a goal is already being pursued in this session.
    """
    if not pursuit.goal.strip():
        raise InvalidArgument("Name a goal: `:norris GOAL`.", path="goal")
    if session.goal_job in session.jobs:
        raise Busy("A goal is being pursued here. `:norris stop` ends that.")
    job_id = new_id()
    pursuit.group = pursuit.group or job_id
    session.goal_job = job_id
    return session.jobs.start(
        job_id,
        lambda emit: _Run(session, pursuit, emit).pursue(),
        f"goal: {one_line(pursuit.goal)}",
    )


def unfinished(log: LoadedSession) -> Pursuit | None:
    """Return the last goal that a session pursued, or None if it was reached or there is none."""
    runs = [record for record in log.records if record.get("event") == "norris"]
    starts = [one for one in runs if one.get("status") == "start"]
    if not starts or not isinstance(starts[-1].get("goal"), str):
        return None
    start = starts[-1]
    # Include the runs that this one resumed: it may have been killed before its first step.
    first = next(one for one in starts if one.get("group") == start.get("group"))
    since = runs[runs.index(first) :]
    if any(one.get("status") == "end" and one.get("outcome") == "complete" for one in since):
        return None
    steps = [number for one in since if isinstance(number := one.get("number"), int)]
    return Pursuit(
        start["goal"],
        allow_caution=start.get("allowCaution") is True,
        group=str(start.get("group", "")),
        made=max(steps, default=0),
    )


class _Run:
    """A run of the loop in progress."""

    def __init__(self, session: Session, pursuit: Pursuit, emit: Emit) -> None:
        self._session = session
        self._workspace = session.workspace
        self._pursuit = pursuit
        self._emit = emit
        self._bounds = session.workspace.config.norris
        self._number = pursuit.made
        self._first = pursuit.made + 1
        self._undo_note = ""
        self._model: str | None = None
        self._notes: list[str] = []
        self._tokens = 0
        self._cost = 0.0
        self._states: list[str] = []
        # The last exit status of each command, by its text.
        self._exits: dict[str, int] = {}

    async def pursue(self) -> Outcome[NorrisResult]:
        """Pursue the goal until it is reached, or the run ends otherwise.

        Raises:
            BackendUnavailable: there is no model that could pursue it.
            Denied: no folder is open, or the user did not consent.
            NotFound: the folder is gone.
        """
        try:
            async with self._session.in_turn(self._emit, WAITS):
                return await self._in_turn()
        except asyncio.CancelledError:
            return self._outcome("stopped", "")

    async def _in_turn(self) -> Outcome[NorrisResult]:
        try:
            chosen = await self._session.models.choose(None)
            if chosen.preset.provider == OFFLINE:
                raise BackendUnavailable(_NO_MODEL)
            await self._ask_consent()
            self._session.pursuit = self._pursuit
            return await self._pursue()
        finally:
            self._session.pursuit = None
            self._workspace.changed()

    async def _pursue(self) -> Outcome[NorrisResult]:
        pursuit = self._pursuit
        if pursuit.allow_caution:
            await self._check_work_profile()
        if pursuit.made and not await self._workspace.undo.is_last(pursuit.group):
            # Another command has run since then, and has to be undone first.
            self._undo_note = " since it was resumed"
        await self._session.recorder.pursued(
            "start", goal=pursuit.goal, group=pursuit.group, allowCaution=pursuit.allow_caution
        )
        how: RunOutcome
        error: AishError | None = None
        minutes = self._bounds.max_minutes
        try:
            async with asyncio.timeout(minutes * 60) as limit:
                how, summary = await self._steps()
        except (TimeoutError, asyncio.CancelledError):
            how, summary = "stopped", ""
        except AishError as raised:
            how, summary, error = "error", raised.message, raised
        if how == "stopped" and limit.expired():
            how, summary = "limit", f"It took longer than {minutes:g} minutes (norris.max_minutes)."
        # The model's own summary stands right above the notice.
        further = self._doubts() if how == "complete" else summary
        if how == "complete":
            summary = "\n".join(filter(None, (summary, further)))
        steps = self._number
        await run_uncancellable(
            self._session.recorder.pursued("end", outcome=how, number=steps, summary=summary)
        )
        notice = self._end_notice(how, further)
        if steps > self._pursuit.made and not await self._workspace.why_no_undo():
            notice += f" `:undo` restores all files that it changed{self._undo_note}."
        if self._pursuit.said:
            notice += " What you added last was not sent."
        await self._notice("info", notice)
        return self._outcome(how, summary, error)

    def _outcome(
        self, how: RunOutcome, summary: str, error: AishError | None = None
    ) -> Outcome[NorrisResult]:
        finishes: dict[RunOutcome, FinishReason] = {"stopped": "cancelled", "error": "error"}
        made = self._number - self._pursuit.made
        return Outcome(NorrisResult(how, made, summary), finishes.get(how, "stop"), error)

    def _end_notice(self, how: RunOutcome, summary: str) -> str:
        made = count_of(self._number - self._pursuit.made, "step")
        sentence = {
            "complete": f"The goal was reached in {made}.",
            "blocked": f"The goal cannot be reached: stopped after {made}.",
            "stopped": f"Stopped after {made}.",
            "limit": f"Stopped after {made}, at a limit.",
            "error": f"Stopped after {made} by an error.",
        }[how]
        further = "" if how == "complete" else " `:norris resume` continues."
        return f"{sentence} {summary}".rstrip() + further

    def _doubts(self) -> str:
        """Return a reason to doubt that the goal was reached, as the model says; or empty."""
        masked = self._session.workspace.without_secrets
        failed = [
            f"`{line_of(masked(text))}` (exit {code})" for text, code in self._exits.items() if code
        ]
        if not failed:
            return ""
        return f"But the last run of {', '.join(failed[-3:])} failed."

    # The user's consent

    async def _ask_consent(self) -> None:
        """Ask for the user's consent, the first time in a folder.

        Raises:
            Denied: the user does not consent, or no folder is open.
            NotFound: the folder is gone.
        """
        root = self._workspace.root
        if root is None:
            raise Denied("Open a folder first: a goal is pursued in a folder.")
        real, digest = await asyncio.to_thread(_identity, root)
        if await self._has_consent(root):
            return
        question = Question(
            f"`:norris` pursues a goal by itself. May it do so in {shown_path(root)}?\n\nThe model"
            " runs one command after another until the goal is reached. A safe command runs"
            " confined, without asking you. One that may change something asks you first, unless"
            " you allow such commands for a goal when you start it; they can then only change this"
            " folder. One that could lose something always asks. You can stop it at any time. A yes"
            " holds for this folder, until `:approvals revoke` takes it back.",
            yes="Allow it",
        )
        answer = await self._workspace.services.ask_user(question)
        if answer is None:
            raise Denied("Not started: nobody could be asked whether goals may be pursued here.")
        if not answer:
            raise Denied("Not started: you did not agree to goals being pursued in this folder.")
        await asyncio.to_thread(self._workspace.services.trust.grant, root, "norris", real, digest)

    async def _has_consent(self, root: Path) -> bool:
        """Return whether the user has consented for exactly this folder, and not revoked that.

        Raises:
            NotFound: the folder is gone.
        """
        trust = self._workspace.services.trust
        return await asyncio.to_thread(lambda: trust.granted(root, "norris", *_identity(root)))

    async def _check_work_profile(self) -> None:
        """Check whether ``caution`` commands can run without asking; if not, tell the user why."""
        workspace = self._workspace
        assert workspace.root is not None
        why = await workspace.why_no_undo()
        if not why and not await workspace.can_confine():
            why = "commands cannot be confined here (`aish-lsp doctor` says more)"
        if not why:
            why = await workspace.services.confinement.why_no_work(workspace.root)
        self._pursuit.works = not why
        if why:
            await self._notice(
                "warning", f"Commands that may change something ask you first: {why}."
            )

    # The steps

    async def _steps(self) -> tuple[RunOutcome, str]:
        while True:
            if _is_cancelled():
                raise asyncio.CancelledError
            if reason := self._limit():
                return "limit", reason
            root = self._workspace.root
            assert root is not None
            if not await self._has_consent(root):
                return "stopped", "You no longer allow goals to be pursued in this folder."
            self._number += 1
            ended = await self._step()
            if ended is not None:
                return ended

    def _limit(self) -> str:
        """Return why the next step would exceed a limit; empty if it would not."""
        bounds = self._bounds
        most = self._pursuit.max_steps or bounds.max_steps
        if self._number - self._pursuit.made >= most:
            return f"It made {count_of(most, 'step')} (norris.max_steps)."
        session = self._session
        upcoming = session.next_request(self._message(self._number + 1)).size.total
        if self._tokens + upcoming > bounds.max_tokens:
            return f"It would take more than {bounds.max_tokens:,} tokens (norris.max_tokens)."
        if self._cost + session.accounting.request_cost(session.preset, upcoming) > (
            bounds.max_dollars
        ):
            return f"It would cost more than {bounds.max_dollars:g} dollars (norris.max_dollars)."
        if len(self._states) >= _MOST_SAME and len(set(self._states[-_MOST_SAME:])) == 1:
            return f"Nothing changed in {_MOST_SAME} steps."
        return ""

    def _message(self, number: int) -> str:
        """Return a step's message to the model, without the output that is attached to it."""
        parts = [*self._notes, *self._pursuit.said]
        if number > self._first:
            return "\n".join([f"[norris] step {number}", *parts])
        if self._pursuit.made:
            parts.insert(0, "It goes on after a break: look how things stand first.")
        return "\n".join([f"[norris] goal: {self._pursuit.goal}", *parts])

    async def _step(self) -> tuple[RunOutcome, str] | None:
        """Make a step; if it ends the run, return how.

        Raises:
            CancelledError: the run was stopped; the end of the step has been reported.
        """
        number, goal = self._number, self._pursuit.goal
        message = self._message(number)
        added = len(self._pursuit.said)
        turn_id = new_id()
        turn = Turn(self._session, Ask(message, self._model), turn_id, self._emit)
        done = await turn.run_locked()
        result = done.result
        if result.model == OFFLINE:
            raise BackendUnavailable(f"The model does not answer. {_NO_MODEL}")
        # The message was sent; what was added since goes into the next one.
        del self._pursuit.said[:added]
        self._model = self._model or result.model
        if result.usage is not None:
            usage = result.usage
            self._tokens += usage.input_tokens + usage.output_tokens
            self._cost += usage.cost or 0.0
        if result.finish_reason == "cancelled" or _is_cancelled():
            await self._end_step(Step(number, goal, "stopped"), turn_id, "stopped")
            raise asyncio.CancelledError
        if done.error is not None:
            raise done.error
        verdict = goal_said(result.text, is_whole=result.finish_reason in ("stop", "tool"))
        commands = [] if verdict else meant(result.commands, result.text)
        work = StepWork(self._session, self._pursuit.group, self._emit, self._exits)
        calls = work.take_calls(turn.calls.broken_off)
        ids = tuple(info.id for info in commands)
        step = Step(number, goal, "planned", _plan(result), ids, tuple(calls))
        await self._emit(step)
        try:
            await work.run_commands(step, commands)
        except asyncio.CancelledError:
            # Clients show a step's exit status as that of its last command, which has none.
            work.status, work.exit_code, work.rows = "stopped", None, ["stopped"]
        if _is_cancelled():
            work.status = "stopped"
        ended = replace(step, status=work.status, exit_code=work.exit_code)
        line = "; ".join(work.rows) or _plan(result)
        await run_uncancellable(self._end_step(ended, turn_id, line))
        if work.status == "stopped":
            raise asyncio.CancelledError
        if verdict is not None:
            return verdict
        if not commands and not calls:
            work.notes.append(
                "[aish] Nothing was run. Go on with a `CMD: ` line or a tool, or end with"
                " `GOAL: complete` or `GOAL: blocked: REASON`."
            )
        self._notes = work.notes
        self._states.append(await work.state())
        return None

    async def _end_step(self, step: Step, turn_id: str, line: str) -> None:
        """Log how a step ended, then report it."""
        row = f"step {step.number}: {line}"
        self._pursuit.steps[turn_id] = row
        await self._session.recorder.pursued(
            "step", number=step.number, line=row, ended=step.status, exit=step.exit_code
        )
        await self._emit(step)

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))


def _is_cancelled() -> bool:
    """Return whether the run was canceled, even during uncancellable work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _identity(root: Path) -> tuple[str, str]:
    """Return the real path of a folder, and a hash that identifies the folder at that path.

    Raises:
        NotFound: the folder is gone.
    """
    real = os.path.realpath(root)
    try:
        status = os.stat(real)  # noqa: PTH116 - of a text
    except OSError as error:
        raise NotFound(f"The folder {shown_path(root)} is gone.") from error
    identity = f"{real}\0{status.st_dev}\0{status.st_ino}"
    return real, hashlib.sha256(os.fsencode(identity)).hexdigest()


def _plan(result: AskResult) -> str:
    """Return the text of a reply before its first command, shortened, on one line."""
    lines = []
    for line in result.text.strip().split("\n"):
        if line.startswith(("CMD: ", "GOAL: ", "```")):
            break
        lines.append(line)
    return clipped(one_line("\n".join(lines).strip()), _PLAN)
