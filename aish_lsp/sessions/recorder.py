"""What a session writes: its log, and the usage of its calls.

A full disk does not stop a conversation: the user is told once what could not be written.

``usage.jsonl`` holds what each call to a model used, across sessions. The functions that read and
write it block.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from aish_lsp.context.usage import MOST, UsageRecord, tokens_of
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.events import camel_case, to_wire
from aish_lsp.foundation.files import append_line, open_append
from aish_lsp.foundation.jsonl import json_line, now, read_jsonl
from aish_lsp.foundation.locks import locked
from aish_lsp.foundation.validate import structure
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import LoadedSession, load

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.messages import ExecOutput, Message
    from aish_lsp.foundation.events import Usage
    from aish_lsp.models.request import StoredReasoning, ToolCall
    from aish_lsp.shell.suggestions import CommandInfo

R = TypeVar("R")


class Recorder:
    """Writes one session, in threads, so that a slow disk or a held lock delays nothing else.

    The session is that of ``log``, or a new one.

    Lines are written in the order in which the methods were called. Cancelling a call does
    not cancel its write.
    """

    def __init__(
        self,
        folder: Path,
        workspace_uri: str | None,
        redact: Callable[[str], str],
        log: SessionLog | None = None,
    ) -> None:
        self._usage_path = folder / "usage.jsonl"
        self._log = log or SessionLog.create(folder / "sessions", workspace_uri, redact)
        self._warnings: list[str] = []
        self._reported: dict[str, str] = {}
        self._set_threads()

    def _set_threads(self) -> None:
        """Provide a thread for each file; it starts with the first write.

        They are separate, since usage may wait long for other processes and the log never does.
        """
        self._log_thread = ThreadPoolExecutor(1, "session log")
        self._usage_thread = ThreadPoolExecutor(1, "usage")

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._log.id

    @property
    def session_path(self) -> Path:
        """The session's log; the file exists once something has been written."""
        return self._log.path

    @property
    def title(self) -> str | None:
        """The first question's first line; None before it."""
        return self._log.title

    async def save(self, name: str) -> None:
        """Save the session under a name.

        Raises:
            StoreUnavailable, Busy: it could not be written.
        """
        await self._in_order(self._log_thread, lambda: self._log.set_name(name))

    async def settled(self) -> None:
        """Wait until everything that is to be written to the log so far is written."""
        await self._in_order(self._log_thread, lambda: None)

    async def history(self) -> LoadedSession:
        """Return what has been written so far; nothing before the first question.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        await self.settled()
        try:
            return await asyncio.to_thread(load, self.session_path, newer=True)
        except NotFound:
            return LoadedSession(self.session_id, {}, ())

    async def question(self, question: Message, again: int = 0, *, is_step: bool = False) -> int:
        """Write a question down, synced; return its number, 0 if it could not be written.

        ``again`` is the number of the question that it asks again, 0 for none; ``is_step`` says
        whether the autonomous loop asked it.
        """
        outputs = [asdict(output) for output in question.exec]
        about = [asdict(part) for part in question.attached]
        meta = records.STEP if is_step else None
        record = records.user(
            question.content,
            outputs,
            about,
            turn_id=question.exchange or None,
            again=again or None,
            meta=meta,
        )
        return await self._append(record, sync=True)

    async def reply(
        self,
        text: str,
        model: str,
        finish: str,
        usage: Usage | None,
        *,
        reasoning: StoredReasoning | None,
        tool_calls: Sequence[ToolCall],
        commands: Sequence[CommandInfo],
    ) -> int:
        """Write down a model's reply, whole or cut off, synced; return its number."""
        record = records.assistant(
            text,
            model,
            finish=finish,
            reasoning=asdict(reasoning) if reasoning else None,
            tool_calls=[
                {name: value for name, value in asdict(call).items() if name != "extra" or value}
                for call in tool_calls
            ],
            usage=_usage_fields(usage),
            commands=[{"id": command.id, "text": command.text} for command in commands],
        )
        return await self._append(record, sync=True)

    async def tool_result(self, call_id: str, result: str, status: str = "done") -> int:
        """Write down a tool's result, and how the call ended; return its number."""
        return await self._append(records.tool(call_id, result, status))

    async def extraction(self, text: str, model: str, finish: str, usage: Usage | None) -> None:
        """Write down that a model looked for what to remember, and what it said.

        Both messages are marked as a summarizer's own. The question is only named, since it would
        repeat the log.
        """
        meta, used = records.SUMMARIZE, _usage_fields(usage)
        await self._append(records.user(":memory summarize", meta=meta))
        await self._append(records.assistant(text, model, finish=finish, usage=used, meta=meta))

    async def unanswered(self, n: int) -> None:
        """Write that question ``n`` got no reply."""
        if n:
            await self._logged(lambda: self._log.mark_unanswered(n))

    async def evicted(self, messages: Sequence[Message], summary: str | None = None) -> None:
        """Write that these messages are no longer sent."""
        numbers = [message.n for message in messages if message.n]
        if numbers:
            await self._append(records.evicted(min(numbers), max(numbers), summary))

    async def ran(self, command_id: str, output: ExecOutput) -> None:
        """Write down what a command printed, which the next question carries."""
        await self._append(records.ran(command_id, asdict(output)), sync=True)

    async def pursued(self, status: Literal["start", "step", "end"], **fields: Any) -> None:
        """Write down what the autonomous loop did."""
        await self._append(records.norris(status, **fields), sync=True)

    async def reset(self) -> None:
        """Write that the conversation started over."""
        await self._append(records.reset(), sync=True)

    async def dismissed(self, command_id: str) -> None:
        """Write that a suggestion was dropped."""
        await self._append(records.dismissed(command_id))

    async def costs_reset(self) -> None:
        """Write that costs are counted from zero again."""
        path, session = self._usage_path, self.session_id
        try:
            # After the earlier calls, some of which may not be written yet.
            before = await self._in_order(self._usage_thread, lambda: read_usage(path, session))
        except AishError as error:
            self._failed("session", f"This session is not being saved: {error.message}")
            return
        await self._append(records.costs_reset(len(before)), sync=True)

    async def model(self, name: str) -> None:
        """Write that this model answers from now on."""
        await self._append(records.model(name))

    async def usage(
        self, preset: Preset, category: str, usage: Usage, *, local: bool, estimated: bool
    ) -> None:
        """Add a call to ``usage.jsonl``."""
        record = UsageRecord(
            ts=now(),
            session=self.session_id,
            model=preset.name,
            provider=preset.provider,
            category=category,
            **tokens_of(usage),
            cost=usage.cost,
            local=local,
            estimated=estimated,
        )
        try:
            await self._in_order(self._usage_thread, lambda: append_usage(self._usage_path, record))
        except AishError as error:
            self._failed("usage", f"Usage and costs are not being saved: {error.message}")
        else:
            self._reported.pop("usage", None)

    def usage_of_all_sessions(self) -> list[UsageRecord]:
        """Return every call of this workspace.

        Raises:
            StoreUnavailable: the file cannot be read.
        """
        return read_usage(self._usage_path)

    def drain_warnings(self) -> list[str]:
        """Return what could not be written, each once; again if writing worked in between."""
        troubles, self._warnings = self._warnings, []
        return troubles

    async def aclose(self) -> None:
        """Wait until everything is written, close the file, and end the threads.

        A later write opens the file again.
        """
        threads = self._usage_thread, self._log_thread
        await self._in_order(self._usage_thread, lambda: None)
        await self._in_order(self._log_thread, self._log.close)
        self._set_threads()
        for thread in threads:
            thread.shutdown(wait=False)

    async def _in_order(self, thread: ThreadPoolExecutor, write: Callable[[], R]) -> R:
        """Write in a thread, after earlier writes; cancelling this does not stop the write."""
        return await asyncio.shield(asyncio.wrap_future(thread.submit(write)))

    async def _append(self, record: Mapping[str, Any], *, sync: bool = False) -> int:
        """Append a line; return its number, 0 if it could not be written."""
        return await self._logged(lambda: self._log.append(record, sync=sync)) or 0

    async def _logged(self, write: Callable[[], R]) -> R | None:
        try:
            written = await self._in_order(self._log_thread, write)
        except AishError as error:
            self._failed("session", f"This session is not being saved: {error.message}")
            return None
        self._reported.pop("session", None)
        return written

    def _failed(self, what: str, trouble: str) -> None:
        if self._reported.get(what) != trouble:
            self._reported[what] = trouble
            self._warnings.append(trouble)


def _usage_fields(usage: Usage | None) -> dict[str, Any] | None:
    """Return a usage as the log has it."""
    if usage is None:
        return None
    return {key: value for key, value in to_wire(usage).items() if key != "kind"}


_KEYS: Final = frozenset(camel_case(field.name) for field in fields(UsageRecord))


def append_usage(path: Path, record: UsageRecord) -> None:
    """Add a call to ``usage.jsonl``; return once it is on disk.

    Raises:
        Busy: another process held the file for too long.
        StoreUnavailable: it could not be written.
    """
    line = json_line(to_wire(record))
    with locked(path):
        fd = open_append(path)
        try:
            append_line(fd, path, line, sync=True)
        finally:
            os.close(fd)


def read_usage(path: Path, session: str | None = None) -> list[UsageRecord]:
    """Return the calls of one session, or of all, in order. Damaged lines are left out.

    Raises:
        StoreUnavailable: the file exists and cannot be read.
    """
    lines = (line for _, line in read_jsonl(path) if isinstance(line, dict))
    calls = (_call(line) for line in lines if session in (None, line.get("session")))
    return [call for call in calls if call is not None]


def _call(line: dict[str, Any]) -> UsageRecord | None:
    """Return a line's call, or None if a field is missing or of the wrong type."""
    fields = {key: value for key, value in line.items() if key in _KEYS}
    try:
        return structure(fields, UsageRecord, camel_case=True)
    except InvalidArgument:
        return None


def read_costs(path: Path) -> dict[str, float | None]:
    """Return the dollars of each session; None if none of its calls had a price.

    What is not a session or a cost is left out.

    Raises:
        StoreUnavailable: the file exists and cannot be read.
    """
    sums: dict[str, float | None] = {}
    for _, line in read_jsonl(path):
        if not isinstance(line, dict) or not isinstance(session := line.get("session"), str):
            continue
        cost = line.get("cost")
        before = sums.setdefault(session, None)
        if isinstance(cost, int | float) and cost is not True and 0 <= cost <= MOST:
            sums[session] = (before or 0.0) + cost
    return sums
