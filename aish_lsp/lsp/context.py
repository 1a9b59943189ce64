"""``aish.context.*``: where the tokens of the next request go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.agent.compaction import compact

if TYPE_CHECKING:
    from aish_lsp.context.report import ContextReport
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import SessionTarget
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the context commands."""

    async def show(_call: Call, params: SessionTarget) -> ContextReport:
        session = await server.workspaces.session(params)
        for notice in await session.refresh():
            server.tell(notice)
        upcoming = session.next_request()
        await upcoming.count()
        return upcoming.context()

    async def reset(_call: Call, params: SessionTarget) -> object:
        await (await server.workspaces.session(params)).reset()
        return {}

    async def compacted(call: Call, params: SessionTarget) -> object:
        workspace = server.workspaces.resolve(params)
        await server.configurations.settled(workspace.root)
        job = compact(await workspace.sessions.named(params.session))
        call.on_cancel(job.cancel)
        progress = call.progress("aish summarizes the conversation")
        try:
            done = await job.result()
        finally:
            progress.end()
        server.tell(done.told)
        return {"evictedTurns": done.evicted_turns, "context": done.context}

    server.bind("aish.context.show", show)
    server.bind("aish.context.compact", compacted)
    server.bind("aish.context.reset", reset)
