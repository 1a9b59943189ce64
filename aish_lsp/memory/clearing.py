"""Forgetting all that is remembered, by the user's word alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aish_lsp.memory.items import Scope
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.questions import AskUser, Question

_OF: Final[Mapping[Scope, str]] = {
    "workspace": "of this workspace",
    "user": "of yours, for all workspaces",
}


async def clear_by_consent(
    memory: MemoryScopes, scope: Scope | None, ask_user: AskUser
) -> int | None:
    """Forget every item of one scope, or of both, if the user says yes.

    Return how many were forgotten; None where nobody said yes.

    Raises:
        InvalidArgument, Busy, StoreUnavailable: as ``MemoryScopes.clear``.
    """
    counts = await asyncio.to_thread(memory.counts, scope)
    parts = [f"{count} {_OF[name]}" for name, count in counts.items() if count]
    if not parts:
        return 0
    question = Question(f"Forget all items of the memory: {' and '.join(parts)}?", "Forget all")
    if not await ask_user(question):
        return None
    return await asyncio.to_thread(memory.clear, scope)
