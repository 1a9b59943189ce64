"""What the tools of ours need of a session: commands run for a model, changes to be undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.agent.execution import RunRequest, begin_undo, end_undo, run_and_tell
from aish_lsp.foundation.errors import Denied
from aish_lsp.shell.environment import reading_environment
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.runner import run_command
from aish_lsp.tools.builtin import BuiltInTools
from aish_lsp.tools.calling import OUTPUTS, ToolResult, Workplace, bounded
from aish_lsp.tools.mcp.asking import Permissions
from aish_lsp.tools.mcp.connection import Surroundings
from aish_lsp.tools.mcp.servers import SessionServers, ToolServers
from aish_lsp.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.ports import Question
    from aish_lsp.shell.runner import RunResult
    from aish_lsp.tools.calling import Around

#: Seconds that a command of ours may take that only reads, and one that a model asks for.
_READING_SECONDS = 30.0
_RUNNING_SECONDS = 600.0

#: What runs a command of ours, which is quoted for it.
_SHELL = "sh"


def tools_of(session: Session) -> Toolbox:
    """Return the tools of a session; none where no folder is open."""
    workspace = session.workspace
    if workspace.root is None:
        return Toolbox((), lambda: workspace.config.tools, workspace.services.ask_user)
    services = workspace.services
    user = _User(session)
    workplace = Workplace(
        root=workspace.root,
        files=workspace.files,
        open_text=services.open_text,
        edit_open=user.edit_open,
        look_up=services.look_up,
        ask_user=user.ask_user,
        consents=session.consents,
        without_secrets=workspace.without_secrets,
        run=user.run,
        read=user.read,
        covered=user.covered,
    )
    user.workplace = workplace
    return Toolbox(
        [BuiltInTools(workplace)],
        lambda: workspace.config.tools,
        services.ask_user,
        _servers_of(session, workplace),
    )


def _servers_of(session: Session, workplace: Workplace) -> SessionServers:
    """Return the workspace's tool servers, for a session; none of them is started by that."""
    workspace, services = session.workspace, session.workspace.services
    assert workspace.root is not None
    permissions = Permissions(services.trust, workspace.root, services.ask_user, services.choose)
    if workspace.tool_servers is None:
        around = Surroundings(workspace.root, services.environ, services.ask_user, services.choose)
        workspace.tool_servers = ToolServers(workspace.configuration, services.trust, around)

    async def bound(text: str, around: Around) -> str:
        return await bounded(workspace.output_without_secrets(text), around, workplace)

    return SessionServers(workspace.tool_servers, permissions, bound)


class _User:
    """Runs commands and covers changes on behalf of a session's model."""

    workplace: Workplace

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workspace = session.workspace

    async def run(
        self, command: str, cwd: str | None, seconds: float | None, around: Around
    ) -> ToolResult:
        """Run a command as a ``CMD: `` line that nobody has seen: see ``Workplace.run``."""
        request = RunRequest(
            text=command,
            cwd=cwd,
            timeout=seconds or _RUNNING_SECONDS,
            unattended=True,
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
        kept = f"{OUTPUTS}{report.output_uri.rpartition('/')[2]}" if report.output_uri else ""
        refused = "[aish: confined]\n" if report.refused else ""
        output = clean_output(report.output).rstrip("\n")
        text = f"[{ended}]\n{output}\n{refused}" if output else f"[{ended}]\n{refused}"
        failed = report.exit_code != 0 or report.finish_reason != "stop"
        masked = self._workspace.output_without_secrets(text)
        return ToolResult(
            await bounded(masked, around, self.workplace, kept), "failed" if failed else "done"
        )

    async def read(self, command: str) -> RunResult | None:
        """Run a command of ours that only reads, as what is safe runs; None where it cannot be."""
        workspace = self._workspace
        if not await workspace.can_confine():
            return None

        async def on_output(_stream: object, _delta: str) -> None:
            pass  # All of it is in the result.

        with await workspace.services.confinement.walls(workspace.root) as walls:
            result = await run_command(
                command,
                cwd=workspace.folder,
                shell=_SHELL,
                timeout=_READING_SECONDS,
                env=reading_environment(workspace.command_environment()),
                on_output=on_output,
                walls=walls,
            )
        if result.finish_reason == "cancelled":
            # The runner takes a cancel as served: here the whole turn is meant.
            raise asyncio.CancelledError
        return result

    async def ask_user(self, question: Question) -> bool | None:
        """Ask the user; an edit goes on unasked for a goal that may change the work tree."""
        pursuit, approval = self._session.pursuit, question.approval
        if pursuit is not None and pursuit.acts_alone and approval is not None:
            always = self._workspace.config.safety.confirm == "always"
            if approval.kind == "edit" and approval.risk == "caution" and not always:
                return True
        return await self._workspace.services.ask_user(question)

    async def edit_open(self, path: Path, before: str, after: str) -> bool | None:
        """Change a file that an editor has open, as what is undone with the rest of its group."""
        made = await self._workspace.services.edit_open(path, before, after)
        if made:
            self._workspace.undo.edited(path, before, after)
        return made

    @asynccontextmanager
    async def covered(self, label: str, around: Around) -> AsyncIterator[None]:
        """Have a change written down, so that it can be undone with the others of its group."""
        folder: Path = self._workspace.folder
        parts = self._session, around.group, label, folder, around.emit
        is_covered = await begin_undo(*parts)
        pursuit = self._session.pursuit
        try:
            can_undo = is_covered and self._workspace.undo.holds(around.group)
            if not can_undo and pursuit is not None and pursuit.acts_alone:
                # Nobody was asked.
                raise Denied(
                    "Not done: it could not be undone. Suggest it as a command, which asks."
                )
            yield
        finally:
            if is_covered:
                await end_undo(self._session, around.emit)
