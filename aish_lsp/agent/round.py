"""One round of a turn: its request is fitted, sent, and compared with the server's counts."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.compaction import Summarizer
from aish_lsp.agent.events import Notice
from aish_lsp.agent.model_call import ModelCall
from aish_lsp.context.budget import Budget, Limits, Prepared, bounded
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable, OverBudget
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.providers import reasoning_source, reply_limit
from aish_lsp.models.request import ModelRequest, StoredReasoning

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.events import FinishReason, Level, Usage
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ModelEvent, ToolSchema

#: How servers say that they, or their model, do not support tools: Ollama, OpenRouter, llama.cpp
#: without templates or with a grammar, vLLM without a parser, Google for Gemma.
_REFUSES_TOOLS: Final = re.compile(
    r"(?:not|n't|no \w+ found that) support\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\b(?:tools?|function call\w*)\b[^.\n]{0,60}"
    r"(?:\bnot (?:be )?(?:supported|enabled|available|allowed)|\bunsupported|\brequires? --)"
    r"|\bunsupported\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\btool choice requires --|\bgrammar constraints with tools\b",
    re.IGNORECASE,
)

#: In tokens. No usable model has a smaller window, so a server that reports one is wrong.
_SMALLEST_WINDOW = 256

#: The texts that a question is about may take the budget divided by this.
_ATTACHED_SHARE: Final = 2

#: A reply that ends as too long, but has less than this share of its limit of output tokens, filled
#: the window instead. The share is small since the reply's size may be an estimate.
_AT_LIMIT = 0.5


class Round(ModelCall):
    """A call to the model with the whole conversation. Call ``fit`` before ``reply``.

    Args:
        session: the session in which the question is asked.
        conversation: the session's own, or another one if nothing is to be left in that.
        preset: the model.
        emit: reports events.

    Attributes:
        evicted: how many messages were evicted in this turn.
    """

    def __init__(
        self, session: Session, conversation: Conversation, preset: Preset, emit: Emit
    ) -> None:
        super().__init__(session, preset, "norris" if session.pursuit else "main")
        self.evicted = 0
        self._workspace = session.workspace
        self._conversation = conversation
        self._emit = emit
        self._tools: tuple[ToolSchema, ...] = ()
        # Set by ``fit``.
        self._limit: Limits
        self._fitted: Prepared
        self._plausible = self._leaves_out_tools = False
        self._counted: int | None = None

    @property
    def tokens(self) -> int:
        """The size of the request."""
        return self._fitted.measure.total

    @property
    def budget(self) -> int:
        """The tokens that the request had to fit into."""
        return self._limit.budget

    @property
    def reasoning(self) -> StoredReasoning | None:
        """The reasoning, and the metadata that its provider needs back; None without either."""
        text = "".join(self.received.reasoning)
        metadata = self.received.metadata.metadata if self.received.metadata else {}
        if not text and not metadata:
            return None
        return StoredReasoning(text, reasoning_source(self.preset), metadata)

    async def fit(self) -> None:
        """Compose the request, evicting what does not fit, and check it against the cost cap.

        Raises:
            OverBudget: it does not fit, whatever is left out. Nothing is lost.
            CostCap: it might exceed the session's cap. Nothing is lost either.
        """
        await self._workspace.services.catalog.price(self.preset)
        # If the cap has been reached, do not ask the server anything else.
        self._check_cap(0)
        self._limit = await self._session.accounting.limits(self.preset, self._config)
        self._tools = self._session.tools_for(self.preset, self._limit)
        await self._bound_attached(self._limit)
        if self._session.accounting.counts_requests(self.preset, self._config):
            # Count the whole conversation, so that nothing is evicted because of an estimate. If
            # something is evicted, the rest is counted below.
            await self._count(await self._budget(self._limit).whole(self._conversation))
        self._fitted = await self._make_fit(self._limit)
        if await self._count(self._fitted):
            self._fitted = await self._make_fit(self._limit)

    async def reply(self) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield the reply; if the server finds it too long, retry with less.

        Raises:
            AishError: there was no reply, or it broke off.
        """
        tries = 2
        while True:
            tries -= 1
            request = ModelRequest(self.preset, self._fitted.messages, self._fitted.draft.tools)
            try:
                async with aclosing(self.send(request, self._notice)) as events:
                    async for event in events:
                        yield event
            except (BackendRejected, BackendUnavailable) as error:
                if self.received.has_begun:
                    raise
                if self._tools and refuses_tools(error):
                    await self._go_without_tools()
                    tries += 1
                elif tries:
                    await self._make_room(error)
                else:
                    raise
            else:
                return

    async def _go_without_tools(self) -> None:
        """Make the request again without tools, which the model's server does not accept."""
        self._workspace.services.catalog.refused_tools(self.preset)
        message = f"{self.preset.name} does not support tools here, so it answers without them."
        if self._session.first_time(message):
            await self._notice("info", message)
        await self.fit()

    async def _make_room(self, error: AishError) -> None:
        """Evict messages by the server's own count, if ``error`` says that the request is too long.

        Raises:
            AishError: ``error`` itself, if it says something else or nothing is left to evict.
            CostCap: as for ``fit``.
        """
        overflow = overflow_of(error)
        refused, accounting = self._fitted, self._session.accounting
        if overflow is None or refused.cut or self.preset.local_compress:
            raise error
        # If the server names no number, we only know that the request does not fit.
        counted = max(refused.measure.total, overflow.window or self._limit.window) + 1
        named, window = overflow.prompt_tokens, overflow.window or 0
        is_plausible = named is None or accounting.is_plausible(refused, self._counter, named)
        if is_plausible and window >= _SMALLEST_WINDOW:
            self._workspace.services.catalog.told_window(self.preset, window)
        if is_plausible and named is not None:
            accounting.learn(refused, self._counter, named)
            counted = named
        accounting.refused(self._conversation, refused, self._counter, counted)
        # What is left is still estimated, probably too low by the same ratio as this request.
        ratio = self._counter.ratio * counted / max(1, refused.measure.total)
        self._counter = accounting.counter(self.preset, self._config, ratio)
        limit = await accounting.limits(self.preset, self._config)
        self._limit = replace(limit, budget=min(limit.budget, counted - 1))
        try:
            self._fitted = await self._make_fit(self._limit)
        except OverBudget:
            raise error from None
        if not self._fitted.evicted and not self._fitted.cut:
            raise error
        message = f"{self.preset.name} found the question too long. It is asked again with less."
        await self._notice("warning", message)

    async def _bound_attached(self, limit: Limits) -> None:
        """Cut the texts attached to the question to their share of the budget."""
        messages = self._conversation.messages
        if messages[-1].role == "user":
            messages[-1] = await bounded(
                messages[-1], limit.budget // _ATTACHED_SHARE, self._counter
            )

    def _check_cap(self, tokens: int) -> None:
        """Raise CostCap if the cost cap forbids a request of this many tokens."""
        self._session.accounting.check_cap(self.preset, self._config, tokens)

    def _budget(self, limit: Limits) -> Budget:
        context = self._config.context
        return Budget(self._session.blocks(), context, limit, self._counter, self._tools)

    async def _count(self, prepared: Prepared) -> bool:
        """Have the server count a request whose size is only estimated; return whether it did."""
        accounting = self._session.accounting
        if not accounting.counts_requests(self.preset, self._config):
            return False
        model = self._session.open_model(self.preset)
        tokens = await accounting.count(
            self._conversation, prepared, self._counter, model, self._config
        )
        if tokens is None:
            return False
        self._counted = tokens
        # The count also improves the estimates by which messages are evicted.
        self._counter = accounting.counter(self.preset, self._config)
        return True

    async def _make_fit(self, limit: Limits) -> Prepared:
        """Plan what to evict, have it summarized if that is configured, and evict it."""
        conversation, session = self._conversation, self._session
        budget = self._budget(limit)
        # An evicted step of a goal leaves a line in the prompt instead.
        summarize = (
            self._config.context.summarize
            and conversation is session.conversation
            and session.pursuit is None
        )
        plan = await budget.plan(conversation, summarize=summarize)
        self._check_cap(plan.measure.total)
        if summarize and plan.summary_chars:
            summary = await Summarizer(session, self.preset, self._emit).summarize(plan)
            plan = await budget.summarized(conversation.summary, plan, summary)
            self._check_cap(plan.measure.total)
        budget.apply(conversation, plan)
        await self._report_losses(plan)
        return plan

    async def _report_losses(self, prepared: Prepared) -> None:
        if prepared.evicted:
            # Update all counts before the first await, where a cancel may be raised.
            self.evicted += len(prepared.evicted)
            self._session.meter.evicted()
            if self._session.pursuit is not None:
                self._session.pursuit.evicted(prepared.evicted)
            await self._session.recorder.evicted(prepared.evicted, prepared.summary)
            ending = "were left out" if prepared.summary is None else "went into the summary"
            await self._notice("info", f"{len(prepared.evicted)} old messages {ending}.")
        if prepared.cut:
            cut = ", ".join(prepared.cut)
            message = f"To fit the budget, some content was cut or left out: {cut}."
            await self._notice("warning", message)

    def account(self, tokens: int = 0) -> Usage:
        """Charge the call to the session, by its measured size by default; return its usage."""
        reported = self.received.usage
        self._plausible = reported is not None and self._session.accounting.is_plausible(
            self._fitted, self._counter, reported.input_tokens
        )
        if reported is not None and self._tools and not self.received.tool_calls:
            accounting = self._session.accounting
            without = accounting.without_tools(self._fitted, self._counter, reported.input_tokens)
            self._leaves_out_tools = without is not None
            tokens = tokens or without or 0
        return super().account(tokens or self.tokens)

    def verify(self) -> str:
        """Compare our estimates with what the server reported, and learn from that.

        Before that, ``account`` must be called, and the reply, if any, be appended to the
        conversation. Return a warning for the user, each once; empty if there is none.
        """
        reported, workspace = self.received.usage, self._workspace
        if reported is None:
            return ""
        accounting, prepared = self._session.accounting, self._fitted
        read = reported.input_tokens
        # If the server itself counted the request before, that count may be the wrong one.
        known = prepared.measure.total == self._counted
        limit = None
        if not known:
            limit = accounting.silent_limit(self._conversation, prepared, self._counter, read)
        if self._conversation is self._session.conversation and not self._leaves_out_tools:
            self._session.meter.verified(self.preset, reported, prepared.measure)
        if self._leaves_out_tools:
            # This count says nothing about later requests, which have no tools.
            workspace.services.catalog.refused_tools(self.preset)
            message = (
                f"The template of {self.preset.name} leaves out tools, so none are offered to it."
            )
            return message if self._session.first_time(message) else ""
        if limit is not None:
            # The server counted only a part, as the message below says: drop the other warning.
            accounting.take_doubts()
            is_new = self._session.first_time(f"{self.preset.name} cuts what it is sent")
            return cut_silently(self.preset, self.tokens, read, limit) if is_new else ""
        if self._plausible:
            if self._counted is not None and known:
                accounting.counted(self.preset, self._config, self._counted, read)
            accounting.answered(self._conversation, prepared, self._counter, reported)
            workspace.services.keep_calibration()
        return ""

    def finish_notice(self, finish: FinishReason, *, spoke: bool) -> str | None:
        """Return a notice about how the reply ended; None if none is needed.

        ``spoke`` says whether the turn had any text.
        """
        name = self.preset.name
        match finish:
            case "stop" if not spoke:
                return "The model's answer is empty. Ask again."
            case "refusal":
                return f"{name} refused to {'continue' if spoke else 'answer'}."
            case "repetition":
                return (
                    f"The reply of {name} was stopped: its {'text' if spoke else 'reasoning'} kept"
                    " repeating itself. Rephrase the question, or ask another model"
                    " (`:retry NAME`). `suggestions.repetition_guard` sets which models' replies"
                    " are stopped."
                )
            case "length":
                return _cut(self.preset, self.usage, spoke=spoke)
        return None

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))


def refuses_tools(error: AishError) -> bool:
    """Return whether a server says that it, or its model, does not support tools at all."""
    return _REFUSES_TOOLS.search(str(error.data.get("provider_message", ""))) is not None


def _cut(preset: Preset, usage: Usage | None, *, spoke: bool) -> str:
    """Return the notice about a reply that ended because of its length."""
    name, limit = preset.name, reply_limit(preset)
    if usage is not None and 0 < usage.output_tokens < _AT_LIMIT * limit:
        return (
            f"The reply of {name} ended early: its window was full, or its server stopped it. "
            "Ask it to continue."
        )
    if spoke:
        return (
            f"The reply of {name} was cut at {limit:,} tokens, its `max_output_tokens`. Raise "
            "that limit, or ask it to continue."
        )
    return (
        f"{name} used up {limit:,} tokens, its `max_output_tokens`, before it began to answer:"
        " its reasoning counts, too. Raise that limit."
    )


def cut_silently(preset: Preset, sent: int, read: int, limit: int) -> str:
    """Return the notice about a server that ``read`` fewer tokens than it was ``sent``.

    ``limit`` is the number of tokens that it seems to be limited to.
    """
    return (
        f"{preset.name} was sent about {sent:,} tokens, but its server read only {read:,}: it seems"
        " to drop, without an error, whatever exceeds a limit of its own. With Ollama that limit is"
        " `num_ctx`: start it with a larger one (`OLLAMA_CONTEXT_LENGTH=16384 ollama serve`). Or"
        f" set `context_window = {limit}` in `[models.{preset.name}]`, so that no more is sent than"
        " it reads."
    )
