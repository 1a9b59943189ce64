"""A session of a client: its mode, and its prompts from the text to the reason they ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from acp import helpers, schema

from aish_lsp.acp.asking import ASKING
from aish_lsp.acp.content import Content, content_of
from aish_lsp.acp.reply import ShownReply
from aish_lsp.acp.transport import REQUEST
from aish_lsp.acp.updates import Mode, Updates, in_slashes, options_of
from aish_lsp.agent.events import CommandInfo
from aish_lsp.agent.execution import RunReport
from aish_lsp.agent.turn import AskResult
from aish_lsp.chat.colon import COLON_COMMANDS, ColonCommand, carry_out, parse
from aish_lsp.chat.markdown import quote
from aish_lsp.chat.transcript import run_ending
from aish_lsp.foundation.errors import AishError, Busy, InvalidArgument, NotFound
from aish_lsp.models.catalog import OFFLINE
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.ask import AskParams
from aish_lsp.operations.dispatch import begin, dispatch
from aish_lsp.operations.markdown import checklist
from aish_lsp.operations.models import models_of
from aish_lsp.operations.operation import Answer, Caller, Face, Subject
from aish_lsp.operations.run import RunParams

if TYPE_CHECKING:
    from acp import Client

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.planning import ApprovalState
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.job import Job
    from aish_lsp.operations.operation import Operation

R = TypeVar("R")

#: A line that is a command: a name, which no path is, and its argument.
_SLASH: Final = re.compile(r"/(?=[a-z][\w-]*(\s|\Z))")

_STOPS: Final[dict[str, schema.StopReason]] = {
    "length": "max_tokens",
    "repetition": "max_tokens",
    "tool": "max_turn_requests",
    "refusal": "refusal",
    "cancelled": "cancelled",
}


class AcpSession(Face):
    """A session, as one client sees it.

    Attributes:
        workspace, session: the conversation.
        updates: what the client is shown.
        models: the names of the models that there are, once they were looked for.
        servers: the tool servers that the client named, and that were not asked about yet.
        mode: ``ask``: only tools that read run, and commands run at ``/run``; ``act``: the user is
            asked about each suggested command and each tool that may change something.
    """

    mode: Mode = "ask"

    def __init__(
        self, client: Client, workspace: Workspace, can: schema.ClientCapabilities
    ) -> None:
        self._client = client
        self.workspace = workspace
        # Until ``begin``, for what is asked for outside any session of the client.
        self.session = workspace.shown
        self.updates = Updates(client, can)
        self.models: list[str] = []
        self.servers: list[str] = []
        self._shown_options: list[Any] = []
        # What answers the prompt, and the job that it waits for, if any.
        self._answering: asyncio.Task[schema.StopReason] | None = None
        self._job: Job[Any] | None = None
        self._is_cancelled = False
        # How often the client has canceled, and the requests of the prompts that are not answered.
        self._cancels = 0
        self._waiting: list[int | str | None] = []
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Future[Any]] = set()
        self._attached = Subject()
        self._told: list[str] = []
        # The last checklist of memory candidates, which ``/memory accept`` reads.
        self._checklist = ""
        self._title: str | None = None

    def begin(self, session: Session, known_as: str) -> None:
        """Show a session, which the client knows by that id, from now on."""
        self.session = session
        self.updates.session_id = known_as
        self.set_mode("ask")

    def set_mode(self, mode: Mode) -> None:
        """Change the mode, also of what is being answered."""
        self.mode = mode
        self.session.tools.only_reads = mode == "ask"

    # The Face protocol

    def tell(self, message: str) -> None:
        """Show ``message`` above the answer."""
        self._told.append(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job, which the client can cancel."""
        self._job = job
        await self.updates.say(f"{quote(title)}\n")
        return (await self._watched(job))[0]

    async def chat_text(self) -> str:
        """Return the last checklist."""
        return self._checklist

    async def subject(self, _params: Any) -> Subject:
        """Return the texts that the client sent with the prompt."""
        return self._attached

    # Asking

    async def request(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Implement ``asking.Asks``: a cancel of the prompt leaves the question unanswered."""
        if self._is_cancelled:
            return None
        asking = asyncio.ensure_future(
            self._client.request_permission(self.updates.session_id, call, options)
        )
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
            if asking.cancelled() or asking.exception() is not None:
                return None
            outcome = asking.result().outcome
            return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else None
        finally:
            self._asking.discard(asking)
            asking.cancel()

    # Prompts

    def cancel(self) -> None:
        """Stop the prompt that is being answered, if any, and those that wait."""
        self._cancels += 1
        if self._answering is None:
            return
        self._is_cancelled = True
        # A job ends by itself, and keeps what it has.
        if self._job is None:
            self._answering.cancel()
        else:
            self._job.cancel()
        for asking in self._asking:
            asking.cancel()

    def refuse_while_answering(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            Busy: one is.
        """
        if self._answering is not None:
            raise Busy("A prompt is being answered in this session. Wait for it, or cancel it.")

    async def prompt(self, blocks: Sequence[Any]) -> schema.StopReason:
        """Answer a prompt, after one that was canceled; return the reason why it ended.

        Raises:
            Busy: another prompt is being answered.
            AishError: the operation refused or failed.
        """
        # Some clients let the user go on before a cancel is answered.
        if not self._is_cancelled:
            self.refuse_while_answering()
        cancels, request = self._cancels, REQUEST.get()
        self._waiting.append(request)
        try:
            async with self._turn:
                if self._cancels > cancels:
                    return "cancelled"
                return await self._answer(blocks)
        finally:
            self._waiting.remove(request)

    def is_answering(self, request: object) -> bool:
        """Return whether the prompt of this request is being answered, or waits for that."""
        return request in self._waiting

    async def _answer(self, blocks: Sequence[Any]) -> schema.StopReason:
        content = content_of(blocks, self.workspace.folder)
        ASKING.set(self)
        self._answering = asyncio.create_task(self._answered(content))
        try:
            stop = await self._answering
        except (AishError, asyncio.CancelledError):
            if not self._is_cancelled:
                raise
        finally:
            await self.updates.end_calls()
            was_cancelled, self._is_cancelled = self._is_cancelled, False
            self._answering = self._job = None
        await self.show_title()
        await self.show_options()
        return "cancelled" if was_cancelled else stop

    async def _answered(self, content: Content) -> schema.StopReason:
        self._attached = Subject(content.attached)
        self._told += content.notices
        await self._connect()
        await self.show_told()
        command = parse(_SLASH.sub(":", content.text.strip(), count=1))
        if command is not None:
            return await self._carry_out(command)
        params = AskParams(prompt=content.text, session=self.session.id)
        result, shown = await self._watched(await begin("ask", params, self.caller()))
        assert isinstance(result, AskResult)
        await self._suggest(shown.commands)
        return _STOPS.get(result.finish_reason, "end_turn")

    async def _connect(self) -> None:
        """Start the tool servers that the client named, each after asking, once."""
        names, self.servers = self.servers, []
        tools = self.session.tools
        for name in names:
            try:
                await tools.session_servers.connect(name)
            except AishError as error:
                self._told.append(error.message)
                with suppress(NotFound):
                    tools.switch(name, "", on=False)

    async def do(self, name: str, params: Any) -> Answer[Any]:
        """Carry out an operation that has an answer."""
        answer = await dispatch(OPERATIONS[name], params, self.caller())
        assert isinstance(answer, Answer)
        return answer

    def caller(self, approval: ApprovalState = "") -> Caller:
        """Return who asks for what the client wants here; ``approval`` is as for ``Caller``."""
        return Caller(self.workspace, self.session, self, approval=approval)

    async def show_told(self) -> None:
        """Show what was to be told, each thing once."""
        told, self._told = dict.fromkeys(self._told), []
        for message in told:
            await self.updates.say(f"{quote(in_slashes(message))}\n")

    async def _watched(self, job: Job[R]) -> tuple[R, ShownReply]:
        """Show a job's events; return its result."""
        self._job = job
        if self._is_cancelled:
            job.cancel()
        shown = ShownReply(self.updates, self.show_usage)
        try:
            async for event in job.events():
                await shown.take(event)
            return await job.result(), shown
        finally:
            self._job = None

    async def _carry_out(self, command: ColonCommand) -> schema.StopReason:
        if command.name == "norris" and self.mode == "ask" and command.argument not in ("stop", ""):
            raise InvalidArgument("Goals are pursued only in the mode `act`: switch to it first.")
        if _shows_another(COLON_COMMANDS.find(command).operation):
            raise InvalidArgument(
                "Your client shows only this session: begin or open another one there."
            )
        carried = await carry_out(self.caller(), command, self.session.id)
        self._job = carried.job
        await self.show_told()
        if carried.job is None:
            await self.updates.say(in_slashes(carried.text) or "Done.")
            await self.show_usage()
            return "end_turn"
        if carried.operation.comes == "output":
            return await self._show_run(carried.job)
        result, shown = await self._watched(carried.job)
        if carried.operation.comes == "candidates":
            self._checklist = checklist(result.candidates) if result.candidates else ""
            await self.updates.say(in_slashes(self._checklist))
            return "end_turn"
        await self._suggest(shown.commands)
        return _STOPS.get(getattr(result, "finish_reason", "stop"), "end_turn")

    # Commands

    async def _suggest(self, commands: Collection[str]) -> None:
        """Offer the commands of a reply: in ``act`` each is asked about, else listed."""
        waiting = [one for one in self.session.last_turn_suggestions if one.info.id in commands]
        if self.mode == "ask":
            rows = [f"- `/run {one.number}` ({one.info.risk})" for one in waiting]
            if rows:
                await self.updates.say("\n\n" + "\n".join(rows) + "\n")
            return
        for one in waiting:
            if one.runs and not self._is_cancelled:
                await self._offer(one.info)

    async def _offer(self, info: CommandInfo) -> None:
        """Ask about a suggested command, and run it if the user agrees."""
        given = {"command": info.text, "risk": info.risk}
        await self.updates.begin_call(info.id, info.text, "execute", given)
        params = RunParams(session=self.session.id, command_id=info.id)
        try:
            await self._show_run(await begin("run", params, self.caller("offered")))
        except AishError as error:
            await self.updates.end_call(info.id, "failed", error.message)

    async def _show_run(self, job: Job[RunReport]) -> schema.StopReason:
        """Show a command and what it prints."""
        self._job = job
        await self.updates.begin_call(job.id, job.label, "execute", {"command": job.label})
        report, _ = await self._watched(job)
        if report.finish_reason == "denied":
            await self.updates.end_call(job.id, "failed", "Not run.")
            return "end_turn"
        succeeded = report.exit_code == 0 and report.finish_reason == "stop"
        result = {"exitCode": report.exit_code, "signal": report.signal}
        ended: schema.ToolCallStatus = "completed" if succeeded else "failed"
        await self.updates.end_call(job.id, ended, run_ending(report), result=result)
        return _STOPS.get(report.finish_reason, "end_turn")

    # What the client is shown beside the replies

    async def introduce(self) -> None:
        """Show what there is in the session, once the client knows it."""
        await self._show_commands()
        await self.show_usage()
        await self.show_title()
        self.models = [one.name for one in (await models_of(self.session)).models]
        await self.show_options()

    async def _show_commands(self) -> None:
        rows = [
            row
            for row in COLON_COMMANDS.rows.values()
            if not all(_shows_another(operation) for operation, _ in row.lines)
        ]
        commands = [
            schema.AvailableCommand(
                name=row.name,
                description=in_slashes(row.help) or row.name,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=row.usage))
                if row.usage
                else None,
            )
            for row in rows
        ]
        await self.updates.send(helpers.update_available_commands(commands))

    async def show_usage(self) -> None:
        """Show how full the context is, and what the session has cost."""
        status = self.session.status()
        cost = None
        if status.cost is not None:
            cost = schema.Cost(amount=status.cost, currency="USD")
        await self.updates.send(
            schema.UsageUpdate(
                session_update="usage_update",
                used=status.context.total,
                size=status.context.budget,
                cost=cost,
            )
        )

    def options(self) -> list[Any]:
        """Return what can be chosen in the session, which the client is shown now."""
        configured = [*self.workspace.config.models, OFFLINE.name]
        self._shown_options = options_of(
            self.mode, self.session.preset.name, self.models or configured
        )
        return self._shown_options

    async def show_options(self) -> None:
        """Show what can be chosen, if that has changed."""
        before = self._shown_options
        if self.options() != before:
            await self.updates.send(
                schema.ConfigOptionUpdate(
                    session_update="config_option_update", config_options=self._shown_options
                )
            )

    async def show_title(self) -> None:
        """Show the session's title, once it has a new one."""
        title = self.session.recorder.title
        if title is not None and title != self._title:
            self._title = title
            await self.updates.send(
                schema.SessionInfoUpdate(session_update="session_info_update", title=title)
            )


def _shows_another(operation: Operation) -> bool:
    """Return whether an operation shows another session instead of the current one."""
    return "show" in operation.params.__dataclass_fields__  # type: ignore[attr-defined]
