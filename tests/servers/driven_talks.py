"""Conversations made by chance, driven through the budget as a turn does it, and counted for real.

A talk is told by its number alone: the same number makes the same talk again.
"""

from __future__ import annotations

import json
import random
from collections import Counter as Bag
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from real_counts import RealCounts

from aish_lsp.agent.accounting import Accounting
from aish_lsp.agent.events import Usage
from aish_lsp.agent.services import Services
from aish_lsp.config.schema import Compress, Config, Context, Preset, Tokenize
from aish_lsp.context.budget import Budget, Limits, Prepared
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.counter import Counter
from aish_lsp.context.messages import ExecOutput
from aish_lsp.context.prompt import (
    Blocks,
    Surroundings,
    base_prompt,
    instructions_part,
    summary_block,
    tree_part,
)
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.models.providers import reasoning_source
from aish_lsp.models.request import (
    ModelRequest,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

Write = Callable[[random.Random, int], str]

_TOOLS = (
    ToolSchema(
        "read_file",
        "Read a file of the workspace; returns its lines, numbered.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "relative to the workspace"},
                "lines": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["path"],
        },
    ),
    ToolSchema(
        "search",
        "Find the lines that match a regular expression.",
        {"type": "object", "properties": {"pattern": {"type": "string"}}},
    ),
)
_FOLDER = Surroundings("Linux", "bash", "2024-03-09", "/home/me/project")


@dataclass(frozen=True)
class Served:
    """A model, and what counts for real what it is sent."""

    preset: Preset
    counts: RealCounts


@dataclass(frozen=True)
class Sent:
    """A request that was sent. Tokens."""

    talk: int
    total: int
    margin: int
    basis: str
    actual: int
    room: int
    told: tuple[str, ...]

    @property
    def over(self) -> int:
        """By how much it was over what the reply leaves of the window."""
        return max(0, self.actual - self.room)

    @property
    def beyond(self) -> int:
        """By how much it was larger than it was said to be at most."""
        return max(0, self.actual - self.total - self.margin)


@dataclass
class Tally:
    """What happened in some talks."""

    sent: list[Sent] = field(default_factory=list)
    happened: Bag[str] = field(default_factory=Bag)

    @property
    def over(self) -> list[Sent]:
        """The requests that were over."""
        return [one for one in self.sent if one.over]

    @property
    def beyond(self) -> list[Sent]:
        """The requests that were larger than they were said to be at most."""
        return [one for one in self.sent if one.beyond]

    def summary(self) -> str:
        """Return the numbers, in words."""
        worst = max((one.beyond for one in self.sent), default=0)
        return (
            f"{len(self.sent)} requests, {len(self.over)} over, {len(self.beyond)} beyond their "
            f"margin (at most by {worst}); {dict(sorted(self.happened.items()))}"
        )


class Talk:
    """One conversation.

    Args:
        number: tells it from all others.
        models: who may answer; the first one does mostly.
        kinds: what texts there are, by name.
        tally: takes in what happens.
        exact: the server's own tokenizer counts.
        services: whose calibration is used and learned.
        window: the smallest window, in tokens.
        spread: how many times as large the largest is.
        loose: the calls' arguments are any text, not JSON alone.
    """

    def __init__(
        self,
        number: int,
        models: Sequence[Served],
        kinds: Mapping[str, Write],
        tally: Tally,
        *,
        exact: bool,
        services: Services,
        window: int = 700,
        spread: int = 4,
        loose: bool = False,
    ) -> None:
        self._rng = rng = random.Random(number)
        self._number = number
        self._tally = tally
        self._models = self._forms_of(models)
        # What is talked about does not change at every sentence.
        self._writers = [kinds[name] for name in rng.sample(sorted(kinds), rng.choice([1, 2, 3]))]
        self._window = int(window * spread ** rng.random())
        self._loose = loose
        self._size = rng.choice([0.03, 0.1, 0.25]) * self._window
        self._config = Config(
            context=Context(
                max_turns=rng.choice([6, 40, 40]),
                low_water=rng.choice([0.5, 0.75, 0.75, 1.0]),
                max_summary_chars=rng.choice([200, 2000]),
                token_budget=rng.choice([None, None, self._window // 2]),
                compress=Compress(max_turn_chars=rng.choice([200, 800, 10_000])),
            ),
            tokenize=Tokenize(use_endpoint=exact, timeout_ms=60_000),
        )
        self._accounting = Accounting(services)
        self._conversation = Conversation()
        self._rolls = rng.random() < 0.6
        self._tools: tuple[ToolSchema, ...] = ()
        self._blocks = Blocks(base_prompt(_FOLDER))
        self._calls = 0
        self._told: list[str] = []

    def _forms_of(self, models: Sequence[Served]) -> list[Served]:
        """Return the presets of this talk: two models, each in a form of its own."""
        rng = self._rng
        forms: list[Served] = []
        for served in [*rng.sample(list(models), min(2, len(models))), rng.choice(list(models))]:
            preset = replace(
                served.preset,
                name=f"{served.preset.name} {len(forms)}",
                use_tool_role=rng.random() < 0.7,
                local_compress=rng.random() < 0.15,
            )
            forms.append(replace(served, preset=preset))
        return forms

    # What is said

    def _text(self, share: float = 1.0) -> str:
        """Return a text; most are short, and some are as long as the window."""
        size = self._size * share * 40 ** (self._rng.random() - 0.6)
        write = self._rng.choice(self._writers)
        return write(self._rng, max(1, int(size * self._rng.choice([1, 2, 4]))))

    def _happened(self, what: str) -> None:
        self._tally.happened[what] += 1
        self._told.append(what)

    async def take(self, exchanges: int) -> None:
        """Go through so many questions."""
        served = self._models[0]
        for _ in range(exchanges):
            self._told = []
            if self._rng.random() < 0.15:
                served = self._rng.choice(self._models)
                self._happened("switch")
            self._change()
            await self._ask(served)

    def _change(self) -> None:
        """Change what is beside the turns, now and then."""
        rng = self._rng
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            self._conversation.append_output(
                ExecOutput(self._text(0.05), rng.randrange(3), self._text())
            )
            self._happened("output")
        if rng.random() < 0.25:
            change = rng.choice(["memory", "tree", "instructions", "base", "norris", "tools"])
            self._happened(change)
            text = self._text(0.5) if rng.random() < 0.8 else ""
            if change == "tools":
                self._tools = rng.choice([(), _TOOLS[:1], _TOOLS])
            else:
                self._blocks = replace(self._blocks, **self._changed_block(change, text))

    def _changed_block(self, change: str, text: str) -> dict[str, str]:
        if change == "memory":
            return {"background": f"[background] (memory)\n- (fact) {text}" if text else ""}
        if change == "tree":
            return {"tree": tree_part(text)}
        if change == "instructions":
            return {"instructions": instructions_part("AGENTS.md", text)}
        if change == "norris":
            # It is over as often as it begins.
            return {"norris": "" if self._blocks.norris else f"[NORRIS MODE] {text}"}
        return {"base": base_prompt(_FOLDER, text)}

    # Asking, as a turn does it

    async def _ask(self, served: Served) -> None:
        conversation = self._conversation
        conversation.append_user(self._text())
        if not await self._call(served):
            conversation.withdraw_user()
            return
        for _ in range(self._rng.choice([0, 0, 1, 3])):
            last = conversation.messages[-1]
            if last.role != "assistant" or not last.tool_calls:
                break
            for call in last.tool_calls:
                conversation.append_tool(call.id, self._text())
            self._happened("results")
            if not await self._call(served):
                return
        conversation.cancel_calls()

    async def _call(self, served: Served) -> bool:
        """Send what there is, and take the reply; return whether one came."""
        preset, config = served.preset, self._config
        counter = self._accounting.counter(preset, config)
        limit = Limits(
            self._window,
            preset.max_output_tokens,
            min(
                config.context.token_budget or self._window,
                max(1, self._window - preset.max_output_tokens),
            ),
        )
        try:
            prepared = await self._prepare(counter, limit)
        except OverBudget:
            self._happened("refused")
            return False
        actual = self._count(served, prepared, limit)
        if actual > self._window:
            # The server refuses.
            if prepared.cut or preset.local_compress:
                return False
            if self._accounting.is_plausible(prepared, counter, actual):
                self._accounting.learn(prepared, counter, actual)
            self._accounting.refused(self._conversation, prepared, counter, actual)
            ratio = counter.ratio * actual / max(1, prepared.measure.total)
            counter = self._accounting.counter(preset, config, ratio)
            limit = replace(limit, budget=min(limit.budget, actual - 1))
            try:
                prepared = await self._prepare(counter, limit)
            except OverBudget:
                self._happened("refused for good")
                return False
            self._happened("asked again")
            actual = self._count(served, prepared, limit)
            if actual > self._window:
                self._happened("refused twice")
                return False
        self._take_reply(served, prepared, counter, limit, actual)
        return True

    async def _prepare(self, counter: Counter, limit: Limits) -> Prepared:
        conversation = self._conversation
        blocks = replace(self._blocks, summary=summary_block(conversation.summary))
        budget = Budget(blocks, self._config.context, limit, counter, self._tools)
        prepared = await budget.plan(conversation, summarize=self._rolls)
        if self._rolls and prepared.summary_chars:
            summary = self._summary(conversation.summary, prepared.summary_chars)
            prepared = await budget.summarized(conversation.summary, prepared, summary)
        budget.apply(conversation, prepared)
        if prepared.evicted:
            self._happened("evicted")
        for name in prepared.cut:
            self._happened(f"cut {name}")
        if prepared.summary is not None:
            self._happened("summarized")
        return prepared

    def _summary(self, prior: str, max_chars: int) -> str:
        """Return what a summarizer may: something new, nothing new, nothing, or far too much."""
        text = self._text()
        return self._rng.choice([prior, "", text, text[:max_chars], text[:max_chars], 9 * text])

    def _count(self, served: Served, prepared: Prepared, limit: Limits) -> int:
        actual = served.counts.request(
            ModelRequest(served.preset, prepared.messages(), self._tools)
        )
        size = prepared.measure
        self._happened(size.basis)
        self._tally.sent.append(
            Sent(
                self._number, size.total, size.margin, size.basis, actual, limit.room,
                tuple(self._told),
            )
        )  # fmt: skip
        return actual

    def _take_reply(
        self, served: Served, prepared: Prepared, counter: Counter, limit: Limits, actual: int
    ) -> None:
        """Append a reply, and take in what the server reports of the call."""
        rng, preset = self._rng, served.preset
        text = self._text()
        thought = self._text() if rng.random() < 0.2 else ""
        calls = self._tool_calls() if rng.random() < 0.3 else []
        if calls and rng.random() < 0.5:
            text = ""
        reasoning = StoredReasoning(thought, reasoning_source(preset), {}) if thought else None
        self._conversation.append_assistant(text, tool_calls=calls, reasoning=reasoning)
        for what, came in (("calls", calls), ("reasoning", thought)):
            if came:
                self._happened(what)
        if rng.random() < 0.1:
            self._happened("no usage")
            return
        thinking = served.counts.text(f"<think>\n{thought}\n</think>\n\n") if thought else 0
        said = text + "".join(
            f'\n<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
            for call in calls
        )
        # The token that ends the reply; there is none where the limit ended it.
        end = rng.random() < 0.9
        usage = Usage(
            actual,
            thinking + served.counts.text(said) + end,
            reasoning_tokens=thinking if rng.random() < 0.5 else 0,
        )
        if self._accounting.is_plausible(prepared, counter, actual):
            self._accounting.answered(self._conversation, prepared, counter, usage)

    def _tool_calls(self) -> list[ToolCall]:
        rng = self._rng
        calls = []
        for _ in range(rng.choice([1, 1, 2, 4])):
            self._calls += 1
            name = rng.choice(_TOOLS).name
            calls.append(ToolCall(f"call{self._calls:05}", name, self._arguments()))
        return calls

    def _arguments(self) -> str:
        """Return a call's arguments, in one of the ways in which models write JSON."""
        rng = self._rng
        if self._loose and rng.random() < 0.3:
            return self._text(0.3)
        lines = [rng.randrange(99) for _ in range(rng.choice([1, 2, 60]))]
        arguments = {"path": self._text(0.1), "lines": lines}
        separators = rng.choice([None, (",", ":")])
        return json.dumps(arguments, separators=separators, ensure_ascii=rng.random() < 0.3)
