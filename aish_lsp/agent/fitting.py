"""The request of a round: composed, fitted by evicting, compared with the server's counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.call import Fitting
from aish_lsp.agent.side_call import Summarizer
from aish_lsp.context.budget import Budget, Limits, Prepared, bounded
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.models.providers import reply_limit
from aish_lsp.models.refusals import overflow_of
from aish_lsp.models.request import ModelRequest

if TYPE_CHECKING:
    from aish_lsp.agent.call import ModelCall, Received
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.events import FinishReason, Usage
    from aish_lsp.foundation.job import Emit

#: Finish reasons that say nothing about an empty answer.
_USUAL: Final = frozenset({"", "stop", "STOP", "end_turn", "completed"})

#: In tokens. No usable model has a smaller window, so a server that reports one is wrong.
_SMALLEST_WINDOW = 256

#: The texts that a question is about may take the budget divided by this.
_ATTACHED_SHARE: Final = 2

#: A reply that ends as too long, but has less than this share of its limit of output tokens, filled
#: the window instead. The share is small since the reply's size may be an estimate.
_AT_LIMIT = 0.5


class ConversationFitting(Fitting):
    """Makes a request with the whole conversation.

    Args:
        session: the session in which the question is asked.
        conversation: the session's own, or another one if nothing is to be left in that.
        emit: reports events.

    Attributes:
        evicted: how many messages were evicted in this turn.
    """

    def __init__(self, session: Session, conversation: Conversation, emit: Emit) -> None:
        super().__init__(session, "main", emit)
        self.evicted = 0
        self._workspace = session.workspace
        self._conversation = conversation
        # Set by ``fit``.
        self._preset: Preset
        self._limit: Limits
        self._fitted: Prepared

    @property
    def budget(self) -> int:
        """The tokens that the request had to fit into."""
        return self._limit.budget

    async def fit(self, preset: Preset) -> ModelRequest:
        """Compose the request, evicting what does not fit, and check it against the cost cap.

        Raises:
            OverBudget, CostCap: as ``Fitting.fit``.
        """
        self._preset = preset
        self.category = "norris" if self.session.pursuit else "main"
        self._config = self._workspace.config
        self.counter = self.session.accounting.counter(preset, self._config)
        self._plausible = self._leaves_out_tools = False
        self._counted: int | None = None
        await self._workspace.services.catalog.price(preset)
        # If the cap has been reached, do not ask the server anything else.
        self._check_cap(0)
        self._limit = await self.session.accounting.limits(self._preset, self._config)
        await self._tell_of_guess()
        self._tools = self.session.tools_for(self._preset, self._limit)
        await self._bound_attached()
        if self.session.accounting.counts_requests(self._preset, self._config):
            # Count the whole conversation, so that nothing is evicted because of an estimate. If
            # something is evicted, the rest is counted below.
            await self._count(await self._budget().whole(self._conversation))
        self._fitted = await self._make_fit()
        if await self._count(self._fitted):
            self._fitted = await self._make_fit()
        return self._request()

    async def _tell_of_guess(self) -> None:
        """Say, once, that the window is a guess, and what to do about it."""
        preset, catalog = self._preset, self._workspace.services.catalog
        if catalog.known_window(preset) is not None or catalog.refuses_key(preset):
            return
        message = (
            f"No more than {self._limit.window:,} tokens are used, as the server does not say how"
            f" many the model takes: set `context_window` in `[models.{preset.name}]` of"
            " config.toml."
        )
        await self.fact("info", message)

    def _request(self) -> ModelRequest:
        self.tokens = self._fitted.measure.total
        return ModelRequest(self._preset, self._fitted.messages(), self._fitted.draft.tools)

    async def fit_less(self, error: AishError) -> ModelRequest:
        """Evict messages by the server's own count, if ``error`` says that the request is too long.

        Raises:
            AishError: ``error`` itself, if it says something else or nothing is left to evict.
            CostCap: as for ``fit``.
        """
        overflow = overflow_of(error)
        refused, accounting = self._fitted, self.session.accounting
        if overflow is None or refused.cut or self._preset.local_compress:
            raise error
        # If the server names no number, we only know that the request does not fit.
        counted = max(refused.measure.total, overflow.window or self._limit.window) + 1
        named, window = overflow.prompt_tokens, overflow.window or 0
        is_plausible = named is None or accounting.is_plausible(refused, self.counter, named)
        if is_plausible and window >= _SMALLEST_WINDOW:
            self._workspace.services.catalog.told_window(self._preset, window)
        if is_plausible and named is not None:
            accounting.learn(refused, self.counter, named)
            counted = named
        accounting.refused(self._conversation, refused, self.counter, counted)
        # What is left is still estimated, probably too low by the same ratio as this request.
        ratio = self.counter.ratio * counted / max(1, refused.measure.total)
        self.counter = accounting.counter(self._preset, self._config, ratio)
        limit = await accounting.limits(self._preset, self._config)
        self._limit = replace(limit, budget=min(limit.budget, counted - 1))
        try:
            self._fitted = await self._make_fit()
        except OverBudget:
            raise error from None
        if not self._fitted.evicted and not self._fitted.cut:
            raise error
        return self._request()

    async def _bound_attached(self) -> None:
        """Cut the texts attached to the question to their share of the budget."""
        messages = self._conversation.messages
        if messages[-1].role == "user":
            messages[-1] = await bounded(messages[-1], self.budget // _ATTACHED_SHARE, self.counter)

    def _check_cap(self, tokens: int) -> None:
        """Raise CostCap if the cost cap forbids a request of this many tokens."""
        self.session.accounting.check_cap(self._preset, self._config, tokens)

    def _budget(self) -> Budget:
        context = self._config.context
        return Budget(self.session.blocks(), context, self._limit, self.counter, self._tools)

    async def _count(self, prepared: Prepared) -> bool:
        """Have the server count a request whose size is only estimated; return whether it did."""
        accounting, model = self.session.accounting, self.session.open_model(self._preset)
        tokens = await accounting.count(
            self._conversation, prepared, self.counter, model, self._config
        )
        if tokens is None:
            return False
        self._counted = tokens
        # The count also improves the estimates by which messages are evicted.
        self.counter = accounting.counter(self._preset, self._config)
        return True

    async def _make_fit(self) -> Prepared:
        """Plan what to evict, have it summarized if that is configured, and evict it."""
        conversation, session = self._conversation, self.session
        budget = self._budget()
        # An evicted step of a goal leaves a line in the prompt instead.
        summarize = (
            self._config.context.summarize
            and conversation is session.conversation
            and session.pursuit is None
        )
        plan = await budget.plan(conversation, summarize=summarize)
        self._check_cap(plan.measure.total)
        if summarize and plan.summary_chars:
            summary = await Summarizer(session, self._preset, self.emit).summarize(plan)
            plan = await budget.summarized(conversation.summary, plan, summary)
            self._check_cap(plan.measure.total)
        budget.apply(conversation, plan)
        await self._report_losses(plan)
        return plan

    async def _report_losses(self, prepared: Prepared) -> None:
        if prepared.evicted:
            # Update all counts before the first await, where a cancel may be raised.
            self.evicted += len(prepared.evicted)
            self.session.meter.evicted()
            if self.session.pursuit is not None:
                self.session.pursuit.evicted(prepared.evicted)
            await self.session.recorder.evicted(prepared.evicted, prepared.summary)
            ending = "were left out" if prepared.summary is None else "went into the summary"
            await self.notice("info", f"{len(prepared.evicted)} old messages {ending}.")
        if prepared.cut:
            cut = ", ".join(prepared.cut)
            message = f"To fit the budget, some content was cut or left out: {cut}."
            await self.notice("warning", message)

    def size(self, received: Received) -> int:
        """Return the measured tokens, without tools if the model's template leaves them out."""
        reported, accounting = received.usage, self.session.accounting
        if reported is None:
            return self.tokens
        sent = reported.input_tokens
        self._plausible = accounting.is_plausible(self._fitted, self.counter, sent)
        without = None
        if self._tools and not received.tool_calls:
            without = accounting.without_tools(self._fitted, self.counter, sent)
        self._leaves_out_tools = without is not None
        return without or self.tokens

    async def verify(self, reported: Usage) -> None:
        """Compare our estimates with what the server ``reported``, and learn from that.

        Before that, ``size`` must be called, and the reply, if any, be appended to the
        conversation. The user is warned if the server leaves out what it is sent.
        """
        workspace = self._workspace
        accounting, prepared = self.session.accounting, self._fitted
        read = reported.input_tokens
        # If the server itself counted the request before, that count may be the wrong one.
        is_counted = prepared.measure.total == self._counted
        limit = None
        if not is_counted:
            limit = accounting.silent_limit(self._conversation, prepared, self.counter, read)
        if self._conversation is self.session.conversation and not self._leaves_out_tools:
            self.session.meter.verified(self._preset, reported, prepared.measure)
        if self._leaves_out_tools:
            # This count says nothing about later requests, which have no tools.
            workspace.services.catalog.refused_tools(self._preset)
            message = (
                "cannot use tools (its chat template leaves them out), so none are offered to it"
            )
            await self.fact("warning", f"{self._preset.name} {message}.")
        elif limit is not None:
            await self.fact("warning", cut_silently(self._preset, self.tokens, read, limit))
        elif self._plausible:
            if self._counted is not None and is_counted:
                accounting.counted(self._preset, self._config, self._counted, read)
            accounting.answered(self._conversation, prepared, self.counter, reported)
            workspace.services.keep_calibration()


def finish_notice(call: ModelCall, finish: FinishReason, *, spoke: bool) -> str | None:
    """Return a notice about how a turn's last reply ended; None if none is needed.

    ``spoke`` says whether the turn had any text.
    """
    name = call.preset.name
    match finish:
        case "stop" if not spoke:
            return _no_answer(call)
        case "tool" if not call.received.tool_calls:
            return "The model meant to call a tool, but its server sent no call. Ask again."
        case "refusal":
            return f"{name} refused to {'continue' if spoke else 'answer'}."
        case "repetition":
            return (
                f"The reply from {name} was stopped: its {'text' if spoke else 'reasoning'} kept"
                " repeating itself. Rephrase the question, or ask another model"
                " (`:retry NAME`). `suggestions.repetition_guard` sets which models' replies"
                " are stopped."
            )
        case "length":
            return _cut(call.preset, call.usage, spoke=spoke)
    return None


def _no_answer(call: ModelCall) -> str:
    """Return the notice about a reply without text, with the server's reason if it is unusual."""
    finish = call.received.finish_said
    why = f" Its server gave the reason `{finish}`." if finish not in _USUAL else ""
    reasoned = any(call.received.reasoning)
    what = "The model reasoned, and gave no answer" if reasoned else "The model's answer is empty"
    return f"{what}. Ask again.{why}"


def _cut(preset: Preset, usage: Usage | None, *, spoke: bool) -> str:
    """Return the notice about a reply that ended because of its length."""
    name, limit = preset.name, reply_limit(preset)
    if usage is not None and 0 < usage.output_tokens < _AT_LIMIT * limit:
        return (
            f"The reply from {name} ended early: its window was full, or its server stopped it. "
            "Ask it to continue."
        )
    if spoke:
        return (
            f"The reply from {name} was cut at {limit:,} tokens, its `max_output_tokens`. Raise "
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
