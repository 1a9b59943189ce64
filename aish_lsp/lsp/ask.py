"""``aish.ask`` and ``aish.cancel``: a reply streamed to the client, or into the chat document."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask as begin
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.text import shown_path
from aish_lsp.foundation.wire import to_wire
from aish_lsp.lsp.selected import selected
from aish_lsp.lsp.uris import path_of

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import AskParams, CancelParams, RetryParams, Token
    from aish_lsp.lsp.server import AishServer

R = TypeVar("R")


def setup(server: AishServer) -> None:
    """Bind the commands."""

    async def ask(call: Call, params: AskParams) -> object:
        if not params.prompt.strip():
            raise InvalidArgument("The question is empty.", path="prompt")
        guess = server.workspaces.guess(params)
        workspace = server.workspaces.resolve(params)
        # First of all, since the editor's text may change at any time.
        about = await selected(server, workspace, params)
        await server.configurations.settled(workspace.root)
        notice = f"Asked in {shown_path(workspace.folder)}, {guess}." if guess else ""
        attached = about.attached if about else ()
        at = path_of(params.uri) if params.uri is not None else None
        question = Ask(params.prompt, params.model, params.ephemeral, notice, attached, at)
        session = await workspace.sessions.named(params.session)
        if params.partial_result_token is None:
            refuse_unshown(session)
            return {"turnId": await server.chats.of(workspace).ask(question, about)}
        job = begin(session, question)
        if about is not None:
            server.selections.follow(job, about)
        return await stream(call, params.partial_result_token, job, "aish answers")

    async def retry(call: Call, params: RetryParams) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        session = await workspace.sessions.named(params.session)
        question = session.asked_again(params.turn_id, params.model)
        if params.partial_result_token is None:
            refuse_unshown(session)
            return {"turnId": await server.chats.of(workspace).ask(question)}
        job = begin(session, question)
        server.selections.follow_again(job, question.again)
        return await stream(call, params.partial_result_token, job, "aish answers again")

    async def cancel(_call: Call, params: CancelParams) -> object:
        workspace = server.workspaces.resolve(params)
        meant = workspace.sessions.open
        if params.session is not None:
            meant = [await workspace.sessions.named(params.session)]
        return {"cancelled": sum(session.jobs.cancel(params.turn_id) for session in meant)}

    server.bind("aish.ask", ask)
    server.bind("aish.retry", retry)
    server.bind("aish.cancel", cancel)


def refuse_unshown(session: Session) -> None:
    """See that the chat document shows a session, whose events would go there.

    Raises:
        InvalidArgument: it does not.
    """
    if session is not session.workspace.shown:
        msg = f"The chat does not show the session {session.id}: its events need a token."
        raise InvalidArgument(msg, path="partialResultToken")


async def stream(call: Call, token: Token, job: Job[R], title: str) -> R:
    """Send a job's events under the client's token, then return its result.

    A client that reads slowly gets the pieces that piled up as one; the job does not wait for it
    until much has. All ways to cancel the request stop the job, which then ends by itself.
    """
    server = call.server
    call.on_cancel(job.cancel)
    progress = call.progress(title)
    try:
        async for event in job.events():
            server.send_progress(token, to_wire(event))
            await server.drained()
        return await job.result()
    finally:
        progress.end()
