"""One command, from the user's click to its output: approval, the run, and what the model sees."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from aish_lsp.agent.events import Command, FinishReason, Notice, Output
from aish_lsp.agent.planning import plan
from aish_lsp.context.messages import ExecOutput
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Busy, Denied, NotFound
from aish_lsp.foundation.job import Outcome, run_uncancellable
from aish_lsp.foundation.ports import CALL, CALLING_SESSION, Choice
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.shell.blocks import FoundCommand
from aish_lsp.shell.environment import program_not_found, reading_environment
from aish_lsp.shell.output import WholeOutput, clean_output, line_for_terminal
from aish_lsp.shell.risk import Verdict, runs_only_git
from aish_lsp.shell.runner import RunResult, arguments_of, run_command
from aish_lsp.shell.suggestions import (
    needs_approval,
    new_id,
    question_for,
    without_confinement,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from aish_lsp.agent.planning import Plan, RunRequest
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.foundation.ports import UserAnswer
    from aish_lsp.shell.process import Sandbox
    from aish_lsp.shell.risk.approved import Approvable

logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Seconds that a command may run by default, so that none runs unnoticed forever.
DEFAULT_TIMEOUT = 3600.0

_NO_UNDO = "it could not be undone"
_NO_LAYER = "what git writes cannot be kept apart here"
_NOT_ALONE = "another command is running, and changes made since it started could not be undone"

_IN_GOAL = " While this goal is pursued, *yes* also covers the same command when it comes again{}."

_WAS_CONFINED: Final = {
    "reading": "The command ran confined, since it seemed only to read,",
    "work": "The command ran where only the work tree can be changed,",
}
_RUN_UNCONFINED = (
    "{} and the system refused something that it tried."
    " The action *Run without confinement*, or `:run` with its text, runs it unconfined."
)

_WANTS_TERMINAL = (
    "The command needs a terminal (for an editor, a password or a question), and there is none"
    " here. Run it in your own:"
)

#: What to do about files that are not saved, before a command.
_SAVE_OPTIONS = ("Save and run", "Run", "Cancel")

#: The exit status of a shell that did not find a program.
_NOT_FOUND: Final = 127
_IN_LOGIN_SHELL = (
    "Your login shell would find it ({}), but the editor was started without that shell's"
    " environment. `login = true` under `[shell]` in config.toml gives it to all commands."
)

#: A command that only changes its own shell, and does not only list what is set in it.
_FOR_SHELL = (
    r"(?!(?:export|alias|set|shopt|umask|ulimit|declare)(?:[ \t]+-[ap])?[ \t]*(?:[;&|\n]|\Z))"
    r"(?:(cd|pushd|popd|export|source|\.|(?:un)?alias|unset|set|shopt|umask|ulimit|declare|workon"
    r'|deactivate|(?:conda|mamba) (?:de)?activate|nvm use|pyenv shell|eval(?= "?\$\())'
    r"(?:[ \t][^;&|\n]*+)?|([A-Za-z_]\w*=[^\s;&|]*+))"
)
#: What consists of commands that change nothing but their own shell.
_CHANGES_SHELL = re.compile(
    rf"\s*+{_FOR_SHELL}(?:[ \t]*+(?:;|&&|\n)(?:[;\s]|&&)*+(?:{_FOR_SHELL})?)*+\s*"
)
_SHELL_IS_GONE = (
    "Each command runs in a new shell, so `{}` alone changes nothing for those after it: write both"
    " on one line, joined by `&&`."
)

_AS_ALLOWED: Final = (
    "It runs without a question, as you allowed. `:approvals` lists what is allowed."
)

#: What the model is told of an offered command that the user refused, with the exit status of a
#: command that could not be run.
_REFUSED: Final = (126, "[aish: not run: the user refused it]\n")


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a command ended. ``exit_code`` is null if it did not exit by itself.

    ``output_uri`` is a file with the whole output, if a chat would not show all of it; ``refused``
    says that the confinement may have denied it something.
    """

    command_id: str
    text: str
    exit_code: int | None
    signal: str | None
    output: str
    truncated: bool
    duration_ms: int
    finish_reason: FinishReason
    output_uri: str | None = None
    refused: bool = False


def run(session: Session, request: RunRequest) -> Job[RunReport]:
    """Begin to run a command.

    Raises:
        InvalidArgument: there is nothing to run, or the folder is outside the workspace.
        NotFound: there is no such suggestion, or the folder is gone.
        Busy: the suggestion is already running, or the user is being asked about it.
    """
    if request.command_id in session.jobs:
        raise Busy("That command is already running, or waiting for your answer.")
    planned = plan(session, request, request.command_id or new_id())
    # An earlier question about this command is obsolete.
    session.awaiting.pop(planned.command_id, None)
    return _begin(session, planned)


def approve(session: Session, command_id: str) -> Job[RunReport]:
    """Run, once, a command that nobody could be asked about before.

    Raises:
        NotFound: no such command waits for approval.
    """
    begin = session.awaiting.pop(command_id, None)
    if begin is None:
        raise NotFound(f"No command {command_id[:40]!r} waits for approval.")
    return begin()


async def run_and_tell(session: Session, request: RunRequest, emit: Emit) -> RunReport:
    """Run a command as part of other work, and forward its events; a cancel ends the command.

    Raises:
        AishError: as ``run``.
    """
    job = run(session, request)
    try:
        async for event in job.events():
            if isinstance(event, Notice | Command | Output):
                await emit(event)
        return await job.result()
    except BaseException:
        job.cancel()
        await run_uncancellable(_ended(job))
        raise


async def _ended(job: Job[RunReport]) -> None:
    """Wait until a canceled job has ended, with a result or an error."""
    await asyncio.gather(job.result(), return_exceptions=True)


def _begin(session: Session, planned: Plan) -> Job[RunReport]:
    return session.jobs.start(
        planned.command_id, lambda emit: Execution(session, planned, emit).execute(), planned.text
    )


class Execution:
    """A command in progress: its approval, its run and its output."""

    def __init__(self, session: Session, planned: Plan, emit: Emit) -> None:
        self._session = session
        self._workspace = session.workspace
        self._plan = planned
        self._emit = emit
        pursuit = session.pursuit
        self._pursuit = pursuit if pursuit and pursuit.group == planned.group else None
        # What it is confined to: reading, or changes of the work tree, which a step of a goal may
        # make without asking.
        self._profile: Literal["reading", "work"] | None = None
        # Whether all of its commands are git's.
        self._is_gits = False
        # What the user has allowed before, if it runs because of that; and whether they were looked
        # at as for the profile `work`.
        self._allowed: Sequence[Approvable] = ()
        self._allowed_in_work = False
        # What the editor has not saved: the command sees those files as they were.
        self._unsaved: list[str] = []
        folder = self._workspace.folder / ".aish"
        self._output_file = WholeOutput(folder, planned.command_id, self._workspace.without_secrets)

    async def execute(self) -> Outcome[RunReport]:
        """Ask if necessary, run the command, and keep its output for the next question.

        On cancellation the whole process group is ended and the partial output is returned.

        Raises:
            NotFound: the folder or the shell is gone.
            Denied: another folder has taken its place, or the command could not be confined.
            InvalidArgument: the text cannot be passed to a shell.
        """
        planned, undo = self._plan, self._workspace.undo
        if not CALL.get():
            CALL.set(planned.command_id)
            CALLING_SESSION.set(self._session.id)
        result: RunResult | None = None
        try:
            verdict = await self._judge()
            if self._must_ask(verdict) and not await self._may_run(verdict):
                return self._not_run("denied")
            if not verdict.only_reads and not await self._save_first():
                return self._not_run("denied")
            changes: AbstractAsyncContextManager[bool] = nullcontext(enter_result=False)
            if not verdict.only_reads:
                parts = planned.group, planned.text, planned.cwd
                changes = self._session.undoable(*parts, self._emit)
            async with changes as covered:
                can_undo = covered and undo.holds(planned.group)
                if self._profile == "work" and not (can_undo or self._allowed):
                    # It was to run without asking, but could not be undone: ask after all.
                    reason = _NOT_ALONE if covered else _NO_UNDO
                    if not await self._may_run(replace(verdict, reasons=(reason,))):
                        return self._not_run("denied")
                result = await self._run(verdict)
        except asyncio.CancelledError:
            # If the command has ended, it is too late for a cancel, and the result is kept.
            if result is None:
                return self._not_run("cancelled")
        await self._keep_output(result)
        file = await run_uncancellable(self._try_to_save(self._output_file.close()))
        await self._explain(result)
        return self._outcome(result, file)

    async def _save_first(self) -> bool:
        """Have files saved that an edit of ours changed; return whether the command is to run.

        A goal's command runs without: the model is told.
        """
        buffers, config = self._workspace.services.buffers, self._workspace.config.suggestions
        paths = await buffers.unsaved()
        if not paths:
            return True
        if self._pursuit is None and buffers.can_save() and config.save != "never":
            names = ", ".join(map(shown_path, paths))
            ask = Choice(f"Not saved in the editor: {names}.", _SAVE_OPTIONS)
            answer = 0 if config.save == "always" else await self._workspace.services.choose(ask)
            if answer not in (0, 1):
                return False
            if answer == 0:
                saved = await buffers.save(paths)
                paths = [path for path in paths if path not in saved]
        self._unsaved = [shown_path(path) for path in paths]
        return True

    async def _judge(self) -> Verdict:
        """Return the risk, and decide what the command is confined to."""
        workspace, planned = self._workspace, self._plan
        if why_not := await workspace.load_environment():
            await self._emit(Notice("warning", why_not))
        can_confine = not planned.free and await workspace.can_confine()
        acts_alone = self._pursuit is not None and self._pursuit.acts_alone
        is_approved = planned.request.approval == "given"
        verdict = workspace.judge(
            planned.text,
            planned.cwd,
            planned.shell,
            confined=can_confine,
            kept=workspace.root if acts_alone else None,
        )
        if planned.is_retry:
            verdict = without_confinement(verdict)
        if can_confine and verdict.risk == "safe" and verdict.confine:
            self._profile = "reading"
        elif can_confine and verdict.risk == "caution" and acts_alone and not is_approved:
            self._is_gits = runs_only_git(planned.text)
            assert workspace.root is not None
            confinement = workspace.services.confinement
            why_not = ""
            if self._is_gits:
                why_not = await confinement.why_no_work(workspace.root, layered=True)
            if why_not:
                return replace(verdict, reasons=(*verdict.reasons, f"{_NO_LAYER}: {why_not}"))
            self._profile = "work"
        return verdict

    @property
    def _other_shell(self) -> str:
        """The shell that runs the command, if that is not the user's own; else empty."""
        shell = self._plan.shell
        return "" if shell == self._workspace.config.safety.shell else shell

    async def _offer_unconfined(self) -> None:
        """Suggest the command again, to be run without confinement."""
        planned = self._plan
        command = FoundCommand(planned.text, 0, source=planned.source, shell=self._other_shell)
        info = self._session.offer_unconfined(command, planned.cwd, planned.shell)
        await self._emit(Command(info))
        confined = _WAS_CONFINED[self._profile or "reading"]
        await self._emit(Notice("info", _RUN_UNCONFINED.format(confined)))

    async def _explain(self, result: RunResult) -> None:
        """Say what the user can do about how the command ended."""
        planned = self._plan
        if result.wants_terminal:
            line = escaped(line_for_terminal(planned.text, planned.cwd))
            await self._emit(Notice("warning", f"{_WANTS_TERMINAL}\n\n    {line}"))
        if result.refused:
            await self._offer_unconfined()
        if result.exit_code == _NOT_FOUND and (path := await self._in_login_shell(result.output)):
            await self._emit(Notice("info", _IN_LOGIN_SHELL.format(escaped(path))))
        if changed := _CHANGES_SHELL.fullmatch(planned.text):
            await self._emit(Notice("info", _SHELL_IS_GONE.format(changed[1] or changed[2])))

    async def _in_login_shell(self, output: str) -> str | None:
        """Return where the login shell would find a program that was not found, if it would."""
        name = program_not_found(output)
        if not name or self._workspace.config.shell.login:
            return None
        try:
            login = await self._workspace.services.login_environment()
        except AishError:
            return None
        return shutil.which(name, path=login.get("PATH", ""))

    def _not_run(self, reason: FinishReason) -> Outcome[RunReport]:
        return self._outcome(RunResult(None, None, "", False, 0, reason))

    def _must_ask(self, verdict: Verdict) -> bool:
        """Return whether the user must be asked first."""
        planned, request = self._plan, self._plan.request
        always = planned.is_retry or self._workspace.config.safety.confirm == "always"
        if self._profile == "work":
            return always
        if request.approval == "offered":
            return True
        if request.approval == "unseen" and verdict.risk != "safe":
            return True
        return request.approval != "given" and needs_approval(
            planned.text, verdict, planned.origin, always=always
        )

    async def _may_run(self, verdict: Verdict) -> bool:
        """Return whether the user allows the command, or has allowed it before.

        Unless they clicked on it, what they have allowed before runs in the profile ``work``, and a
        fence asks all the same: the model may only have wanted to show it.
        """
        works = await self._works()
        commands = await self._approvable(verdict, works=works)
        approvals, planned = self._session.approvals, self._plan
        is_clicked = planned.request.approval not in ("unseen", "offered")
        may_cover = bool(commands) and (is_clicked or planned.source != "fence")
        if may_cover and approvals.cover(commands, works=works):
            self._allowed, self._allowed_in_work = commands, works
            if works and not is_clicked:
                self._profile = "work"
            if self._pursuit is None:
                await self._emit(Notice("info", _AS_ALLOWED))
            return True
        return await self._ask(verdict, commands, works=works)

    async def _works(self) -> bool:
        """Return whether the command could run in the profile ``work``."""
        workspace = self._workspace
        if workspace.root is None or not await workspace.can_confine():
            return False
        self._is_gits = runs_only_git(self._plan.text)
        confinement = workspace.services.confinement
        return not await confinement.why_no_work(workspace.root, layered=self._is_gits)

    async def _approvable(self, verdict: Verdict, *, works: bool) -> tuple[Approvable, ...]:
        """Return the commands to remember if the user says so; none if it cannot be remembered."""
        planned = self._plan
        always = planned.is_retry or planned.origin == "document"
        always = always or self._workspace.config.safety.confirm == "always"
        if always or verdict.risk != "caution":
            return ()
        return await self._session.approvals.commands(
            planned.text, planned.shell, planned.cwd, works=works
        )

    async def _ask(self, verdict: Verdict, commands: Sequence[Approvable], *, works: bool) -> bool:
        """Ask the user; if nobody answers, show the question and how to run the command.

        ``commands`` are remembered if they say so.
        """
        planned = self._plan
        undo = "" if verdict.only_reads else await self._workspace.undo_hint()
        # It is in the question, so the notice before the command need not repeat it.
        self._session.first_time(undo)
        if self._pursuit and commands:
            undo += _IN_GOAL.format("" if works else " (unconfined)")
        question = question_for(
            planned.text,
            planned.cwd,
            verdict,
            planned.origin,
            self._other_shell,
            undo=undo,
            covers=tuple(one.name for one in commands),
            works=works,
        )
        answer = await self._workspace.services.ask_user(question)
        await self._remember(answer, commands)
        if answer is None:
            # Whoever approves it has seen it; by then its tool call has been answered.
            request = replace(planned.request, approval="given", answers_call=False)
            approved = replace(planned, request=request, group=planned.command_id)
            self._session.awaiting[planned.command_id] = lambda: _begin(self._session, approved)
            hint = f"Not run: it was not confirmed. `:approve {planned.command_id}` runs it, once."
            await self._emit(Notice("warning", f"{question.message}\n\n{hint}"))
        if answer is False and planned.request.approval == "offered":
            refused = ExecOutput(planned.text, *_REFUSED)
            await self._session.command_ended(planned.command_id, refused)
        if answer and self._profile == "work":
            # As the user agreed, it is no longer limited to the work tree.
            self._profile = None
        return bool(answer)

    async def _remember(self, answer: UserAnswer, commands: Sequence[Approvable]) -> None:
        """Remember what the user has allowed; in a goal, a plain yes holds until its end."""
        if self._pursuit is not None and answer:
            self._pursuit.allowed.update(commands)
        if answer in ("session", "folder"):
            try:
                await self._session.approvals.keep(commands, answer)
            except AishError as error:
                message = f"Run, but not remembered: {error.message}"
                await self._emit(Notice("warning", message))

    async def _run(self, verdict: Verdict) -> RunResult:
        """Run the command. Until it starts, a cancel raises; afterwards it gives a result."""
        workspace, planned = self._workspace, self._plan

        async def on_output(stream: Literal["stdout", "stderr"], delta: str) -> None:
            await self._emit(Output(planned.command_id, stream, delta))
            if not planned.request.shown_whole:
                await self._try_to_save(self._output_file.add(delta))

        environ = workspace.command_environment()
        if is_reading := verdict.only_reads and not planned.free:
            environ = reading_environment(environ, with_secrets=not verdict.confine)
        confinement = workspace.services.confinement
        sandbox: AbstractContextManager[Sandbox | None] = nullcontext()
        if self._profile == "reading":
            sandbox = await confinement.sandbox(workspace.root)
        elif self._profile == "work":
            assert workspace.root is not None
            sandbox = await confinement.work_sandbox(workspace.root, layered=self._is_gits)
        with sandbox as made:
            planned.check_folder(workspace.folder)
            await self._check_allowed(verdict)
            # Tell listeners that it runs: it may print nothing for a long time.
            await self._emit(Output(planned.command_id, "stdout", ""))
            self._session.command_started(planned.command_id)
            seconds = planned.request.timeout or DEFAULT_TIMEOUT
            # A client's terminal has the client's environment, not that of a command that reads.
            is_elsewhere = workspace.config.shell.client_terminal and not is_reading
            if made is None and is_elsewhere:
                program = arguments_of(planned.text, planned.shell, environ)
                run_there = workspace.services.run_in_terminal
                if (result := await run_there(program, planned.cwd, seconds)) is not None:
                    await self._try_to_save(self._output_file.add(result.output))
                    return result
            return await run_command(
                planned.text,
                cwd=planned.cwd,
                shell=planned.shell,
                timeout=seconds,
                env=environ,
                on_output=on_output,
                sandbox=made,
            )

    async def _check_allowed(self, verdict: Verdict) -> None:
        """Check that what runs unasked is still what was allowed: a file may be saved by now.

        Raises:
            Denied: a program or a file that it names has changed.
        """
        if not self._allowed:
            return
        if self._allowed != await self._approvable(verdict, works=self._allowed_in_work):
            raise Denied(
                "Not run: a program or a file that the command names has changed since it was"
                " checked. Run it again to be asked about it."
            )

    async def _try_to_save(self, keeping: Coroutine[Any, Any, R]) -> R | None:
        """Save output to a file; if that fails, log it and go on without."""
        try:
            return await keeping
        except AishError as error:
            logger.warning("a command's output cannot be saved: %s", error.message)
            return None

    async def _keep_output(self, result: RunResult) -> None:
        """Keep the output for the next question, clean and without secrets."""
        if self._plan.request.answers_call:
            return
        workspace = self._workspace
        output = workspace.output_without_secrets(clean_output(result.output))
        if result.refused:
            output = f"{output.rstrip()}\n[aish: confined]\n".lstrip()
        if self._unsaved:
            names = ", ".join(self._unsaved)
            note = f"[aish: not saved in the editor, so this command saw the old text of: {names}]"
            output = f"{output.rstrip()}\n{note}\n".lstrip()
        if result.wants_terminal:
            output = f"{output.rstrip()}\n[aish: it needs a terminal, and has none]\n".lstrip()
        text = workspace.without_secrets(self._plan.text)
        output_part = ExecOutput(text, result.exit_status, output)
        # It is too late for a cancel: the command has ended.
        with suppress(asyncio.CancelledError):
            await self._session.command_ended(self._plan.command_id, output_part)

    def _outcome(self, result: RunResult, file: Path | None = None) -> Outcome[RunReport]:
        report = RunReport(
            command_id=self._plan.command_id,
            text=self._plan.text,
            exit_code=result.exit_code,
            signal=result.signal,
            output=result.output,
            truncated=result.truncated,
            duration_ms=result.duration_ms,
            finish_reason=result.finish_reason,
            output_uri=file.as_uri() if file else None,
            refused=result.refused,
        )
        return Outcome(report, result.finish_reason)
