"""One folder's context: its conversation, memory, project, costs, and what runs in it.

It opens, owns and closes what is below; a front end asks it for jobs and reads its state.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.accounting import Accounting
from aish_lsp.attached.consent import Consents
from aish_lsp.attached.file_names import FileNames
from aish_lsp.composition import compose
from aish_lsp.conversation.meter import Meter
from aish_lsp.conversation.turns import Conversation
from aish_lsp.errors import Busy, NotFound
from aish_lsp.job_table import JobTable
from aish_lsp.masking import MASK, Mask, withhold
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.model_choice import ModelChoice
from aish_lsp.next_request import NextRequest
from aish_lsp.paths import config_file, data_dir, workspace_dir
from aish_lsp.project.picture import ProjectPicture
from aish_lsp.redaction import is_telling, redact
from aish_lsp.sessions.recorder import Recorder
from aish_lsp.shell.environment import command_environment, secret_values
from aish_lsp.shell.pending import PendingCommands, new_id
from aish_lsp.shell.risk import Verdict, classify
from aish_lsp.shell.shells import shell_for
from aish_lsp.shell.suggestions import FoundCommand
from aish_lsp.undo.undo import Undo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aish_lsp.config.loading import Configuration
    from aish_lsp.config.schema import Config, Preset
    from aish_lsp.conversation.prompt import Blocks
    from aish_lsp.conversation.turns import ExecOutput
    from aish_lsp.conversation.usage import UsageTotals
    from aish_lsp.events import CommandInfo
    from aish_lsp.execution import Plan, RunReport, RunRequest
    from aish_lsp.job import Job
    from aish_lsp.memory.items import Kind, Scope
    from aish_lsp.memory.store import Added
    from aish_lsp.models.catalog import Chosen
    from aish_lsp.models.request import Model
    from aish_lsp.resumption import Resumption
    from aish_lsp.services import Services
    from aish_lsp.shell.pending import Suggestion
    from aish_lsp.turn import Ask, AskResult
    from aish_lsp.workspace_sessions import Sessions


@dataclass(frozen=True, slots=True)
class ContextShare:
    """How full the context is. Tokens."""

    total: int
    budget: int


@dataclass(frozen=True, slots=True)
class Status:
    """A workspace at a glance; ``cost`` in dollars, null where none is known."""

    model: str
    busy: bool
    context: ContextShare
    cost: float | None
    commands: int
    trusted: bool
    servers: int


class Workspace:
    """The context of one folder; with ``root`` None, of the user where no folder is open.

    Attributes:
        unanswered: the last question, where it got no answer.
    """

    def __init__(self, root: Path | None, services: Services, configuration: Configuration) -> None:
        self.root = root
        self.services = services
        self.conversation = Conversation()
        self.commands = PendingCommands()
        self.accounting = Accounting(services)
        self.project = ProjectPicture(root)
        self.files = FileNames(root, self.project, lambda: self.config.project)
        self.consents = Consents()
        self.undo = Undo(self.folder, self.without_secrets, lambda: self.recorder.session_id)
        self.turn_lock = asyncio.Lock()
        folder = workspace_dir(root) if root else data_dir() / "workspaces" / "user"
        self.recorder = Recorder(folder, root.as_uri() if root else None, self.without_secrets)
        self._configuration = configuration
        self._folder = folder
        self._memory_path = self._configured_memory()
        self.memory = self._open_memory()
        self.models = ModelChoice(services, self.folder, lambda: self.config)
        self.jobs = JobTable(self.changed)
        self._awaiting: dict[str, Plan] = {}
        self._last_turn = ""
        self.unanswered: Ask | None = None
        self._sessions: Sessions | None = None
        self._told: set[str] = set()
        self._masking: tuple[tuple[frozenset[str], frozenset[str]], Mask] | None = None
        self._listeners: list[Callable[[], None]] = []

    # What a front end asks for

    def ask(self, ask: Ask) -> Job[AskResult]:
        """Begin a turn. One is taken at a time: a second waits."""
        from aish_lsp import turn  # noqa: PLC0415 - a cycle: a turn is taken in a workspace

        turn_id = new_id()
        return self.jobs.start(turn_id, lambda emit: turn.Turn(self, ask, turn_id, emit).take())

    def asked_again(self, exchange: str | None = None, model: str | None = None) -> Ask:
        """Return the question of an exchange, the last one by default, as it is asked again.

        A question that got no answer counts, until the next one gets one.

        Raises:
            NotFound: there is no such exchange among those that are still sent.
        """
        from aish_lsp.turn import Ask  # noqa: PLC0415 - a cycle, as above

        unanswered = self.unanswered
        if unanswered is not None and exchange in (None, unanswered.again):
            return replace(unanswered, model=model or unanswered.model)
        questions = [turn for turn in self.conversation.turns if turn.role == "user"]
        if exchange is not None:
            questions = [turn for turn in questions if turn.exchange == exchange]
        if not questions:
            if exchange is None:
                raise NotFound("There is no question in this session yet to ask again.")
            raise NotFound(
                "That question is no longer sent to the model. Ask it as a new question."
            )
        asked = questions[-1]
        return Ask(asked.content, model, attached=asked.attached, again=asked.exchange)

    def run(self, request: RunRequest) -> Job[RunReport]:
        """Begin to run a command.

        Raises:
            InvalidArgument: nothing to run, or a folder outside of the workspace.
            NotFound: no such suggestion, or the folder is gone.
            Busy: that suggestion is being asked about, or runs, already.
        """
        from aish_lsp.execution import Execution, plan  # noqa: PLC0415 - a cycle, as above

        if request.command_id in self.jobs:
            raise Busy("That command is already running, or waiting for your answer.")
        planned = plan(self, request, request.command_id or new_id())
        # Whoever is asked anew has not approved what stood before.
        self._awaiting.pop(planned.command_id, None)
        return self.jobs.start(
            planned.command_id, lambda emit: Execution(self, planned, emit).execute(), planned.text
        )

    def approve(self, command_id: str) -> Job[RunReport]:
        """Run, once, a command that nobody could be asked about before.

        Raises:
            NotFound: no such command waits for approval.
        """
        from aish_lsp.execution import Execution, approved  # noqa: PLC0415 - a cycle, as above

        planned = self._awaiting.pop(command_id, None)
        if planned is None:
            raise NotFound(f"No command {command_id[:40]!r} waits for approval.")
        planned = approved(planned)
        return self.jobs.start(
            command_id, lambda emit: Execution(self, planned, emit).execute(), planned.text
        )

    async def dismiss(self, command_id: str) -> None:
        """Drop a suggestion.

        Raises:
            NotFound: it is gone already.
        """
        self.commands.get(command_id)
        self.commands.remove(command_id)
        self.changed()
        await self.recorder.dismissed(command_id)

    async def reset_costs(self) -> None:
        """Count costs and tokens from nothing again."""
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
        """Do what ``use_model`` does, without writing it down."""
        name = await self.models.use(name)
        self.changed()
        return name

    def remember(
        self,
        kind: Kind,
        content: str,
        *,
        tags: Sequence[str] = (),
        scope: Scope = "workspace",
        force: bool = False,
    ) -> Added:
        """Add to the memory by the user's word. The model knows it from the next question on.

        Blocks until the item is on disk.

        Raises:
            InvalidArgument: it looks like a secret, and ``force`` is not given; or it holds a
                model's key, whatever ``force`` says.
            StoreUnavailable, Busy: the file cannot be written now.
        """
        source = {"session": self.recorder.session_id, "how": "user"}
        return self.memory.add(kind, content, tags=tags, scope=scope, source=source, force=force)

    @property
    def sessions(self) -> Sessions:
        """The session that is open, and those before it."""
        if self._sessions is None:
            from aish_lsp.workspace_sessions import Sessions  # noqa: PLC0415 - a cycle, as above

            self._sessions = Sessions(self)
        return self._sessions

    def go_on(self, session: Resumption, usage: UsageTotals) -> None:
        """Go on with a session, which has used so much, in place of the one before."""
        self.conversation.resume(session.turns, session.summary, session.pending)
        self.accounting.meter = Meter(usage, session.evictions)
        self.unanswered = None
        self.commands.clear()
        self._awaiting.clear()
        self.consents.clear()
        # What the last reply suggests belongs to its exchange, which may be asked again.
        asked = [turn.exchange for turn in session.turns if turn.role == "user"]
        self._last_turn = asked[-1] if asked else new_id()
        for command_id, found, number in session.commands:
            if found.source == "cmd" or self.config.suggestions.fences:
                self._suggest(found, self._last_turn, command_id, number)
        self.changed()

    async def reset(self) -> None:
        """Forget turns, summary, pending output and suggestions; memory and costs stay.

        What runs is stopped first: what it records must not be left behind.
        """
        await self.jobs.stop()
        async with self.turn_lock:
            self.conversation.reset()
            self.unanswered = None
            self.commands.clear()
            self._awaiting.clear()
            self.consents.clear()
            await self.recorder.reset()
        self.changed()

    # Its state

    @property
    def configuration(self) -> Configuration:
        """Where the configuration comes from, and what waits for a grant."""
        return self._configuration

    @property
    def config(self) -> Config:
        """The configuration in force here."""
        return self._configuration.config

    @property
    def folder(self) -> Path:
        """Where commands run: the root, or the user's home where no folder is open."""
        return self.root or Path.home()

    @property
    def active_model(self) -> str:
        """The name of the model that answers next, as far as it is known."""
        return self.preset.name

    @property
    def preset(self) -> Preset:
        """The model that answers next, as far as it is known."""
        return self.models.active

    @property
    def last_turn_commands(self) -> list[CommandInfo]:
        """The suggestions of the last turn that still wait."""
        return [suggestion.info for suggestion in self.last_turn_suggestions]

    @property
    def last_turn_suggestions(self) -> list[Suggestion]:
        """The same, with all that is known of them."""
        return self.commands.of_turn(self._last_turn)

    @property
    def awaiting_approval(self) -> list[str]:
        """The ids of the commands that wait for ``:approve``."""
        return list(self._awaiting)

    @property
    def meter(self) -> Meter:
        """The numbers of this session."""
        return self.accounting.meter

    def blocks(self) -> Blocks:
        """Compose the prompt's blocks as of now."""
        wording = self.models.wording or self.config.context.system_prompt
        parts = self.config, self.folder, self.memory, self.project
        return compose(*parts, summary=self.conversation.summary, wording=wording)

    def next_request(self) -> NextRequest:
        """Return the next request, as far as it is known by now."""
        return NextRequest(self)

    def status(self) -> Status:
        """Return the workspace at a glance."""
        upcoming = self.next_request()
        total = self.meter.usage.total()
        return Status(
            model=self.active_model,
            busy=len(self.jobs) > 0,
            context=ContextShare(upcoming.size.total, upcoming.limit.budget),
            cost=total.cost or None,
            commands=len(self.commands.all()),
            trusted=self._configuration.trusted,
            servers=0,
        )

    def troubles(self) -> list[str]:
        """Return, once, what the user should know: thresholds passed, files not written."""
        warnings = self.meter.usage.warnings(self.config.cost)
        return [
            *warnings,
            *self.accounting.take_doubts(),
            *self.recorder.take_troubles(),
            *self.services.take_troubles(),
        ]

    def secret_names(self) -> list[str]:
        """Return the environment variables that hold keys of configured models."""
        return [p.api_key_env for p in self.config.models.values() if p.api_key_env]

    def _mask(self) -> Mask:
        """Return what masks the keys that there are at this time, and other secrets known to us."""
        names, printed = frozenset(self.secret_names()), frozenset[str]()
        if any(preset.api_key_command for preset in self.config.models.values()):
            from aish_lsp.models.keys import printed_keys  # noqa: PLC0415 - the models' room

            printed = frozenset(printed_keys())
        if self._masking is None or self._masking[0] != (names, printed):
            # The environment stays what it was when we were started.
            values = {*filter(is_telling, secret_values(self.services.environ, names) | printed)}
            self._masking = (names, printed), Mask(values)
            withhold(values)
        return self._masking[1]

    def without_keys(self, text: str) -> str:
        """Return ``text`` with keys of ours and secrets of the environment masked."""
        return self._mask().whole(text, MASK)

    def without_secrets(self, text: str) -> str:
        """Return ``text`` as ``without_keys``, and without what looks like a secret.

        So it is written down, and so a model sees a command.
        """
        # Ours first: of a key that only in part looks like one, the rest would stay.
        return redact(self.without_keys(text))

    def output_without_secrets(self, text: str) -> str:
        """Return an output as ``without_secrets``, also where a secret was cut in two with it."""
        return redact(self._mask().of_output(text, MASK))

    def _configured_memory(self) -> Path:
        """Return the file of this workspace's memory; relative to the configuration's folder."""
        own = self.config.memory.path
        if not own:
            return self._folder / "memory.jsonl"
        return config_file().parent / os.path.expanduser(own)  # noqa: PTH111 - that one may raise

    def _open_memory(self) -> MemoryScopes:
        return MemoryScopes.open(data_dir() / "memory.jsonl", self._memory_path, self._holds_key)

    def _holds_key(self, text: str) -> bool:
        return self.without_keys(text) != text

    # What a turn and an execution need

    async def refresh(self) -> list[str]:
        """Take in what changed outside: configuration, memory, project. Return what is wrong."""
        troubles = await self.reload() + await self.refresh_memory()
        if self.project.shown(self.config.project):
            await self.project.refresh(self.config.project)
        return troubles + self.recorder.take_troubles()

    async def reload(self) -> list[str]:
        """Take in a configuration that has changed. Return what is wrong with it."""
        return await asyncio.to_thread(self._configuration.reload)

    async def refresh_memory(self) -> list[str]:
        """Take in what other processes remembered or forgot. Return what is wrong."""
        if (path := self._configured_memory()) != self._memory_path:
            self._memory_path = path
            self.memory = self._open_memory()
        self.memory.prune_older_than_days = self.config.memory.prune_older_than_days
        return await asyncio.to_thread(self.memory.refresh)

    def first_time(self, notice: str) -> bool:
        """Return whether ``notice`` was not told in this session yet; it now counts as told."""
        new = notice not in self._told
        self._told.add(notice)
        return new

    async def choose_model(self, name: str | None) -> Chosen:
        """Return the model that answers: the one named, the active one, or what there is.

        Raises:
            NotFound, Denied: as ``use_model``.
        """
        return await self.models.choose(name)

    def open_model(self, preset: Preset) -> Model:
        """Return the adapter that speaks to ``preset``."""
        return self.models.open(preset)

    def turn_began(self, turn_id: str) -> None:
        """Have the suggestions of this turn count as the last ones, if it makes any."""
        self._last_turn = turn_id
        self.changed()

    def judge(
        self,
        text: str,
        folder: Path | None = None,
        shell: str = "",
        *,
        confined: bool | None = None,
    ) -> Verdict:
        """Return the risk of running ``text`` in ``folder``, the workspace's own by default.

        ``shell`` is what runs it, the user's own by default; ``confined`` says whether it would run
        confined, by default, whether that can be had.
        """
        if confined is None:
            confined = self.config.safety.confine and self.services.confinement.available
        safety = self.config.safety
        return classify(
            text,
            shell or safety.shell,
            rules=safety.rules,
            folder=folder or self.folder,
            confined=confined,
            path=self.command_environment().get("PATH"),
        )

    def command_environment(self) -> dict[str, str]:
        """Return the environment that commands run with."""
        return command_environment(self.services.environ, self.secret_names())

    async def can_confine(self) -> bool:
        """Return whether what is safe runs confined here."""
        if not self.config.safety.confine:
            return False
        return (await self.services.confinement.support()).available

    def shell_for(self, named: str) -> tuple[str, str]:
        """Return the shell for what names one (empty: the user's own); why it cannot be used."""
        path = self.command_environment().get("PATH")
        return shell_for(named, self.config.safety.shell, path)

    def drop_suggestions(self, exchange: str) -> None:
        """Forget what the answer to an exchange suggested: it was answered anew."""
        for suggestion in self.commands.of_turn(exchange):
            self.commands.remove(suggestion.info.id)
        self.changed()

    def add_command(
        self, found: FoundCommand, turn_id: str, command_id: str | None = None
    ) -> CommandInfo:
        """Keep a suggestion of a turn, in place of that with ``command_id``; tell who shows it."""
        info = self._suggest(found, turn_id, command_id)
        self.changed()
        return info

    def _suggest(
        self, found: FoundCommand, turn_id: str, command_id: str | None, number: int = 0
    ) -> CommandInfo:
        shell, obstacle = self.shell_for(found.shell)
        verdict = self.judge(found.text, shell=shell)
        return self.commands.add(
            found, turn_id, verdict, command_id=command_id, number=number, obstacle=obstacle
        )

    async def command_ended(self, command_id: str, output: ExecOutput) -> None:
        """Keep a command's output for the next question, and write it down."""
        self.conversation.append_output(output)
        await self.recorder.ran(command_id, output)

    def command_started(self, command_id: str) -> None:
        """Take a suggestion off the list: it is being run."""
        self.commands.remove(command_id)
        self.changed()

    def offer_unconfined(self, planned: Plan) -> CommandInfo:
        """Suggest a command again, to be run without confinement."""
        other = planned.shell if planned.shell != self.config.safety.shell else ""
        found = FoundCommand(planned.text, 0, source=planned.source, shell=other)
        verdict = self.judge(planned.text, planned.cwd, planned.shell, confined=False)
        if verdict.risk == "safe":
            verdict = Verdict("caution", ("it would run without confinement",))
        info = self.commands.add(found, self._last_turn, verdict, unconfined=True)
        self.changed()
        return info

    def await_approval(self, planned: Plan) -> None:
        """Keep a command that nobody could be asked about, for ``:approve``."""
        self._awaiting[planned.command_id] = planned

    # Observers and the end

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called whenever suggestions or the status change."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Tell the listeners that something they may show has changed."""
        for listener in self._listeners:
            listener()

    async def aclose(self) -> None:
        """Stop what runs, wait until it has recorded what it has, and close the files."""
        await self.jobs.stop()
        await self.project.aclose()
        await self.files.aclose()
        await self.recorder.aclose()
