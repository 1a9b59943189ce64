"""What a workspace's requests weigh and cost: who counts them, their limits, what came of them.

And of a session's next request, as far as it is known: all but the question.
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
from aish_lsp.context.report import Meter, cost_report
from aish_lsp.context.usage import check_cap, request_cost
from aish_lsp.models.request import ModelRequest, goes_back, reply_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.events import Usage
    from aish_lsp.agent.services import Services
    from aish_lsp.config.schema import Config, Preset
    from aish_lsp.context.budget import Prepared
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.context.messages import Attached
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.context.report import ContextReport, CostReport
    from aish_lsp.context.usage import Category, UsageTotals
    from aish_lsp.models.request import Model, RequestMessage, ToolSchema

logger = logging.getLogger(__name__)

#: Of what a request is estimated at: a server that counts less, or more, cannot mean it. The upper
#: bound is that of a tokenizer that takes each byte for a token.
_LEAST, _MOST = 0.5, 8.0

#: Tokens by which a small request may be above its estimate: some providers put in words of theirs.
_SLACK = 512

#: Of what is only estimated in a request, all of it or what is new: a server that counts less of it
#: has left some out. Tokens by which it may be off, and that there are at least where a limit cuts.
_CUT_ESTIMATE, _CUT_NEW, _CUT_SLACK, _LEAST_CUT = 0.5, 0.3, 64, 1_000

#: Of what a reply is counted at, as above; and tokens by which a short one may be off.
_LEAST_REPLY, _MOST_REPLY, _REPLY_SLACK = 0.5, 3.0, 64


class Accounting:
    """The counters and the limits of the models that one workspace asks, and its meter."""

    def __init__(self, services: Services) -> None:
        self.meter = Meter()
        self._services = services
        self._cut_at: dict[str, int] = {}
        self._doubts: list[str] = []
        # The models whose numbers the user was told of.
        self._doubted: set[str] = set()

    def counter(self, preset: Preset, config: Config, least_ratio: float = 0.0) -> Counter:
        """Return who counts for ``preset``; estimates are corrected by ``least_ratio`` or more."""
        tokenizer = self._services.tokenizer(preset, config.tokenize)
        ratio = self._services.calibration.ratio(model_key(preset))
        return Counter(preset, tokenizer, max(ratio, least_ratio))

    def known_limits(self, preset: Preset, config: Config) -> Limits:
        """Return what a request must fit into, as far as is known without asking its server."""
        return limits(preset, config.context, self._services.catalog.known_window(preset))

    async def limits(self, preset: Preset, config: Config) -> Limits:
        """Return what a request must fit into; the server is asked for its window and its price."""
        await self._services.catalog.price(preset)
        return limits(preset, config.context, await self._services.catalog.window(preset))

    def knows_window(self, preset: Preset) -> bool:
        """Return whether the window of ``preset`` is configured, or its server was asked for it."""
        return self._services.catalog.asked_window(preset)

    def check_cap(self, preset: Preset, config: Config, tokens: int) -> None:
        """See whether a request of so many tokens may be paid for.

        Raises:
            CostCap: it could cross ``cost.cap_at_dollars``, or nobody knows what it costs.
        """
        check_cap(self.meter.usage, config.cost, self._priced(preset), tokens)

    def request_cost(self, preset: Preset, tokens: int) -> float:
        """Return the dollars that a request costs, its reply aside; 0 where nobody knows."""
        return request_cost(self._priced(preset), tokens)

    def call_ended(self, preset: Preset, category: Category, usage: Usage) -> Usage:
        """Add a call to the session; return its usage with its cost."""
        return self.meter.call_ended(self._priced(preset), category, usage)

    def charged(
        self, preset: Preset, config: Config, reported: Usage | None, estimate: Usage
    ) -> tuple[Usage, bool]:
        """Return what a call is charged with, and whether any of that is estimated.

        That is what the server reported, each number for itself: costs are the provider's to say,
        odd or not. Under a cap an odd one counts for no less than it was estimated at, so that a
        server that reports too little cannot lead past it. A number that was not reported is
        estimated.
        """
        if reported is None:
            return estimate, True
        likely_sent, likely_came = estimate.input_tokens, estimate.output_tokens
        sent = reported.input_tokens or likely_sent
        came = reported.output_tokens or likely_came
        odd: list[tuple[str, int, int]] = []
        if not _is_likely(sent, likely_sent):
            odd.append(("input", sent, likely_sent))
            if config.cost.cap_at_dollars is not None:
                sent = max(sent, likely_sent)
        if _is_too_long(preset, came, likely_came):
            odd.append(("output", came, likely_came))
        self._doubt(preset, odd)
        missing = (sent, came) != (reported.input_tokens, reported.output_tokens)
        return replace(reported, input_tokens=sent, output_tokens=came), missing

    def _doubt(self, preset: Preset, odd: list[tuple[str, int, int]]) -> None:
        """Have the user told, once for a model, of numbers that are out of proportion."""
        if not odd or preset.name in self._doubted:
            return
        self._doubted.add(preset.name)
        told = " and ".join(
            f"{number:,} {name} tokens where about {guess:,} are likely"
            for name, number, guess in odd
        )
        self._doubts.append(
            f"The server of {preset.name} reported {told}. Costs follow what it reports; how full"
            " the context is goes by estimates."
        )

    def take_doubts(self) -> list[str]:
        """Return, once each, what the user should know of the numbers that servers report."""
        doubts, self._doubts = self._doubts, []
        return doubts

    def _priced(self, preset: Preset) -> Preset:
        """Return ``preset`` with the price that its server lists, unless it has one itself."""
        price = preset.price or self._services.catalog.known_price(preset)
        return preset if price is preset.price else replace(preset, price=price)

    def counts_requests(self, preset: Preset, config: Config) -> bool:
        """Return whether the server may be asked to ``count`` a request."""
        return self._services.request_counter(preset, config.tokenize) is not None

    async def count(
        self,
        conversation: Conversation,
        prepared: Prepared,
        counter: Counter,
        model: Model,
        config: Config,
    ) -> int | None:
        """Have the server itself count a request whose size rests on estimates.

        Return its tokens, which the conversation goes on from; None where nobody counts it.
        """
        preset, draft = counter.preset, prepared.draft
        asked = self._services.request_counter(preset, config.tokenize)
        known = prepared.measure.basis == "actual" or not draft_tokens(draft, counter).estimated
        if asked is None or known or prepared.cut or preset.local_compress:
            return None
        tokens = await asked.count(model, ModelRequest(preset, prepared.messages, draft.tools))
        if tokens is None:
            return None
        if not self.is_plausible(prepared, counter, tokens):
            asked.distrust(f"it counted {tokens} tokens")
            return None
        self.learn(prepared, counter, tokens)
        messages = len(draft.messages)
        conversation.anchors[counter.form] = _anchor(prepared, tokens, output=0, messages=messages)
        return tokens

    def counted(self, preset: Preset, config: Config, counted: int, actual: int) -> None:
        """Compare a server's own ``count`` of a request with what the request really was."""
        asked = self._services.request_counter(preset, config.tokenize)
        if asked is not None and _is_far(counted, actual):
            asked.distrust(f"it counted {counted} tokens, and the request had {actual}")

    def refused(
        self, conversation: Conversation, prepared: Prepared, counter: Counter, tokens: int
    ) -> None:
        """Take in that a request of about ``tokens`` was too long for its server."""
        messages = len(prepared.draft.messages)
        conversation.anchors[counter.form] = _anchor(prepared, tokens, output=0, messages=messages)

    def answered(
        self,
        conversation: Conversation,
        prepared: Prepared,
        counter: Counter,
        usage: Usage,
    ) -> None:
        """Take in what a server reported of a request and of the reply, now the last but results.

        It is to be one that the server can mean.
        """
        self.learn(prepared, counter, usage.input_tokens)
        sent = len(prepared.draft.messages)
        if prepared.cut or counter.preset.local_compress or len(conversation.messages) <= sent:
            # The messages, as they stand, are not what the server has counted.
            return
        output, unsure = _kept_output(conversation.messages[sent], usage, counter)
        anchor = _anchor(prepared, usage.input_tokens, output=output, messages=sent + 1)
        conversation.anchors[counter.form] = replace(anchor, unsure=unsure)

    def is_plausible(self, prepared: Prepared, counter: Counter, tokens: int) -> bool:
        """Return whether a server can mean that a request had so many tokens."""
        # By plain estimates: what was learned must not decide what is learned next.
        estimated = sum(draft_tokens(prepared.draft, Counter(counter.preset)))
        believed = _is_likely(tokens, estimated)
        if not believed:
            logger.warning(
                "%s reported %d tokens of a request of about %d: not used",
                *(counter.preset.name, tokens, estimated),
            )
        return believed

    def without_tools(self, prepared: Prepared, counter: Counter, tokens: int) -> int | None:
        """Return about how many tokens a request has whose tools the template leaves out.

        None where it does not seem to do so: where ``tokens``, as a server counted them, may be
        those of all that was sent, or the tools are not most of it.
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
        """Return the limit (tokens) beyond which a server seems to leave out what it is sent.

        None where it seems to have read all: ``tokens`` is what it counted. Of one that counts more
        later, it was another tokenizer.
        """
        key, total = model_key(counter.preset), prepared.measure.total
        limit = self._cut_at.get(key)
        if limit is not None and tokens > limit:
            del self._cut_at[key]
            return None
        if limit is None and _LEAST_CUT <= tokens < _at_least(conversation, prepared, counter):
            # What a server is set to is a power of two, and what it keeps is a little less.
            limit = self._cut_at[key] = 1 << (tokens - 1).bit_length()
        return limit if limit is not None and total > limit else None

    def learn(self, prepared: Prepared, counter: Counter, actual: int) -> None:
        """Learn from what a server counted in a request: of the estimates, or of its tokenizer."""
        preset, tokens = counter.preset, draft_tokens(prepared.draft, counter)
        if not tokens.counted:
            self._services.calibration.learn(model_key(preset), tokens.estimated, actual)
        elif _is_plain(prepared) and _is_far(sum(tokens), actual):
            self._services.distrust_tokenizer(preset, sum(tokens), actual)


def _at_least(conversation: Conversation, prepared: Prepared, counter: Counter) -> float:
    """Return the tokens that a request has at the least, by what the last call has shown."""
    measure, anchor = prepared.measure, conversation.anchors.get(counter.form)
    if measure.basis == "actual" and anchor is not None:
        return measure.total - (1 - _CUT_NEW) * (anchor.output + measure.new_since) - _CUT_SLACK
    return _CUT_ESTIMATE * sum(draft_tokens(prepared.draft, Counter(counter.preset)))


def _is_likely(tokens: int, estimated: float) -> bool:
    """Return whether a server can mean that what is estimated so has so many tokens."""
    return _LEAST * estimated <= tokens <= _MOST * estimated + _SLACK


def _is_too_long(preset: Preset, came: int, estimated: int) -> bool:
    """Return whether no reply can have had so many tokens, its reasoning included."""
    return came > max(_MOST * estimated + _SLACK, reply_limit(preset))


def _is_far(counted: int, actual: int) -> bool:
    """Return whether a count is too far from what a request was to be one of its tokens."""
    return abs(counted - actual) > max(actual / 2, _SLACK)


def _is_plain(prepared: Prepared) -> bool:
    """Return whether every template sends all of it: some leave tools and their calls out."""
    draft = prepared.draft
    return not draft.tools and not any(message.tool_calls for message in draft.messages)


def _anchor(prepared: Prepared, counted: int, *, output: int, messages: int) -> MeasuredPrefix:
    draft = prepared.draft
    return MeasuredPrefix(counted, output, messages, draft.blocks, draft.tools)


def _kept_output(reply: Message, usage: Usage, counter: Counter) -> tuple[int, int]:
    """Return the tokens of a reply that go back with the next request, and how many are a guess.

    The reported output less the reasoning, unless that goes back too. Where that is nothing, or is
    out of proportion to the reply, it is what the reply is counted at: some servers report no
    reasoning apart, or no output at all.
    """
    kept, unsure = usage.output_tokens, 0
    counted = counter.settled(counter.messages([reply]))
    reasoning = reply.reasoning
    if reasoning is not None and not goes_back(reasoning, counter.preset):
        taken = usage.reasoning_tokens
        if not taken:
            taken = unsure = counter.settled(counter.text(reasoning.text))
        kept -= taken
    least = max(1, _LEAST_REPLY * counted - _REPLY_SLACK)
    likely = least <= kept <= _MOST_REPLY * counted + _REPLY_SLACK
    return (kept, unsure) if likely and unsure <= counted else (counted, counted)


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
