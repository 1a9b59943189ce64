"""The sessions in the chat: ``:session`` with its verbs, and a session as a readable page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.markdown import fence_for, head_and_tail, open_fence
from aish_lsp.chat.remarks import goes_on, last_was
from aish_lsp.foundation.errors import InvalidArgument, StoreUnavailable
from aish_lsp.foundation.text import escaped
from aish_lsp.sessions.history import HistoryTurn, history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aish_lsp.agent.session import Session
    from aish_lsp.agent.sessions import Sessions
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.sessions.listing import Found, SessionInfo
    from aish_lsp.sessions.reading import LoadedSession

USAGE: Final = "[list [TEXT]|new|resume [ID]|save NAME|delete ID|history [ID] [PAGE]]"
VERBS: Final = ("list", "new", "resume", "save", "delete", "history")

#: The commands, as they are typed without the colon, that a session's id or name may follow.
_TAKE_A_SESSION: Final = (
    *(f"session {verb}" for verb in ("resume", "delete", "history")),
    *("resume", "history"),
)

_HOW_TO_RESUME: Final = (
    "`:resume ID` continues one of them, by its id or name; `:resume` alone, the last one."
)

#: Exchanges on a page of ``:history``.
PAGE: Final = 5

#: A session, if any, and the number of a page.
_PAGE: Final = re.compile(r"(?:(.*\S)\s+)?(\d{1,3})")

_WHO: Final = {"user": "You", "assistant": "aish", "tool": "Tool result"}


async def session_command(session: Session, argument: str) -> str:
    """Carry ``:session`` out, typed in ``session``; return the answer, Markdown.

    Raises:
        InvalidArgument: there is no such verb, or it lacks its argument.
        AishError: what ``Sessions`` refuses.
    """
    verb, _, rest = argument.partition(" ")
    key = rest.strip()
    sessions = session.workspace.sessions
    match verb:
        case "" | "list":
            return await _list(session, key)
        case "new":
            return f"A new session has begun: {(await sessions.new()).id}."
        case "resume":
            return await _resume(sessions, key or None)
        case "save":
            name = await sessions.save(session, _needed(verb, "NAME", key))
            return f"This session is saved as {name}. `:resume {name}` continues it."
        case "delete":
            deleted = await sessions.delete(_needed(verb, "ID", key))
            return "Deleted." if deleted else "Not deleted."
        case "history":
            return await _history(session, key)
    known = ", ".join(f"`:session {known}`" for known in VERBS)
    raise InvalidArgument(f"Use one of {known}.")


def takes_a_session(line_prefix: str) -> bool:
    """Return whether a session's id or name may stand at the cursor, ``line_prefix`` before it."""
    typed, _, _ = line_prefix.removeprefix(":").rpartition(" ")
    return " ".join(typed.split()) in _TAKE_A_SESSION


def argument_values(infos: Sequence[SessionInfo]) -> dict[str, list[str]]:
    """Return what completes the commands that take a session: names first, then ids."""
    # What is completed is a single word.
    names = [info.name for info in infos if info.name and " " not in info.name]
    values = [*names, *(info.id for info in infos)]
    return dict.fromkeys(_TAKE_A_SESSION, values)


def _needed(verb: str, what: str, argument: str) -> str:
    if not argument:
        lists = "" if what == "NAME" else "; `:session list` shows ids"
        raise InvalidArgument(f"Say which: `:session {verb} {what}`{lists}.")
    return argument


async def _resume(sessions: Sessions, key: str | None) -> str:
    resumed = await sessions.resume(key)
    told = f"Session {resumed.session.id} continues, with {_count(resumed.turns, 'message')}."
    waiting = len(resumed.session.last_turn_commands)
    if waiting:
        told += f" {_count(waiting, 'suggested command')} can still be run."
    return "\n\n".join([told, *resumed.notices])


async def first_line(workspace: Workspace) -> str:
    """Return what the chat says first: which session goes on, or could; empty for nothing."""
    session = await workspace.sessions.named(None)
    resumed = workspace.sessions.begun_with
    if resumed is not None and resumed.session is session:
        return goes_on(session.recorder.title)
    if workspace.config.sessions.resume != "ask":
        return ""
    try:
        last = await workspace.sessions.last()
    except StoreUnavailable:
        return ""
    return last_was(last.title) if last else ""


async def _history(session: Session, argument: str) -> str:
    """Return a page of what was said: the newest, or the one whose number ends ``argument``."""
    match = _PAGE.fullmatch(argument)
    key = (match[1] or "") if match else argument
    loaded = await session.workspace.sessions.history(key or session.id)
    page = int(match[2]) if match else 1
    return "\n\n".join([*loaded.notices, _page(loaded, page, f":history {key}".rstrip())])


def _page(loaded: LoadedSession, page: int, command: str) -> str:
    """Return the exchanges of a page, the first one being the newest, and how to see others."""
    exchanges = _exchanges(history(loaded))
    last = max(1, -(-len(exchanges) // PAGE))
    if not 1 <= page <= last:
        raise InvalidArgument(f"There is no page {page}: `{command} {last}` is the oldest.")
    end = len(exchanges) - (page - 1) * PAGE
    turns = [turn for exchange in exchanges[max(0, end - PAGE) : end] for turn in exchange]
    parts = [_head(loaded)] if turns else [_nothing(loaded)]
    parts += (_turn(turn, short=True) for turn in turns)
    if last > 1:
        newest = ", the newest" if page == 1 else ""
        before = f" `{command} {page + 1}` shows what was said before." if page < last else ""
        parts.append(f"Page {page} of {last}{newest}.{before}")
    return "\n\n".join(parts)


def _exchanges(turns: Sequence[HistoryTurn]) -> list[list[HistoryTurn]]:
    """Return the turns by exchange: a question, and all that answers it."""
    exchanges: list[list[HistoryTurn]] = []
    for turn in turns:
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(turn)
    return exchanges


async def _list(session: Session, query: str) -> str:
    sessions, open_id = session.workspace.sessions, session.id
    if query:
        return _found(await sessions.search(query), open_id, query)
    infos = await sessions.all()
    if not infos:
        return "Nothing has been asked in this workspace yet."
    return "\n".join([*(_row(info, open_id) for info in infos), "", _HOW_TO_RESUME])


def _found(found: Sequence[Found], open_id: str, query: str) -> str:
    if not found:
        return f"No session of this workspace mentions *{escaped(query)}*."
    # What was said stands on a line of its own below, so that it cannot begin one of the chat's.
    rows = (f"{_row(one.session, open_id)}\n  > {escaped(one.snippet)}" for one in found)
    return "\n".join([*rows, "", _HOW_TO_RESUME])


def _row(info: SessionInfo, open_id: str) -> str:
    return (
        f"- {f'**{info.id}** (open)' if info.id == open_id else info.id}"
        f"{f' *{escaped(info.name)}*' if info.name else ''}: "
        f"{escaped(info.title or 'no title')} ({', '.join(_facts(info))})"
    )


def _facts(info: SessionInfo) -> Iterator[str]:
    if info.updated:
        yield info.updated[:16].replace("T", " ")
    yield _count(info.questions, "question")
    if info.model:
        yield escaped(info.model)
    if info.cost is not None:
        yield f"${info.cost:.4f}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def session_page(loaded: LoadedSession) -> str:
    """Return a session as a page of Markdown: all that was said, and what is sent no more."""
    turns = history(loaded)
    return "\n\n".join([_head(loaded), *map(_turn, turns)]) if turns else _nothing(loaded)


def _head(loaded: LoadedSession) -> str:
    name = loaded.meta.get("name")
    title = escaped(str(loaded.meta.get("title") or "No title"))
    return f"# {title}\n\nSession {loaded.id}{f', saved as {escaped(str(name))}' if name else ''}."


def _nothing(loaded: LoadedSession) -> str:
    return f"Nothing has been said in session {loaded.id} yet."


def _turn(turn: HistoryTurn, *, short: bool = False) -> str:
    """Return a turn; with ``short``, of what is long in it head and tail."""

    def block(text: str) -> str:
        return _fenced(head_and_tail(text) if short else text)

    when = (turn.ts or "")[:16].replace("T", " ")
    notes = [note for note in (turn.model, when, _state(turn)) if note]
    parts = [f"### {_WHO[turn.role]} ({escaped(', '.join(notes))})"]
    parts += [
        block(f"$ {output['command']} (exit {output['exit']})\n{output['output']}")
        for output in turn.exec
    ]
    parts += [block(f"[{part['kind']}] {part['path']}\n{part['text']}") for part in turn.attached]
    if turn.role == "tool":
        parts.append(block(turn.content))
    elif turn.content:
        fence = open_fence(turn.content)
        parts.append(turn.content.rstrip() + (f"\n{fence}" if fence else ""))
    parts += [block(f"{call['name']} {call['arguments']}") for call in turn.tool_calls]
    return "\n\n".join(parts)


def _state(turn: HistoryTurn) -> str:
    """Return what is special about a turn; empty where nothing is."""
    if turn.finish not in (None, "stop", "tool"):
        return f"ended: {turn.finish}"
    return "" if turn.in_force else "no longer sent"


def _fenced(text: str) -> str:
    fence = fence_for(text)
    return f"{fence}text\n{text.rstrip()}\n{fence}"
