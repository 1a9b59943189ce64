"""Keeping a request within its budget (context.md; seed: aish-context-lua).

First whole exchanges are moved into the rolling summary, oldest first; then long results are cut,
oldest first, then blocks are omitted, then attachments are cut. A request that is still too large
is refused, and nothing is lost. A cut keeps the head and the tail of a text.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from aish_lsp.context.counter import NOTHING, Counter
from aish_lsp.context.measure import Draft, draft_tokens, fetch, margin_of, measure
from aish_lsp.context.prompt import as_sent, attached_block, in_force, summary_block
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.foundation.text import count_of
from aish_lsp.models.providers import reply_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aish_lsp.config.schema import Context, Preset
    from aish_lsp.context.conversation import Conversation
    from aish_lsp.context.counter import Tokens
    from aish_lsp.context.measure import Measure, MeasuredPrefix
    from aish_lsp.context.messages import Attached, Message
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.models.request import RequestMessage, ToolSchema

#: The window, and the budget, of an unknown model (the seed's 4096).
UNKNOWN_WINDOW = 4096

#: An eviction keeps one part in so many of the budget free for a growing summary.
_SUMMARY_SHARE = 8

#: The least characters per token of a summary, in most written languages.
_CHARS_PER_TOKEN = 3

#: A result is cut by at most one part in so many more than needed.
_EXACT: Final = 16

#: Characters; a shorter summary would say nothing.
_SHORTEST_SUMMARY = 80


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request to one model must fit into, in tokens."""

    window: int
    output_reserve: int
    budget: int

    @property
    def room(self) -> int:
        """The part of the window that is not reserved for the reply."""
        return max(1, self.window - self.output_reserve)

    def lowered(self, share: float) -> Limits:
        """Return limits to evict down to, so that the next requests fit too."""
        room = int(self.room * share)
        return Limits(self.output_reserve + room, self.output_reserve, int(self.budget * share))

    def hold(self, total: int, margin: int) -> bool:
        """Return whether a request of this size is within the budget, and safe in the window."""
        return total <= self.budget and total + margin <= self.room


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that fits, its size, and what is given up for it.

    Attributes:
        draft: what it is made from.
        measure: its size.
        preset: that of the model that it goes to.
        evicted: the messages to be evicted, the oldest of the conversation.
        kept: what is then left of the server's count.
        cut: the names of what else is cut or left out.
        summary: the rolling summary that includes the evicted messages; None if it is unchanged.
        summary_chars: the characters that such a summary may have; 0 if there is no room.
    """

    draft: Draft
    measure: Measure
    preset: Preset
    evicted: tuple[Message, ...] = ()
    kept: MeasuredPrefix | None = None
    cut: tuple[str, ...] = ()
    summary: str | None = None
    summary_chars: int = 0

    def messages(self) -> tuple[RequestMessage, ...]:
        """Return the messages, made when they are sent: that takes far longer than to measure."""
        return as_sent(self.draft.blocks, self.draft.messages, self.preset)


def limits(preset: Preset, context: Context, window: int | None) -> Limits:
    """Return the limits of ``preset``; ``window`` is None if it is not known.

    The effective budget is the smaller of the configured one and what the reply leaves of the
    window; a reply reserve as large as the window leaves one token, so that the error that
    follows is about the budget.
    """
    window = window or UNKNOWN_WINDOW
    reserve = reply_limit(preset)
    room = max(1, window - reserve)
    wanted = preset.token_budget or context.token_budget or room
    return Limits(window, reserve, min(wanted, room))


class Budget:
    """Makes one request fit.

    Args:
        blocks: the system message's parts.
        context: the configuration of the conversation.
        limit: what the request must fit into.
        counter: counts for the model that it goes to.
        tools: what is offered to the model.
    """

    def __init__(
        self,
        blocks: Blocks,
        context: Context,
        limit: Limits,
        counter: Counter,
        tools: tuple[ToolSchema, ...] = (),
    ) -> None:
        self._blocks = blocks
        self._context = context
        self._limit = limit
        self._counter = counter
        self._tools = tools

    async def whole(self, conversation: Conversation) -> Prepared:
        """Return the next request with nothing left out, whether or not it fits."""
        draft = self._draft(self._blocks.in_force(), conversation.messages)
        await fetch(draft, self._counter)
        anchor = conversation.anchors.get(self._counter.form)
        return Prepared(draft, measure(draft, self._counter, anchor), self._counter.preset)

    async def plan(self, conversation: Conversation, *, summarize: bool = False) -> Prepared:
        """Return the next request, made to fit. Nothing is changed yet: ``apply`` does that.

        Whole exchanges are evicted first, never the current user message. When none is left,
        results are cut to their head and tail, the oldest first and only as far as needed; then the
        oldest of the exchange's own tool calls are dropped with their results; only then are the
        results cut that the model waits for, then ``[project]`` goes, then ``[background]``, then
        what is attached to the question is cut. With ``summarize``, room is left for a summary of
        what is evicted.

        Raises:
            OverBudget: it still does not fit.
        """
        complete = await self.whole(conversation)
        size = complete.measure
        if len(conversation.messages) <= self._context.max_turns and self._fits(size):
            return complete
        anchor = conversation.anchors.get(self._counter.form)
        end, anchor = self._evictions(conversation, complete.draft, size, anchor, summarize)
        return await self._without(conversation, end, anchor)

    async def plan_compact(self, conversation: Conversation) -> Prepared:
        """Return the request without all exchanges but the last, even if they would fit.

        Nothing is changed yet.

        Raises:
            OverBudget: it does not fit.
        """
        *_, (end, _) = conversation.exchanges()
        return await self._without(conversation, end, None)

    async def summarized(self, prior: str, prepared: Prepared, summary: str) -> Prepared:
        """Return ``prepared`` with ``summary``, shortened if need be, in place of ``prior``."""
        while summary != prior:
            blocks = replace(prepared.draft.blocks, summary=summary_block(summary)).in_force()
            draft = replace(prepared.draft, blocks=blocks)
            await fetch(draft, self._counter)
            size = measure(draft, self._counter, None if prepared.cut else prepared.kept)
            if self._fits(size):
                done = Prepared(draft, size, self._counter.preset, cut=prepared.cut)
                return replace(done, evicted=prepared.evicted, kept=prepared.kept, summary=summary)
            # In some scripts a character takes more tokens.
            summary = summary[: len(summary) // 2]
            if len(summary) < _SHORTEST_SUMMARY:
                break
        return prepared

    def apply(self, conversation: Conversation, prepared: Prepared) -> None:
        """Evict from ``conversation`` what its plan gives up, and keep the plan's summary."""
        anchors = {} if prepared.kept is None else {self._counter.form: prepared.kept}
        conversation.evict(len(prepared.evicted), anchors)
        if prepared.summary is not None:
            conversation.summary = prepared.summary

    def _draft(self, blocks: Blocks, messages: Sequence[Message]) -> Draft:
        sent = in_force(messages, blocks, self._counter.preset, self._context.compress)
        return Draft(blocks, tuple(sent), self._tools)

    def _fits(self, size: Measure) -> bool:
        return self._limit.hold(size.total, size.margin)

    def _evictions(
        self,
        conversation: Conversation,
        whole: Draft,
        size: Measure,
        anchor: MeasuredPrefix | None,
        summarizing: bool,
    ) -> tuple[int, MeasuredPrefix | None]:
        """Return how many messages, those of the oldest exchanges, have to go.

        Also return what is then left of the server's count, if its margin is smaller than that of a
        new count.
        """
        share = self._context.low_water
        if summarizing:
            share = min(share, 1 - 1 / _SUMMARY_SHARE)
        target = self._limit.lowered(share)
        count, most = len(conversation.messages), self._context.max_turns
        if count > most:
            # Otherwise each new exchange would evict one, and no prefix would stay cached.
            most = max(1, int(most * self._context.low_water))
        # A compressed request contains only the last messages; those it leaves out have no size.
        left_out = count - len(whole.messages)
        every, gone = draft_tokens(whole, self._counter), NOTHING
        ends = [start for start, _ in conversation.exchanges()] or [0]

        def between(one: int, other: int) -> Tokens:
            sent = slice(max(0, ends[one] - left_out), max(0, ends[other] - left_out))
            return self._counter.messages(whole.messages[sent])

        # The totals fall with each exchange: half of what is in question is ruled out at a time.
        # Margins need not fall, so what remains is looked at one by one.
        first, last = 0, len(ends) - 1
        while first < last:
            middle = (first + last) // 2
            tokens = gone.plus(between(first, middle))
            least = min(
                size.total - self._counter.settled(tokens),
                self._counter.settled(every.less(tokens)),
            )
            if count - ends[middle] <= most and target.hold(least + 1, 0):
                last = middle
            else:
                first, gone = middle + 1, tokens.plus(between(middle, middle + 1))
        while True:
            left = every.less(gone)
            total, margin, remaining = self._after(ends[first], gone, left, size, anchor)
            # One more, since the parts of a sum are rounded separately.
            if first == len(ends) - 1 or target.hold(total + 1, margin + 1):
                return ends[first], remaining
            gone = gone.plus(between(first, first + 1))
            first += 1

    def _after(
        self, end: int, gone: Tokens, left: Tokens, size: Measure, anchor: MeasuredPrefix | None
    ) -> tuple[int, int, MeasuredPrefix | None]:
        """Return total and margin without the first ``end`` messages, and what they are based on.

        That is the server's count minus what is gone, or None for a new count of what is left,
        whichever has the smaller margin.
        """
        total, margin = self._counter.settled(left), margin_of(left, self._counter)
        margin += 2 * self._counter.slack
        remaining = anchor.without(end, gone) if anchor else None
        surer = size.margin + margin_of(gone, self._counter)
        if remaining is None or surer >= margin:
            return total, margin, None
        return size.total - self._counter.settled(gone), surer, remaining

    async def _fitting(self, messages: list[Message], anchor: MeasuredPrefix | None) -> Prepared:
        """Return the request with these messages, with as little as possible given up.

        Raises:
            OverBudget: no form of it fits.
        """
        for level in _levels(self._blocks.in_force(), messages):
            size, prepared = await self._cut(level, len(level.cuttable), _LEAST, anchor)
            if prepared is not None:
                return await self._least_cut(level, prepared)
        raise _over_budget(size, self._limit)

    async def _least_cut(self, level: _Level, prepared: Prepared) -> Prepared:
        """Return the request with the fewest results of ``level`` cut, and the last only in part.

        ``prepared`` is the one in which all are cut as short as allowed; it fits.
        """
        fewest, count = 0, len(level.cuttable)
        while fewest < count:
            some = (fewest + count) // 2
            _, fits = await self._cut(level, some, _LEAST)
            if fits is None:
                fewest = some + 1
            else:
                prepared, count = fits, some
        if not count:
            return prepared
        each, most = _LEAST, _longest(level.messages[level.cuttable[count - 1]]) // 2
        while most - each > each // _EXACT:
            longer = (each + most) // 2
            _, fits = await self._cut(level, count, longer)
            if fits is None:
                most = longer
            else:
                prepared, each = fits, longer
        return prepared

    async def _cut(
        self, level: _Level, count: int, each: int, anchor: MeasuredPrefix | None = None
    ) -> tuple[Measure, Prepared | None]:
        """Return the size of a level's request, and the request if it fits.

        Of its results, the first ``count`` are cut: the last of these to ``each`` characters at
        both ends, the others as short as allowed.
        """
        messages = list(level.messages)
        for number, at in enumerate(level.cuttable[:count], 1):
            messages[at] = with_cut_output(messages[at], each if number == count else _LEAST)
        cut = (("command output",) if count else ()) + level.cut
        draft = self._draft(level.blocks, messages)
        await fetch(draft, self._counter)
        size = measure(draft, self._counter, None if cut else anchor)
        fits = Prepared(draft, size, self._counter.preset, cut=cut) if self._fits(size) else None
        return size, fits

    async def _without(
        self, conversation: Conversation, end: int, anchor: MeasuredPrefix | None
    ) -> Prepared:
        """Return the request without the first ``end`` messages, and the room for their summary."""
        prepared = await self._fitting(conversation.messages[end:], anchor)
        if not end:
            return prepared
        prior = sum(self._counter.text(summary_block(conversation.summary)))
        room = self._room(prepared.measure) + prior
        most = min(self._context.max_summary_chars, room * _CHARS_PER_TOKEN)
        return replace(
            prepared,
            evicted=tuple(conversation.messages[:end]),
            kept=anchor,
            summary_chars=most if most >= _SHORTEST_SUMMARY else 0,
        )

    def _room(self, size: Measure) -> int:
        """Return the tokens that may still be added to a request."""
        left = self._limit.room - size.total - size.margin
        return max(0, min(self._limit.budget - size.total, left))


@dataclass(frozen=True, slots=True)
class _Level:
    """One way to make a request.

    Attributes:
        blocks: the system message's parts.
        messages: the messages, with their results whole.
        cuttable: the indexes of the messages whose results may be cut, in that order.
        cut: the names of what else is given up.
    """

    blocks: Blocks
    messages: list[Message]
    cuttable: tuple[int, ...] = ()
    cut: tuple[str, ...] = ()


def _levels(blocks: Blocks, messages: list[Message]) -> Iterator[_Level]:
    """Yield the whole request, then ways to make it with more and more given up.

    The round that the model waits for is cut after all earlier ones have been left out.
    """
    yield _Level(blocks, messages)
    fewest = messages
    for fewer in (messages, *_with_fewer_calls(messages)):
        cut = ("older tool calls",) if fewer is not messages else ()
        earlier = tuple(at for at in _cuttable(fewer) if at < _newest(fewer))
        if earlier or cut:
            yield _Level(blocks, fewer, earlier, cut)
        fewest = fewer
    cut = ("older tool calls",) if fewest is not messages else ()
    cuttable = _cuttable(fewest)
    without_project = replace(blocks, tree="", instructions="")
    bare = replace(without_project, background="")
    level = _Level(blocks, fewest, cuttable, cut)
    yield level
    for name, less, left in (
        ("[project]", without_project, fewest),
        ("[background]", bare, fewest),
        ("what the question is about", bare, [with_cut_attached(message) for message in fewest]),
    ):
        if less != level.blocks or left != level.messages:
            level = _Level(less, left, cuttable, (*level.cut, name))
            yield level


def _newest(messages: list[Message]) -> int:
    """Return where the round begins that the model waits for: its calls, or the question."""
    return max(
        (at for at, one in enumerate(messages) if one.role == "user" or one.tool_calls), default=0
    )


def _cuttable(messages: list[Message]) -> tuple[int, ...]:
    """Return the indexes of the messages whose results can be cut."""
    return tuple(at for at, one in enumerate(messages) if with_cut_output(one) is not one)


def _with_fewer_calls(messages: list[Message]) -> Iterator[list[Message]]:
    """Yield ``messages`` without more and more of the last exchange's rounds, the oldest first.

    A round is left out with its calls and their results; the last one, which the model waits for,
    stays.
    """
    asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
    rounds = [at for at, message in enumerate(messages) if at > asked and message.tool_calls]
    for start in rounds[1:]:
        yield [*messages[: rounds[0]], *messages[start:]]


def _over_budget(size: Measure, limit: Limits) -> OverBudget:
    """Return the error that names the blocks and their sizes."""
    parts = {
        field.name: getattr(size.breakdown, field.name)
        for field in fields(size.breakdown)
        if getattr(size.breakdown, field.name)
    }
    named = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
    estimated = ""
    if size.total <= limit.budget:
        estimated = (
            f" The count is an estimate, which may be {size.margin} too low; with"
            " tokenize.use_endpoint = true the server's own tokenizer counts, where it has one."
        )
    cure = (
        "Ask a shorter question, choose a model with a larger window (`:model NAME`), or raise "
        "context.token_budget and models.NAME.context_window."
    )
    if limit.output_reserve >= limit.window:
        cure = (
            f"models.NAME.max_output_tokens ({limit.output_reserve}) leaves nothing of the "
            f"window ({limit.window}): make it smaller."
        )
    return OverBudget(
        f"The question needs {size.total} tokens ({named}) and the budget is {limit.budget}."
        f"{estimated} {cure}",
        total=size.total,
        tokenBudget=limit.budget,
        breakdown=parts,
    )


#: Characters that are kept at each end when nothing else can be given up.
_LEAST: Final = 400

#: Characters by which a cut must make a text shorter.
_WORTH: Final = 40


def with_cut_output(message: Message, each: int = _LEAST) -> Message:
    """Return ``message`` with at most ``each`` characters of both ends of its results.

    These are a tool's result and the output of commands. If there is nothing to cut, the same
    object is returned, whose size is already known.
    """
    content = message.content
    if message.role == "tool":
        content = head_and_tail(content, each)
    outputs = [head_and_tail(out.output, each) for out in message.exec]
    if content == message.content and outputs == [out.output for out in message.exec]:
        return message
    pairs = zip(message.exec, outputs, strict=True)
    return replace(
        message, content=content, exec=tuple(replace(out, output=text) for out, text in pairs)
    )


def _longest(message: Message) -> int:
    """Return the characters of the longest result in ``message``."""
    results = [out.output for out in message.exec]
    return max(map(len, [*results, message.content] if message.role == "tool" else results))


def with_cut_attached(message: Message, each: int = _LEAST) -> Message:
    """Return ``message`` with at most ``each`` characters of both ends of each attachment."""
    attached = tuple(shortened(part, each) for part in message.attached)
    return message if attached == message.attached else replace(message, attached=attached)


async def bounded(message: Message, tokens: int, counter: Counter) -> Message:
    """Return ``message`` with its attachments cut to about ``tokens``, as far as possible.

    The longest texts are cut first. The model's own tokenizer, if it is used, counts the whole; the
    rest after a cut is estimated from that.
    """
    if not message.attached:
        return message
    await counter.fetch(map(attached_block, message.attached), (), ())
    estimating = Counter(counter.preset, ratio=counter.ratio)
    factor = _size(message, counter) / max(1, _size(message, estimating))
    each = max(len(part.text) for part in message.attached) // 2
    bound = message
    while _size(bound, estimating) * factor > tokens and each > _LEAST:
        each = max(_LEAST, each * 3 // 4)
        bound = with_cut_attached(message, each)
    return bound


def shortened(part: Attached, each: int) -> Attached:
    """Return ``part`` with at most ``each`` characters of both ends of its text."""
    text = head_and_tail(part.text, each)
    return part if text == part.text else replace(part, text=text, cut=True)


def head_and_tail(text: str, each: int) -> str:
    """Return ``text`` without its middle, if that makes it shorter."""
    left_out = len(text) - 2 * each
    if left_out <= _WORTH:
        return text
    return f"{text[:each]}\n[... {count_of(left_out, 'character')} left out ...]\n{text[-each:]}"


def _size(message: Message, counter: Counter) -> int:
    tokens = NOTHING
    for part in message.attached:
        tokens = tokens.plus(counter.text(attached_block(part)))
    return counter.settled(tokens)
