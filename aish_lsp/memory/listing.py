"""The memory as it is shown to its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aish_lsp.memory.background import select
from aish_lsp.memory.items import Kind, MemoryItem, Scope
from aish_lsp.memory.scopes import MemoryScopes


@dataclass(frozen=True, slots=True)
class Listed:
    """An item as ``aish.memory.list`` shows it; ``injected``: the model is told of it."""

    id: int
    ts: str
    kind: Kind
    content: str
    tags: tuple[str, ...]
    source: Mapping[str, Any] | None
    scope: Scope
    injected: bool


def listed(
    memory: MemoryScopes,
    inject_max_chars: int,
    scope: Scope | None = None,
    query: str | None = None,
) -> list[Listed]:
    """Return the items of one scope, or of both, the newest first.

    Args:
        memory: what to list, as of its last refresh.
        inject_max_chars: the characters of items that the model is told.
        scope: of both without it.
        query: looked for in contents and tags, whatever the case.
    """
    items = memory.items()
    told = {(item.scope, item.id) for item in select(items, inject_max_chars).items}
    return [
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
        for item in items
        if scope in (None, item.scope) and _matches(item, query)
    ]


def _matches(item: MemoryItem, query: str | None) -> bool:
    """Return whether an item's content or tags hold ``query``, whatever the case."""
    if not query:
        return True
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (item.content, *item.tags))
