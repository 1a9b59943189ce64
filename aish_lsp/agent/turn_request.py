"""The request of one turn: made to fit, made to fit again, and compared with what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.endings import cut_silently
from aish_lsp.agent.events import Notice, Usage
from aish_lsp.agent.summarizer import Summarizer
from aish_lsp.context.budget import Budget, Limits, Prepared
from aish_lsp.context.shortening import bounded
from aish_lsp.context.usage import Category, is_local
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.request import ModelRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.turns import Conversation
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.job import Emit

#: Tokens. No model that one can talk to has less; a server that says so makes a mistake.
_SMALLEST_WINDOW = 256

#: The share of the budget that the text may take which a question is about.
_ATTACHED_SHARE: Final = 2

#: What a turn's call is accounted as.
_CATEGORY: Final[Category] = "main"


class TurnRequest:
    """What one question sends to its model, once it was made to ``fit``.

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
        self.preset = preset
        self.evicted = 0
        self._session = session
        self._workspace = session.workspace
        self._conversation = conversation
        self._emit = emit
        self._counter = session.accounting.counter(preset, self._workspace.config)
        self._limit: Limits | None = None
        self._prepared: Prepared | None = None
        self._reported: Usage | None = None
        self._plausible = False
        self._estimated = True
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

    def to_model(self) -> ModelRequest:
        """Return it as the adapter takes it."""
        return ModelRequest(self.preset, self._fitted.messages)

    async def fit(self) -> None:
        """Put the request together, evicting what has to go, and see that it may be paid for.

        Raises:
            OverBudget: it does not fit, whatever is left out. Nothing is lost.
            CostCap: it might cross the session's cap. Nothing is lost either.
        """
        workspace = self._workspace
        await self._session.accounting.ask_price(self.preset)
        # Of one that may not be paid for, nothing else is asked at all.
        self._allow(0)
        self._limit = await self._session.accounting.limits(self.preset, workspace.config)
        await self._bound_attached(self._limit)
        if self._session.accounting.counts_requests(self.preset, workspace.config):
            # Before anything is evicted by an estimate; below, what an eviction leaves.
            await self._count(await self._budget(self._limit).whole(self._conversation))
        self._prepared = await self._prepare(self._limit)
        if await self._count(self._prepared):
            self._prepared = await self._prepare(self._limit)

    async def make_room(self, error: AishError) -> None:
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
        believed = named is None or accounting.believes(refused, self._counter, named)
        if believed and window >= _SMALLEST_WINDOW:
            self._workspace.services.catalog.told_window(self.preset, window)
        if believed and named is not None:
            accounting.learn(refused, self._counter, named)
            counted = named
        accounting.refused(self._conversation, refused, self._counter, counted)
        # What cannot be evicted is estimated: by as much too low as this request was.
        ratio = self._counter.ratio * counted / max(1, refused.measure.total)
        self._counter = accounting.counter(self.preset, self._workspace.config, ratio)
        limit = await accounting.limits(self.preset, self._workspace.config)
        self._limit = replace(limit, budget=min(limit.budget, counted - 1))
        try:
            self._prepared = await self._prepare(self._limit)
        except OverBudget:
            raise error from None
        if not self._prepared.evicted and not self._prepared.cut:
            raise error
        message = f"{self.preset.name} found the question too long: asked again with less."
        await self._emit(Notice("warning", message))

    async def _bound_attached(self, limit: Limits) -> None:
        """Leave what is attached to the question its share of the budget, and no more."""
        turns = self._conversation.turns
        turns[-1] = await bounded(turns[-1], limit.budget // _ATTACHED_SHARE, self._counter)

    def _allow(self, tokens: int) -> None:
        """See whether so many tokens may be paid for; CostCap where not."""
        self._session.accounting.check_cap(self.preset, self._workspace.config, tokens)

    def _budget(self, limit: Limits) -> Budget:
        workspace = self._workspace
        context = workspace.config.context
        return Budget(self._session.blocks(), context, limit, self._counter, allow=self._allow)

    async def _count(self, prepared: Prepared) -> bool:
        """Have the server count a request that is only estimated; return whether it did."""
        workspace, accounting = self._workspace, self._session.accounting
        if not accounting.counts_requests(self.preset, workspace.config):
            return False
        model = self._session.open_model(self.preset)
        tokens = await accounting.count(
            self._conversation, prepared, self._counter, model, workspace.config
        )
        if tokens is None:
            return False
        self._counted = tokens
        # What is left out is estimated by what was just learned.
        self._counter = accounting.counter(self.preset, workspace.config)
        return True

    async def _prepare(self, limit: Limits) -> Prepared:
        conversation, session = self._conversation, self._session
        budget = self._budget(limit)
        wanted = self._workspace.config.context.summarize
        summarizing = wanted and conversation is session.conversation
        summarizer = Summarizer(session, self.preset, self._emit)
        prepared = await budget.prepare(conversation, summarizer.roll if summarizing else None)
        await self._tell_what_was_given_up(prepared)
        return prepared

    async def _tell_what_was_given_up(self, prepared: Prepared) -> None:
        if prepared.evicted:
            await self._session.recorder.evicted(prepared.evicted, prepared.summary)
            self._session.meter.evicted()
            self.evicted += len(prepared.evicted)
            became = "were left out" if prepared.summary is None else "went into the summary"
            await self._emit(Notice("info", f"{len(prepared.evicted)} old messages {became}."))
        if prepared.cut:
            cut = ", ".join(prepared.cut)
            message = f"To fit the budget this was cut or left out: {cut}."
            await self._emit(Notice("warning", message))

    def account(self, usage: Usage | None, said: Iterable[str]) -> Usage:
        """Add the call to the session and return what counts of it, with its cost.

        What the server did not report is estimated; ``said`` is all that it sent. Dollars that it
        named are taken as they are.
        """
        accounting, counter = self._session.accounting, self._counter
        self._reported = usage
        self._plausible = usage is not None and accounting.believes(
            self._fitted, counter, usage.input_tokens
        )
        output = sum(counter.settled(counter.text(text)) for text in said)
        usage, self._estimated = accounting.charged(
            self.preset, self._workspace.config, usage, Usage(self.tokens, output)
        )
        return accounting.call_ended(self.preset, _CATEGORY, usage)

    def verify(self) -> str:
        """Compare what was estimated with what the server reported, and go on from that.

        The call is accounted and the reply, if there is one, is in the conversation by now. Return
        what the user is to be told of it, once; empty for nothing.
        """
        reported, workspace = self._reported, self._workspace
        if reported is None:
            return ""
        accounting, prepared = self._session.accounting, self._fitted
        read = reported.input_tokens
        # Where the server has counted the request before, that count may be what is wrong.
        known = prepared.measure.total == self._counted
        limit = None
        if not known:
            limit = accounting.silent_limit(self._conversation, prepared, self._counter, read)
        if self._conversation is self._session.conversation:
            self._session.meter.verified(self.preset, reported, prepared.measure)
        if limit is not None:
            # What a part of it has tells nothing of the whole; that it is little is told with it.
            accounting.take_doubts()
            is_new = self._session.first_time(f"{self.preset.name} cuts what it is sent")
            return cut_silently(self.preset, self.tokens, read, limit) if is_new else ""
        if self._plausible:
            if self._counted is not None and known:
                accounting.counted(self.preset, workspace.config, self._counted, read)
            accounting.answered(self._conversation, prepared, self._counter, reported)
            workspace.services.keep_calibration()
        return ""

    async def record_usage(self, usage: Usage) -> None:
        """Write down what the call took, as ``account`` had it."""
        local = is_local(self.preset) and usage.cost is None
        await self._session.recorder.usage(
            self.preset, _CATEGORY, usage, local=local, estimated=self._estimated
        )
