"""Finds what is worth remembering in a session's log.

The results are only proposals: nothing is added to the memory here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aish_lsp.agent.events import Notice
from aish_lsp.agent.side_call import SideCall
from aish_lsp.context.prompt import fenced, wording
from aish_lsp.context.summary import Fits, Fitted, fitted
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable, NotFound, OverBudget
from aish_lsp.foundation.events import Level
from aish_lsp.foundation.job import Outcome, internal_error, run_uncancellable
from aish_lsp.foundation.text import count_of
from aish_lsp.memory.candidates import MOST, Candidate, candidates
from aish_lsp.models.request import RequestMessage
from aish_lsp.sessions.rebuild import message_of
from aish_lsp.sessions.records import SUMMARIZE
from aish_lsp.shell.suggestions import new_id, without_reasoning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aish_lsp.agent.events import FinishReason
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.messages import Message
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.sessions.records import Record

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extracted:
    """The candidates that were found, for the user to keep, edit or drop."""

    candidates: tuple[Candidate, ...]


def extract(session: Session) -> Job[Extracted]:
    """Begin to look for what is worth remembering in a session."""
    return session.jobs.start(
        new_id(), lambda emit: Extractor(session, emit).extract(), "memory summarize"
    )


class Extractor:
    """Asks a model to name candidates for the memory from the log of ``session``."""

    def __init__(self, session: Session, emit: Emit) -> None:
        self._session = session
        self._emit = emit
        self._call: SideCall | None = None
        self._finish: FinishReason = "stop"

    async def extract(self) -> Outcome[Extracted]:
        """Return the candidates; if the reply broke off, those that had been named by then.

        Raises:
            BackendUnavailable: no model answered.
            OverBudget: no message of the session fits into the model's window.
            AishError: as for a question.
        """
        error: AishError | None = None
        messages: list[Message] = []
        try:
            async with self._session.in_turn(self._emit):
                messages = await self._messages()
                if messages:
                    await self._ask(messages)
        except asyncio.CancelledError:
            self._finish = "cancelled"
        except AishError as failure:
            self._finish, error = "error", failure
        except Exception as failure:
            logger.exception("finding memory candidates failed")
            self._finish, error = "error", internal_error(failure)
        return await run_uncancellable(self._conclude(messages, error))

    async def _conclude(
        self, messages: Sequence[Message], error: AishError | None
    ) -> Outcome[Extracted]:
        """Tell the user how it ended; return what was found, or raise ``error`` if nothing was."""
        for trouble in await self._session.workspace.refresh_memory():
            await self._notice("warning", trouble)
        extracted = await asyncio.to_thread(self._candidates, messages)
        if error is None:
            for notice in self._outcome(messages, extracted):
                await self._notice("info", notice)
        elif extracted:
            await self._notice("warning", f"{error.message} This is what had been found by then.")
        for trouble in await self._session.drain_warnings():
            await self._notice("warning", trouble)
        if error is not None and not extracted:
            raise error
        return Outcome(Extracted(extracted), self._finish, error)

    def _outcome(self, messages: Sequence[Message], found: Sequence[Candidate]) -> Iterator[str]:
        """Yield notices about what the candidates alone do not show."""
        if self._finish == "cancelled":
            yield "Stopped. This is what had been found by then." if found else "Stopped."
        elif not messages:
            yield "Nothing has been said in this session yet."
        elif self._finish == "length":
            yield "The reply reached the model's max_output_tokens, and was cut off there."
        elif self._finish == "repetition":
            yield "The reply was stopped: it kept repeating itself."
        elif not found:
            yield "The model found nothing that is worth remembering."

    async def _messages(self) -> list[Message]:
        """Return the messages of the session since its last reset, the oldest first."""
        loaded = await self._session.recorder.history()
        for notice in loaded.notices:
            await self._notice("warning", notice)
        return [message_of(record) for record in _since_reset(loaded.records)]

    async def _ask(self, messages: Sequence[Message]) -> None:
        preset = await self._preset()
        if preset.provider == "offline":
            raise BackendUnavailable(
                "The offline model cannot read a session. `:model add` connects one that can;"
                " `:remember TEXT` works without one."
            )
        left_out = 0

        def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
            nonlocal left_out
            request = extraction_request(messages, MOST, fits)
            left_out = request.left_out if request else 0
            return request.messages if request else None

        await self._notice(
            "info", f"{preset.name} reads {count_of(len(messages), 'message')} of this session."
        )
        call = self._call = SideCall(self._session, preset, "memory", compose)
        if not await call.complete(self._emit):
            raise OverBudget(
                f"No message of this session fits into {preset.name}'s window. Set"
                " memory.summarizer_model to a model with a larger one."
            )
        self._finish = call.received.finish
        if left_out:
            await self._notice("info", f"The oldest {count_of(left_out, 'message')} did not fit.")
        recorder = self._session.recorder
        await recorder.extraction(call.text, preset.name, self._finish, call.usage)

    async def _preset(self) -> Preset:
        """Return the model to ask: ``memory.summarizer_model``, else the active one."""
        session = self._session
        name = session.workspace.config.memory.summarizer_model
        if name:
            try:
                return (await session.models.choose(name)).preset
            except NotFound as error:
                await self._notice("warning", f"memory.summarizer_model: {error.message}")
        return (await session.models.choose(None)).preset

    def _candidates(self, messages: Iterable[Message]) -> tuple[Candidate, ...]:
        reply = self._call.text if self._call else ""
        if self._finish != "stop":
            # The last line may be incomplete.
            reply = reply.rpartition("\n")[0]
        if not reply:
            return ()
        read: list[str] = []
        for message in messages:
            if message.role == "tool":
                read.append(message.content)
            read += (run.output for run in message.exec)
            read += (part.text for part in message.attached)
        return candidates(
            without_reasoning(reply),
            self._session.workspace.memory.items(),
            # Without what the model said, which repeats what it read.
            said="\n".join(message.content for message in messages if message.role == "user"),
            read="\n".join(read),
        )

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))


def _since_reset(records: Iterable[Record]) -> list[Record]:
    """Return the records of messages since the last reset, without a summarizer's own."""
    since: list[Record] = []
    for record in records:
        if record.get("event") == "reset":
            since = []
        elif "role" in record and record.get("meta") != SUMMARIZE:
            since.append(record)
    return since


def extraction_request(messages: Sequence[Message], most: int, fits: Fits) -> Fitted | None:
    """Return messages that ask for candidates and fit; None if that is impossible.

    Args:
        messages: the session, its oldest message first.
        most: the most candidates that may be named.
        fits: returns whether messages fit into the model's budget.
    """

    def request(notes: Sequence[str]) -> tuple[RequestMessage, ...]:
        transcript = fenced("\n".join(notes))
        return (
            RequestMessage("system", wording("memory").format(most=most)),
            RequestMessage(
                "user",
                f"The conversation:\n{transcript}\n\nName what is worth remembering, in at most"
                f" {most} lines.",
            ),
        )

    return fitted(messages, request, fits)
