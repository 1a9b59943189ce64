"""One turn, from the question to its end, as a stream of events.

The editor, the command line and the autonomous loop all drive this one. What is written down is
written before it is told: the question before the request, the reply before the end.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.endings import told_of
from aish_lsp.agent.events import (
    Command,
    CommandInfo,
    FinishReason,
    Level,
    Notice,
    Reasoning,
    Route,
    Start,
    Text,
    Usage,
)
from aish_lsp.agent.fallback import Succession
from aish_lsp.agent.turn_request import TurnRequest
from aish_lsp.context.attached.consent import secret_selection, sent_along
from aish_lsp.context.attached.reading import named_files
from aish_lsp.context.turns import Conversation
from aish_lsp.foundation.errors import (
    AishError,
    BackendRejected,
    BackendUnavailable,
    Denied,
    InvalidArgument,
)
from aish_lsp.foundation.job import Outcome, own_fault, to_its_end
from aish_lsp.models.events import Finish, ReasoningMetadata, ToolCall
from aish_lsp.models.repetition import guarded
from aish_lsp.models.request import StoredReasoning, reasoning_source
from aish_lsp.models.retrying import cause, patient_stream
from aish_lsp.sessions.recorder import Reply
from aish_lsp.shell.pending import new_id
from aish_lsp.shell.suggestions import FoundCommand, SuggestionScanner, add

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aish_lsp.agent.session import Ask, Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.attached.consent import SentAlong
    from aish_lsp.context.report import ContextReport
    from aish_lsp.context.turns import Attached, TakenOut
    from aish_lsp.foundation.job import Emit, Job
    from aish_lsp.models.events import ModelEvent

logger = logging.getLogger(__name__)

#: What is told of a question that is asked while another is answered.
WAITS: Final = "Another question is being answered; this one waits."


@dataclass(frozen=True, slots=True)
class AskResult:
    """What a turn came to. ``error`` is set where the reply broke off.

    ``attached`` is what went along, without its text.
    """

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
    attached: tuple[SentAlong, ...] = ()


def ask(session: Session, question: Ask) -> Job[AskResult]:
    """Begin a turn. In a session one is taken at a time: a second waits."""
    turn_id = new_id()
    return session.jobs.start(turn_id, lambda emit: Turn(session, question, turn_id, emit).take())


class Turn:
    """The state of one turn while it is taken."""

    def __init__(self, session: Session, ask: Ask, turn_id: str, emit: Emit) -> None:
        self._session = session
        self._workspace = session.workspace
        self._ask = ask
        self._id = turn_id
        self._emit = emit
        self._conversation = Conversation() if ask.ephemeral else session.conversation
        self._succession: Succession | None = None
        self._request: TurnRequest | None = None
        self._sent = False
        self._question_n: int | None = None
        self._asked_before: TakenOut | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._metadata: ReasoningMetadata | None = None
        self._tool_calls: list[ToolCall] = []
        self._commands: list[CommandInfo] = []
        self._found: list[FoundCommand] = []
        self._attached: tuple[SentAlong, ...] = ()
        self._usage: Usage | None = None
        self._finish: FinishReason = "stop"
        self._error: AishError | None = None

    async def take(self) -> Outcome[AskResult]:
        """Take the turn; on cancellation keep what arrived and return it as cut off.

        Raises:
            AishError: nothing of a reply arrived. The question stays in the log as unanswered.
        """
        if not self._ask.prompt.strip():
            raise InvalidArgument("The question is empty.", path="prompt")
        lock = self._session.turn_lock
        try:
            if lock.locked():
                await self._notice("info", WAITS)
            await lock.acquire()
        except asyncio.CancelledError:
            # Nothing was written down yet, and nothing is to be kept.
            self._finish = "cancelled"
            return self._outcome()
        try:
            return await self._take_in_turn()
        finally:
            lock.release()

    async def _take_in_turn(self) -> Outcome[AskResult]:
        try:
            await self._prepare()
            await self._receive_from_somebody()
        except asyncio.CancelledError:
            self._finish = "cancelled"
        except AishError as error:
            self._finish, self._error = "error", error
        except Exception as error:
            # What arrived must be kept although the fault is ours.
            logger.exception("a turn failed")
            self._finish, self._error = "error", own_fault(error)
        await to_its_end(self._record())
        await self._tell_what_it_took()
        if self._error is not None and not self._text:
            raise self._error
        return self._outcome()

    async def _tell_what_it_took(self) -> None:
        """Tell what was used, and what the user should know of how it went."""
        if self._usage is not None:
            await self._emit(self._usage)
        ending = self._request and told_of(
            self._request.preset, self._finish, self._usage, spoke=bool(self._text)
        )
        if ending:
            await self._notice("warning", ending)
        for trouble in self._session.troubles():
            await self._notice("warning", trouble)

    async def _prepare(self) -> None:
        """Write the question down, choose the model, and make the request fit."""
        workspace = self._workspace
        workspace.services.confinement.begin()
        if self._ask.notice:
            await self._notice("info", self._ask.notice)
        named, prompt = await self._addressed()
        about = await self._about(prompt)
        if self._ask.again and not self._ask.ephemeral:
            self._asked_before = self._conversation.ask_again(self._ask.again, self._id)
        if self._asked_before is None:
            self._conversation.append_user(prompt, about, exchange=self._id)
        await self._write_down()
        at_hand = self._ask.at or (workspace.folder / about[0].path if about else None)
        if at_hand is not None:
            workspace.project.at_hand(at_hand)
        for notice in await self._session.refresh():
            await self._notice("warning", notice)
        routed = await self._session.models.route(prompt, self._ask.model or named)
        chosen = routed.chosen
        if chosen.notice and self._session.first_time(chosen.notice):
            await self._notice("info", chosen.notice)
        self._succession = Succession(chosen.preset, workspace.config)
        self._request = self._request_to(chosen.preset)
        await self._request.fit()
        await self._tell_what_goes_along()
        await self._emit(
            Start(
                turn_id=self._id,
                model=chosen.preset.name,
                route=Route(routed.class_, chosen.why),
                context_tokens=self._request.tokens,
                token_budget=self._request.budget,
            )
        )

    async def _addressed(self) -> tuple[str | None, str]:
        """Return the model that the question itself names, and the question without it."""
        prompt = self._ask.prompt
        if prompt.startswith("@"):
            # The name may be one that was configured a moment ago.
            for notice in await self._workspace.reload():
                await self._notice("warning", notice)
        return self._session.models.addressed(prompt)

    def _request_to(self, preset: Preset) -> TurnRequest:
        return TurnRequest(self._session, self._conversation, preset, self._emit)

    async def _about(self, prompt: str) -> list[Attached]:
        """Return what the question is about, without keys of ours; tell what cannot be had."""
        workspace = self._workspace
        if self._ask.again:
            # What went along the first time does so again.
            return list(self._ask.attached)
        found = await named_files(prompt, workspace.files, workspace.services.open_text)
        for notice in found.notices:
            await self._notice("warning", notice)
        secret = found.secret | secret_selection(self._ask.attached, self._ask.at, workspace.folder)
        about, refusals = await self._session.consents.sift(
            (*self._ask.attached, *found.attached), secret, workspace.services.ask_user
        )
        if not all(part in about for part in self._ask.attached):
            # Without it nobody knows what the question means.
            raise Denied(" ".join(refusals))
        for refusal in refusals:
            await self._notice("warning", refusal)
        return [replace(part, text=workspace.without_keys(part.text)) for part in about]

    async def _tell_what_goes_along(self) -> None:
        """Name the texts that leave with the question, as they were made to fit."""
        self._attached = sent_along(self._conversation.turns[-1].attached)
        if self._attached:
            places = "; ".join(map(str, self._attached))
            await self._notice("info", f"Sent along: {places}.")

    async def _write_down(self) -> None:
        """Log the question; a cancel that comes meanwhile waits until its number is known."""
        turn = self._conversation.turns[-1]
        if self._ask.ephemeral:
            return
        self._session.turn_began(self._id)
        recorder = self._session.recorder
        again = self._asked_before.turns[0].n if self._asked_before else 0
        writing = asyncio.create_task(recorder.question(turn, again), name="write a question")
        try:
            await asyncio.shield(writing)
        finally:
            self._question_n = await writing
            self._conversation.turns[-1] = replace(turn, n=self._question_n)

    @property
    def _started(self) -> bool:
        """Whether the user has seen anything of a reply, or a tool was called."""
        return bool(self._text or self._reasoning or self._tool_calls)

    async def _receive_from_somebody(self) -> None:
        """Receive the reply; where a model gives none, that of the next one."""
        try:
            while True:
                try:
                    return await self._receive_or_make_room()
                except AishError as error:
                    if self._started:
                        raise
                    await self._hand_over(error)
        except BackendUnavailable as error:
            if not self._text:
                raise
            message = f"{cause(error)} What arrived is kept: ask the model to continue."
            raise BackendUnavailable(message, **error.data) from error

    async def _hand_over(self, error: AishError) -> None:
        """Make the request anew for the model that follows, after ``error``.

        Raises:
            AishError: none follows. It says of each why it did not answer.
        """
        assert self._succession is not None
        assert self._request is not None
        request = self._request
        while self._succession.advance(error):
            failed, preset = request.preset.name, self._succession.current
            name = "the offline model" if preset.provider == "offline" else preset.name
            message = f"{failed} does not answer; {name} answers instead. {cause(error)}"
            await self._notice("warning", message)
            evicted = request.evicted
            self._request = request = self._request_to(preset)
            try:
                return await request.fit()
            except AishError as unfit:
                error = unfit
            finally:
                request.evicted += evicted
        raise self._succession.error from error

    async def _receive_or_make_room(self) -> None:
        """Receive the reply; where the server finds the request too long, once more with less."""
        assert self._request is not None
        try:
            await self._receive(self._request)
        except (BackendRejected, BackendUnavailable) as error:
            if self._started:
                raise
            await self._request.make_room(error)
            await self._receive(self._request)

    async def _receive(self, request: TurnRequest) -> None:
        """Send the request and pass its reply on, finding commands as their lines complete."""
        scanner = SuggestionScanner(fences=self._workspace.config.suggestions.fences)
        async with aclosing(self._stream(request)) as stream:
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

    def _stream(self, request: TurnRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request; return its reply, which is stopped where it runs in circles."""
        model = self._session.open_model(request.preset)
        self._sent = True
        reply = patient_stream(model, request.to_model(), self._notice)
        return guarded(reply) if self._session.models.is_guarded(request.preset) else reply

    async def _suggest(self, scanner: SuggestionScanner, delta: str) -> None:
        for found in scanner.feed(delta):
            await self._add_command(found)

    async def _add_command(self, found: FoundCommand) -> None:
        """Suggest a command; one that repeats a fence takes its place, and its id."""
        await self._workspace.can_confine()  # Some commands are safe only then.
        at = add(self._found, found)
        repeated = self._commands[at].id if at < len(self._commands) else None
        info = self._session.add_command(found, self._id, repeated)
        self._commands[at:] = [info, *self._commands[at + 1 :]]
        await self._emit(Command(info))

    async def _record(self) -> None:
        """Write down what arrived, or that nothing did; and what it took."""
        text = "".join(self._text)
        # Of a call that nothing came back from nobody knows what it took.
        arrived = text or self._reasoning or self._tool_calls or self._usage
        called = self._request if self._sent and arrived else None
        if called:
            calls = (part for call in self._tool_calls for part in (call.name, call.arguments))
            self._usage = called.account(self._usage, (text, "".join(self._reasoning), *calls))
        if called and (text or self._tool_calls):
            await self._record_reply(text)
        else:
            await self._withdraw()
        if called and self._usage is not None:
            if told := called.verify():
                await self._notice("warning", told)
            # Last: another process may hold that file for seconds.
            await called.record_usage(self._usage)

    async def _record_reply(self, text: str) -> None:
        if not self._ask.ephemeral:
            self._session.unanswered = None
        if self._asked_before is not None:
            self._session.drop_suggestions(self._ask.again)
        reasoning = self._stored_reasoning()
        n = 0
        if not self._ask.ephemeral:
            n = await self._session.recorder.reply(
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
        turns = self._conversation.turns
        first = len(turns)
        for at, result in enumerate(self._conversation.cancel_calls(), first):
            if not self._ask.ephemeral:
                call_id = result.tool_call_id or ""
                written = await self._session.recorder.tool_result(call_id, result.content)
                turns[at] = replace(result, n=written)

    async def _withdraw(self) -> None:
        """Take back a question that nothing answered; its command output is pending again."""
        turns = self._conversation.turns
        if not turns or turns[-1].role != "user":
            return
        if self._asked_before is not None:
            evicted = self._request.evicted if self._request else 0
            self._conversation.put_back(self._asked_before, evicted)
        else:
            self._keep_to_ask_again()
            self._conversation.withdraw_user()
        if self._question_n is not None:
            await self._session.recorder.unanswered(self._question_n)

    def _keep_to_ask_again(self) -> None:
        """Keep a question that got no answer: it is what is asked again next."""
        if not self._ask.ephemeral:
            question = self._conversation.turns[-1]
            asked = replace(self._ask, prompt=question.content, attached=question.attached)
            self._session.unanswered = replace(asked, notice="", again=self._id)

    def _stored_reasoning(self) -> StoredReasoning | None:
        """Return the reasoning with what its provider wants back; empty reasoning is none."""
        assert self._request is not None
        text = "".join(self._reasoning)
        metadata = self._metadata.metadata if self._metadata else {}
        if not text and not metadata:
            return None
        return StoredReasoning(text, reasoning_source(self._request.preset), metadata)

    @property
    def _model(self) -> str:
        return self._request.preset.name if self._request else ""

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))

    def _outcome(self) -> Outcome[AskResult]:
        return Outcome(self._result(), self._finish, self._error)

    def _result(self) -> AskResult:
        return AskResult(
            turn_id=self._id,
            session_id=self._session.id,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            commands=tuple(self._commands),
            usage=self._usage,
            finish_reason=self._finish,
            error=self._error.to_wire() if self._error else None,
            evicted_turns=self._request.evicted if self._request else 0,
            context=self._session.next_request().context(),
            attached=self._attached,
        )
