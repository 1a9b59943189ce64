"""One conversation in a workspace: its messages, what it has cost, and what runs in it.

A session is opened once and stays the same conversation until it is closed. To begin another
conversation, or to continue an earlier one, another session is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aish_lsp.agent.accounting import Accounting, NextRequest
from aish_lsp.agent.approvals import Approvals
from aish_lsp.agent.events import Notice
from aish_lsp.context.attached import Consents
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.usage import Meter
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.job import JobTable, run_uncancellable
from aish_lsp.sessions.rebuild import Resumption
from aish_lsp.shell.suggestions import PendingCommands, info_of, new_id, without_confinement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from aish_lsp.agent.events import CommandInfo
    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.agent.model_choice import ModelChoice
    from aish_lsp.agent.norris import Pursuit
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.messages import Attached, ExecOutput
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.context.usage import UsageTotals
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.models.request import Model, ToolSchema
    from aish_lsp.sessions.recorder import Recorder
    from aish_lsp.shell.blocks import FoundCommand
    from aish_lsp.shell.risk import Verdict
    from aish_lsp.shell.suggestions import Suggestion
    from aish_lsp.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. ``model`` names a preset for this question only; ``ephemeral`` leaves no trace.

    ``notice`` is shown to the user before the turn starts; ``attached`` is what the question is
    about, in addition to the files that it names; ``at`` is the file in which it was asked;
    ``again`` is the id of the exchange that it repeats, whose answer is no longer sent once there
    is a new one.
    """

    prompt: str
    model: str | None = None
    ephemeral: bool = False
    notice: str = ""
    attached: tuple[Attached, ...] = ()
    at: Path | None = None
    again: str = ""


@dataclass(frozen=True, slots=True)
class ContextShare:
    """How full the context is, in tokens."""

    total: int
    budget: int


@dataclass(frozen=True, slots=True)
class Status:
    """A session at a glance.

    ``cost`` is in dollars, null if it is not known; ``servers`` is how many tool servers are ready.
    """

    model: str
    busy: bool
    context: ContextShare
    cost: float | None
    commands: int
    trusted: bool
    servers: int


class Session:
    """One conversation in a workspace.

    Args:
        workspace: the context of its folder.
        recorder: writes the conversation down.
        models: chooses the model that answers.
        before: the conversation so far, if an earlier session is resumed.
        usage: what that session has used so far.

    Attributes:
        turn_lock: held while a question is answered, so that only one is at a time.
        unanswered: the last question, if it got no answer.
        awaiting: commands that wait for approval since nobody could be asked, by id; each value
            starts its command.
        approvals: what the user has allowed without being asked again.
        tools: what the model may call.
        pursuit: the goal that is being pursued, if any.
        goal_job: the id of the last job that pursued a goal, or is about to.
    """

    def __init__(
        self,
        workspace: FolderContext,
        recorder: Recorder,
        models: ModelChoice,
        before: Resumption | None = None,
        usage: UsageTotals | None = None,
    ) -> None:
        self.workspace = workspace
        self.recorder = recorder
        self.models = models
        self.conversation = Conversation()
        self.commands = PendingCommands()
        self.accounting = Accounting(workspace.services)
        self.consents = Consents()
        self.approvals = Approvals(workspace, lambda: self.pursuit)
        self.jobs = JobTable(workspace.changed)
        self.turn_lock = asyncio.Lock()
        self.unanswered: Ask | None = None
        self.awaiting: dict[str, Callable[[], Job[Any]]] = {}
        self.tools: Toolbox = workspace.services.tools_of(self)
        self.pursuit: Pursuit | None = None
        self.goal_job = ""
        self._last_turn = ""
        self._shown_notices: set[str] = set()
        if before is not None:
            self._resume(before, usage)

    def _resume(self, before: Resumption, usage: UsageTotals | None) -> None:
        """Restore the conversation, the usage and the suggestions."""
        self.conversation = Conversation([*before.messages], before.summary, [*before.pending])
        self.accounting.meter = Meter(usage, before.evictions)
        # The last reply's suggestions belong to its exchange, which may be asked again.
        asked = [message.exchange for message in before.messages if message.role == "user"]
        self._last_turn = asked[-1] if asked else new_id()
        for command_id, command, number in before.commands:
            if command.source == "cmd" or self.workspace.config.suggestions.fences:
                self._suggest(command, self._last_turn, command_id, number)

    # For front ends

    def asked_again(self, exchange: str | None = None, model: str | None = None) -> Ask:
        """Return the question of an exchange, by default the last, so that it can be asked again.

        A question without an answer counts as the last until a later question is answered.

        Raises:
            NotFound: no exchange with this id is still sent to the model.
        """
        unanswered = self.unanswered
        if unanswered is not None and exchange in (None, unanswered.again):
            return replace(unanswered, model=model or unanswered.model)
        questions = [message for message in self.conversation.messages if message.role == "user"]
        if exchange is not None:
            questions = [message for message in questions if message.exchange == exchange]
        if not questions:
            if exchange is None:
                raise NotFound("There is no question to ask again in this session yet.")
            raise NotFound(
                "That question is no longer sent to the model. Ask it as a new question."
            )
        asked = questions[-1]
        return Ask(asked.content, model, attached=asked.attached, again=asked.exchange)

    async def dismiss(self, command_id: str) -> None:
        """Drop a suggestion.

        Raises:
            NotFound: the suggestion no longer exists.
        """
        self.commands.get(command_id)
        self.commands.remove(command_id)
        self.workspace.changed()
        await self.recorder.dismissed(command_id)

    async def reset_costs(self) -> None:
        """Count costs and tokens from zero again."""
        self.meter.usage.reset()
        await self.recorder.costs_reset()

    async def use_model(self, name: str) -> str:
        """Answer with this model from now on; return its name.

        Raises:
            NotFound, Denied: as ``ModelChoice.use``.
        """
        name = await self.answer_with(name)
        await self.recorder.model(name)
        return name

    async def answer_with(self, name: str) -> str:
        """Answer with this model from now on, like ``use_model``, but do not log that."""
        name = await self.models.use(name)
        self.workspace.changed()
        return name

    async def reset(self) -> None:
        """Forget turns, summary, pending output and suggestions; memory and costs stay.

        Running jobs are stopped first, so that nothing they record is left over.
        """
        await self.jobs.stop()
        async with self.turn_lock:
            self.conversation.reset()
            self.unanswered = None
            self.commands.clear()
            self.awaiting.clear()
            self.consents.clear()
            await self.recorder.reset()
        self.workspace.changed()

    # State

    @property
    def id(self) -> str:
        """The session's id, which is also the name of its log."""
        return self.recorder.session_id

    @property
    def preset(self) -> Preset:
        """The model that answers next, as far as is known."""
        return self.models.active

    @property
    def last_turn_suggestions(self) -> list[Suggestion]:
        """The suggestions of the last turn that were neither run nor dismissed."""
        return self.commands.of_turn(self._last_turn)

    @property
    def meter(self) -> Meter:
        """What this session has used, and what the last call reported."""
        return self.accounting.meter

    def blocks(self) -> Blocks:
        """Return the blocks of the prompt as they would be sent now."""
        blocks = self.workspace.blocks(self.conversation.summary, self.models.wording)
        return replace(blocks, norris=self.pursuit.block()) if self.pursuit else blocks

    def next_request(self, question: str = "", attached: Sequence[Attached] = ()) -> NextRequest:
        """Return the next request, as far as it is known now; see ``NextRequest``."""
        config = self.workspace.config
        return NextRequest(
            config,
            self.preset,
            self.accounting,
            self.conversation,
            blocks=self.blocks(),
            tools=self.tools_for(self.preset, self.accounting.known_limits(self.preset, config)),
            question=question,
            attached=attached,
        )

    def tools_for(self, preset: Preset, limit: Limits) -> tuple[ToolSchema, ...]:
        """Return the tools to offer to a model with these limits."""
        if not self.workspace.services.catalog.takes_tools(preset):
            return ()
        return self.tools.definitions(preset, limit.window)

    def status(self) -> Status:
        """Return the session at a glance."""
        upcoming = self.next_request()
        total = self.meter.usage.total()
        servers = self.workspace.tool_servers.all() if self.workspace.tool_servers else ()
        return Status(
            model=self.preset.name,
            busy=len(self.jobs) > 0,
            context=ContextShare(upcoming.size.total, upcoming.limit.budget),
            cost=total.cost or None,
            commands=len(self.commands.all()),
            trusted=self.workspace.configuration.trusted,
            servers=sum(server.state == "ready" for server in servers),
        )

    async def drain_warnings(self) -> list[str]:
        """Return new warnings for the user: thresholds passed, files that cannot be written."""
        passed = self.meter.usage.warnings(self.workspace.config.cost)
        services = self.workspace.services
        return [
            *passed,
            *self.recorder.drain_warnings(),
            *services.drain_warnings(),
            *[fact for fact in services.drain_counting_notices() if await self.is_news(fact)],
        ]

    # For turns and executions

    @asynccontextmanager
    async def in_turn(
        self, emit: Emit, notice: str = "A question is being answered; this waits."
    ) -> AsyncIterator[None]:
        """Hold the turn lock. If it is already held, show the user ``notice`` and wait for it."""
        if self.turn_lock.locked():
            await emit(Notice("info", notice))
        async with self.turn_lock:
            yield

    @asynccontextmanager
    async def undoable(self, group: str, label: str, cwd: Path, emit: Emit) -> AsyncIterator[bool]:
        """Record the files before and after a change; yield whether the change can be undone.

        ``label`` is the command, or a text that describes the change. All changes of one ``group``
        are undone together, those of a goal by its name.
        """
        from aish_lsp.undo.git import NoUndo, Nowhere  # noqa: PLC0415 - when a command first runs

        workspace, pursuit = self.workspace, self.pursuit
        goal = f"the goal “{pursuit.goal}”" if pursuit and pursuit.group == group else ""
        is_recorded = False
        if workspace.config.safety.snapshot:
            try:
                await workspace.undo.before(group, label, cwd, self.id, goal)
            except NoUndo as reason:
                notice = f"This cannot be undone: {reason}."
                # If nothing here can ever be undone, saying so once is enough.
                if self.first_time(notice) or not isinstance(reason, Nowhere):
                    await emit(Notice("warning", notice))
            else:
                is_recorded = True
        try:
            yield is_recorded
        finally:
            if is_recorded:
                # Even if the work was canceled.
                for notice in await run_uncancellable(workspace.undo.after()):
                    await emit(Notice("info", notice))
            workspace.services.buffers.files_changed()

    async def refresh(self) -> list[str]:
        """Reload the configuration, memory and project if they changed. Return any warnings."""
        return await self.workspace.refresh() + self.recorder.drain_warnings()

    async def is_news(self, fact: str, *, lasts: bool = True) -> bool:
        """Return whether a ``fact`` about a model or its server was not told today."""
        facts = self.workspace.services.told
        return await asyncio.to_thread(facts.is_news, fact, lasts=lasts)

    def first_time(self, notice: str) -> bool:
        """Return whether ``notice`` is new in this session, and remember that it was shown."""
        is_new = notice not in self._shown_notices
        self._shown_notices.add(notice)
        return is_new

    def open_model(self, preset: Preset) -> Model:
        """Return the adapter for ``preset``."""
        return self.models.open(preset)

    def turn_began(self, turn_id: str) -> None:
        """Note that the last suggestions are now those of this turn, even if it has none."""
        self._last_turn = turn_id
        self.workspace.changed()

    def drop_suggestions(self, exchange: str) -> None:
        """Forget the suggestions of an exchange that was answered again."""
        for suggestion in self.commands.of_turn(exchange):
            self.commands.remove(suggestion.info.id)
        self.workspace.changed()

    def add_command(
        self, found: FoundCommand, turn_id: str, command_id: str | None = None
    ) -> CommandInfo:
        """Keep a suggestion, in place of ``command_id`` if that is given, and notify front ends."""
        info = self._suggest(found, turn_id, command_id)
        self.workspace.changed()
        return info

    def _suggest(
        self, found: FoundCommand, turn_id: str, command_id: str | None, number: int = 0
    ) -> CommandInfo:
        acts_alone = self.pursuit is not None and self.pursuit.acts_alone
        verdict, obstacle = self._judge(found, self.workspace.root if acts_alone else None)
        return self.commands.add(
            found, turn_id, verdict, command_id=command_id, number=number, obstacle=obstacle
        )

    def judged(self, found: FoundCommand, command_id: str) -> CommandInfo:
        """Return an earlier suggestion with the risk that it has now; it does not wait again."""
        return info_of(found, command_id, *self._judge(found))

    def _judge(self, found: FoundCommand, kept: Path | None = None) -> tuple[Verdict, str]:
        """Return the risk of a suggestion, and why its shell cannot be used, if so.

        ``kept`` is as for ``classify``.
        """
        shell, obstacle = self.workspace.shell_for(found.shell)
        return self.workspace.judge(found.text, shell=shell, kept=kept), obstacle

    def offer_unconfined(self, found: FoundCommand, folder: Path, shell: str) -> CommandInfo:
        """Suggest a command that ran in ``folder`` again, this time without confinement."""
        verdict = self.workspace.judge(found.text, folder, shell, confined=False)
        verdict = without_confinement(verdict)
        info = self.commands.add(found, self._last_turn, verdict, unconfined=True)
        self.workspace.changed()
        return info

    def command_started(self, command_id: str) -> None:
        """Remove a suggestion from the list, as it is being run."""
        self.commands.remove(command_id)
        self.workspace.changed()

    async def command_ended(self, command_id: str, output: ExecOutput) -> None:
        """Keep a command's output for the next question, and log it."""
        self.conversation.append_output(output)
        await self.recorder.ran(command_id, output)

    async def aclose(self) -> None:
        """Stop running jobs, wait until they have recorded their results, and close the log."""
        await self.jobs.stop()
        await self.recorder.aclose()
