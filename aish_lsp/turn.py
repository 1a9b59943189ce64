"""One turn, from the question to its end, as a stream of events.

The editor, the command line and the autonomous loop all drive this one. What is written down is
written before it is told: the question before the request, the reply before the end.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.conversation.budget import Budget, Limits, Prepared
from aish_lsp.conversation.turns import Conversation
from aish_lsp.conversation.usage import Category, is_local
from aish_lsp.errors import AishError, BackendRejected, InvalidArgument
from aish_lsp.events import (
    Command,
    CommandInfo,
    End,
    FinishReason,
    Level,
    Notice,
    Reasoning,
    Route,
    Start,
    Text,
    Usage,
)
from aish_lsp.models.events import Finish, ReasoningMetadata, ToolCall
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.reasoning import reasoning_source
from aish_lsp.models.request import ModelRequest, StoredReasoning
from aish_lsp.sessions.recorder import Reply
from aish_lsp.shell.suggestions import FoundCommand, SuggestionScanner
from aish_lsp.summarizer import Summarizer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from aish_lsp.conversation.counter import Counter
    from aish_lsp.conversation.report import ContextReport
    from aish_lsp.job import Emit
    from aish_lsp.models.catalog import Chosen
    from aish_lsp.models.overflow import Overflow
    from aish_lsp.workspace import Workspace

logger = logging.getLogger(__name__)

#: What a turn's call is accounted as.
_CATEGORY: Final[Category] = "main"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. ``model`` names a preset for it alone; ``ephemeral`` leaves no trace.

    ``notice`` is told to the user before the turn starts.
    """

    prompt: str
    model: str | None = None
    ephemeral: bool = False
    notice: str = ""


@dataclass(frozen=True, slots=True)
class AskResult:
    """What a turn came to. ``error`` is set where the reply broke off."""

    turn_id: str
    session_id: str
    model: str
    text: str
    reasoning: str
    commands: tuple[CommandInfo, ...]
    usage: Usage | None
    finish_reason: FinishReason
    error: dict[str, Any] | None
    evicted_turns: int
    context: ContextReport


class Turn:
    """The state of one turn while it is taken."""

    def __init__(self, workspace: Workspace, ask: Ask, turn_id: str, emit: Emit) -> None:
        self._workspace = workspace
        self._ask = ask
        self._id = turn_id
        self._emit = emit
        self._conversation = Conversation() if ask.ephemeral else workspace.conversation
        self._chosen: Chosen | None = None
        self._counter: Counter | None = None
        self._limit: Limits | None = None
        self._prepared: Prepared | None = None
        self._evicted_turns = 0
        self._question_n: int | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._metadata: ReasoningMetadata | None = None
        self._tool_calls: list[ToolCall] = []
        self._commands: list[CommandInfo] = []
        self._usage: Usage | None = None
        self._finish: FinishReason = "stop"
        self._error: AishError | None = None

    async def take(self) -> AskResult:
        """Take the turn; on cancellation keep what arrived and return it as cut off.

        Raises:
            AishError: nothing of a reply arrived. The question stays in the log as unanswered.
        """
        if not self._ask.prompt.strip():
            raise InvalidArgument("The question is empty.", path="prompt")
        lock = self._workspace.turn_lock
        try:
            if lock.locked():
                await self._notice("info", "Another question is being answered; this one waits.")
            await lock.acquire()
        except asyncio.CancelledError:
            # Nothing was written down yet, and nothing is to be kept.
            self._finish = "cancelled"
            await self._emit(End("cancelled"))
            return self._result()
        try:
            return await self._take_in_turn()
        finally:
            lock.release()

    async def _take_in_turn(self) -> AskResult:
        try:
            await self._prepare()
            await self._receive_or_make_room()
        except asyncio.CancelledError:
            self._finish = "cancelled"
        except AishError as error:
            self._finish, self._error = "error", error
        except Exception as error:
            # What arrived must be kept although the fault is ours.
            logger.exception("a turn failed")
            self._finish, self._error = "error", _own_fault(error)
        await _whole(self._record())
        await self._tell_the_end()
        if self._error is not None and not self._text:
            raise self._error
        return self._result()

    async def _tell_the_end(self) -> None:
        if self._usage is not None:
            await self._emit(self._usage)
        if self._finish == "stop" and not self._text:
            await self._notice("warning", "The model answered with nothing. Ask again.")
        for trouble in self._workspace.troubles():
            await self._notice("warning", trouble)
        await self._emit(End(self._finish, self._error.to_wire() if self._error else None))

    async def _prepare(self) -> None:
        """Write the question down, choose the model, and make the request fit."""
        workspace = self._workspace
        if self._ask.notice:
            await self._notice("info", self._ask.notice)
        await self._write_down()
        for notice in await workspace.refresh():
            await self._notice("warning", notice)
        self._chosen = await workspace.choose_model(self._ask.model)
        if self._chosen.notice and workspace.first_time(self._chosen.notice):
            await self._notice("info", self._chosen.notice)
        preset = self._chosen.preset
        self._counter = workspace.accounting.counter(preset, workspace.config)
        self._limit = await workspace.accounting.limits(preset, workspace.config)
        await self._make_fit(self._limit)
        assert self._prepared is not None
        await self._emit(
            Start(
                turn_id=self._id,
                model=preset.name,
                route=Route("chat", self._chosen.why),
                context_tokens=self._prepared.measure.total,
                token_budget=self._limit.budget,
            )
        )

    async def _make_fit(self, limit: Limits) -> None:
        """Put the request together, evicting what has to go, and see that it may be paid for."""
        assert self._chosen is not None
        assert self._counter is not None
        workspace, preset = self._workspace, self._chosen.preset
        context = workspace.config.context
        summarizer = Summarizer(workspace, preset, self._emit)
        budget = Budget(workspace.blocks(), context, limit, self._counter)
        roll = summarizer.roll if context.summarize and not self._ask.ephemeral else None
        prepared = await budget.prepare(self._conversation, roll)
        await self._tell_what_was_given_up(prepared)
        workspace.accounting.check_cap(preset, workspace.config, prepared.measure.total)
        self._prepared = prepared

    async def _write_down(self) -> None:
        """Log the question; a cancel that comes meanwhile waits until its number is known."""
        turn = self._conversation.append_user(self._ask.prompt)
        if self._ask.ephemeral:
            return
        self._workspace.turn_began(self._id)
        recorder = self._workspace.recorder
        writing = asyncio.create_task(
            recorder.question(turn.content, turn.exec), name="write a question"
        )
        try:
            await asyncio.shield(writing)
        finally:
            self._question_n = await writing
            self._conversation.turns[-1] = replace(turn, n=self._question_n)

    async def _tell_what_was_given_up(self, prepared: Prepared) -> None:
        if prepared.evicted:
            await self._workspace.recorder.evicted(prepared.evicted, prepared.summary)
            self._workspace.meter.evicted()
            self._evicted_turns += len(prepared.evicted)
            became = "were left out" if prepared.summary is None else "went into the summary"
            await self._notice("info", f"{len(prepared.evicted)} old turns {became}.")
        if prepared.cut:
            cut = ", ".join(prepared.cut)
            await self._notice("warning", f"To fit the budget this was cut or left out: {cut}.")

    async def _receive_or_make_room(self) -> None:
        """Receive the reply; where the server finds the request too long, once more with less."""
        try:
            await self._receive()
        except BackendRejected as error:
            overflow = overflow_of(error)
            if overflow is None or self._text or self._reasoning or self._tool_calls:
                raise
            await self._make_room(overflow, error)
            await self._receive()

    async def _make_room(self, overflow: Overflow, error: BackendRejected) -> None:
        """Evict by the server's own count.

        Raises:
            BackendRejected: ``error``, where there is nothing to evict.
        """
        assert self._counter is not None
        assert self._limit is not None
        assert self._prepared is not None
        workspace, preset, refused = self._workspace, self._counter.preset, self._prepared
        if overflow.window is not None:
            workspace.services.catalog.told_window(preset, overflow.window)
        limit = await workspace.accounting.limits(preset, workspace.config)
        # A server that names no number has at least not lied about its answer.
        counted = overflow.prompt_tokens or max(refused.measure.total, self._limit.window) + 1
        if refused.cut or preset.local_compress:
            raise error
        workspace.accounting.refused(self._conversation, refused, self._counter, counted)
        self._counter = workspace.accounting.counter(preset, workspace.config)
        await self._make_fit(replace(limit, budget=min(limit.budget, counted - 1)))
        if not self._prepared.evicted and not self._prepared.cut:
            raise error
        await self._notice(
            "warning", f"{preset.name} found the question too long: asked again with less."
        )

    async def _receive(self) -> None:
        """Send the request and pass its reply on, finding commands as their lines complete."""
        assert self._chosen is not None
        assert self._prepared is not None
        scanner = SuggestionScanner()
        model = self._workspace.open_model(self._chosen.preset)
        request = ModelRequest(self._chosen.preset, self._prepared.messages)
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                match event:
                    case Text():
                        self._text.append(event.delta)
                        await self._emit(event)
                        await self._suggest(scanner, event.delta)
                    case Reasoning():
                        self._reasoning.append(event.delta)
                        await self._emit(event)
                    case Usage():
                        self._usage = event
                    case ToolCall():
                        self._tool_calls.append(event)
                    case ReasoningMetadata():
                        self._metadata = event
                    case Finish():
                        self._finish = event.reason
        if self._finish in {"stop", "tool"}:
            # Of a reply that was cut off, the last line may be half a command.
            for found in scanner.finish():
                await self._add_command(found)

    async def _suggest(self, scanner: SuggestionScanner, delta: str) -> None:
        for found in scanner.feed(delta):
            await self._add_command(found)

    async def _add_command(self, found: FoundCommand) -> None:
        info = self._workspace.add_command(found, self._id)
        self._commands.append(info)
        await self._emit(Command(info))

    async def _record(self) -> None:
        """Write down what arrived, or that nothing did; and what it took."""
        text = "".join(self._text)
        called = self._prepared is not None and (text or self._reasoning or self._usage is not None)
        estimated = self._usage is None
        if called:
            self._account(text)
        if self._prepared is not None and (text or self._tool_calls):
            await self._record_reply(text)
        else:
            await self._withdraw()
        if called:
            if not estimated:
                self._verify()
            # Last: another process may hold these files for seconds.
            await self._record_usage(estimated=estimated)
            await self._workspace.services.calibration.save()

    async def _record_reply(self, text: str) -> None:
        reasoning = self._stored_reasoning()
        n = 0
        if not self._ask.ephemeral:
            n = await self._workspace.recorder.reply(
                Reply(
                    text=text,
                    model=self._model,
                    reasoning=reasoning,
                    tool_calls=tuple(self._tool_calls),
                    usage=self._usage,
                    finish=self._finish,
                    commands=tuple(self._commands),
                )
            )
        self._conversation.append_assistant(
            text, n=n, tool_calls=self._tool_calls, reasoning=reasoning
        )
        for result in self._conversation.cancel_calls():
            if not self._ask.ephemeral:
                await self._workspace.recorder.tool_result(
                    result.tool_call_id or "", result.content
                )

    async def _withdraw(self) -> None:
        """Take back a question that nothing answered; its command output is pending again."""
        turns = self._conversation.turns
        if turns and turns[-1].role == "user":
            self._conversation.withdraw_user()
            if self._question_n is not None:
                await self._workspace.recorder.unanswered(self._question_n)

    def _stored_reasoning(self) -> StoredReasoning | None:
        """Return the reasoning with what its provider wants back; empty reasoning is none."""
        assert self._chosen is not None
        text = "".join(self._reasoning)
        metadata = self._metadata.metadata if self._metadata else {}
        if not text and not metadata:
            return None
        return StoredReasoning(text, reasoning_source(self._chosen.preset), metadata)

    def _account(self, text: str) -> None:
        """Add the call's usage to the session; estimate it where the server told none."""
        assert self._counter is not None
        assert self._prepared is not None
        if self._usage is None:
            said = (text, "".join(self._reasoning))
            output = sum(self._counter.settled(self._counter.text(part)) for part in said)
            self._usage = Usage(self._prepared.measure.total, output)
        self._usage = self._workspace.meter.call_ended(self._counter.preset, _CATEGORY, self._usage)

    def _verify(self) -> None:
        """Compare what was estimated with what the server reported, and go on from that."""
        assert self._counter is not None
        assert self._limit is not None
        assert self._prepared is not None
        assert self._usage is not None
        self._workspace.accounting.answered(
            *(self._conversation, self._prepared, self._counter, self._usage, self._limit.window)
        )

    async def _record_usage(self, *, estimated: bool) -> None:
        """Write down what the call took, as ``_account`` had it."""
        assert self._chosen is not None
        assert self._usage is not None
        preset = self._chosen.preset
        await self._workspace.recorder.usage(
            preset,
            _CATEGORY,
            self._usage,
            local=is_local(preset) and self._usage.cost is None,
            estimated=estimated,
        )

    @property
    def _model(self) -> str:
        return self._chosen.preset.name if self._chosen else ""

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))

    def _result(self) -> AskResult:
        return AskResult(
            turn_id=self._id,
            session_id=self._workspace.recorder.session_id,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            commands=tuple(self._commands),
            usage=self._usage,
            finish_reason=self._finish,
            error=self._error.to_wire() if self._error else None,
            evicted_turns=self._evicted_turns,
            context=self._workspace.context(),
        )


def _own_fault(error: Exception) -> AishError:
    """Return what the user is told of an error that nobody foresaw."""
    name = type(error).__name__
    return AishError(f"aish itself failed ({name}), which its log tells more of. Ask again.")


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Do ``work`` to its end; a cancel that comes meanwhile comes too late to stop anything."""
    task = asyncio.create_task(work, name="record a turn")
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    await task
