"""Makes the tool calls of a turn, and gives our own tools access to their session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.events import Notice, Tool
from aish_lsp.agent.execution import run_and_tell
from aish_lsp.agent.planning import RunRequest
from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.context.conversation import CANCELLED
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.job import run_uncancellable
from aish_lsp.foundation.jsonl import now
from aish_lsp.foundation.ports import CALL, CALLING_SESSION
from aish_lsp.shell.environment import reading_environment
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.runner import run_quietly
from aish_lsp.tools import OUTPUTS, Around, ToolResult, Workplace, bounded, parts_of
from aish_lsp.tools.asking import Permissions
from aish_lsp.tools.builtin import BuiltInTools
from aish_lsp.tools.connection import ServerContext
from aish_lsp.tools.servers import SessionServers, ToolServers
from aish_lsp.tools.titles import call_title
from aish_lsp.tools.toolbox import Toolbox, call_tool

if TYPE_CHECKING:
    from aish_lsp.agent.events import ToolStatus
    from aish_lsp.agent.session import Session
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.foundation.job import Emit
    from aish_lsp.foundation.ports import EditOutcome, Question, UserAnswer
    from aish_lsp.models.request import ToolCall
    from aish_lsp.shell.runner import RunResult
    from aish_lsp.tools import ResultStatus

#: Seconds that a command may take: one of our own, which only reads, and one of a model.
_READING_SECONDS = 30.0
_RUNNING_SECONDS = 600.0

#: The button that allows them.
_ALL_EDITS = "All edits in this session"


def tools_of(session: Session) -> Toolbox:
    """Return the tools of a session; none if no folder is open."""
    workspace = session.workspace
    if workspace.root is None:
        return Toolbox((), lambda: workspace.config.tools, workspace.services.ask_user)
    services = workspace.services
    access = _Access(session)
    workplace = Workplace(
        root=workspace.root,
        files=workspace.files,
        open_text=services.open_text,
        edit_open=access.edit_open,
        look_up=services.look_up,
        ask_user=access.ask_user,
        consents=session.consents,
        without_secrets=workspace.without_secrets,
        run=access.run,
        read=access.read,
        covered=access.covered,
    )
    access.workplace = workplace
    return Toolbox(
        [BuiltInTools(workplace)],
        lambda: workspace.config.tools,
        services.ask_user,
        _servers_of(session, workplace),
    )


def _servers_of(session: Session, workplace: Workplace) -> SessionServers:
    """Return the workspace's tool servers for a session, without starting any."""
    workspace, services = session.workspace, session.workspace.services
    assert workspace.root is not None
    permissions = Permissions(services.trust, workspace.root, services.ask_user)
    if workspace.tool_servers is None:
        around = ServerContext(
            workspace.root,
            lambda: workspace.user_environ,
            services.ask_user,
            services.choose,
            workspace.without_secrets,
            workspace.load_environment,
        )
        workspace.tool_servers = ToolServers(workspace.configuration, services.trust, around)

    async def bound(text: str, around: Around) -> str:
        return await bounded(workspace.output_without_secrets(text), around, workplace)

    return SessionServers(workspace.tool_servers, permissions, bound)


class _Access:
    """Runs commands and makes changes that can be undone, on behalf of a session's model."""

    workplace: Workplace

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workspace = session.workspace

    async def run(
        self, command: str, cwd: str | None, seconds: float | None, around: Around
    ) -> ToolResult:
        """Run a command with the checks for text that nobody has seen; see ``Workplace.run``."""
        request = RunRequest(
            text=command,
            cwd=cwd,
            timeout=seconds or _RUNNING_SECONDS,
            approval="unseen",
            group=around.group,
            answers_call=True,
        )
        report = await run_and_tell(self._session, request, around.emit)
        if report.finish_reason == "denied":
            return ToolResult("Not run: the user did not agree to it.", "denied")
        if report.finish_reason == "cancelled":
            return ToolResult("Not run to its end: it was stopped.", "denied")
        ended = {"timeout": "timed out", "error": "its supervisor was killed"}.get(
            report.finish_reason, f"exit {report.exit_code}"
        )
        if report.signal is not None:
            ended += f", ended by {report.signal}"
        output_uri = f"{OUTPUTS}{report.output_uri.rpartition('/')[2]}" if report.output_uri else ""
        refused = "[aish: confined]\n" if report.refused else ""
        output = clean_output(report.output).rstrip("\n")
        text = f"[{ended}]\n{output}\n{refused}" if output else f"[{ended}]\n{refused}"
        failed = report.exit_code != 0 or report.finish_reason != "stop"
        masked = self._workspace.output_without_secrets(text)
        return ToolResult(
            await bounded(masked, around, self.workplace, output_uri),
            "failed" if failed else "done",
        )

    async def read(self, command: str) -> RunResult | None:
        """Run a read-only command of our own, confined; None if it cannot be confined."""
        workspace = self._workspace
        if not await workspace.can_confine():
            return None

        result, _ = await run_quietly(
            command,
            cwd=workspace.folder,
            env=reading_environment(workspace.command_environment()),
            seconds=_READING_SECONDS,
            sandbox=await workspace.services.confinement.sandbox(workspace.root),
        )
        return result

    async def ask_user(self, question: Question) -> UserAnswer:
        """Ask the user, unless they or a goal that is pursued allow this edit without asking."""
        ask, pursuit = self._workspace.services.ask_user, self._session.pursuit
        is_edit = question.approval is not None and question.approval.kind == "edit"
        if not is_edit or self._workspace.config.safety.confirm == "always":
            return await ask(question)
        approvals = self._session.approvals
        if approvals.edits or (pursuit is not None and pursuit.acts_alone):
            return True
        answer = await ask(replace(question, remember={"session": _ALL_EDITS}))
        if answer == "session":
            approvals.edits = now()
        return answer

    async def edit_open(self, path: Path, before: str, after: str) -> EditOutcome:
        """Change a file that is open in the editor, and record the change so it can be undone."""
        edited = await self._workspace.services.edit_open(path, before, after)
        if edited.state == "unsaved":
            # What is saved is seen on the disk.
            self._workspace.undo.edited(path, before, after)
        return edited

    @asynccontextmanager
    async def covered(self, label: str, around: Around) -> AsyncIterator[None]:
        """Record the files before and after a change, so that it can be undone with its group."""
        folder, pursuit = self._workspace.folder, self._session.pursuit
        async with self._session.undoable(around.group, label, folder, around.emit) as covered:
            can_undo = covered and self._workspace.undo.holds(around.group)
            if not can_undo and pursuit is not None and pursuit.acts_alone:
                # Without an undo, changes need the user's consent, and nobody was asked.
                raise Denied(
                    "Not done: it could not be undone. Suggest it as a command, which asks."
                )
            yield


# The tool calls of a turn

#: The range of the limit on a tool result's length, in characters.
_SHORTEST_RESULT: Final = 300
_LONGEST_RESULT: Final = 32_000

#: The most calls that are made for one reply.
_MOST_CALLS: Final = 32

#: The result of a call if an earlier one of the same step toward a goal did not succeed.
_SKIPPED: Final = "Not made: the call before it failed, or was refused."


async def _within(
    session: Session, call: ToolCall, work: Coroutine[Any, Any, ToolResult]
) -> ToolResult:
    """Do the work of a call in a context that says so."""
    CALL.set(call.id)
    CALLING_SESSION.set(session.id)
    return await work


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work``; if this task was canceled meanwhile, raise that only afterwards."""
    await run_uncancellable(work)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class ToolCalls:
    """Makes the tool calls of one turn, reports them, and keeps their results.

    Args:
        session: the session whose model makes the calls.
        conversation: where results are kept; if it is the session's own, they are also logged.
        emit: reports events.
        group: the undo group of the turn's changes, unless a goal is pursued.

    Attributes:
        has_begun: whether any call was made.
        broken_off: the status of the call that ended a step toward a goal early; else None.
    """

    def __init__(
        self, session: Session, conversation: Conversation, emit: Emit, group: str
    ) -> None:
        self.has_begun = False
        self.broken_off: ResultStatus | None = None
        self._session = session
        self._conversation = conversation
        self._emit = emit
        self._group = group

    async def make(self, calls: Sequence[ToolCall], budget: int) -> None:
        """Make the calls that the model asked for, and keep their results in the same order.

        Consecutive calls that only read are made at the same time. ``budget`` is the budget of the
        request, in tokens.
        """
        tools, pursuit = self._session.tools, self._session.pursuit
        # All results together may take a quarter of the budget, at four characters a token.
        limit = min(max(budget // len(calls), _SHORTEST_RESULT), _LONGEST_RESULT)
        undone_with = pursuit.group if pursuit else self._group
        around = Around(self._emit, self._warn, undone_with, limit)
        for call in calls:
            await self._report(call, "pending")
        for reads, group in groupby(calls[:_MOST_CALLS], lambda call: tools.reads(call.name)):
            for together in [[*group]] if reads else [[call] for call in group]:
                if self.broken_off is not None:
                    for call in together:
                        await to_the_end(self._finish(call, ToolResult(_SKIPPED, "failed")))
                    continue
                statuses = await self._call(together, around)
                if pursuit is not None and not reads:
                    self.broken_off = next((one for one in statuses if one != "done"), None)
        for call in calls[_MOST_CALLS:]:
            text = f"Not made: a reply may have at most {_MOST_CALLS} calls. Make fewer at once."
            await to_the_end(self._finish(call, ToolResult(text, "failed")))

    async def _call(self, calls: Sequence[ToolCall], around: Around) -> list[ResultStatus]:
        """Make ``calls`` at the same time; return how each ended."""
        self.has_begun = True
        statuses: list[ResultStatus] = []
        making: list[asyncio.Task[ToolResult]] = []
        try:
            for call in calls:
                await self._report(call, "running")
                work = _within(self._session, call, call_tool(self._session.tools, call, around))
                making.append(asyncio.create_task(work, name=f"call {call.name[:40]}"))
            for call, made in zip(calls, making, strict=True):
                result = await made
                await to_the_end(self._finish(call, result))
                statuses.append(result.status)
        finally:
            for made in making:
                made.cancel()
            await run_uncancellable(self._keep_what_was_done(calls, making))
        return statuses

    async def _keep_what_was_done(
        self, calls: Sequence[ToolCall], making: Sequence[asyncio.Task[ToolResult]]
    ) -> None:
        """Wait until calls have ended, and keep the results of those that finished nevertheless."""
        if making:
            await asyncio.wait(making)
        waiting = {call.id for call in self._conversation.open_calls()}
        for call, made in zip(calls, making, strict=False):
            if call.id in waiting and not made.cancelled() and made.exception() is None:
                await self._finish(call, made.result())

    async def _finish(self, call: ToolCall, result: ToolResult) -> None:
        """Keep the result of a call, then report it."""
        without_secrets = self._session.workspace.output_without_secrets
        text = without_secrets(result.text)
        await self._keep_result(call.id, text, result.status)
        await self._report(call, result.status, text, without_secrets(result.diff) or None)

    async def _report(
        self,
        call: ToolCall,
        status: ToolStatus,
        result: str | None = None,
        diff: str | None = None,
    ) -> None:
        server, name = parts_of(call.name)
        server = server or OWN_TOOLS
        title = call_title(server, name, call.arguments, status, result or "")
        await self._emit(Tool(call.id, server, name, call.arguments, status, title, result, diff))

    async def _keep_result(self, call_id: str, text: str, status: ResultStatus) -> None:
        """Log a tool's result, then append it to the conversation."""
        n = 0
        if self._conversation is self._session.conversation:
            n = await self._session.recorder.tool_result(call_id, text, status)
        self._conversation.append_tool(call_id, text, n=n)

    async def give_up(self) -> None:
        """Give the calls that have no result the result ``cancelled``, and report that."""
        waiting = self._conversation.open_calls()
        for call in waiting:
            await self._keep_result(call.id, CANCELLED, "failed")
        for call in waiting:
            await self._report(call, "failed", CANCELLED)

    async def _warn(self, message: str) -> None:
        await self._emit(Notice("warning", message))
