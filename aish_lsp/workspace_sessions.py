"""The sessions of a workspace: the one that is open, and those that can be gone back to.

One process at a time writes a session: it holds a lock on the log for as long as it is open there.
A session that is open elsewhere can be read, and is neither resumed nor deleted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from aish_lsp.conversation.usage import UsageTotals
from aish_lsp.errors import AishError, Busy, Denied, InvalidArgument, NotFound, StoreUnavailable
from aish_lsp.questions import Question
from aish_lsp.resumption import Resumption, resumption
from aish_lsp.sessions.listing import delete_session, find_session, list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.reading import LoadedSession, load
from aish_lsp.sessions.records import SUMMARIZE
from aish_lsp.sessions.search import search
from aish_lsp.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

    from aish_lsp.sessions.listing import SessionInfo
    from aish_lsp.sessions.search import Found
    from aish_lsp.workspace import Workspace

R = TypeVar("R")

#: Characters of a session's name.
NAME_LIMIT: Final = 80


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session that goes on.

    Attributes:
        id: its id; of a copy, the copy's.
        turns: how many messages of it are in force.
        notices: what the user should know of it.
    """

    id: str
    turns: int
    notices: tuple[str, ...] = ()


class Sessions:
    """The open session of ``workspace`` and those before it, by id or by name."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._recorder = workspace.recorder
        self._switching: asyncio.Task[Any] | None = None

    @property
    def open_id(self) -> str:
        """The id of the session that is open."""
        return self._recorder.session_id

    async def all(self) -> list[SessionInfo]:
        """Return all that were written to, the last one first.

        Raises:
            StoreUnavailable: their folder cannot be read.
        """
        await self._recorder.settled()
        return await asyncio.to_thread(self._listed)

    async def search(self, query: str) -> list[Found]:
        """Return the sessions in which all words of ``query`` stand, the last one first.

        Raises:
            StoreUnavailable: their folder cannot be read.
        """
        infos = await self.all()
        return await asyncio.to_thread(search, self._recorder.sessions, infos, query)

    def _listed(self) -> list[SessionInfo]:
        try:
            dollars = self._recorder.costs()
        except StoreUnavailable:
            dollars = {}
        return list_sessions(self._recorder.sessions, dollars)

    async def new(self) -> str:
        """Begin a new session; return its id. The model and the memory stay.

        Raises:
            Busy: a question is being answered, or a command runs.
        """
        return await self._switch(self._new)

    async def _new(self) -> str:
        await self._recorder.switch()
        self._workspace.go_on(Resumption(), UsageTotals())
        return self.open_id

    async def resume(self, key: str) -> Resumed:
        """Go on with the session that has this id or name.

        One from a newer version is gone on with in a copy, of what is understood of it.

        Raises:
            Busy: a question is being answered or a command runs here; or it is open elsewhere.
            NotFound: there is none; the message names the nearest.
            StoreUnavailable: it cannot be read or written.
        """
        path = await self._find(key)
        if path == self._recorder.session_path:
            return Resumed(self.open_id, len(self._workspace.conversation.turns))
        resumed, model = await self._switch(lambda: self._resume(path))
        return resumed if model is None else await self._with_model(resumed, model)

    async def _resume(self, path: Path) -> tuple[Resumed, str | None]:
        """Go on with the log at ``path``; return the model that it was switched to, too."""
        log, loaded = await asyncio.to_thread(_open, path, self._recorder.redact)
        try:
            found = resumption(loaded)
            notices = _told(loaded, log.id)
            usage = await asyncio.to_thread(self._used, loaded.id, found.calls_before, notices)
        except BaseException:
            log.close()
            raise
        await self._recorder.switch(log)
        self._workspace.go_on(found, usage)
        return Resumed(log.id, len(found.turns), tuple(notices)), found.model

    def _used(self, session_id: str, reset_at: int, notices: list[str]) -> UsageTotals:
        """Return what a session has used since the call ``reset_at``; or say that nobody knows."""
        try:
            return UsageTotals.of(self._recorder.usage_of(session_id)[reset_at:])
        except StoreUnavailable as error:
            notices.append(f"What the session has cost is not known: {error.message}")
            return UsageTotals()

    async def _with_model(self, resumed: Resumed, name: str) -> Resumed:
        """Have the model answer that the session was switched to, if it is still there."""
        workspace = self._workspace
        try:
            await workspace.answer_with(name)
        except AishError as error:
            notice = f"{error.message} {workspace.active_model} answers in this session now."
            return Resumed(resumed.id, resumed.turns, (*resumed.notices, notice))
        return resumed

    async def save(self, name: str) -> str:
        """Save the open session under a name; return the name.

        Raises:
            InvalidArgument: it is no name, or another session has it.
            StoreUnavailable: it could not be written.
        """
        name = name.strip()
        if not name or len(name) > NAME_LIMIT or escaped(name) != name:
            msg = f"A name has 1 to {NAME_LIMIT} visible characters on one line."
            raise InvalidArgument(msg, path="name")
        infos = await asyncio.to_thread(list_sessions, self._recorder.sessions)
        others = [info for info in infos if info.id != self.open_id]
        taken = next((info.id for info in others if name in (info.id, info.name)), None)
        if taken is not None:
            msg = f"The session {taken} has that name. Choose another, or delete that session."
            raise InvalidArgument(msg, path="name")
        await self._recorder.save(name)
        return name

    async def delete(self, key: str) -> bool:
        """Delete a session for good, if the user says yes; return whether they did.

        What it has cost stays in the sum of all sessions.

        Raises:
            Busy: it is open, here or in another editor.
            Denied: nobody could be asked.
            NotFound: there is none; the message names the nearest.
            StoreUnavailable: it cannot be deleted.
        """
        path = await self._find(key)
        if path == self._recorder.session_path:
            raise Busy("That session is open here. Begin another (`:session new`), then delete it.")
        loaded = await asyncio.to_thread(load, path, newer=True)
        turns = sum(
            "role" in record and record.get("meta") != SUMMARIZE for record in loaded.records
        )
        question = Question(
            f"Delete the session {loaded.id} for good?\n\n"
            f"{escaped(str(loaded.meta.get('name') or loaded.meta.get('title') or 'No title'))}\n"
            f"{turns} turns",
            yes="Delete",
        )
        answer = await self._workspace.services.ask_user(question)
        if answer is None:
            msg = f"Not deleted: nobody could be asked. To delete it all the same, remove {path}."
            raise Denied(msg)
        if answer:
            await asyncio.to_thread(delete_session, self._recorder.sessions, loaded.id)
        return answer

    async def history(self, key: str | None = None) -> LoadedSession:
        """Return what was written down of a session, the open one if none is named.

        Raises:
            NotFound: there is none; the message names the nearest.
            StoreUnavailable: it cannot be read.
        """
        await self._recorder.settled()
        path = self._recorder.session_path if key is None else await self._find(key)
        try:
            return await asyncio.to_thread(load, path, newer=True)
        except NotFound:
            if path != self._recorder.session_path:
                raise
            # Nothing was asked yet.
            return LoadedSession(self.open_id, {}, ())

    async def _find(self, key: str) -> Path:
        """Return the log of a session; the open one has none before its first question."""
        if key == self.open_id:
            return self._recorder.session_path
        return await asyncio.to_thread(find_session, self._recorder.sessions, key)

    async def _switch(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Do ``work`` between two turns, to its end even where nobody waits for it any more.

        Raises:
            Busy: a question is being answered, or a command runs.
        """
        self._refuse_while_busy()

        async def take_turn() -> R:
            async with self._workspace.turn_lock:
                return await work()

        task = asyncio.create_task(take_turn(), name="switch to another session")
        self._switching = task
        return await asyncio.shield(task)

    def _refuse_while_busy(self) -> None:
        # To stop it would cut a reply off; to go on would write it into the wrong session.
        if not self._workspace.jobs:
            return
        running = ", ".join(label for label in self._workspace.jobs.labels if label)
        what = f"`{escaped(running)[:120]}` runs" if running else "A question is being answered"
        raise Busy(
            f"{what} in this session. Wait until it ends, or stop it (`aish.cancel`), then try"
            " again."
        )


def _open(path: Path, redact: Callable[[str], str]) -> tuple[SessionLog, LoadedSession]:
    """Open a log to go on in it, or in a copy where it is from a newer version. Blocks."""
    loaded = load(path, newer=True)
    if loaded.newer:
        return SessionLog.copy(loaded, path, redact), loaded
    return SessionLog.resume(path, redact)


def _told(loaded: LoadedSession, log_id: str) -> list[str]:
    """Return what the user is told of a log that is gone on with."""
    notices = list(loaded.notices)
    if loaded.newer:
        notices.append(
            f"The session {loaded.id} is from a newer version of aish. It was not changed: what"
            f" this version understands of it goes on in a copy, {log_id}."
        )
    return notices
