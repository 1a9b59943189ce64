"""The size and cost of requests: how they are counted, their limits, and what servers reported.

``NextRequest`` is a session's next request, as far as it is known before the question.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from aish_lsp.context.budget import Limits, limits
from aish_lsp.context.counter import Counter, model_key
from aish_lsp.context.measure import Draft, Measure, MeasuredPrefix, draft_tokens, fetch, measure
from aish_lsp.context.messages import Message
from aish_lsp.context.prompt import in_force, request_messages
from aish_lsp.context.usage import Meter, check_cap, cost_report, request_cost
from aish_lsp.models.providers import goes_back
from aish_lsp.models.request import ModelRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.events import Usage
    from aish_lsp.agent.services import Services
    from aish_lsp.config.schema import Config, Preset
    from aish_lsp.context.budget import Prepared
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.context.measure import ContextReport
    from aish_lsp.context.messages import Attached
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.context.usage import Category, CostReport, UsageTotals
    from aish_lsp.models.request import Model, RequestMessage, ToolSchema

logger = logging.getLogger(__name__)

#: Bounds of a plausible count of a request, as multiples of the estimate. The upper one allows for
#: a tokenizer that takes each byte for a token.
_LEAST, _MOST = 0.5, 8.0

#: Tokens by which a small request may exceed its estimate, since some providers add text.
_SLACK = 512

#: A server that counts less than these shares of the estimate, of the whole request or of its new
#: part, has left something out. Then the tolerance, and the smallest believable limit, in tokens.
_CUT_ESTIMATE, _CUT_NEW, _CUT_SLACK, _LEAST_CUT = 0.5, 0.3, 64, 1_000

#: The same bounds for replies, and the tolerance for short ones, in tokens.
_LEAST_REPLY, _MOST_REPLY, _REPLY_SLACK = 0.5, 3.0, 64


class Accounting:
    """The counters and limits of the models that are asked in one session, and its meter."""

    def __init__(self, services: Services) -> None:
        self.meter = Meter()
        self._services = services
        self._cut_at: dict[str, int] = {}

    def counter(self, preset: Preset, config: Config, least_ratio: float = 0.0) -> Counter:
        """Return the counter for ``preset``; it scales estimates by at least ``least_ratio``."""
        tokenizer = self._services.tokenizer(preset, config.tokenize)
        ratio = self._services.calibration.ratio(model_key(preset))
        return Counter(preset, tokenizer, max(ratio, least_ratio))

    def known_limits(self, preset: Preset, config: Config) -> Limits:
        """Return what a request must fit into, as far as is known without asking the server."""
        return limits(preset, config.context, self._services.catalog.known_window(preset))

    async def limits(self, preset: Preset, config: Config) -> Limits:
        """Return what a request must fit into; ask the server for its window and price."""
        await self._services.catalog.price(preset)
        return limits(preset, config.context, await self._services.catalog.window(preset))

    def knows_window(self, preset: Preset) -> bool:
        """Return whether the window of ``preset`` is configured, or was asked of its server."""
        return self._services.catalog.asked_window(preset)

    def check_cap(self, preset: Preset, config: Config, tokens: int) -> None:
        """Check whether a request of this many tokens stays within the cost cap.

        Raises:
            CostCap: it could exceed ``cost.cap_at_dollars``, or its cost is not known.
        """
        check_cap(self.meter.usage, config.cost, self._priced(preset), tokens)

    def request_cost(self, preset: Preset, tokens: int) -> float:
        """Return the dollars that a request costs without its reply; 0 if the price is unknown."""
        return request_cost(self._priced(preset), tokens)

    def call_ended(self, preset: Preset, category: Category, usage: Usage) -> Usage:
        """Add a call to the session; return its usage with its cost."""
        return self.meter.usage.add(self._priced(preset), category, usage)

    def charged(
        self, config: Config, reported: Usage | None, estimate: Usage
    ) -> tuple[Usage, bool]:
        """Return the usage that a call is charged with, and whether any of it is estimated.

        Each number is what the server reported, even if that is implausible: the provider decides
        what a call costs. Under a cost cap, an implausible input counts at least as its estimate,
        so that a server that reports too little cannot bypass the cap. Missing numbers are
        estimated.
        """
        if reported is None:
            return estimate, True
        sent = reported.input_tokens or estimate.input_tokens
        came = reported.output_tokens or estimate.output_tokens
        capped = config.cost.cap_at_dollars is not None
        if capped and not _is_likely(sent, estimate.input_tokens):
            sent = max(sent, estimate.input_tokens)
        missing = (sent, came) != (reported.input_tokens, reported.output_tokens)
        return replace(reported, input_tokens=sent, output_tokens=came), missing

    def _priced(self, preset: Preset) -> Preset:
        """Return ``preset`` with the price that its server lists, unless one is configured."""
        price = preset.price or self._services.catalog.known_price(preset)
        return preset if price is preset.price else replace(preset, price=price)

    def counts_requests(self, preset: Preset, config: Config) -> bool:
        """Return whether the server may be asked to ``count`` requests."""
        return self._services.request_counter(preset, config.tokenize) is not None

    async def count(
        self,
        conversation: Conversation,
        prepared: Prepared,
        counter: Counter,
        model: Model,
        config: Config,
    ) -> int | None:
        """Have the server count a request whose size is only estimated.

        Return its tokens, on which later measurements build; None if it was not counted.
        """
        preset, draft = counter.preset, prepared.draft
        asked = self._services.request_counter(preset, config.tokenize)
        if asked is None or prepared.cut or preset.local_compress:
            return None
        if prepared.measure.basis == "actual" or not draft_tokens(draft, counter).estimated:
            return None
        tokens = await asked.count(model, ModelRequest(preset, prepared.messages(), draft.tools))
        if tokens is None:
            return None
        if not self.is_plausible(prepared, counter, tokens):
            asked.give_up(f"it counted {tokens} tokens")
            return None
        self.learn(prepared, counter, tokens)
        messages = len(draft.messages)
        conversation.anchors[counter.form] = _anchor(prepared, tokens, output=0, messages=messages)
        return tokens

    def counted(self, preset: Preset, config: Config, counted: int, actual: int) -> None:
        """Compare a server's own ``count`` of a request with the request's real size."""
        asked = self._services.request_counter(preset, config.tokenize)
        if asked is not None and _is_far_off(counted, actual):
            asked.give_up(f"it counted {counted} tokens, and the request had {actual}")

    def refused(
        self, conversation: Conversation, prepared: Prepared, counter: Counter, tokens: int
    ) -> None:
        """Note that a request of about ``tokens`` was too long for its server."""
        messages = len(prepared.draft.messages)
        conversation.anchors[counter.form] = _anchor(prepared, tokens, output=0, messages=messages)

    def answered(
        self,
        conversation: Conversation,
        prepared: Prepared,
        counter: Counter,
        usage: Usage,
    ) -> None:
        """Learn from the usage that a server reported for a request and its reply.

        The usage must be plausible, and the reply must be the last message, except for the results
        of its calls.
        """
        self.learn(prepared, counter, usage.input_tokens)
        sent = len(prepared.draft.messages)
        if prepared.cut or counter.preset.local_compress or len(conversation.messages) <= sent:
            # The server did not count the messages as they are in the conversation.
            return
        output, unsure = _kept_output(conversation.messages[sent], usage, counter)
        anchor = _anchor(prepared, usage.input_tokens, output=output, messages=sent + 1)
        conversation.anchors[counter.form] = replace(anchor, unsure=unsure)

    def is_plausible(self, prepared: Prepared, counter: Counter, tokens: int) -> bool:
        """Return whether ``tokens``, as a server counted them, are plausible for a request."""
        # Estimate without calibration: what was learned must not decide what is learned next.
        estimated = sum(draft_tokens(prepared.draft, Counter(counter.preset)))
        is_plausible = _is_likely(tokens, estimated)
        if not is_plausible:
            name = counter.preset.name
            logger.warning("%s reported %d tokens, expected %d: ignored", name, tokens, estimated)
        return is_plausible

    def without_tools(self, prepared: Prepared, counter: Counter, tokens: int) -> int | None:
        """Return about how many tokens a request has if the model's template leaves out its tools.

        None if it does not seem to leave them out, or if the tools are not most of the request.
        ``tokens`` is the server's own count.
        """
        draft, plain = prepared.draft, Counter(counter.preset)
        rest = sum(draft_tokens(replace(draft, tools=()), plain))
        tools = sum(draft_tokens(draft, plain)) - rest
        if tokens >= _LEAST_CUT or tools < rest or tokens > rest + tools / 3:
            return None
        return rest if tokens > rest / 2 else None

    def silent_limit(
        self, conversation: Conversation, prepared: Prepared, counter: Counter, tokens: int
    ) -> int | None:
        """Return the limit, in tokens, beyond which a server seems to drop what it is sent.

        ``tokens`` is its own count. None if it seems to have read everything. If it ever counts
        more than the limit, there is none: its tokenizer just counts differently.
        """
        key, total = model_key(counter.preset), prepared.measure.total
        limit = self._cut_at.get(key)
        if limit is not None and tokens > limit:
            del self._cut_at[key]
            return None
        if limit is None and _LEAST_CUT <= tokens < _at_least(conversation, prepared, counter):
            # A limit is usually a power of two, and what the server reads is a little less.
            limit = self._cut_at[key] = 1 << (tokens - 1).bit_length()
        return limit if limit is not None and total > limit else None

    def learn(self, prepared: Prepared, counter: Counter, actual: int) -> None:
        """Compare a server's count of a request with our estimate, or with its own tokenizer's."""
        preset, tokens = counter.preset, draft_tokens(prepared.draft, counter)
        if not tokens.counted:
            self._services.calibration.learn(model_key(preset), tokens.estimated, actual)
        elif _is_plain(prepared) and _is_far_off(sum(tokens), actual):
            self._services.distrust_tokenizer(preset, sum(tokens), actual)


def _at_least(conversation: Conversation, prepared: Prepared, counter: Counter) -> float:
    """Return the fewest tokens that a request can have, judging by the last call."""
    measure, anchor = prepared.measure, conversation.anchors.get(counter.form)
    if measure.basis == "actual" and anchor is not None:
        return measure.total - (1 - _CUT_NEW) * (anchor.output + measure.new_since) - _CUT_SLACK
    return _CUT_ESTIMATE * sum(draft_tokens(prepared.draft, Counter(counter.preset)))


def _is_likely(tokens: int, estimated: float) -> bool:
    """Return whether a server's count is plausible, given the estimate."""
    return _LEAST * estimated <= tokens <= _MOST * estimated + _SLACK


def _is_far_off(counted: int, actual: int) -> bool:
    """Return whether a count is too far from a request's real size to be right."""
    return abs(counted - actual) > max(actual / 2, _SLACK)


def _is_plain(prepared: Prepared) -> bool:
    """Return whether a request has neither tools nor calls, which some templates leave out."""
    draft = prepared.draft
    return not draft.tools and not any(message.tool_calls for message in draft.messages)


def _anchor(prepared: Prepared, counted: int, *, output: int, messages: int) -> MeasuredPrefix:
    draft = prepared.draft
    return MeasuredPrefix(counted, output, messages, draft.blocks, draft.tools)


def _kept_output(reply: Message, usage: Usage, counter: Counter) -> tuple[int, int]:
    """Return the tokens of a reply within the next request, and how many of them are a guess.

    These are the reported output without the reasoning, unless that is sent, too. If they are zero
    or out of proportion to the reply, our own count of the reply is used: some servers do not
    report reasoning separately, or report no output at all.
    """
    output, unsure = usage.output_tokens, 0
    counted = counter.settled(counter.messages([reply]))
    reasoning = reply.reasoning
    if reasoning is not None and not goes_back(reasoning, counter.preset):
        taken = usage.reasoning_tokens
        if not taken:
            taken = unsure = counter.settled(counter.text(reasoning.text))
        output -= taken
    least = max(1, _LEAST_REPLY * counted - _REPLY_SLACK)
    likely = least <= output <= _MOST_REPLY * counted + _REPLY_SLACK
    return (output, unsure) if likely and unsure <= counted else (counted, counted)


class NextRequest:
    """A session's next request, to be displayed; the real request is measured the same way.

    It ends with a user message that has the pending output, and the ``question`` and what is
    ``attached`` to it, if these are given.
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
        """The size of the request."""
        return measure(self._draft, self._counter, self._counted)

    @property
    def limit(self) -> Limits:
        """What the request must fit into, as far as is known without asking the server."""
        return self._accounting.known_limits(self._preset, self._config)

    async def ask_limit(self) -> None:
        """Ask the model's server for its window, if it has not been asked yet. Never raises."""
        await self._accounting.limits(self._preset, self._config)

    async def count(self) -> None:
        """Ask the model's server for its window and, if allowed, to count the request.

        Never raises.
        """
        await self.ask_limit()
        await fetch(self._draft, self._counter)

    def messages(self) -> tuple[RequestMessage, ...]:
        """Return the messages of the request."""
        return request_messages(self._draft.blocks, self._messages, self._preset, self._compress)

    def context(self) -> ContextReport:
        """Return a report of what the request's tokens are used for."""
        guessed = draft_tokens(self._draft, self._counter).estimated
        tokenizer = "heuristic" if guessed else "endpoint"
        return self._accounting.meter.context(self.size, self.limit, self._preset, tokenizer)

    def cost(self, usage: UsageTotals | None = None) -> CostReport:
        """Return a report of ``usage``, by default the session's, and the next request's size."""
        used = self._accounting.meter.usage if usage is None else usage
        knows_window = self._accounting.knows_window(self._preset)
        budget = self.limit.budget if knows_window else None
        return cost_report(used, self._config.cost, self.size.total, budget)
