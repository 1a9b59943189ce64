"""The two scopes of memory, the workspace's and the user's, taken together.

They are listed for the user, and sent to the model as the ``[background]`` block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound, StoreUnavailable
from aish_lsp.foundation.jsonl import TIMESTAMP
from aish_lsp.foundation.ports import AskUser, Question
from aish_lsp.foundation.text import one_line, without_hidden
from aish_lsp.memory.items import NEWEST_LAST, SCOPES, Kind, MemoryItem, Scope
from aish_lsp.memory.store import AddedItem, MemoryStore


def _holds_none(_text: str) -> bool:
    return False


class MemoryScopes:
    """A workspace's memory and the user's. Ids are unique within a scope. All methods block.

    ``prune_older_than_days`` hides older items from ``items``; they stay in the files.
    """

    def __init__(
        self, user: MemoryStore, workspace: MemoryStore, holds_key: Callable[[str], bool]
    ) -> None:
        self._holds_key = holds_key
        self.prune_older_than_days: int | None = None
        self._stores: dict[Scope, MemoryStore] = {"workspace": workspace, "user": user}
        self._reported: set[str] = set()

    @classmethod
    def open(
        cls, user: Path, workspace: Path, holds_key: Callable[[str], bool] = _holds_none
    ) -> MemoryScopes:
        """Return the two scopes of these files, which may be missing. Nothing is read yet.

        ``holds_key`` returns whether a text holds a model's key; such a text is always refused.
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
        """Read what other processes have changed; return what is wrong with the files.

        Each problem is returned once. A file that cannot be read is not an error here: the next
        question is asked without that scope.
        """
        troubles: list[str] = []
        for store in self._stores.values():
            try:
                store.refresh()
            except StoreUnavailable as error:
                troubles.append(error.message)
            troubles += store.notices
        new = [trouble for trouble in troubles if trouble not in self._reported]
        self._reported.update(new)
        return new

    def items(self, scope: Scope | None = None) -> tuple[MemoryItem, ...]:
        """Return the items of one scope, or of both, the newest first.

        If both are wanted, a scope whose file cannot be read is left out; ``refresh`` says why.

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
    ) -> AddedItem:
        """Remember ``content`` in a scope, as ``MemoryStore.add``.

        Raises:
            InvalidArgument: as ``MemoryStore.add``; or it holds a model's key, even with ``force``;
                or there is no such scope.
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        self.check_keys(content, *tags)
        return self.store(scope).add(kind, content, tags=tags, source=source, force=force)

    def check_keys(self, *texts: str) -> None:
        """Raise InvalidArgument if any of ``texts`` holds the key of a model."""
        if any(isinstance(text, str) and self._holds_key(text) for text in texts):
            raise InvalidArgument(
                "This holds the key of a model, or another secret of your environment. What is"
                " remembered is kept in a plain file and sent to the model. Leave it out.",
                path="content",
            )

    def forget(self, item_id: int, scope: Scope | None = None) -> int:
        """Forget an item; return 1, or 0 if no such item is active.

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
        """Rewrite the files of one scope, or of both, without forgotten items.

        Return how many lines were dropped. A missing file is not created.

        Raises:
            Busy, StoreUnavailable: as ``MemoryStore.add``.
        """
        return sum(store.compact() for store in self._chosen(scope) if store.path.exists())

    def _having(self, item_id: int, scope: Scope | None) -> list[MemoryStore]:
        """Return the one store that has the item, in a list, which is empty if none has."""
        stores = self._chosen(scope)
        for store in stores:
            store.refresh()
        having = [store for store in stores if item_id in store]
        if len(having) > 1:
            msg = (
                f"Both the workspace and the user have an item {item_id}: say which scope"
                f" (in the chat, `workspace:{item_id}` or `user:{item_id}`)."
            )
            raise InvalidArgument(msg, path="scope")
        return having


# Clearing the memory, which needs the user's consent.

_OF: Final[Mapping[Scope, str]] = {
    "workspace": "of this workspace",
    "user": "of yours, for all workspaces",
}


async def clear_by_consent(
    memory: MemoryScopes, scope: Scope | None, ask_user: AskUser
) -> int | None:
    """Forget every item of one scope, or of both, if the user says yes.

    Items that are added or changed while the user is being asked were not part of the question:
    they stay. Items that are hidden because of their age are forgotten too.

    Return how many were forgotten; None if the user did not say yes.

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
    """An item, field by field, as ``aish.memory.list`` shows it.

    ``injected`` says whether it is sent to the model.
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
        inject_max_chars: how many characters of items are sent to the model.
        scope: which scope; None for both.
        query: what contents or tags must contain, ignoring case.
    """
    items = memory.items()
    injected_ids = {(item.scope, item.id) for item in select(items, inject_max_chars).items}
    return [
        Listed(*item, injected=(item.scope, item.id) in injected_ids)
        for item in items
        if scope in (None, item.scope) and _matches(item, query)
    ]


def _matches(item: MemoryItem, query: str | None) -> bool:
    """Return whether an item's content or a tag contains ``query``, ignoring case."""
    if not query:
        return True
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (item.content, *item.tags))


# The ``[background]`` block: which items are sent to the model, and in what form.

HEADING: Final = "[background] (memory; manage with :memory)"


@dataclass(frozen=True, slots=True)
class Selection:
    """The items that are injected, newest first.

    Attributes:
        items: those that fit.
        dropped: how many did not.
        characters: the length of the items' lines, including line ends.
    """

    items: tuple[MemoryItem, ...]
    dropped: int
    characters: int


def select(items: Sequence[MemoryItem], max_chars: int) -> Selection:
    """Return as many items, from the first, as fit in ``max_chars`` characters.

    The first item that does not fit is the end, so that no older item is sent in place of a newer
    one (aish-phase4-memory, section 5); an item that could never fit is skipped. Lines count with
    their line ends; the heading does not count.
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
    """Return the block, or an empty text if there are no items."""
    lines = [_line(item) for item in items]
    return "\n".join([HEADING, *lines]) if lines else ""


def _line(item: MemoryItem) -> str:
    """Return an item as one line, so that nothing in it can imitate one of aish's blocks."""
    return f"- ({item.kind}) {without_hidden(one_line(item.content))}"
