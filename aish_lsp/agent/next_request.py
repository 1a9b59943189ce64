"""The next request of a session, as far as it is known: all but the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.context.measure import Draft, Measure, draft_tokens, fetch, measure
from aish_lsp.context.prompt import in_force, messages
from aish_lsp.context.report import cost_report
from aish_lsp.context.turns import Turn
from aish_lsp.context.usage import UsageTotals

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.report import ContextReport, CostReport
    from aish_lsp.models.request import Message


class NextRequest:
    """What a person is shown of it; the request itself is measured in the same way.

    Output that the question will carry stands there as a user's turn of its own.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._config = session.workspace.config
        self._preset = session.preset
        self._counter = session.accounting.counter(self._preset, self._config)
        conversation, blocks = session.conversation, session.blocks()
        self._turns, pending = conversation.turns, tuple(conversation.pending)
        if pending:
            self._turns = [*self._turns, Turn("user", "", exec=pending)]
        self._compress = self._config.context.compress
        sent = in_force(self._turns, blocks, self._preset, self._compress)
        self._draft = Draft(blocks.in_force(), sent, session.tools.definitions())

    @property
    def size(self) -> Measure:
        """Its size."""
        anchor = self._session.conversation.anchors.get(self._counter.form)
        return measure(self._draft, self._counter, anchor)

    @property
    def limit(self) -> Limits:
        """What it must fit into, as far as is known without asking anybody."""
        return self._session.accounting.known_limits(self._preset, self._config)

    async def ask_limit(self) -> None:
        """Ask the model's server for its window, where it was not asked yet. Never raises."""
        await self._session.accounting.limits(self._preset, self._config)

    async def count(self) -> None:
        """Ask the model's server for what only it knows of it. Never raises.

        That is its window and, where its tokenizer is asked, what has not been counted yet.
        """
        await self.ask_limit()
        await fetch(self._draft, self._counter)

    def messages(self) -> tuple[Message, ...]:
        """Return its messages."""
        return messages(self._draft.blocks, self._turns, self._preset, self._compress)

    def context(self) -> ContextReport:
        """Return where its tokens would go."""
        guessed = draft_tokens(self._draft, self._counter).estimated
        tokenizer = "heuristic" if guessed else "endpoint"
        return self._session.meter.context(self.size, self.limit, self._preset, tokenizer)

    def cost(self) -> CostReport:
        """Return what this session has used and cost, and the size of its next request."""
        return self.cost_of(self._session.meter.usage)

    def cost_of_all_sessions(self) -> CostReport:
        """Return what this workspace has ever used and cost. Blocks.

        Raises:
            StoreUnavailable: ``usage.jsonl`` cannot be read.
        """
        return self.cost_of(UsageTotals.of(self._session.recorder.usage_of_all_sessions()))

    def cost_of(self, usage: UsageTotals) -> CostReport:
        """Return what was used as a report."""
        thresholds = self._config.cost
        known = self._session.workspace.services.catalog.asked_window(self._preset)
        budget = self.limit.budget if known else None
        return cost_report(usage, thresholds, self.size.total, budget)
