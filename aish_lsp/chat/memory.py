"""``:memory``: what is remembered across sessions, shown and changed from a chat."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.candidates import accept_candidates
from aish_lsp.chat.checklist import last_entries
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.memory.items import KINDS, SCOPES, Kind, MemoryItem, Scope
from aish_lsp.memory.listing import select
from aish_lsp.memory.scopes import clear_by_consent

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.agent.workspace import Workspace

VERBS: Final = ("list", "add", "forget", "edit", "clear", "summarize", "accept", "inject")
USAGE: Final = (
    "list|add KIND TEXT|forget ID|edit ID TEXT|clear [SCOPE]|summarize|accept N [TEXT]|inject"
)

#: An id, with the scope before it where it is needed: ``3``, ``user:3``.
_ID: Final = re.compile(rf"(?:({'|'.join(SCOPES)}):)?([0-9]{{1,16}})")


async def memory_command(
    session: Session, argument: str, shown: Callable[[], Awaitable[str]]
) -> str:
    """Do what ``:memory ARGUMENT`` says; return the answer, Markdown.

    ``shown`` returns the chat's text. What ``summarize`` does is not done here.

    Raises:
        InvalidArgument: it cannot be understood; the message says how it is written.
        AishError: whatever the memory refuses.
    """
    verb, _, rest = argument.partition(" ")
    if verb == "accept":
        return await accept_candidates(session, rest.strip(), await shown())
    handler = _VERBS.get(verb or "list")
    if handler is None:
        known = ", ".join(f"`:memory {known}`" for known in USAGE.split("|"))
        raise InvalidArgument(f"Use one of {known}.")
    return await handler(session, rest.strip())


async def remember(session: Session, kind: Kind, content: str) -> str:
    """Add an item to the workspace's memory; return the answer.

    Raises:
        InvalidArgument, Busy, StoreUnavailable: as ``Session.remember``.
    """
    if not content.strip():
        raise InvalidArgument("Say what to remember: `:remember TEXT`.")
    added = await asyncio.to_thread(session.remember, kind, content.strip())
    if added.duplicate:
        return f"That is known already, as item {added.id}."
    return f"Remembered as item {added.id}. The model knows it from your next question on."


def argument_values(items: Sequence[MemoryItem], chat: str) -> dict[str, list[str]]:
    """Return the words that may follow ``:memory VERB`` in a chat, for ``complete``."""
    count = Counter(item.id for item in items)
    ids = [str(item.id) if count[item.id] == 1 else f"{item.scope}:{item.id}" for item in items]
    return {
        "memory add": list(KINDS),
        "memory forget": ids,
        "memory edit": ids,
        "memory clear": list(SCOPES),
        "memory accept": [str(one.number) for one in last_entries(chat) if one.number],
    }


async def _list(session: Session, _rest: str) -> str:
    troubles = await session.refresh()
    return "\n\n".join([*troubles, _listed(session.workspace)])


def _listed(workspace: Workspace) -> str:
    items = workspace.memory.items()
    if not items:
        return "Nothing is remembered yet. `:remember TEXT` adds something."
    return "\n".join(
        f"- {item.id}{' (user)' if item.scope == 'user' else ''} {item.ts[:10]} "
        f"({item.kind}) {' '.join(item.content.split())}"
        for item in items
    )


async def _add(session: Session, rest: str) -> str:
    word, _, content = rest.partition(" ")
    kind: Kind | None = next((kind for kind in KINDS if kind == word), None)
    if kind is None:
        raise InvalidArgument(f"Name its kind: `:memory add {'|'.join(KINDS)} TEXT`.")
    return await remember(session, kind, content)


async def _forget(session: Session, rest: str) -> str:
    scope, item_id = _which(rest, "`:memory forget ID`")
    memory = session.workspace.memory
    forgotten = await asyncio.to_thread(memory.forget, item_id, scope)
    return f"Forgot {_items(forgotten)}."


async def _edit(session: Session, rest: str) -> str:
    name, _, content = rest.partition(" ")
    scope, item_id = _which(name, "`:memory edit ID TEXT`")
    if not content.strip():
        raise InvalidArgument("Give the new text: `:memory edit ID TEXT`.")
    memory = session.workspace.memory
    new_id = await asyncio.to_thread(memory.edit, item_id, content.strip(), scope)
    if new_id == item_id:
        return f"Item {item_id} says that already."
    return f"It is now item {new_id}, in place of {item_id}."


def _which(name: str, usage: str) -> tuple[Scope | None, int]:
    """Return the scope, where one is named, and the id that ``name`` stands for."""
    match = _ID.fullmatch(name)
    if match is None:
        raise InvalidArgument(f"Say which: {usage}; `:memory list` shows ids.")
    return next((scope for scope in SCOPES if scope == match[1]), None), int(match[2])


async def _clear(session: Session, rest: str) -> str:
    scope = next((scope for scope in SCOPES if scope == rest), None)
    if rest and scope is None:
        raise InvalidArgument(
            f"Say of which scope: `:memory clear {'|'.join(SCOPES)}`, or of none."
        )
    workspace = session.workspace
    forgotten = await clear_by_consent(workspace.memory, scope, workspace.services.ask_user)
    if forgotten is None:
        return "Nothing was forgotten: it was not confirmed."
    return f"Forgot {_items(forgotten)}."


async def _inject(session: Session, _rest: str) -> str:
    troubles = await session.refresh()
    workspace = session.workspace
    selected = select(workspace.memory.items(), workspace.config.memory.inject_max_chars)
    told = f"The model is told {_items(len(selected.items))}, {selected.characters} characters"
    left = f"; {selected.dropped} more do not fit" if selected.dropped else ""
    return "\n\n".join([*troubles, f"{told}{left}."])


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


_VERBS: Final[Mapping[str, Callable[[Session, str], Awaitable[str]]]] = {
    "list": _list,
    "add": _add,
    "forget": _forget,
    "edit": _edit,
    "clear": _clear,
    "inject": _inject,
}
