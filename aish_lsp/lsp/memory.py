"""``aish.memory.*``: what lasts across sessions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aish_lsp.memory.background import select

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import (
        MemoryAddParams,
        MemoryForgetParams,
        MemoryListParams,
        Target,
    )
    from aish_lsp.memory.items import MemoryItem
    from aish_lsp.server import AishServer
    from aish_lsp.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Listed:
    """An item as ``aish.memory.list`` shows it; ``injected``: the model is told of it."""

    id: int
    ts: str
    kind: str
    content: str
    tags: tuple[str, ...]
    source: Any
    scope: str
    injected: bool


def setup(server: AishServer) -> None:
    """Bind the memory commands."""

    async def refresh(workspace: Workspace) -> None:
        for notice in await asyncio.to_thread(workspace.memory.refresh):
            server.tell(notice)

    async def add(_call: Call, params: MemoryAddParams) -> object:
        workspace = server.workspaces.resolve(params)
        added = await asyncio.to_thread(
            workspace.remember,
            params.kind,
            params.content,
            tags=tuple(params.tags),
            scope=params.scope,
            force=params.force,
        )
        if added.duplicate:
            server.tell(f"That is known already, as item {added.id}.")
        return {"id": added.id}

    async def listed(_call: Call, params: MemoryListParams) -> object:
        workspace = server.workspaces.resolve(params)
        await refresh(workspace)
        told = _told(workspace)
        items = [
            Listed(
                item.id,
                item.ts,
                item.kind,
                item.content,
                item.tags,
                item.source,
                item.scope,
                (item.scope, item.id) in told,
            )
            for item in workspace.memory.items()
            if params.scope in (None, item.scope) and _matches(item, params.query)
        ]
        return {"items": items}

    async def forget(_call: Call, params: MemoryForgetParams) -> object:
        workspace = server.workspaces.resolve(params)
        forgotten = await asyncio.to_thread(workspace.memory.forget, params.id, params.scope)
        if not forgotten:
            server.tell(f"There is no item {params.id} to forget.")
        return {"forgotten": forgotten}

    async def inject(_call: Call, params: Target) -> object:
        workspace = server.workspaces.resolve(params)
        await refresh(workspace)
        selected = select(workspace.memory.items(), workspace.config.memory.inject_max_chars)
        return {
            "injected": len(selected.items),
            "dropped": selected.dropped,
            "characters": selected.characters,
        }

    server.bind("aish.memory.add", add)
    server.bind("aish.memory.list", listed)
    server.bind("aish.memory.forget", forget)
    server.bind("aish.memory.inject", inject)


def _told(workspace: Workspace) -> set[tuple[str, int]]:
    """Return which items the model is told of."""
    limit = workspace.config.memory.inject_max_chars
    return {(item.scope, item.id) for item in select(workspace.memory.items(), limit).items}


def _matches(item: MemoryItem, query: str | None) -> bool:
    """Return whether an item's content or tags hold ``query``, whatever the case."""
    if not query:
        return True
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (item.content, *item.tags))
