"""``aish.memory.*``: what lasts across sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aish_lsp.lsp.ask import refuse_unshown, stream
from aish_lsp.memory.candidates import Accepted, accept
from aish_lsp.memory.listing import listed, select
from aish_lsp.memory.scopes import clear_by_consent

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import (
        MemoryAcceptParams,
        MemoryAddParams,
        MemoryClearParams,
        MemoryEditParams,
        MemoryForgetParams,
        MemoryListParams,
        MemorySummarizeParams,
        Target,
    )
    from aish_lsp.lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the memory commands."""
    server.bind("aish.memory.add", _add)
    server.bind("aish.memory.list", _list)
    server.bind("aish.memory.forget", _forget)
    server.bind("aish.memory.edit", _edit)
    server.bind("aish.memory.clear", _clear)
    server.bind("aish.memory.summarize", _summarize)
    server.bind("aish.memory.accept", _accept)
    server.bind("aish.memory.inject", _inject)


async def _add(call: Call, params: MemoryAddParams) -> object:
    session = await call.server.workspaces.session(params)
    added = await asyncio.to_thread(
        session.remember,
        params.kind,
        params.content,
        tags=tuple(params.tags),
        scope=params.scope,
        force=params.force,
    )
    if added.duplicate:
        call.server.tell(f"That is known already, as item {added.id}.")
    return {"id": added.id}


async def _list(call: Call, params: MemoryListParams) -> object:
    workspace = await _refreshed(call, params)
    limit = workspace.config.memory.inject_max_chars
    return {"items": listed(workspace.memory, limit, params.scope, params.query)}


async def _forget(call: Call, params: MemoryForgetParams) -> object:
    memory = call.server.workspaces.resolve(params).memory
    forgotten = await asyncio.to_thread(memory.forget, params.id, params.scope)
    if not forgotten:
        call.server.tell(f"There is no item {params.id} to forget.")
    return {"forgotten": forgotten}


async def _edit(call: Call, params: MemoryEditParams) -> object:
    memory = call.server.workspaces.resolve(params).memory
    return {"id": await asyncio.to_thread(memory.edit, params.id, params.content, params.scope)}


async def _clear(call: Call, params: MemoryClearParams) -> object:
    workspace = call.server.workspaces.resolve(params)
    if params.confirmed:
        return {"forgotten": await asyncio.to_thread(workspace.memory.clear, params.scope)}
    ask_user = workspace.services.ask_user
    forgotten = await clear_by_consent(workspace.memory, params.scope, ask_user)
    if forgotten is None:
        call.server.tell("Nothing was forgotten: it was not confirmed.")
    return {"forgotten": forgotten or 0}


async def _summarize(call: Call, params: MemorySummarizeParams) -> object:
    from aish_lsp.agent.extractor import extract  # noqa: PLC0415 - the models' room, for this alone

    server = call.server
    workspace = server.workspaces.resolve(params)
    await server.configurations.settled(workspace.root)
    session = await workspace.sessions.named(params.session)
    if params.partial_result_token is None:
        refuse_unshown(session)
        return {"turnId": await server.chats.of(workspace).summarize()}
    job = extract(session)
    return await stream(call, params.partial_result_token, job, "aish reads the session")


async def _accept(call: Call, params: MemoryAcceptParams) -> object:
    session = await call.server.workspaces.session(params)
    accepted = [
        Accepted(one.kind, one.content, tuple(one.tags), one.scope) for one in params.candidates
    ]
    memory = session.workspace.memory
    return {"ids": await asyncio.to_thread(accept, memory, accepted, session.id)}


async def _inject(call: Call, params: Target) -> object:
    workspace = await _refreshed(call, params)
    selected = select(workspace.memory.items(), workspace.config.memory.inject_max_chars)
    return {
        "injected": len(selected.items),
        "dropped": selected.dropped,
        "characters": selected.characters,
    }


async def _refreshed(call: Call, params: Target) -> Workspace:
    """Return the workspace that is meant, with what other processes remembered."""
    workspace = call.server.workspaces.resolve(params)
    for notice in await workspace.refresh_memory():
        call.server.tell(notice)
    return workspace
