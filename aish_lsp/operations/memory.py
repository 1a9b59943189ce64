"""``memory.*``: what is remembered across sessions."""

from __future__ import annotations

import asyncio
import re
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.text import count_of
from aish_lsp.memory.candidates import Accepted, accept
from aish_lsp.memory.items import KINDS, SCOPES, Kind, Scope
from aish_lsp.memory.scopes import Listed, clear_by_consent, listed, select
from aish_lsp.operations.markdown import accepted_in_chat
from aish_lsp.operations.operation import (
    Answer,
    Caller,
    Line,
    SessionTarget,
    Target,
    Token,
    operation,
)

if TYPE_CHECKING:
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.foundation.job import Job

#: An id, after its scope if that is needed: ``3``, ``user:3``.
_ID: Final = re.compile(rf"(?:({'|'.join(SCOPES)}):)?([0-9]{{1,16}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAdd(SessionTarget):
    """``force`` stores even what looks like a secret."""

    kind: Literal["fact", "pref", "context"] = field(metadata={"usual": "fact"})
    content: str = field(metadata={"word": "TEXT"})
    tags: list[str] = field(default_factory=list, metadata={"help": "to find it by"})
    scope: Literal["workspace", "user"] = "workspace"
    force: bool = field(default=False, metadata={"help": "keep what looks like a secret"})


@dataclass(frozen=True, slots=True)
class Remembered:
    """The id of the remembered item."""

    id: int


def _read_fact(_caller: Caller, argument: str) -> MemoryAdd:
    return _remembering("fact", argument)


def _read_add(_caller: Caller, argument: str) -> MemoryAdd:
    word, _, content = argument.partition(" ")
    kind: Kind | None = next((kind for kind in KINDS if kind == word), None)
    if kind is None:
        raise InvalidArgument(f"Name its kind: `:memory add {'|'.join(KINDS)} TEXT`.")
    return _remembering(kind, content)


def _remembering(kind: Kind, content: str) -> MemoryAdd:
    if not content.strip():
        raise InvalidArgument("Say what to remember: `:remember TEXT`.")
    return MemoryAdd(kind=kind, content=content.strip())


@operation(
    "memory.add",
    MemoryAdd,
    Line("remember", "TEXT", "remember a fact in this workspace", _read_fact),
    Line("memory add", "KIND TEXT", "", _read_add),
)
async def add(caller: Caller, params: MemoryAdd) -> Answer[Remembered]:
    """Remember something.

    Raises:
        InvalidArgument: it looks like a secret, and ``force`` is not given; or it holds a model's
            key, whatever ``force`` says.
        StoreUnavailable, Busy: the file cannot be written now.
    """
    session = caller.session
    added = await asyncio.to_thread(
        session.workspace.memory.add,
        params.kind,
        params.content,
        tags=tuple(params.tags),
        scope=params.scope,
        source={"how": "user"} if caller.is_alone else {"session": session.id, "how": "user"},
        force=params.force,
    )
    text = f"Remembered as item {added.id}. The model knows it from your next question on."
    if added.duplicate:
        text = f"That is known already, as item {added.id}."
    more = {"duplicate": added.duplicate}
    return Answer(Remembered(added.id), text, is_told=added.duplicate, more=more)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryList(Target):
    """``query`` is searched for in contents and tags, ignoring case."""

    scope: Literal["workspace", "user"] | None = None
    query: str | None = field(
        default=None, metadata={"help": "those with TEXT in their content or tags"}
    )


@dataclass(frozen=True, slots=True)
class Items:
    """What is remembered."""

    items: list[Listed]


@operation(
    "memory.list",
    MemoryList,
    Line("memory", help="what is remembered across sessions"),
    Line("memory list"),
    shows=True,
)
async def show(caller: Caller, params: MemoryList) -> Answer[Items]:
    """What is remembered, newest first."""
    workspace = caller.workspace
    caller.tell(await workspace.refresh_memory())
    limit = workspace.config.memory.inject_max_chars
    items = listed(workspace.memory, limit, params.scope, params.query)
    rows = (
        f"- {item.id}{' (user)' if item.scope == 'user' else ''} {item.ts[:10]} "
        f"({item.kind}) {' '.join(item.content.split())}"
        for item in items
    )
    nothing = "Nothing is remembered yet. `:remember TEXT` adds something."
    return Answer(Items(items), "\n".join(rows) or nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryForget(Target):
    """``scope`` is needed if the id is in use in both scopes."""

    id: int = field(metadata={"word": "ID"})
    scope: Literal["workspace", "user"] | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many items were forgotten."""

    forgotten: int


def _read_forget(_caller: Caller, argument: str) -> MemoryForget:
    scope, item_id = _which(argument, "`:memory forget ID`")
    return MemoryForget(id=item_id, scope=scope)


@operation("memory.forget", MemoryForget, Line("memory forget", "ID", "", _read_forget))
async def forget(caller: Caller, params: MemoryForget) -> Answer[Forgotten]:
    """Forget an item.

    Raises:
        InvalidArgument: the id is in use in both scopes, and no scope is given.
        StoreUnavailable, Busy: the file cannot be written now.
    """
    memory = caller.workspace.memory
    forgotten = await asyncio.to_thread(memory.forget, params.id, params.scope)
    if not forgotten:
        text = f"There is no item {params.id} in the memory."
        return Answer(Forgotten(0), text, is_told=True, failed=NotFound)
    return Answer(Forgotten(forgotten), f"Forgot {count_of(forgotten, 'item')}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit(Target):
    """``content`` is the item's new text; ``scope`` is as for *forget*."""

    id: int = field(metadata={"word": "ID"})
    content: str = field(metadata={"word": "TEXT"})
    scope: Literal["workspace", "user"] | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """The id that the item has now."""

    id: int


def _read_edit(_caller: Caller, argument: str) -> MemoryEdit:
    name, _, content = argument.partition(" ")
    scope, item_id = _which(name, "`:memory edit ID TEXT`")
    if not content.strip():
        raise InvalidArgument("Give the new text: `:memory edit ID TEXT`.")
    return MemoryEdit(id=item_id, content=content.strip(), scope=scope)


@operation("memory.edit", MemoryEdit, Line("memory edit", "ID TEXT", "", _read_edit))
async def edit(caller: Caller, params: MemoryEdit) -> Answer[Edited]:
    """Replace an item's text.

    The item gets a new id. If another item already says the same, the result is the id of that one.

    Raises:
        NotFound: there is no such item.
        InvalidArgument: as for *add*; or the id is in use in both scopes, and no scope is given.
        StoreUnavailable, Busy: the file cannot be written now.
    """
    memory = caller.workspace.memory
    new_id = await asyncio.to_thread(memory.edit, params.id, params.content, params.scope)
    text = f"It is now item {new_id}, in place of {params.id}."
    if new_id == params.id:
        text = f"Item {params.id} says that already."
    return Answer(Edited(new_id), text)


def _which(name: str, usage: str) -> tuple[Scope | None, int]:
    """Return the scope, if one is named, and the id in ``name``."""
    match = _ID.fullmatch(name)
    if match is None:
        raise InvalidArgument(f"Say which: {usage}; `:memory list` shows ids.")
    return next((scope for scope in SCOPES if scope == match[1]), None), int(match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryClear(Target):
    """``confirmed``: the user has already said yes; otherwise the server asks."""

    scope: Literal["workspace", "user"] | None = None
    confirmed: bool = field(default=False, metadata={"option": "yes", "help": "without a question"})


def _read_clear(_caller: Caller, argument: str) -> MemoryClear:
    scope = next((scope for scope in SCOPES if scope == argument), None)
    if argument and scope is None:
        known = "|".join(SCOPES)
        raise InvalidArgument(f"Name a scope, `:memory clear {known}`, or none.")
    return MemoryClear(scope=scope)


@operation("memory.clear", MemoryClear, Line("memory clear", "[SCOPE]", "", _read_clear))
async def clear(caller: Caller, params: MemoryClear) -> Answer[Forgotten]:
    """Forget every item of a scope, or of both.

    Unless `confirmed`, the user is asked, and only a yes counts.

    Raises:
        StoreUnavailable, Busy: a file cannot be written now.
    """
    memory = caller.workspace.memory
    if params.confirmed:
        forgotten: int | None = await asyncio.to_thread(memory.clear, params.scope)
    else:
        ask_user = caller.workspace.services.ask_user
        forgotten = await clear_by_consent(memory, params.scope, ask_user)
    if forgotten is None:
        text = "Nothing was forgotten: it was not confirmed."
        return Answer(Forgotten(0), text, is_told=True, failed=Denied)
    return Answer(Forgotten(forgotten), f"Forgot {count_of(forgotten, 'item')}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummarize(SessionTarget):
    """With a token, events and then the result go to it; otherwise the chat gets the candidates."""

    partial_result_token: Token | None = None


@operation(
    "memory.summarize",
    MemorySummarize,
    Line("memory summarize"),
    title="aish reads the session",
    needs_settings=True,
    comes="candidates",
)
async def summarize(caller: Caller, _params: MemorySummarize) -> Job[Extracted]:
    """Have a model find what is worth remembering in this session, since its last reset.

    `memory.summarizer_model` names the model, which reads the session's log and proposes at most
    ten candidates; none is stored yet. `duplicateOf` is the item that says the same; `flags` mark
    what to check: it looks like a secret, reads like an instruction, or is found only in the output
    of a command or tool. Without a token the answer is `{turnId}`, and the candidates appear as a
    checklist in the chat, where code actions keep and drop them.

    Raises:
        BackendUnavailable: no model answered.
        OverBudget: not a single turn of the session fits into the model's window.
    """
    from aish_lsp.agent.extractor import extract  # noqa: PLC0415 - it imports the models package

    return extract(caller.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCandidate:
    """A candidate as the user wants it; ``duplicate_of`` and ``flags`` are accepted and ignored."""

    kind: Literal["fact", "pref", "context"]
    content: str
    tags: list[str] = field(default_factory=list)
    scope: Literal["workspace", "user"] = "workspace"
    duplicate_of: int | None = None
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccept(SessionTarget):
    """What the user keeps, with any edits. If one is refused, none is stored."""

    candidates: list[AcceptedCandidate]


@dataclass(frozen=True, slots=True)
class AcceptedIds:
    """The items' ids."""

    ids: list[int]


async def _read_accept(caller: Caller, argument: str) -> MemoryAccept:
    accepted = accepted_in_chat(argument, await caller.face.chat_text())
    return MemoryAccept(
        candidates=[AcceptedCandidate(kind=one.kind, content=one.content) for one in accepted]
    )


@operation("memory.accept", MemoryAccept, Line("memory accept", "N [TEXT]", "", _read_accept))
async def keep(caller: Caller, params: MemoryAccept) -> Answer[AcceptedIds]:
    """Remember the candidates that the user chose.

    `ids` are in the same order; for a candidate that is already known, it is the id of that item.

    Raises:
        InvalidArgument: one of them must not be remembered; then none is.
        StoreUnavailable, Busy: a file cannot be written now.
    """
    session = caller.session
    accepted = [
        Accepted(one.kind, one.content, tuple(one.tags), one.scope) for one in params.candidates
    ]
    ids = await asyncio.to_thread(accept, session.workspace.memory, accepted, session.id)
    if not ids:
        return Answer(AcceptedIds(ids), "There is nothing to keep.")
    by_id = dict(zip(ids, accepted, strict=True))
    which = f"{'items' if len(by_id) > 1 else 'item'} {', '.join(map(str, by_id))}"
    rows = (f"- {item_id} ({one.kind}) {one.content}" for item_id, one in by_id.items())
    return Answer(AcceptedIds(ids), "\n".join([f"Remembered as {which}.", "", *rows]))


@dataclass(frozen=True, slots=True)
class Injected:
    """How many items the model is told, how many do not fit, and the length of those it is told."""

    injected: int
    dropped: int
    characters: int


@operation("memory.inject", Target, Line("memory inject"), shows=True)
async def inject(caller: Caller, _params: Target) -> Answer[Injected]:
    """Read the memory again for the prompt."""
    workspace = caller.workspace
    caller.tell(await workspace.refresh_memory())
    selected = select(workspace.memory.items(), workspace.config.memory.inject_max_chars)
    items = count_of(len(selected.items), "item")
    sentence = f"The model is told {items}, {count_of(selected.characters, 'character')}"
    left = f"; {selected.dropped} more do not fit" if selected.dropped else ""
    done = Injected(len(selected.items), selected.dropped, selected.characters)
    return Answer(done, f"{sentence}{left}.")
