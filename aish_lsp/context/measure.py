"""How large the next request is (context.md). Nothing else decides that.

The display, the eviction, the cost cap and the request itself all use this value (seed:
dexto-context-calculation, "The formula").
"""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from aish_lsp.context.counter import NOTHING, TOOLS_HEADING, Tokens
from aish_lsp.foundation.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aish_lsp.context.counter import Counter
    from aish_lsp.context.messages import Message
    from aish_lsp.context.prompt import Blocks
    from aish_lsp.models.request import RequestMessage, ToolSchema

logger = logging.getLogger(__name__)

#: By model, the last total that its parts exceeded. It is logged once, even if it is shown often.
_logged: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Draft:
    """What a request is made from: the blocks and messages in force, and the tools."""

    blocks: Blocks
    messages: Sequence[Message]
    tools: tuple[ToolSchema, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredPrefix:
    """What a server has counted: a request and the reply to it, in tokens.

    ``output`` is the part of the reply that is sent back with the next request, and ``unsure`` the
    estimated part of ``output``. ``messages`` is how many messages, from the first, the request and
    the reply contain together; ``blocks`` and ``tools`` were sent with them. ``evicted`` is an
    estimate of what has been evicted since.
    """

    input: int
    output: int
    messages: int
    blocks: Blocks
    tools: tuple[ToolSchema, ...] = ()
    evicted: Tokens = NOTHING
    unsure: int = 0

    def without(self, messages: int, tokens: Tokens) -> MeasuredPrefix | None:
        """Return what is left without the first ``messages``, which had about ``tokens``."""
        if messages > self.messages:
            return None
        return replace(self, messages=self.messages - messages, evicted=self.evicted.plus(tokens))


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the tokens of a request go; the parts add up to its total."""

    system: int = 0
    memory: int = 0
    project: int = 0
    summary: int = 0
    instructions: int = 0
    tools: int = 0
    messages: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """The sum of the parts."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a request in tokens.

    ``basis`` is ``actual`` if the server's last call counted everything but what is new.
    ``new_since`` is the tokens of the messages since then. ``margin`` is the most by which the
    request may turn out to be larger, in 99 of 100 cases.
    """

    total: int
    margin: int
    breakdown: Breakdown
    basis: Literal["actual", "estimated"]
    new_since: int


async def fetch(draft: Draft, counter: Counter) -> None:
    """Let the model's own tokenizer, if it is used, count what ``measure`` will need."""
    blocks = draft.blocks
    texts = (blocks.background, blocks.tree, blocks.summary, blocks.instructions, blocks.text())
    await counter.fetch(texts, draft.messages, draft.tools)


def measure(draft: Draft, counter: Counter, anchor: MeasuredPrefix | None = None) -> Measure:
    """Return the size of the request that ``draft`` makes.

    Args:
        draft: what would be sent.
        counter: counts for the model that it would be sent to.
        anchor: what that model's server has already counted.
    """
    if anchor is None:
        tokens = draft_tokens(draft, counter)
        total, new = counter.settled(tokens), 0
        margin = margin_of(tokens, counter) + 2 * counter.slack
    else:
        # Estimates on top of an actual count are not calibrated: the calibration is for whole
        # requests (context.md).
        added = _new_messages(draft, counter, anchor)
        new, changed = sum(added), _changed_system(draft, counter, anchor)
        gone = counter.settled(anchor.evicted)
        total = max(0, anchor.input + anchor.output + new + changed.by - gone)
        uncertain = added.plus(Tokens(0, changed.estimated + anchor.unsure))
        margin = counter.at_most(uncertain) - sum(uncertain) + margin_of(anchor.evicted, counter)
        margin += counter.slack * (max(0, len(draft.messages) - anchor.messages) + 1)
        whole = draft_tokens(draft, counter)
        if whole.counted >= whole.estimated and len(draft.messages) > anchor.messages:
            # The model's own tokenizer counted the reply too, whatever usage was reported.
            total, margin = max(total, counter.settled(whole)), margin_of(whole, counter)
    actual = anchor is not None and not any(anchor.evicted)
    breakdown = _breakdown(draft, counter, total)
    return Measure(total, margin, breakdown, "actual" if actual else "estimated", new)


def draft_tokens(draft: Draft, counter: Counter) -> Tokens:
    """Return the sum of all that is sent, regardless of earlier calls."""
    return fixed_tokens(draft, counter).plus(counter.messages(draft.messages))


def fixed_tokens(draft: Draft, counter: Counter) -> Tokens:
    """Return the tokens besides the messages: the system message, the tools, the template."""
    overhead = counter.overhead
    tokens = counter.text(draft.blocks.text()).plus(
        counter.added(overhead.request + overhead.system)
    )
    return tokens.plus(_tools(draft.tools, counter))


def margin_of(tokens: Tokens, counter: Counter) -> int:
    """Return the most by which these tokens may be too few, in 99 of 100 cases."""
    return max(0, counter.at_most(tokens) - counter.settled(tokens))


def _tools(tools: Sequence[ToolSchema], counter: Counter) -> Tokens:
    tokens = Tokens(0, TOOLS_HEADING) if tools else NOTHING
    for tool in tools:
        tokens = tokens.plus(counter.tool(tool))
    return tokens


def _new_messages(draft: Draft, counter: Counter, anchor: MeasuredPrefix) -> Tokens:
    """Return the messages since the call, and what the template adds for the next reply."""
    new = draft.messages[anchor.messages :]
    if not new:
        return NOTHING
    return counter.messages(new).plus(counter.added(counter.next_reply))


class _Change(NamedTuple):
    """How much something has grown, and how much of what came and went was estimated."""

    by: int
    estimated: int


def _changed_system(draft: Draft, counter: Counter, anchor: MeasuredPrefix) -> _Change:
    """Return the change of the system message and of the tools since the call."""
    now, then = draft.blocks, anchor.blocks
    by = estimated = 0
    if now != then:
        by = sum(counter.text(now.text())) - sum(counter.text(then.text()))
        for field in fields(now):
            texts = getattr(now, field.name), getattr(then, field.name)
            if texts[0] != texts[1]:
                estimated += sum(counter.text(text).estimated for text in texts)
    if draft.tools != anchor.tools:
        came, went = _tools(draft.tools, counter), _tools(anchor.tools, counter)
        by += sum(came) - sum(went)
        estimated += came.estimated + went.estimated
    return _Change(by, estimated)


def _breakdown(draft: Draft, counter: Counter, total: int) -> Breakdown:
    """Return the parts of ``total``: all are counted except the messages, which are the rest.

    ``system`` includes the headings and blank lines between the blocks of the system message.
    """
    blocks = draft.blocks.in_force()

    def text(text: str) -> int:
        return counter.settled(counter.text(text))

    parts = {
        "memory": text(blocks.background),
        "project": text(blocks.tree),
        "summary": text(blocks.summary),
        "instructions": text(blocks.instructions),
    }
    overhead = counter.overhead
    framing = counter.settled(counter.added(overhead.request + overhead.system))
    parts["system"] = max(0, text(blocks.text()) - sum(parts.values())) + framing
    parts["tools"] = counter.settled(_tools(draft.tools, counter))
    parts["reasoning"] = counter.settled(counter.reasoning(draft.messages))
    messages = total - sum(parts.values())
    if messages < 0:
        if _logged.get(counter.form) != total:
            _logged[counter.form] = total
            # A template without a place for tools omits them, which is not a fault.
            level = logging.INFO if draft.tools else logging.WARNING
            logger.log(
                level, "the parts of a request were counted at %d tokens too many", -messages
            )
        parts = _shrunk(parts, total)
        messages = 0
    return Breakdown(**parts, messages=messages)


def _shrunk(parts: dict[str, int], total: int) -> dict[str, int]:
    """Return the parts scaled down in proportion, so that they add up to exactly ``total``."""
    whole = sum(parts.values())
    shrunk = {}
    seen = shown = 0
    for name, tokens in parts.items():
        seen += tokens
        upto = total * seen // whole
        shrunk[name] = upto - shown
        shown = upto
    return shrunk


# The report: where the tokens go, as data and as a page to read.

_BAR: Final = 32


@dataclass(frozen=True, slots=True)
class LastCall:
    """Tokens of the last call, as its server reported them."""

    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    at: str
    model: str


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far the estimate of the last call was off."""

    estimated: int
    actual: int
    error_tokens: int
    error_percent: float


@dataclass(frozen=True, slots=True)
class ContextReport:
    """Where the tokens of the next request go. All numbers except ``percent`` are tokens.

    ``basis`` is actual if the server has counted everything but the ``new_since`` tokens of the
    messages after its last call; ``tokenizer`` says what counts the rest: heuristic, or endpoint.
    """

    total: int
    token_budget: int
    context_window: int
    output_reserve: int
    free: int
    percent: float
    basis: Literal["actual", "estimated"]
    breakdown: Breakdown
    last_call: LastCall | None
    new_since: int
    accuracy: Accuracy | None
    compactions: int
    tokenizer: str


#: What each part of a request is, to the user.
_PARTS: Final = {
    "system": "what aish is told to be and do",
    "memory": "what you had it remember",
    "project": "the file tree and the project's tasks",
    "summary": "what was said earlier, summarized",
    "instructions": "the project's own instructions, like AGENTS.md",
    "tools": "what the model can call",
    "messages": "questions, replies and outputs",
    "reasoning": "the model's own thoughts, sent back to it",
}


def context_page(
    report: ContextReport, sent: Sequence[RequestMessage], tools: Mapping[str, int]
) -> str:
    """Return the report as a page: a bar, the parts, and what it means.

    ``sent`` is the request itself, whose characters the count is compared with. ``tools`` are the
    servers whose tools are offered, each with about how many tokens their schemas take.
    """
    characters = sum(len(message.content) for message in sent)
    used = min(_BAR, round(_BAR * report.total / report.token_budget))
    bar = "█" * used + "░" * (_BAR - used)
    share = f"{report.total:,} / {report.token_budget:,} tokens ({report.percent:.0f} %)"
    parts = {name: getattr(report.breakdown, name) for name in _PARTS}
    what = dict(_PARTS)
    if len(tools) > 1:
        what["tools"] += f": {', '.join(f'{name} {tokens:,}' for name, tokens in tools.items())}"
    rows = [(name, tokens, what[name]) for name, tokens in parts.items() if tokens]
    rows.append(("free", report.free, "then the oldest questions go into the summary"))
    lines = [
        "```",
        f"Context  {share}  {bar}",
        "",
        *(f"  {name:<13}{tokens:>9,}  {about}" for name, tokens, about in rows),
        "",
        (
            f"The model takes {report.context_window:,} tokens at once;"
            f" {report.output_reserve:,} of them are kept for its reply."
        ),
        *_basis_lines(report),
        f"By the rule of thumb, four characters a token, it would be {characters // 4:,}.",
        "```",
    ]
    return "\n".join(lines)


def _basis_lines(report: ContextReport) -> list[str]:
    """Return the lines that say how reliable the numbers are, and what has happened so far."""
    call, compared = report.last_call, report.accuracy
    lines = []
    if report.basis == "actual":
        new = f", except {report.new_since:,} new tokens" if report.new_since else ""
        lines.append(f"The total was counted by the model's server{new}.")
    elif report.tokenizer == "endpoint":
        lines.append("The total was counted with the model's own tokenizer.")
    else:
        error = f"; the last one was off by {abs(compared.error_percent):.1f} %" if compared else ""
        lines.append(f"The total is an estimate{error}.")
    if call is not None:
        lines.append(f"The last question took {call.input:,} in, {call.output:,} out.")
    if report.compactions:
        times = "once" if report.compactions == 1 else f"{report.compactions} times"
        lines.append(f"The oldest questions made room for new ones {times} so far.")
    return lines
