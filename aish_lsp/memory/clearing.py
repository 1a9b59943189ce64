"""Forgetting all that is remembered, by the user's word alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aish_lsp.foundation.ports import AskUser, Question
from aish_lsp.memory.items import SCOPES, MemoryItem, Scope
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.memory.store import MemoryStore

_OF: Final[Mapping[Scope, str]] = {
    "workspace": "of this workspace",
    "user": "of yours, for all workspaces",
}


async def clear_by_consent(
    memory: MemoryScopes, scope: Scope | None, ask_user: AskUser
) -> int | None:
    """Forget every item of one scope, or of both, if the user says yes.

    What comes or is changed while the question stands is not what the user was asked about: it
    stays. Items that are hidden for their age go too.

    Return how many were forgotten; None where it was not confirmed.

    Raises:
        InvalidArgument, Busy, StoreUnavailable: as ``MemoryScopes.clear``.
    """
    stores = [memory.store(name) for name in (SCOPES if scope is None else (scope,))]
    asked = [(store, await asyncio.to_thread(_items, store)) for store in stores]
    parts = [f"{len(items)} {_OF[store.scope]}" for store, items in asked if items]
    if not parts:
        return 0
    question = Question(f"Forget all items of the memory: {' and '.join(parts)}?", "Forget all")
    if not await ask_user(question):
        return None
    return sum([await asyncio.to_thread(store.clear, items) for store, items in asked])


def _items(store: MemoryStore) -> tuple[MemoryItem, ...]:
    store.refresh()
    return store.items()
