"""The two scopes of memory, the workspace's and the user's, taken together, and cleared.

Shown they are to their user, and to the model as the ``[background]`` block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.errors import InvalidArgument, NotFound, StoreUnavailable
from aish_lsp.foundation.jsonl import TIMESTAMP
from aish_lsp.foundation.ports import AskUser, Question
from aish_lsp.foundation.text import one_line, without_hidden
from aish_lsp.memory.items import NEWEST_LAST, SCOPES, Kind, MemoryItem, Scope
from aish_lsp.memory.store import Added, MemoryStore


def _holds_none(_text: str) -> bool:
    return False


class MemoryScopes:
    """A workspace's memory and the user's. Ids count within each; all of it blocks.

    ``prune_older_than_days`` hides older items from ``items``; they stay in the files.
    """

    def __init__(
        self, user: MemoryStore, workspace: MemoryStore, holds_key: Callable[[str], bool]
    ) -> None:
        self._holds_key = holds_key
        self.prune_older_than_days: int | None = None
        self._stores: dict[Scope, MemoryStore] = {"workspace": workspace, "user": user}
        self._told: set[str] = set()

    @classmethod
    def open(
        cls, user: Path, workspace: Path, holds_key: Callable[[str], bool] = _holds_none
    ) -> MemoryScopes:
        """Return the two scopes by their files, which need not be there. Nothing is read yet.

        ``holds_key`` tells texts with a model's key, which are refused whoever insists.
        """
        return cls(MemoryStore(user, "user"), MemoryStore(workspace, "workspace"), holds_key)

    def store(self, scope: Scope) -> MemoryStore:
        """Return the store of a scope.

        Raises:
            InvalidArgument: there is no such scope.
        """
        if scope not in SCOPES:
            msg = f"A memory's scope is one of {', '.join(SCOPES)}, not {scope!r}."
            raise InvalidArgument(msg, path="scope")
        return self._stores[scope]

    def _chosen(self, scope: Scope | None) -> list[MemoryStore]:
        return list(self._stores.values()) if scope is None else [self.store(scope)]

    def refresh(self) -> list[str]:
        """Take in what other processes did; return what is wrong with the files.

        Each trouble is told once. A file that cannot be read is one, and no error: the question
        that is about to be asked does without that scope.
        """
        troubles: list[str] = []
        for store in self._stores.values():
            try:
                store.refresh()
            except StoreUnavailable as error:
                troubles.append(error.message)
            troubles += store.notices
        new = [trouble for trouble in troubles if trouble not in self._told]
        self._told.update(new)
        return new

    def items(self, scope: Scope | None = None) -> tuple[MemoryItem, ...]:
        """Return the items of one scope, or of both, the newest first.

        Of both, a scope whose file cannot be read gives none; ``refresh`` says why.

        Raises:
            InvalidArgument: there is no such scope.
            StoreUnavailable: the file of ``scope`` cannot be read.
        """
        merged: list[MemoryItem] = []
        for store in self._chosen(scope):
            try:
                merged += store.items()
            except StoreUnavailable:
                if scope is not None:
                    raise
        merged.sort(key=NEWEST_LAST, reverse=True)
        if self.prune_older_than_days is None:
            return tuple(merged)
        age = timedelta(days=self.prune_older_than_days)
        oldest = (datetime.now(UTC) - age).strftime(TIMESTAMP)
        return tuple(item for item in merged if item.ts >= oldest)

    def add(
        self,
        kind: Kind,
        content: str,
        *,
        tags: Sequence[str] = (),
        scope: Scope = "workspace",
        source: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Added:
        """Remember ``content`` in a scope, as ``MemoryStore.add``.

        Raises:
            InvalidArgument: as ``MemoryStore.add``; it holds a model's key, whatever ``force``
                says; there is no such scope.
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        self.check_keys(content, *tags)
        return self.store(scope).add(kind, content, tags=tags, source=source, force=force)

    def check_keys(self, *texts: str) -> None:
        """Raise InvalidArgument where one of ``texts`` holds the key of a model."""
        if any(isinstance(text, str) and self._holds_key(text) for text in texts):
            raise InvalidArgument(
                "This holds the key of a model, or another secret of your environment. What is"
                " remembered lies in a plain file and is sent to the model. Leave it out.",
                path="content",
            )

    def forget(self, item_id: int, scope: Scope | None = None) -> int:
        """Forget an item; return 1, or 0 where no such item is active.

        Raises:
            InvalidArgument: both scopes have an item of that id and ``scope`` does not say which.
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        return sum(store.forget(item_id) for store in self._having(item_id, scope))

    def edit(self, item_id: int, content: str, scope: Scope | None = None) -> int:
        """Replace an item's content; return its new id.

        Raises:
            InvalidArgument: as ``forget``, and for a content that ``MemoryStore.add`` refuses.
            NotFound: no such item is active.
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        self.check_keys(content)
        stores = self._having(item_id, scope)
        if not stores:
            msg = f"Memory has no item {item_id}."
            raise NotFound(msg)
        return stores[0].edit(item_id, content)

    def clear(self, scope: Scope | None = None) -> int:
        """Forget every item of one scope, or of both; return how many there were.

        Raises:
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        return sum(store.clear() for store in self._chosen(scope))

    def compact(self, scope: Scope | None = None) -> int:
        """Rewrite the files of one scope, or of both, without what is forgotten.

        Return how many lines went. A file that is not there stays so.

        Raises:
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        return sum(store.compact() for store in self._chosen(scope) if store.path.exists())

    def _having(self, item_id: int, scope: Scope | None) -> list[MemoryStore]:
        """Return the store that has the item, as a list of one, or none."""
        stores = self._chosen(scope)
        for store in stores:
            store.refresh()
        having = [store for store in stores if any(item.id == item_id for item in store.items())]
        if len(having) > 1:
            msg = (
                f"Both the workspace and the user have an item {item_id}: say which scope"
                f" (in the chat, `workspace:{item_id}` or `user:{item_id}`)."
            )
            raise InvalidArgument(msg, path="scope")
        return having


# Forgetting all that is remembered, by the user's word alone.

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


@dataclass(frozen=True, slots=True)
class Listed:
    """An item, field for field, as ``aish.memory.list`` shows it.

    ``injected``: the model is told of it.
    """

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
        Listed(*item, injected=(item.scope, item.id) in told)
        for item in items
        if scope in (None, item.scope) and _matches(item, query)
    ]


def _matches(item: MemoryItem, query: str | None) -> bool:
    """Return whether an item's content or tags hold ``query``, whatever the case."""
    if not query:
        return True
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (item.content, *item.tags))


# The ``[background]`` block: which items are sent to the model, and how they stand there.

HEADING: Final = "[background] (memory; manage with :memory)"


@dataclass(frozen=True, slots=True)
class Selection:
    """The items that are injected, newest first.

    Attributes:
        items: those that fit.
        dropped: how many did not.
        characters: how many the items' lines take, each with its line end.
    """

    items: tuple[MemoryItem, ...]
    dropped: int
    characters: int


def select(items: Sequence[MemoryItem], max_chars: int) -> Selection:
    """Return as many items from the first on as ``max_chars`` characters hold.

    The first that does not fit ends it, so that no older item stands where a newer one is missing
    (aish-phase4-memory, section 5); one that could never fit is passed over. What counts is an
    item's line with its line end; the heading does not.
    """
    chosen = []
    characters = 0
    for item in items:
        needed = len(_line(item)) + 1
        if needed > max_chars:
            continue
        if characters + needed > max_chars:
            break
        characters += needed
        chosen.append(item)
    return Selection(tuple(chosen), len(items) - len(chosen), characters)


def background_text(items: Iterable[MemoryItem]) -> str:
    """Return the block, or an empty text where there are no items."""
    lines = [_line(item) for item in items]
    return "\n".join([HEADING, *lines]) if lines else ""


def _line(item: MemoryItem) -> str:
    """Return an item's line. One line, whatever is in it: it cannot pass for a block of ours."""
    return f"- ({item.kind}) {without_hidden(one_line(item.content))}"
