"""``aish.run`` and the list of suggested commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.agent.execution import RunRequest
from aish_lsp.agent.execution import run as begin
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.lsp.ask import refuse_unshown, stream
from aish_lsp.lsp.clipboard import to_clipboard

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import CopyParams, DismissParams, RunParams, SessionTarget
    from aish_lsp.lsp.server import AishServer
    from aish_lsp.shell.approval import Origin


def setup(server: AishServer) -> None:
    """Bind the commands."""

    async def run(call: Call, params: RunParams) -> object:
        guess = server.workspaces.guess(params)
        workspace = server.workspaces.resolve(params)
        if guess and params.command_id is None and not server.chats.is_shown_at(params.uri):
            server.tell(f"Runs in {shown_path(workspace.folder)}, {guess}.")
        # They say what is asked about first, and which shell runs it.
        await server.configurations.settled(workspace.root)
        request = RunRequest(
            command_id=params.command_id,
            text=params.text,
            edited=params.edited,
            cwd=params.cwd,
            timeout=params.timeout,
            origin=_origin(params),
        )
        session = await workspace.sessions.named(params.session)
        if params.partial_result_token is None:
            refuse_unshown(session)
        job = begin(session, request)
        if params.partial_result_token is None:
            server.chats.of(workspace).follow_run(job)
            return {"commandId": job.id}
        return await stream(call, params.partial_result_token, job, "aish runs a command")

    async def listed(_call: Call, params: SessionTarget) -> object:
        return {"commands": (await server.workspaces.session(params)).commands.all()}

    async def dismiss(_call: Call, params: DismissParams) -> object:
        await (await server.workspaces.session(params)).dismiss(params.command_id)
        return {}

    async def copy(_call: Call, params: CopyParams) -> object:
        session = await server.workspaces.session(params)
        text = session.commands.get(params.command_id).text
        copied = await to_clipboard(text, server.services.environ)
        if not copied:
            shown = "\n".join(map(escaped, text.split("\n")))
            server.tell(f"No clipboard was found. This is the text:\n\n{shown}")
        return {"text": text, "copied": copied}

    server.bind("aish.run", run)
    server.bind("aish.commands.copy", copy)
    server.bind("aish.commands.list", listed)
    server.bind("aish.commands.dismiss", dismiss)


def _origin(params: RunParams) -> Origin:
    """Return where the text comes from: one that names its document stands in that document."""
    if params.command_id is not None:
        return "reply"
    return "user" if params.uri is None else "document"
