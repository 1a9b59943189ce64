"""``session.*``: the sessions that are open, and earlier ones that can be resumed."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.norris.run import unfinished
from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.operations.markdown import found_page, history_page, listed_page
from aish_lsp.operations.operation import (
    Answer,
    Caller,
    Line,
    SessionTarget,
    Target,
    operation,
    whole,
)
from aish_lsp.sessions.listing import SessionInfo
from aish_lsp.sessions.rebuild import HistoryMessage, history, suggested_in
from aish_lsp.tools import parts_of
from aish_lsp.tools.titles import call_title

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.agent.sessions import Resumed

#: Digits of a question's number, counted back from the last one.
_DIGITS: Final = 6

#: Commands of a history whose risk is told, the newest ones.
_JUDGED: Final = 200

#: A session's id or name, which is optional, and the number of a page.
_PAGE: Final = re.compile(r"(?:(.*\S)\s+)?(\d{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList(Target):
    """``query`` is searched for in titles, names and messages."""

    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession(SessionInfo):
    """``snippet`` shows where the words of the query were found; null without a query."""

    snippet: str | None = None


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a workspace."""

    sessions: list[SessionInfo | ListedSession]


_read_list = whole(SessionList, "query")


@operation(
    "session.list",
    SessionList,
    Line("session", help="earlier sessions, and how to continue one"),
    Line("session list", "[TEXT]", "", _read_list),
    Line("sessions", "[TEXT]", "the sessions of this workspace, or those about TEXT", _read_list),
    shows=True,
)
async def listed(caller: Caller, params: SessionList) -> Answer[Sessions]:
    """The sessions of the workspace, the most recently written first.

    `questions` counts what the user asked, with questions that were asked again counted once;
    `turns` counts all messages; `cost` is in dollars. A session is listed from its first question
    on. With a `query`, only sessions that contain all of its words are listed, in any case: in the
    title and the name together, or in one message. Each then has a `snippet` from that place.

    Raises:
        StoreUnavailable: their folder cannot be read.
    """
    sessions, open_id = caller.workspace.sessions, caller.session.id
    query = (params.query or "").strip()
    if not query:
        infos = await sessions.all()
        sessions.numbered = tuple(info.id for info in infos)
        return Answer(Sessions([*infos]), listed_page(infos, open_id))
    hits = await sessions.search(query)
    sessions.numbered = tuple(one.session.id for one in hits)
    rows: list[SessionInfo | ListedSession] = [
        ListedSession(**dataclasses.asdict(one.session), snippet=one.snippet) for one in hits
    ]
    return Answer(Sessions(rows), found_page(hits, open_id, query))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNew(Target):
    """``show``: the chat shows it instead of the current session, which otherwise stays shown."""

    show: bool = True


@dataclass(frozen=True, slots=True)
class SessionId:
    """A session's id."""

    id: str


@operation("session.new", SessionNew, Line("session new"))
async def new(caller: Caller, params: SessionNew) -> Answer[SessionId]:
    """Begin a new session.

    It starts with no turns, summary, pending output, suggestions or costs; memory, project and
    model stay the same. It replaces the session that the chat shows, which is `busy` while a
    question is being answered or a command runs there. With `show` false that one stays shown, and
    both can answer at the same time: other commands name the new one as `session`. It stays open
    until it is deleted or the workspace closes; `aish.session.resume` shows it.

    Raises:
        Busy: a question is being answered in the shown session, or a command runs there.
    """
    session = await caller.workspace.sessions.new(show=params.show)
    return Answer(SessionId(session.id), f"A new session has begun: {session.id}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResume(Target):
    """``id`` is a session's id, name or title, or its number in the list that was last shown.

    By default it is the last session that is not open.
    ``show`` is as for *new*.
    """

    id: str | None = None
    show: bool = True


@dataclass(frozen=True, slots=True)
class Continued:
    """A session's id, and how many messages are in force in it."""

    id: str
    turns: int


_read_resume = whole(SessionResume, "id")


@operation(
    "session.resume",
    SessionResume,
    Line("session resume", "[N|ID]", "", _read_resume),
    Line(
        "resume",
        "[N|ID]",
        "continue an earlier session by its number in `:sessions`, its id or name, or the last one",
        _read_resume,
    ),
    needs_settings=True,
)
async def resume(caller: Caller, params: SessionResume) -> Answer[Continued]:
    """Continue an earlier session, by default the last one that is not open anywhere.

    It continues in its own file, with its turns, summary, pending output, costs, the suggestions of
    its last reply that were not run, and the model it was switched to. `turns` counts the messages
    in force. The chat shows it instead of the current one, which is `busy` while a question is
    being answered or a command runs; so is a session that another editor has open. With `show`
    false the current one stays shown, as with `aish.session.new`. Damaged parts are left out,
    and the user is told. A session from a newer version continues in a copy, whose `id` is
    returned.

    Raises:
        Busy: a question is being answered or a command runs here, or the session is open elsewhere.
        NotFound: there is no such session; the message names the nearest.
        StoreUnavailable: the session cannot be read or written.
    """
    resumed = await caller.workspace.sessions.resume(params.id, show=params.show)
    return await _continued(caller, resumed)


async def _continued(caller: Caller, resumed: Resumed) -> Answer[Continued]:
    session = resumed.session
    title = session.recorder.title
    name = f"“{escaped(title)}”" if title else f"Session {session.id}"
    text = f"{name} continues, with {count_of(resumed.messages, 'message')}."
    waiting = len(session.last_turn_suggestions)
    if waiting:
        text += f" {count_of(waiting, 'suggested command')} can still be run."
    if pursuit := unfinished(await session.recorder.history()):
        goal = escaped(pursuit.goal)[:80]
        text += f" Its goal was not reached, *{goal}*: `:norris resume` continues."
    caller.tell(resumed.notices)
    return Answer(Continued(session.id, resumed.messages), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFork(SessionTarget):
    """``turn_id`` names the exchange before which to fork; ``show`` is as for *new*."""

    turn_id: str
    show: bool = True


def _read_fork(caller: Caller, argument: str) -> SessionFork:
    asked = [
        message.exchange
        for message in caller.session.conversation.messages
        if message.role == "user"
    ]
    is_number = argument.isdecimal() and len(argument) <= _DIGITS
    if argument and not (is_number and 0 < int(argument) <= len(asked)):
        raise InvalidArgument(
            "Say before which question to fork: `:session fork 1` is before the last one,"
            " `:session fork 2` before the one before that."
        )
    if not asked:
        raise NotFound("There is no question in this session yet to fork before.")
    return SessionFork(turn_id=asked[-int(argument or 1)])


@operation("session.fork", SessionFork, Line("session fork", "[N]", "", _read_fork))
async def fork(caller: Caller, params: SessionFork) -> Answer[Continued]:
    """Begin a new session with what was said before an exchange.

    Its question can then be asked in another way; the original session stays as it is. `turns`
    counts the messages in force; `show` is as for `aish.session.new`.

    Raises:
        NotFound: no exchange that is still sent has this id.
        Busy: a question is being answered in the shown session, or a command runs there.
        StoreUnavailable: a session cannot be read or written.
    """
    sessions = caller.workspace.sessions
    parted = await sessions.fork(caller.session, params.turn_id, show=params.show)
    carried = count_of(parted.messages, "message")
    text = f"Session {parted.session.id} begins with {carried}: what was said before that question."
    return Answer(Continued(parted.session.id, parted.messages), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSave(SessionTarget):
    """``name`` is the session's name from now on; no other session may have it."""

    name: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A session's id and its name."""

    id: str
    name: str


_read_save = whole(SessionSave, "name", "Say which: `:session save NAME`.")


@operation(
    "session.save",
    SessionSave,
    Line("session save", "NAME", "", _read_save),
    Line("save", "NAME", "give this session a name", _read_save),
)
async def save(caller: Caller, params: SessionSave) -> Answer[Saved]:
    """Give the open session a name.

    Raises:
        InvalidArgument: the name is not valid, or another session has it.
        StoreUnavailable: the name cannot be written.
    """
    session = caller.session
    name = await caller.workspace.sessions.save(session, params.name)
    text = f"This session is saved as {name}. `:resume {name}` continues it."
    return Answer(Saved(session.id, name), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDelete(Target):
    """``id`` is a session's id, or the name it was saved under."""

    id: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many sessions were deleted."""

    deleted: int


_WHICH: Final = "Say which: `:session delete ID`; `:session list` shows ids."


@operation(
    "session.delete",
    SessionDelete,
    Line("session delete", "ID", "", whole(SessionDelete, "id", _WHICH)),
)
async def delete(caller: Caller, params: SessionDelete) -> Answer[Deleted]:
    """Delete a session for good.

    The server asks the user, and only a yes counts. `deleted` is 1, or 0 after a no. A session is
    `busy` if the chat shows it, something runs in it, or another editor has it open.

    Raises:
        Busy: the session is shown, something runs in it, or another editor has it open.
        Denied: nobody could be asked.
        NotFound: there is no such session; the message names the nearest.
        StoreUnavailable: the session cannot be deleted.
    """
    deleted = await caller.workspace.sessions.delete(params.id)
    return Answer(Deleted(int(deleted)), "Deleted." if deleted else "Not deleted.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistory(SessionTarget):
    """``id`` is a session's id or name, by default the open session's."""

    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _HistoryPage(SessionHistory):
    """One page of the history, as the chat shows it; the first page is the newest."""

    page: int = 1


@dataclass(frozen=True, slots=True)
class History:
    """What was said."""

    turns: list[HistoryMessage]


def _read_history(_caller: Caller, argument: str) -> _HistoryPage:
    match = _PAGE.fullmatch(argument)
    key = (match[1] or "") if match else argument
    return _HistoryPage(id=key or None, page=int(match[2]) if match else 1)


@operation(
    "session.history",
    SessionHistory,
    Line("session history", "[ID] [PAGE]", "", _read_history),
    Line(
        "history",
        "[ID] [PAGE]",
        "what was said in this session, or in another: a page",
        _read_history,
    ),
    shows=True,
)
async def said(caller: Caller, params: SessionHistory) -> Answer[History]:
    """Everything that was said in a session, the oldest first.

    `inForce` is false for what is no longer sent, as it was evicted or reset, or got no answer. In
    the open session, `turnId` names a question that can be asked again. The newest 200 commands are
    as in `aish.commands.list`, with the risk that they have now; the others have `id` and `text`.

    Raises:
        NotFound: there is no such session; the message names the nearest.
        StoreUnavailable: the session cannot be read.
    """
    loaded = await caller.workspace.sessions.history(params.id or caller.session.id)
    caller.tell(loaded.notices[:1])
    page = ""
    if isinstance(params, _HistoryPage):
        page = history_page(loaded, params.page, f":history {params.id or ''}".rstrip())
    asked = {
        message.n: message.exchange
        for message in caller.session.conversation.messages
        if message.exchange and loaded.id == caller.session.id
    }
    messages = await _with_risks(_with_titles(history(loaded, asked)), caller.session)
    return Answer(History(messages), page)


async def _with_risks(messages: list[HistoryMessage], session: Session) -> list[HistoryMessage]:
    """Return messages whose newest commands are judged: a long session has thousands.

    What else there is to do has its turn after each message: all together take half a second.
    """
    left = _JUDGED
    for at, message in reversed([*enumerate(messages)]):
        if commands := message.commands[:left]:
            left -= len(commands)
            found = {id_: one for id_, one, _ in suggested_in(message.content, commands)}
            infos = {id_: to_wire(session.judged(one, id_)) for id_, one in found.items()}
            shown = tuple(infos.get(one["id"], one) for one in message.commands)
            messages[at] = dataclasses.replace(message, commands=shown)
            await asyncio.sleep(0)
    return messages


def _with_titles(messages: list[HistoryMessage]) -> list[HistoryMessage]:
    """Return messages whose tool calls have a ``title``; one without a result was not made."""
    results = {one.tool_call_id: one for one in messages if one.role == "tool"}

    def titled(call: Mapping[str, Any]) -> Mapping[str, Any]:
        server, name = parts_of(call["name"])
        result = results.get(call["id"])
        status, content = (result.status or "done", result.content) if result else ("denied", "")
        made = (server or OWN_TOOLS, name, call["arguments"])
        return {**call, "title": call_title(*made, status, content)}

    return [
        dataclasses.replace(message, tool_calls=tuple(map(titled, message.tool_calls)))
        for message in messages
    ]
