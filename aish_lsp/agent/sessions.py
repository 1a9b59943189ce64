"""The sessions of a workspace: those that are open, and earlier ones that can be resumed.

Only one process at a time writes to a session: it locks the log while the session is open. Other
processes can read that session, but neither resume nor delete it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from aish_lsp.agent.model_choice import ModelChoice
from aish_lsp.agent.session import Session
from aish_lsp.context.usage import UsageTotals
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import (
    AishError,
    Busy,
    Denied,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
)
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import escaped
from aish_lsp.sessions.listing import (
    delete_session,
    find_session,
    last_session,
    list_sessions,
    search,
)
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.rebuild import (
    Resumption,
    open_to_resume,
    records_before,
    resumption,
)
from aish_lsp.sessions.recorder import Recorder, read_costs, read_usage
from aish_lsp.sessions.records import SUMMARIZE, LoadedSession, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from pathlib import Path
    from typing import Any

    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.sessions.listing import SearchHit, SessionInfo

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: The most characters that a session's name may have.
NAME_LIMIT: Final = 80
#: Digits of a session's number in a list.
_DIGITS: Final = 5


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session that was resumed.

    Attributes:
        session: the session, or the copy in which it continues.
        messages: how many messages its conversation had when it was resumed.
        notices: what the user should know about it.
    """

    session: Session
    messages: int
    notices: tuple[str, ...] = ()


class OpenSessions:
    """The sessions of a workspace, found by id or by name. Their files are in its ``data`` folder.

    Several can be open and answer at the same time. The editor shows one of them.

    Attributes:
        shown: the session that the editor shows.
        begun_with: the earlier session that ``begin`` resumed, if any.
        numbered: the ids of the sessions that the user was last shown a list of, in its order.
    """

    def __init__(self, workspace: FolderContext) -> None:
        self._workspace = workspace
        self._logs = workspace.data / "sessions"
        self._usage = workspace.data / "usage.jsonl"
        self._changing = asyncio.Lock()
        self._replacing: asyncio.Task[Any] | None = None
        self._opening: set[asyncio.Task[Any]] = set()
        self.begun_with: Resumed | None = None
        self.numbered: tuple[str, ...] = ()
        models = ModelChoice(workspace.services, workspace.folder, lambda: workspace.config)
        self.shown = Session(workspace, self._recorder(), models)
        # The sessions that were opened beside the shown one. They stay open when it is replaced.
        self._beside: list[Session] = []

    def _recorder(self, log: SessionLog | None = None) -> Recorder:
        root = self._workspace.root
        uri = root.as_uri() if root else None
        return Recorder(self._workspace.data, uri, self._workspace.without_secrets, log)

    def begin(self) -> Awaitable[Resumed | None]:
        """Resume the last session if ``sessions.resume`` says so once the settings are known.

        ``named`` waits until that is done. Await the result to get the resumed session.
        """
        return asyncio.shield(self._start(self._begin, show=True))

    async def _begin(self) -> Resumed | None:
        await self._workspace.services.settled(self._workspace.root)
        if self._workspace.config.sessions.resume != "always":
            return None
        try:
            last = await self.last()
            self.begun_with = await self._resume(last.id, show=True) if last else None
        except AishError as error:
            logger.warning("the last session is not resumed: %s", error.message)
        return self.begun_with

    @property
    def open(self) -> list[Session]:
        """The sessions that are open here, the shown one first."""
        return [self.shown, *(session for session in self._beside if session is not self.shown)]

    async def named(self, session_id: str | None) -> Session:
        """Return the open session with this id, or the shown one.

        While the shown session is being replaced, wait: the user means the new one.

        Raises:
            NotFound: no session with this id is open here.
        """
        while self._replacing is not None and not self._replacing.done():
            await asyncio.wait([self._replacing])
        if session_id is None:
            return self.shown
        for session in self.open:
            if session.id == session_id:
                return session
        ids = ", ".join(session.id for session in self.open)
        raise NotFound(f"The session {session_id[:80]!r} is not open here. Open: {ids}.")

    async def all(self) -> list[SessionInfo]:
        """Return all sessions that have a log, the latest first.

        Raises:
            StoreUnavailable: their folder cannot be read.
        """
        for session in self.open:
            await session.recorder.settled()
        return await asyncio.to_thread(self._listed)

    async def search(self, query: str) -> list[SearchHit]:
        """Return the sessions that contain all words of ``query``, the latest first.

        Raises:
            StoreUnavailable: their folder cannot be read.
        """
        infos = await self.all()
        return await asyncio.to_thread(search, self._logs, infos, query)

    def _listed(self) -> list[SessionInfo]:
        try:
            dollars = read_costs(self._usage)
        except StoreUnavailable:
            dollars = {}
        return list_sessions(self._logs, dollars)

    async def new(self, *, show: bool = True) -> Session:
        """Begin a new session, with the same model and memory, and return it.

        It replaces the shown session, or is opened beside it.

        Raises:
            Busy: the shown session is answering a question or running a command.
        """
        if not show:
            # Do not wait for another session that is being opened: the user may be asked there.
            return await self._opened(self._session(), show=False)

        async def replace_shown() -> Session:
            _refuse_while_busy(self.shown)
            return await self._opened(self._session(), show=True)

        return await asyncio.shield(self._start(replace_shown, show=True))

    def _session(
        self,
        log: SessionLog | None = None,
        before: Resumption | None = None,
        usage: UsageTotals | None = None,
    ) -> Session:
        """Open a session in which the same model answers as in the shown one."""
        models = self.shown.models.copy()
        return Session(self._workspace, self._recorder(log), models, before, usage)

    async def last(self) -> SessionInfo | None:
        """Return the latest session that is not open, here or elsewhere; None if there is none.

        Raises:
            StoreUnavailable: their folder cannot be read.
        """
        taken = {session.id for session in self.open}
        return await asyncio.to_thread(last_session, self._logs, taken)

    async def resume(self, key: str | None, *, show: bool = True) -> Resumed:
        """Resume the session that has this id or name, or the ``last`` one.

        It replaces the shown session, or is opened beside it. A session from a newer version
        continues in a copy, which has only what this version understands.

        Raises:
            Busy: the shown session is busy, or the resumed one is open elsewhere.
            NotFound: there is no such session; the message suggests similar names.
            StoreUnavailable: the log cannot be read or written.
        """
        return await asyncio.shield(self._start(lambda: self._resume(key, show=show), show=show))

    async def _resume(self, key: str | None, *, show: bool) -> Resumed:
        if key is None:
            last = await self.last()
            if last is None:
                raise NotFound("There is no earlier session here to continue.")
            key = last.id
        path = await self._find(key)
        is_open = self._open_at(path)
        if is_open is not None and (is_open is self.shown or not show):
            return _resumed(is_open)
        if show:
            _refuse_while_busy(self.shown)
        if is_open is not None:
            return _resumed(await self._opened(is_open, show=True))
        log, loaded = await asyncio.to_thread(open_to_resume, path, self._workspace.without_secrets)
        try:
            state = resumption(loaded)
            notices = list(loaded.notices)
            usage = await asyncio.to_thread(self._used, loaded.id, state.calls_before, notices)
            session = self._session(log, state, usage)
        except BaseException:
            log.close()
            raise
        resumed = _resumed(await self._opened(session, show=show), notices)
        # Before anything is asked in it: the user may not want another model to see it.
        return resumed if state.model is None else await self._with_model(resumed, state.model)

    def _used(self, session_id: str, reset_at: int, notices: list[str]) -> UsageTotals:
        """Return what a session has used since the call ``reset_at``; add a notice if unknown."""
        try:
            return UsageTotals.of(read_usage(self._usage, session_id)[reset_at:])
        except StoreUnavailable as error:
            notices.append(f"The cost of the session is not known: {error.message}")
            return UsageTotals()

    async def _with_model(self, resumed: Resumed, name: str) -> Resumed:
        """Answer with the model that the session was switched to, if it still exists."""
        session = resumed.session
        try:
            await session.answer_with(name)
        except AishError as error:
            notice = f"{error.message} {session.preset.name} answers in this session now."
            return replace(resumed, notices=(*resumed.notices, notice))
        return resumed

    async def fork(self, session: Session, exchange: str, *, show: bool = True) -> Resumed:
        """Begin a session with the messages of an open one before ``exchange``.

        It replaces the shown session, or is opened beside it.

        Raises:
            Busy: the shown session is answering a question or running a command.
            NotFound: no exchange with this id is still sent to the model.
            StoreUnavailable: a log cannot be read or written.
        """
        asked = (message for message in session.conversation.messages if message.role == "user")
        number = next(
            (message.n for message in asked if exchange and message.exchange == exchange), None
        )
        if number is None:
            raise NotFound("That question is no longer sent to the model. Fork at a later one.")
        return await asyncio.shield(
            self._start(lambda: self._fork(session, number, show=show), show=show)
        )

    async def _fork(self, session: Session, number: int, *, show: bool) -> Resumed:
        """Fork ``session`` before the line ``number`` of its log."""
        if show:
            _refuse_while_busy(self.shown)
        whole = await self.history(session.id)
        earlier = replace(whole, records=records_before(whole.records, number))
        if not any("role" in record for record in earlier.records):
            return _resumed(await self._opened(self._session(), show=show))
        path, redact = session.recorder.session_path, self._workspace.without_secrets
        log = await asyncio.to_thread(SessionLog.copy, earlier, path, redact)
        try:
            forked = self._session(log, resumption(earlier))
        except BaseException:
            log.close()
            raise
        return _resumed(await self._opened(forked, show=show))

    async def save(self, session: Session, name: str) -> str:
        """Save an open session under a name; return the name.

        Raises:
            InvalidArgument: the name is not valid, or another session has it.
            StoreUnavailable: the name could not be saved.
        """
        name = name.strip()
        if not name or len(name) > NAME_LIMIT or escaped(name) != name:
            msg = f"A name has 1 to {NAME_LIMIT} visible characters on one line."
            raise InvalidArgument(msg, path="name")
        infos = await asyncio.to_thread(list_sessions, self._logs)
        others = [info for info in infos if info.id != session.id]
        taken = next((info.id for info in others if name in (info.id, info.name)), None)
        if taken is not None:
            msg = f"The session {taken} has that name. Choose another, or delete that session."
            raise InvalidArgument(msg, path="name")
        await session.recorder.save(name)
        return name

    async def close(self, session: Session) -> None:
        """Close a session that was opened beside the shown one; what runs in it is stopped."""
        self._beside.remove(session)
        await session.aclose()

    async def delete(self, key: str, *, agreed: bool = False) -> bool:
        """Delete a session permanently, if the user agrees; return whether they did.

        They are asked, unless they have ``agreed`` already.

        Its cost remains part of the total of all sessions. If it is open beside the shown session,
        it is closed first.

        Raises:
            Busy: the session is shown, something runs in it, or another editor has it open.
            Denied: nobody could be asked.
            NotFound: there is no such session; the message suggests similar names.
            StoreUnavailable: the log cannot be deleted.
        """
        path = await self._find(key)
        if path == self.shown.recorder.session_path:
            raise Busy("That session is open here. Begin another (`:session new`), then delete it.")
        loaded = await asyncio.to_thread(load, path, newer=True)
        count = sum(
            "role" in record and record.get("meta") != SUMMARIZE for record in loaded.records
        )
        question = Question(
            f"Delete the session {loaded.id} for good?\n\n"
            f"{escaped(str(loaded.meta.get('name') or loaded.meta.get('title') or 'No title'))}\n"
            f"{count} turns",
            yes="Delete",
        )
        answer = agreed or await self._workspace.services.ask_user(question)
        if answer is None:
            msg = f"Not deleted: nobody could be asked. To delete it anyway, remove {path}."
            raise Denied(msg)
        if answer:
            session = self._open_at(path)
            if session is not None and session is not self.shown:
                _refuse_while_busy(session)
                await self.close(session)
            await asyncio.to_thread(delete_session, self._logs, loaded.id)
        return bool(answer)

    async def history(self, key: str) -> LoadedSession:
        """Return the log of the session that has this id or name.

        Raises:
            NotFound: there is no such session; the message suggests similar names.
            StoreUnavailable: the log cannot be read.
        """
        path = await self._find(key)
        session = self._open_at(path)
        if session is not None:
            return await session.recorder.history()
        return await asyncio.to_thread(load, path, newer=True)

    async def _find(self, key: str) -> Path:
        """Return the path of a session's log; the file exists only after the first question."""
        for session in self.open:
            if session.id == key:
                return session.recorder.session_path
        try:
            return await asyncio.to_thread(find_session, self._logs, key)
        except NotFound:
            ids = self.numbered or [info.id for info in await self.all()]
            if not (key.isdecimal() and len(key) <= _DIGITS and 0 < int(key) <= len(ids)):
                raise
            return await asyncio.to_thread(find_session, self._logs, ids[int(key) - 1])

    def _open_at(self, path: Path) -> Session | None:
        """Return the open session whose log is at ``path``, if any."""
        matches = (session for session in self.open if session.recorder.session_path == path)
        return next(matches, None)

    async def _opened(self, session: Session, *, show: bool) -> Session:
        """Keep ``session`` open beside the others, or show it from now on.

        If it is shown, the session that was shown before is closed, unless it was itself opened
        beside another.

        Raises:
            Busy: a job has started meanwhile in the session that was shown before.
        """
        if not show:
            self._beside.append(session)
            return session
        before = self.shown
        try:
            _refuse_while_busy(before)
        except Busy:
            if session not in self._beside:
                await session.aclose()
            raise
        self.shown = session
        self._workspace.changed()
        if before not in self._beside:
            await before.aclose()
        return session

    def _start(self, work: Callable[[], Coroutine[Any, Any, R]], *, show: bool) -> asyncio.Task[R]:
        """Begin ``work``, which opens a session. If it will ``show`` it, ``named`` waits for that.

        The work is finished even if nobody awaits it any more.
        """

        async def take_turn() -> R:
            async with self._changing:
                return await work()

        task = asyncio.create_task(take_turn(), name="open a session")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        if show:
            self._replacing = task
        return task

    async def aclose(self) -> None:
        """Stop what runs in any session and close all logs, including those just being opened."""
        while self._opening:
            await asyncio.wait(self._opening)
        await asyncio.gather(*(session.aclose() for session in self.open))


def _resumed(session: Session, notices: Sequence[str] = ()) -> Resumed:
    return Resumed(session, len(session.conversation.messages), tuple(notices))


def _refuse_while_busy(session: Session) -> None:
    """Check that nothing runs in a session that is about to be closed: it would be cut off.

    Raises:
        Busy: a question is being answered, or a command runs.
    """
    if not session.jobs:
        return
    running = ", ".join(label for label in session.jobs.labels if label)
    what = f"`{escaped(running)[:120]}` is running" if running else "A question is being answered"
    raise Busy(f"{what} in this session. Wait until that ends, or stop it, then try again.")
