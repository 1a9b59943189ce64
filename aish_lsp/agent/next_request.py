"""The next request of a session, as far as it is known: all but the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.context.measure import Draft, Measure, draft_tokens, fetch, measure
from aish_lsp.context.messages import Message
from aish_lsp.context.prompt import in_force, request_messages
from aish_lsp.context.report import cost_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.accounting import Accounting
    from aish_lsp.config.schema import Config, Preset
    from aish_lsp.context.budget import Limits
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.context.messages import Attached
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.context.report import ContextReport, CostReport
    from aish_lsp.context.usage import UsageTotals
    from aish_lsp.models.request import RequestMessage, ToolSchema


class NextRequest:
    """What a person is shown of it; the request itself is measured in the same way.

    Output that the question will carry stands there as a user's message of its own, with the
    ``question`` and what is ``attached`` to it, where one is given.
    """

    def __init__(
        self,
        config: Config,
        preset: Preset,
        accounting: Accounting,
        conversation: Conversation,
        *,
        blocks: Blocks,
        tools: tuple[ToolSchema, ...],
        question: str = "",
        attached: Sequence[Attached] = (),
    ) -> None:
        self._config = config
        self._preset = preset
        self._accounting = accounting
        self._counter = accounting.counter(preset, config)
        self._counted = conversation.anchors.get(self._counter.form)
        self._messages, pending = conversation.messages, tuple(conversation.pending)
        if pending or question:
            asked = Message("user", question, exec=pending, attached=tuple(attached))
            self._messages = [*self._messages, asked]
        self._compress = self._config.context.compress
        sent = in_force(self._messages, blocks, self._preset, self._compress)
        self._draft = Draft(blocks.in_force(), sent, tools)

    @property
    def size(self) -> Measure:
        """Its size."""
        return measure(self._draft, self._counter, self._counted)

    @property
    def limit(self) -> Limits:
        """What it must fit into, as far as is known without asking anybody."""
        return self._accounting.known_limits(self._preset, self._config)

    async def ask_limit(self) -> None:
        """Ask the model's server for its window, where it was not asked yet. Never raises."""
        await self._accounting.limits(self._preset, self._config)

    async def count(self) -> None:
        """Ask the model's server for what only it knows of it. Never raises.

        That is its window and, where its tokenizer is asked, what has not been counted yet.
        """
        await self.ask_limit()
        await fetch(self._draft, self._counter)

    def messages(self) -> tuple[RequestMessage, ...]:
        """Return its messages."""
        return request_messages(self._draft.blocks, self._messages, self._preset, self._compress)

    def context(self) -> ContextReport:
        """Return where its tokens would go."""
        guessed = draft_tokens(self._draft, self._counter).estimated
        tokenizer = "heuristic" if guessed else "endpoint"
        return self._accounting.meter.context(self.size, self.limit, self._preset, tokenizer)

    def cost(self) -> CostReport:
        """Return what this session has used and cost, and the size of its next request."""
        return self.cost_of(self._accounting.meter.usage)

    def cost_of(self, usage: UsageTotals) -> CostReport:
        """Return what was used as a report."""
        thresholds = self._config.cost
        known = self._accounting.knows_window(self._preset)
        budget = self.limit.budget if known else None
        return cost_report(usage, thresholds, self.size.total, budget)
