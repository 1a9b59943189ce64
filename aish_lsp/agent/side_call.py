"""Questions to a model outside the conversation: those of other extensions, and summaries of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.agent.call import Fitting, ModelCall
from aish_lsp.agent.events import Notice
from aish_lsp.context.budget import Budget
from aish_lsp.context.measure import Draft, Measure, fetch, measure
from aish_lsp.context.messages import Message
from aish_lsp.context.prompt import Blocks
from aish_lsp.context.summary import cleaned, cut_to, summary_request
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable, OverBudget
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.job import Outcome, run_uncancellable
from aish_lsp.foundation.text import count_of
from aish_lsp.models.refusals import overflow_of
from aish_lsp.models.request import ModelRequest, RequestMessage, Text
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.agent.call import Received
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.budget import Prepared
    from aish_lsp.context.counter import Counter
    from aish_lsp.context.measure import ContextReport
    from aish_lsp.context.summary import Fits
    from aish_lsp.context.usage import Category
    from aish_lsp.foundation.events import Event, FinishReason
    from aish_lsp.foundation.job import Emit, Job

logger = logging.getLogger(__name__)

#: Called with each piece of a reply's text, and with the usage of the call.
Told: TypeAlias = "Callable[[Text | Usage], Awaitable[None]]"

#: Makes messages that fit, the system message first; None if even the shortest ones do not.
Compose: TypeAlias = "Callable[[Fits], tuple[RequestMessage, ...] | None]"

#: How often messages are composed, while the model's tokenizer counts more than was estimated.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class SideReply:
    """A reply: its text, its finish reason, and its usage with the cost, None if nothing came."""

    text: str
    finish: FinishReason
    usage: Usage | None


class SideCall(ModelCall):
    """One question to a model, and the reply to it, as much of it as arrives.

    Args:
        session: the session that is charged.
        preset: the model.
        category: the category that the usage is counted in.
        compose: makes the messages, the system message first, so that they fit.
    """

    def __init__(
        self, session: Session, preset: Preset, category: Category, compose: Compose
    ) -> None:
        super().__init__(SideFitting(session, category, compose), preset)

    @property
    def text(self) -> str:
        """The text of the reply, as far as it has arrived."""
        return "".join(self.received.text)

    async def complete(self, told: Told | None = None) -> bool:
        """Ask the question; return whether it fits: if not, it is not asked.

        ``told`` is awaited with each piece of the text as it arrives, and with the usage of each
        call, even if its reply broke off.

        Raises:
            AishError: the model did not answer completely, or the cost cap forbids the call.
        """
        seconds = self.preset.timeout
        try:
            await self.fit()
            # This applies to the whole reply, since somebody is waiting for it.
            async with asyncio.timeout(seconds), aclosing(self.reply()) as events:
                async for event in events:
                    if isinstance(event, Text) and told is not None:
                        await told(event)
        except OverBudget:
            return False
        except TimeoutError:
            msg = f"The reply from {self.preset.name} took longer than {seconds:g} s."
            raise BackendUnavailable(msg) from None
        finally:
            # A reply that broke off costs something, too.
            if self.answered:
                usage = self.account()
                if told is not None:
                    await told(usage)
                await self.record_usage()
        return True


async def _nobody(_event: Event) -> None:
    """Report to nobody: the user has asked nothing."""


class SideFitting(Fitting):
    """Makes a request of messages that ``compose`` makes so that they fit."""

    def __init__(self, session: Session, category: Category, compose: Compose) -> None:
        super().__init__(session, category, _nobody)
        self._compose = compose

    async def fit(self, preset: Preset) -> ModelRequest:
        """Return the request, as ``Fitting.fit``."""
        config = self.session.workspace.config
        return await self._fit(self.session.accounting.counter(preset, config))

    async def fit_less(self, error: AishError) -> ModelRequest:
        """Return a shorter request, as ``Fitting.fit_less``."""
        overflow = overflow_of(error)
        # The estimate was too low: raise it to what the server says, or else by half.
        actual = (overflow and overflow.prompt_tokens) or self.tokens * 3 // 2
        ratio = self.counter.ratio * max(1.1, actual / max(1, self.tokens))
        accounting, config = self.session.accounting, self.session.workspace.config
        return await self._fit(accounting.counter(self.counter.preset, config, ratio))

    async def _fit(self, counter: Counter) -> ModelRequest:
        composed = await _compose(self.session, counter, self._compose)
        if composed is None:
            raise OverBudget("Not even a short request fits.")
        self.counter = counter
        messages, self.tokens = composed
        accounting, config = self.session.accounting, self.session.workspace.config
        accounting.check_cap(counter.preset, config, self.tokens)
        return ModelRequest(counter.preset, messages)

    def size(self, _received: Received) -> int:
        """Return the tokens of the request."""
        return self.tokens


def unchanged(messages: tuple[RequestMessage, ...]) -> Compose:
    """Return a ``Compose`` that makes exactly these messages, if they fit."""
    return lambda fits: messages if fits(messages) else None


async def _compose(
    session: Session, counter: Counter, compose: Compose
) -> tuple[tuple[RequestMessage, ...], int] | None:
    """Return messages that fit, and their tokens; None if even a short request is too long.

    If the model's own tokenizer may be asked, it counts them.
    """
    accounting, preset = session.accounting, counter.preset
    limit = await accounting.limits(preset, session.workspace.config)
    for _ in range(_TRIES):

        def fits(messages: Sequence[RequestMessage], counter: Counter = counter) -> bool:
            measured = _size(messages, counter)
            return limit.hold(measured.total, measured.margin)

        # In a thread: for a session of several megabytes this takes seconds.
        messages = await asyncio.to_thread(compose, fits)
        if messages is None:
            return None
        estimated = _size(messages, counter).total
        await fetch(_draft(messages), counter)
        if fits(messages):
            return messages, _size(messages, counter).total
        ratio = counter.ratio * _size(messages, counter).total / max(1, estimated)
        counter = accounting.counter(preset, session.workspace.config, ratio)
    return None


def _draft(messages: Sequence[RequestMessage]) -> Draft:
    system, *others = messages
    history = tuple(Message(one.role, one.content) for one in others if one.role != "system")
    return Draft(Blocks(system.content), history)


def _size(messages: Sequence[RequestMessage], counter: Counter) -> Measure:
    return measure(_draft(messages), counter)


#: Other extensions cannot send a system message: their instructions are in the first message.
_SYSTEM: Final = "Answer as the messages ask."


async def complete(
    session: Session, preset: Preset, messages: Sequence[RequestMessage], emit: Emit
) -> Outcome[SideReply]:
    """Ask ``preset`` once and charge ``session``; neither the messages nor the reply are kept.

    Raises:
        OverBudget: the messages are too long for the model; none of them is left out.
        AishError: the model did not answer completely, or the cost cap forbids the call.
    """
    compose = unchanged((RequestMessage("system", _SYSTEM), *messages))
    call = SideCall(session, preset, "main", compose)
    finish: FinishReason = "cancelled"
    try:
        if not await call.complete(emit):
            raise OverBudget(f"These messages do not fit into {preset.name}'s window.")
        finish = call.received.finish
    except asyncio.CancelledError:
        pass  # The result is what has arrived so far.
    return Outcome(SideReply(call.text, finish, call.usage), finish)


# The rolling summary of messages that are evicted, by the budget or by ``:compact``.
#
# If there is no model that could write it, the budget evicts messages without a summary, and
# ``:compact`` does nothing.

#: Called as ``(None, messages)`` for a first summary, ``(prior, messages)`` to extend one, and
#: ``(prior, None)`` to compress it. None, an empty text and an AishError mean that there is none.
AskSummary: TypeAlias = "Callable[[str | None, Sequence[Message] | None], Awaitable[str | None]]"


class Summarizer:
    """Extends the rolling summary of a session by the messages that the budget evicts.

    Args:
        session: the session of the conversation.
        active: the model that answers; it also summarizes, unless another one is configured.
        emit: reports events.

    Attributes:
        trouble: why the last summary failed; empty if it did not.
    """

    def __init__(self, session: Session, active: Preset, emit: Emit) -> None:
        self._session = session
        self._active = active
        self._emit = emit
        self.trouble = ""

    async def summarize(self, plan: Prepared) -> str:
        """Return the summary, extended by what the plan evicts; if that fails, the old summary."""
        prior = self._session.conversation.summary
        try:
            preset = await self._preset()
        except AishError as error:
            self.trouble = error.message
            await self._emit(Notice("warning", f"Old messages are not summarized: {self.trouble}"))
            return prior
        if preset.provider == "offline":
            self.trouble = "The offline model cannot summarize. `:model NAME` chooses another."
            return prior
        await self._emit(Notice("info", f"Summarizing {len(plan.evicted)} old messages."))

        async def ask(prior: str | None, messages: Sequence[Message] | None) -> str | None:
            def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
                return summary_request(prior, messages, max_chars=plan.summary_chars, fits=fits)

            call = SideCall(self._session, preset, "summary", compose)
            try:
                return call.text if await call.complete() else None
            except AishError as error:
                self.trouble = error.message
                raise

        return await rolled(prior, plan.evicted, ask, plan.summary_chars)

    async def _preset(self) -> Preset:
        name = self._session.workspace.config.context.summary_model
        return (await self._session.models.choose(name)).preset if name else self._active


async def rolled(prior: str, evicted: Sequence[Message], ask: AskSummary, max_chars: int) -> str:
    """Return a summary that also covers ``evicted``, of at most ``max_chars`` characters.

    A longer one is sent back once to be compressed, then cut. If the summarizer fails or returns
    nothing, return ``prior``.
    """
    summary = await _asked(ask, prior or None, evicted) if evicted else ""
    if len(summary) > max_chars:
        compressed = await _asked(ask, summary, None)
        if compressed and len(compressed) < len(summary):
            summary = compressed
    return cut_to(summary, max_chars) if summary else prior


async def _asked(ask: AskSummary, prior: str | None, evicted: Sequence[Message] | None) -> str:
    """Return the summarizer's reply, cleaned; empty if it fails."""
    try:
        reply = await ask(prior, evicted)
    except AishError as error:
        logger.info("no summary of %d messages: %s", len(evicted or ()), error.message)
        return ""
    summary = cleaned(reply or "")
    if reply and not summary:
        logger.info("no summary of %d messages: the reply is not usable", len(evicted or ()))
    return summary


@dataclass(frozen=True, slots=True)
class Compaction:
    """How many messages went into the summary, and the context of the next request."""

    evicted_turns: int
    context: ContextReport


#: The result, and a notice about it for the user.
Compacted: TypeAlias = tuple[Compaction, str]


def compact(session: Session) -> Job[Compacted]:
    """Begin to summarize every exchange but the last.

    If that fails, the messages stay.
    """
    return session.jobs.start(new_id(), lambda emit: _compact(session, emit))


async def _compact(session: Session, emit: Emit) -> Outcome[Compacted]:
    try:
        async with session.in_turn(emit):
            return Outcome(await _summarize(session, emit))
    except asyncio.CancelledError:
        return Outcome(_compacted(session, 0, "Stopped. Nothing was summarized."), "cancelled")


async def _summarize(session: Session, emit: Emit) -> Compacted:
    conversation, config = session.conversation, session.workspace.config
    if len(list(conversation.exchanges())) < 2:
        message = "There is nothing to summarize yet: the last question and its answer are kept."
        return _compacted(session, 0, message)
    preset = (await session.models.choose(None)).preset
    limit = await session.accounting.limits(preset, config)
    counter = session.accounting.counter(preset, config)
    tools = session.tools_for(preset, limit)
    budget = Budget(session.blocks(), config.context, limit, counter, tools)
    plan = await budget.plan_compact(conversation)
    why = "The model's window, or `context.max_summary_chars`, has no room for a summary."
    if plan.summary_chars:
        summarizer = Summarizer(session, preset, emit)
        summary = await summarizer.summarize(plan)
        plan = await budget.summarized(conversation.summary, plan, summary)
        why = summarizer.trouble or "The model's summary is not usable."
    if plan.summary is None:
        return _compacted(session, 0, f"Nothing was summarized, and nothing is lost. {why}")
    budget.apply(conversation, plan)
    session.meter.evicted()
    session.workspace.changed()
    # It is too late for a cancel.
    await run_uncancellable(session.recorder.evicted(plan.evicted, plan.summary))
    count = len(plan.evicted)
    return _compacted(session, count, f"{count_of(count, 'message')} went into the summary.")


def _compacted(session: Session, evicted: int, notice: str) -> Compacted:
    context = session.next_request().context()
    if evicted:
        share = f"{context.total:,} of {context.token_budget:,} tokens"
        notice = f"{notice} The next request takes {share}."
    return Compaction(evicted, context), notice
