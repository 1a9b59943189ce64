"""One turn, from the question to its end, as a stream of events.

The editor, the command line and the autonomous loop all use it. The question is logged before the
request is sent, and the reply before the end of the turn is reported.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.call import ModelCall
from aish_lsp.agent.events import (
    Command,
    CommandInfo,
    FinishReason,
    Notice,
    Reasoning,
    Route,
    Start,
    Text,
    Usage,
)
from aish_lsp.agent.fitting import ConversationFitting, finish_notice
from aish_lsp.agent.model_choice import FallbackChain, addressed
from aish_lsp.agent.norris import goal_said
from aish_lsp.agent.tool_use import ToolCalls, to_the_end
from aish_lsp.context.attached import secret_selection, sent_along
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.usage import is_local
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable, Denied, InvalidArgument
from aish_lsp.foundation.events import Level
from aish_lsp.foundation.job import Outcome, internal_error, run_uncancellable
from aish_lsp.models.catalog import OFFLINE
from aish_lsp.shell.blocks import FoundCommand
from aish_lsp.shell.suggestions import ReasoningFilter, SuggestionScanner, add, new_id

if TYPE_CHECKING:
    from aish_lsp.agent.session import Ask, Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.attached import SentAlong
    from aish_lsp.context.conversation import TakenOut
    from aish_lsp.context.measure import ContextReport
    from aish_lsp.context.messages import Attached
    from aish_lsp.foundation.job import Emit, Job

logger = logging.getLogger(__name__)

#: The notice for a question or a goal that has to wait. The chat shows that in its own way.
WAITS: Final = "Another question is being answered; this one waits."

#: The longest question, in characters, that may be an everyday task of the offline model's.
_LONGEST_TASK: Final = 300


@dataclass(frozen=True, slots=True)
class AskResult:
    """The result of a turn. ``error`` is set if the reply broke off.

    ``attached`` lists the texts that were sent with the question, without their contents.
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
    """Begin a turn. A session takes one turn at a time: a second one waits."""
    turn_id = new_id()
    job = session.jobs.start(turn_id, lambda emit: Turn(session, question, turn_id, emit).run())
    job.again, job.prompt = question.again, question.prompt
    return job


class Turn:
    """A turn in progress.

    Attributes:
        calls: makes the tool calls of its replies.
    """

    def __init__(self, session: Session, ask: Ask, turn_id: str, emit: Emit) -> None:
        self._session = session
        self._workspace = session.workspace
        self._ask = ask
        self._id = turn_id
        self._emit = emit
        self._conversation = Conversation() if ask.ephemeral else session.conversation
        self.calls = ToolCalls(session, self._conversation, emit, turn_id)
        self._chain: FallbackChain | None = None
        self._fitting = ConversationFitting(session, self._conversation, emit)
        # The call of this round.
        self._call: ModelCall | None = None
        # The model that the question itself names.
        self._named: str | None = None
        self._is_recorded = False
        self._question_n: int | None = None
        self._taken_out: TakenOut | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._commands: list[CommandInfo] = []
        # Of this round: the index of its first command, the commands found, its first line.
        self._first_command = self._first_line = 0
        self._found: list[FoundCommand] = []
        self._attached: tuple[SentAlong, ...] = ()
        self._usage: Usage | None = None
        self._finish: FinishReason = "stop"
        self._error: AishError | None = None
        self._has_answer = False

    async def run(self) -> Outcome[AskResult]:
        """Answer the question; on cancellation, keep what has arrived and return it as cut off.

        Raises:
            AishError: no part of a reply arrived. The question stays in the log as unanswered.
        """
        if not self._ask.prompt.strip():
            raise InvalidArgument("The question is empty.", path="prompt")
        try:
            async with self._session.in_turn(self._emit, WAITS):
                return await self.run_locked()
        except asyncio.CancelledError:
            # Either the turn had not begun, and there is nothing to keep, or everything has been
            # logged, and only notices were left to send.
            self._finish = "cancelled"
            return self._outcome()

    async def run_locked(self) -> Outcome[AskResult]:
        """Do what ``run`` does; the caller holds the session's turn lock.

        Raises:
            AishError: as ``run``.
        """
        try:
            await self._prepare()
            await self._run_rounds()
        except asyncio.CancelledError:
            self._finish = "cancelled"
        except AishError as error:
            self._finish, self._error = "error", error
        except Exception as error:
            # A bug of ours must not lose what has arrived.
            logger.exception("a turn failed")
            self._finish, self._error = "error", internal_error(error)
        await run_uncancellable(self._conclude())
        await self._report_end()
        if self._error is not None and not self._has_answer:
            raise self._error
        return self._outcome()

    async def _run_rounds(self) -> None:
        """Receive replies and make their tool calls, until a reply makes none."""
        pursuit = self._session.pursuit
        # A step toward a goal is a turn of one round.
        most = self._workspace.config.tools.max_rounds if pursuit is None else 1
        for number in count(1):
            call = self._call
            assert call is not None
            await self._receive(call)
            calls = call.received.tool_calls
            if not calls or self._finish not in {"stop", "tool"}:
                return
            if pursuit is not None and goal_said("".join(call.received.text)):
                # The goal has ended: no further calls are made for it.
                return
            await to_the_end(self._record())
            await self.calls.make(calls, self._fitting.budget)
            if number >= most:
                break
            await self._begin_round(call.preset).fit()
        self._finish = "tool"
        if pursuit is not None:
            return
        await self._notice(
            "warning",
            f"Stopped after {most} rounds of tools, `tools.max_rounds`. Ask the model to continue.",
        )

    async def _offer_known(self) -> None:
        """Offer the offline model's command where a model on this machine has suggested none.

        A small model may fill minutes with words about an everyday task.
        """
        call, session = self._call, self._session
        has_answered = self._finish in {"stop", "length", "repetition"} and not self._commands
        if call is None or not has_answered or self.calls.has_begun or session.pursuit is not None:
            return
        if call.preset.provider == OFFLINE.provider or not is_local(call.preset) or self._attached:
            return
        if len(self._ask.prompt) > _LONGEST_TASK:  # To read 18,000 takes over half a second.
            return
        from aish_lsp.offline.model import sure_command  # noqa: PLC0415 - loaded when first used

        command = await asyncio.to_thread(sure_command, self._ask.prompt, self._workspace.folder)
        if command:
            message = f"The offline model knows a command for this: `:run {command}` runs it."
            await self._notice("info", message)

    async def _report_end(self) -> None:
        """Tell the user how the turn ended, if that needs to be said, and give new warnings."""
        await self._offer_known()
        spoke = any(map(str.strip, self._text))
        ending = self._call and finish_notice(self._call, self._finish, spoke=spoke)
        if ending:
            await self._notice("warning", ending)
        for trouble in await self._session.drain_warnings():
            await self._notice("warning", trouble)

    async def _prepare(self) -> None:
        """Log the question, choose the model, and fit the request into its window."""
        workspace = self._workspace
        workspace.services.confinement.begin()
        if self._ask.notice:
            await self._notice("info", self._ask.notice)
        self._named, prompt = await self._addressed()
        about = await self._attachments(prompt)
        if self._ask.again and not self._ask.ephemeral:
            self._taken_out = self._conversation.ask_again(self._ask.again, self._id)
        if self._taken_out is None:
            self._conversation.append_user(prompt, about, exchange=self._id)
        focus_file = self._ask.at or (workspace.folder / about[0].path if about else None)
        if focus_file is not None:
            workspace.project.set_focus_file(focus_file)
        # The disk's sync takes as long as the look at the workspace.
        refreshing = asyncio.create_task(self._session.refresh())
        try:
            await self._log_question()
            notices = await refreshing
        finally:
            refreshing.cancel()
        for notice in notices:
            await self._notice("warning", notice)
        chosen, class_ = await self._session.models.route(prompt, self._ask.model or self._named)
        if chosen.notice and await self._session.is_news(chosen.notice, lasts=False):
            await self._notice("info", chosen.notice)
        self._chain = FallbackChain(chosen.preset, workspace.config)
        if chosen.preset.provider != "offline":
            for trouble in await self._session.tools.begin():
                if self._session.first_time(trouble):
                    await self._notice("warning", trouble)
        await self._begin_round(chosen.preset).fit()
        await self._report_attachments()
        await self._emit(
            Start(
                turn_id=self._id,
                model=chosen.preset.name,
                route=Route(class_, chosen.why),
                context_tokens=self._fitting.tokens,
                token_budget=self._fitting.budget,
            )
        )

    async def _addressed(self) -> tuple[str | None, str]:
        """Return the model that the question itself names, if any, and the question without it."""
        prompt = self._ask.prompt
        if prompt.startswith("@"):
            # The model may have been configured a moment ago.
            for notice in await self._workspace.reload():
                await self._notice("warning", notice)
        return addressed(prompt, (*self._workspace.config.models, OFFLINE.name))

    def _begin_round(self, preset: Preset) -> ModelCall:
        """Begin the next round and return its call."""
        # Another model would not know why this one made its calls.
        chain = None if self.calls.has_begun else self._chain
        self._call = ModelCall(self._fitting, preset, chain)
        self._is_recorded = False
        self._found, self._first_command = [], len(self._commands)
        return self._call

    async def _attachments(self, prompt: str) -> list[Attached]:
        """Return the texts that the question is about, with our keys masked.

        Tell the user which are left out, and why.

        Raises:
            Denied: the user does not want to send the text that the question was asked about.
        """
        workspace = self._workspace
        if self._ask.again:
            # It is sent with the same texts as the first time.
            return list(self._ask.attached)
        pursuit = self._session.pursuit
        if pursuit is not None and pursuit.steps:
            # The message is from the loop, not from the user: an ``@`` in it names no file.
            return []
        attachments = await workspace.named(prompt)
        for notice in attachments.notices:
            await self._notice("warning", notice)
        secret = attachments.secret | secret_selection(
            self._ask.attached, self._ask.at, workspace.folder
        )
        about, refusals = await self._session.consents.sift(
            (*self._ask.attached, *attachments.attached), secret, workspace.services.ask_user
        )
        if not all(part in about for part in self._ask.attached):
            # Without that text the question makes no sense.
            raise Denied(" ".join(refusals))
        for refusal in refusals:
            await self._notice("warning", refusal)
        return [replace(part, text=workspace.without_keys(part.text)) for part in about]

    async def _report_attachments(self) -> None:
        """Tell the user which texts are sent with the question, and how they were cut."""
        self._attached = sent_along(self._conversation.messages[-1].attached)
        if self._attached:
            places = "; ".join(map(str, self._attached))
            await self._notice("info", f"Sent along: {places}.")

    async def _log_question(self) -> None:
        """Log the question; a cancel is delayed until its number in the log is known."""
        question = self._conversation.messages[-1]
        if self._ask.ephemeral:
            return
        self._session.turn_began(self._id)
        recorder = self._session.recorder
        again = self._taken_out.messages[0].n if self._taken_out else 0
        pursuit = self._session.pursuit
        is_step = pursuit is not None and pursuit.is_under_way

        async def write() -> None:
            self._question_n = await recorder.question(question, again, is_step=is_step)
            self._conversation.messages[-1] = replace(question, n=self._question_n)

        await to_the_end(write())

    async def _receive(self, call: ModelCall) -> None:
        """Forward the round's reply; if it breaks off, say that what arrived is kept."""
        try:
            await self._forward(call)
        except BackendUnavailable as error:
            if not self._text:
                raise
            message = f"{error.cause} What arrived is kept: ask the model to continue."
            raise BackendUnavailable(message, **error.data) from error

    async def _forward(self, call: ModelCall) -> None:
        """Forward the round's reply, and suggest each command as soon as it is complete."""
        scanner = SuggestionScanner(fences=self._workspace.config.suggestions.fences)
        outside = ReasoningFilter()
        text = call.received.text
        async with aclosing(call.reply()) as events:
            async for event in events:
                match event:
                    case Text():
                        if len(text) == 1:
                            await self._separate_rounds()
                        self._text.append(event.delta)
                        await self._emit(event)
                        lines = outside.feed(event.delta)
                        if outside.began_inside:
                            self._drop_commands()
                            outside.began_inside = False
                        for command in scanner.feed(lines):
                            await self._add_command(command)
                    case Reasoning():
                        self._reasoning.append(event.delta)
                        await self._emit(event)
        self._finish = call.received.finish
        if self._finish in {"stop", "tool"}:
            # In a reply that was cut off, the last line may be half a command.
            for command in [*scanner.feed(outside.finish()), *scanner.finish()]:
                await self._add_command(command)

    async def _separate_rounds(self) -> None:
        """Begin a round's text in a new paragraph, unless it begins on a new line anyway."""
        if self._text and not self._text[-1].endswith("\n"):
            self._text.append("\n\n")
            await self._emit(Text("\n\n"))
        self._first_line = "".join(self._text).count("\n")

    def _drop_commands(self) -> None:
        """Forget the round's commands: what they were found in has turned out to be reasoning."""
        for info in self._commands[self._first_command :]:
            self._session.commands.remove(info.id)
        del self._commands[self._first_command :]
        self._found = []
        self._workspace.changed()

    async def _add_command(self, found: FoundCommand) -> None:
        """Suggest a command; if it repeats one from a fence, it replaces that and keeps its id."""
        await self._workspace.can_confine()  # Some commands are safe only if confined.
        found = replace(found, line=found.line + self._first_line)
        at = self._first_command + add(self._found, found)
        repeated = self._commands[at].id if at < len(self._commands) else None
        info = self._session.add_command(found, self._id, repeated)
        self._commands[at:] = [info, *self._commands[at + 1 :]]
        await self._emit(Command(info))

    async def _conclude(self) -> None:
        """Log what has not been logged: the last round, and the calls without a result."""
        await self._record()
        await self.calls.give_up()

    async def _record(self) -> None:
        """Log what arrived in the round, or that nothing did, and what the round cost."""
        if self._is_recorded:
            return
        self._is_recorded = True
        call = self._call
        if call is None or not call.answered:
            await self._withdraw()
            return
        usage = call.account()
        self._usage = self._usage.plus(usage) if self._usage else usage
        received = call.received
        if received.text or received.tool_calls:
            await self._record_reply(call)
        else:
            await self._withdraw()
        if received.usage:
            await self._fitting.verify(received.usage)
        # This comes last, since another process may lock that file for seconds.
        await call.record_usage()
        await self._emit(usage)

    async def _record_reply(self, call: ModelCall) -> None:
        self._has_answer = True
        if not self._ask.ephemeral:
            self._session.unanswered = None
        if self._taken_out is not None:
            self._session.drop_suggestions(self._ask.again)
        text, calls = "".join(call.received.text), tuple(call.received.tool_calls)
        n = 0
        if not self._ask.ephemeral:
            n = await self._session.recorder.reply(
                text,
                self._model,
                self._finish,
                call.usage,
                reasoning=call.reasoning,
                tool_calls=calls,
                commands=self._commands[self._first_command :],
            )
        self._conversation.append_assistant(text, n=n, tool_calls=calls, reasoning=call.reasoning)

    async def _withdraw(self) -> None:
        """Withdraw a question without an answer; its command output is pending again."""
        messages = self._conversation.messages
        if not messages or messages[-1].role != "user":
            return
        if self._taken_out is not None:
            self._conversation.put_back(self._taken_out, self._fitting.evicted)
        else:
            if not self._ask.ephemeral and self._session.pursuit is None:
                # So that it can be asked again. A step cannot: its message means nothing elsewhere.
                question = messages[-1]
                self._session.unanswered = replace(
                    self._ask,
                    prompt=question.content,
                    model=self._ask.model or self._named,
                    attached=question.attached,
                    notice="",
                    again=self._id,
                )
            self._conversation.withdraw_user()
        if self._question_n is not None:
            await self._session.recorder.unanswered(self._question_n)

    @property
    def _model(self) -> str:
        return self._call.preset.name if self._call else ""

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))

    def _outcome(self) -> Outcome[AskResult]:
        result = AskResult(
            turn_id=self._id,
            session_id=self._session.id,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            commands=tuple(self._commands),
            usage=self._usage,
            finish_reason=self._finish,
            error=self._error.to_wire() if self._error else None,
            evicted_turns=self._fitting.evicted,
            context=self._session.next_request().context(),
            attached=self._attached,
        )
        return Outcome(result, self._finish, self._error)
