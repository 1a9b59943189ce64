"""One round of a turn: the conversation made to fit, sent, and compared with what came of it."""

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
from aish_lsp.models.request import ModelRequest, StoredReasoning, reasoning_source, reply_limit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.events import FinishReason, Level, Usage
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ModelEvent, ToolSchema

#: What servers say of tools that a model, or they themselves, cannot take: Ollama, OpenRouter,
#: llama.cpp without templates or with a grammar, vLLM without a parser, Google's for Gemma.
_REFUSES_TOOLS: Final = re.compile(
    r"(?:not|n't|no \w+ found that) support\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\b(?:tools?|function call\w*)\b[^.\n]{0,60}"
    r"(?:\bnot (?:be )?(?:supported|enabled|available|allowed)|\bunsupported|\brequires? --)"
    r"|\bunsupported\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\btool choice requires --|\bgrammar constraints with tools\b",
    re.IGNORECASE,
)

#: Tokens. No model that one can talk to has less; a server that says so makes a mistake.
_SMALLEST_WINDOW = 256

#: The share of the budget that the text may take which a question is about.
_ATTACHED_SHARE: Final = 2

#: Of its limit of tokens: a reply that is called too long before it has as many filled the window.
#: Not more, since what it has may be an estimate.
_AT_LIMIT = 0.5


class Round(ModelCall):
    """A call to the model with the whole conversation, once it was made to ``fit``.

    Args:
        session: where it is asked.
        conversation: what it goes on; the session's own, unless it is to leave no trace.
        preset: the model.
        emit: where the user is told.

    Attributes:
        evicted: how many turns had to go for it.
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
        self._limit: Limits | None = None
        self._prepared: Prepared | None = None
        self._plausible = self._leaves_out_tools = False
        self._counted: int | None = None

    @property
    def tokens(self) -> int:
        """The size of the request."""
        return self._fitted.measure.total

    @property
    def budget(self) -> int:
        """The tokens that it had to fit into."""
        assert self._limit is not None
        return self._limit.budget

    @property
    def _fitted(self) -> Prepared:
        assert self._prepared is not None, "the request was not made to fit"
        return self._prepared

    @property
    def reasoning(self) -> StoredReasoning | None:
        """The reasoning with what its provider wants back; None where there is neither."""
        text = "".join(self.received.reasoning)
        metadata = self.received.metadata.metadata if self.received.metadata else {}
        if not text and not metadata:
            return None
        return StoredReasoning(text, reasoning_source(self.preset), metadata)

    async def fit(self) -> None:
        """Put the request together, evicting what has to go, and see that it may be paid for.

        Raises:
            OverBudget: it does not fit, whatever is left out. Nothing is lost.
            CostCap: it might cross the session's cap. Nothing is lost either.
        """
        await self._workspace.services.catalog.price(self.preset)
        # Of one that may not be paid for, nothing else is asked at all.
        self._allow(0)
        self._limit = await self._session.accounting.limits(self.preset, self._config)
        self._tools = self._session.tools_for(self.preset, self._limit)
        await self._bound_attached(self._limit)
        if self._session.accounting.counts_requests(self.preset, self._config):
            # Before anything is evicted by an estimate; below, what an eviction leaves.
            await self._count(await self._budget(self._limit).whole(self._conversation))
        self._prepared = await self._prepare(self._limit)
        if await self._count(self._prepared):
            self._prepared = await self._prepare(self._limit)

    async def reply(self) -> AsyncGenerator[ModelEvent, None]:
        """Send it and yield the reply; where the server finds it too long, once more with less.

        Raises:
            AishError: no reply, or it broke off.
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
        """Make the request anew without tools, which the model's server does not take."""
        self._workspace.services.catalog.refused_tools(self.preset)
        message = f"{self.preset.name} takes no tools here: it answers without them."
        if self._session.first_time(message):
            await self._notice("info", message)
        await self.fit()

    async def _make_room(self, error: AishError) -> None:
        """Evict by the server's own count, where ``error`` says that the request is too long.

        Raises:
            AishError: ``error``, where it says something else or nothing is left to evict.
            CostCap: as ``fit``.
        """
        overflow = overflow_of(error)
        refused, accounting = self._fitted, self._session.accounting
        if overflow is None or refused.cut or self.preset.local_compress:
            raise error
        assert self._limit is not None
        # Where the server names no number, all that is known is that it does not fit.
        counted = max(refused.measure.total, overflow.window or self._limit.window) + 1
        named, window = overflow.prompt_tokens, overflow.window or 0
        believed = named is None or accounting.is_plausible(refused, self._counter, named)
        if believed and window >= _SMALLEST_WINDOW:
            self._workspace.services.catalog.told_window(self.preset, window)
        if believed and named is not None:
            accounting.learn(refused, self._counter, named)
            counted = named
        accounting.refused(self._conversation, refused, self._counter, counted)
        # What cannot be evicted is estimated: by as much too low as this request was.
        ratio = self._counter.ratio * counted / max(1, refused.measure.total)
        self._counter = accounting.counter(self.preset, self._config, ratio)
        limit = await accounting.limits(self.preset, self._config)
        self._limit = replace(limit, budget=min(limit.budget, counted - 1))
        try:
            self._prepared = await self._prepare(self._limit)
        except OverBudget:
            raise error from None
        if not self._prepared.evicted and not self._prepared.cut:
            raise error
        message = f"{self.preset.name} found the question too long: asked again with less."
        await self._notice("warning", message)

    async def _bound_attached(self, limit: Limits) -> None:
        """Leave what is attached to the question its share of the budget, and no more."""
        messages = self._conversation.messages
        if messages[-1].role == "user":
            messages[-1] = await bounded(
                messages[-1], limit.budget // _ATTACHED_SHARE, self._counter
            )

    def _allow(self, tokens: int) -> None:
        """See whether so many tokens may be paid for; CostCap where not."""
        self._session.accounting.check_cap(self.preset, self._config, tokens)

    def _budget(self, limit: Limits) -> Budget:
        context = self._config.context
        return Budget(self._session.blocks(), context, limit, self._counter, self._tools)

    async def _count(self, prepared: Prepared) -> bool:
        """Have the server count a request that is only estimated; return whether it did."""
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
        # What is left out is estimated by what was just learned.
        self._counter = accounting.counter(self.preset, self._config)
        return True

    async def _prepare(self, limit: Limits) -> Prepared:
        """Plan what goes, have it summarized where that is wanted, and let it go."""
        conversation, session = self._conversation, self._session
        budget = self._budget(limit)
        # A goal's steps leave a line each instead.
        wanted = (
            self._config.context.summarize
            and conversation is session.conversation
            and session.pursuit is None
        )
        plan = await budget.plan(conversation, summarize=wanted)
        self._allow(plan.measure.total)
        if wanted and plan.summary_chars:
            summary = await Summarizer(session, self.preset, self._emit).summarize(plan)
            plan = await budget.summarized(conversation.summary, plan, summary)
            self._allow(plan.measure.total)
        budget.apply(conversation, plan)
        await self._tell_what_was_given_up(plan)
        return plan

    async def _tell_what_was_given_up(self, prepared: Prepared) -> None:
        if prepared.evicted:
            await self._session.recorder.evicted(prepared.evicted, prepared.summary)
            self._session.meter.evicted()
            if self._session.pursuit is not None:
                self._session.pursuit.evicted(prepared.evicted)
            self.evicted += len(prepared.evicted)
            became = "were left out" if prepared.summary is None else "went into the summary"
            await self._notice("info", f"{len(prepared.evicted)} old messages {became}.")
        if prepared.cut:
            cut = ", ".join(prepared.cut)
            message = f"To fit the budget this was cut or left out: {cut}."
            await self._notice("warning", message)

    def account(self, tokens: int = 0) -> Usage:
        """Add the call to the session, the request as it was measured; return what counts of it."""
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
        """Compare what was estimated with what the server reported, and go on from that.

        The call is accounted and the reply, if there is one, is in the conversation by now. Return
        what the user is to be told of it, once; empty for nothing.
        """
        reported, workspace = self.received.usage, self._workspace
        if reported is None:
            return ""
        accounting, prepared = self._session.accounting, self._fitted
        read = reported.input_tokens
        # Where the server has counted the request before, that count may be what is wrong.
        known = prepared.measure.total == self._counted
        limit = None
        if not known:
            limit = accounting.silent_limit(self._conversation, prepared, self._counter, read)
        if self._conversation is self._session.conversation and not self._leaves_out_tools:
            self._session.meter.verified(self.preset, reported, prepared.measure)
        if self._leaves_out_tools:
            # Its count tells nothing of a request as ours are from now on: none are offered.
            workspace.services.catalog.refused_tools(self.preset)
            message = (
                f"The template of {self.preset.name} leaves out tools: none are offered to it."
            )
            return message if self._session.first_time(message) else ""
        if limit is not None:
            # What a part of it has tells nothing of the whole; that it is little is told with it.
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
        """Return what to say of how the reply ended, None where it speaks for itself.

        ``spoke`` tells whether the turn had any text.
        """
        name = self.preset.name
        match finish:
            case "stop" if not spoke:
                return "The model answered with nothing. Ask again."
            case "refusal":
                return f"{name} refused to answer{' any further' if spoke else ''}."
            case "repetition":
                return (
                    f"The reply of {name} was stopped: it kept {'writing' if spoke else 'thinking'}"
                    " the same thing. Ask in other words, or ask another model"
                    " (`:retry NAME`). `suggestions.repetition_guard` sets whose replies are"
                    " stopped."
                )
            case "length":
                return _cut(self.preset, self.usage, spoke=spoke)
        return None

    async def _notice(self, level: Level, message: str) -> None:
        await self._emit(Notice(level, message))


def refuses_tools(error: AishError) -> bool:
    """Return whether a server says that it, or the model, takes no tools whatever they are."""
    return _REFUSES_TOOLS.search(str(error.data.get("provider_message", ""))) is not None


def _cut(preset: Preset, usage: Usage | None, *, spoke: bool) -> str:
    """Return what to say of a reply that was called too long."""
    name, limit = preset.name, reply_limit(preset)
    if usage is not None and 0 < usage.output_tokens < _AT_LIMIT * limit:
        return (
            f"The reply of {name} ended early: its window was full, or its server stopped it. "
            "Ask it to continue."
        )
    if spoke:
        return (
            f"The reply of {name} was cut at {limit:,} tokens, its `max_output_tokens`. Raise "
            "that, or ask it to continue."
        )
    return (
        f"{name} used up {limit:,} tokens, its `max_output_tokens`, before it said a word:"
        " its thinking counts, too. Raise that."
    )


def cut_silently(preset: Preset, sent: int, read: int, limit: int) -> str:
    """Return what to say of a server that ``read`` less than it was ``sent``; in tokens.

    ``limit`` is what it seems to be set to.
    """
    return (
        f"{preset.name} was sent about {sent:,} tokens, and its server read only {read:,}: it seems"
        " to leave out, without a word, what is beyond a limit of its own. With Ollama that is"
        " `num_ctx`: start it with a larger one (`OLLAMA_CONTEXT_LENGTH=16384 ollama serve`). Or"
        f" set `context_window = {limit}` in `[models.{preset.name}]`: then no more is sent than it"
        " reads."
    )
