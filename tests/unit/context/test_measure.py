from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, cast

import pytest
from histories import conversations
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Context, Preset
from aish_lsp.context import counter as counter_module
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.counter import (
    NOTHING,
    OVERHEAD,
    TOOLS_HEADING,
    Counter,
    Tokens,
    model_key,
)
from aish_lsp.context.measure import Breakdown, Draft, MeasuredPrefix, draft_tokens, measure
from aish_lsp.context.messages import ExecOutput, Message
from aish_lsp.context.prompt import Blocks, in_force, instructions_part, tree_part
from aish_lsp.context.tokens import count, p99_error
from aish_lsp.models.request import COUNTS, StoredReasoning, ToolCall, ToolSchema

if TYPE_CHECKING:
    from aish_lsp.models.tokenizer import EndpointTokenizer

PRESET = Preset(name="local", endpoint="http://127.0.0.1:8080", model="qwen2.5-coder-7b")
COUNTER = Counter(PRESET)
SLACK = COUNTER.slack
CALL_SLACK = counter_module._CALL_SLACK
FULL = Blocks(
    "You are aish.",
    background="[background] (memory; manage with :memory)\n- (fact) " + "tea " * 100,
    tree=tree_part("src/\n" * 100),
    instructions=instructions_part("AGENTS.md", "Use tabs. " * 50),
    summary="[earlier conversation summary]\nWe greeted.",
)
NORRIS = replace(FULL, norris="[NORRIS MODE] goal")
TOOLS = (ToolSchema("read", "Read a file.", {"type": "object", "properties": {"path": {}}}),)


def tokens(text: str) -> int:
    return count(text, "qwen")


def talk(*texts: str) -> list[Message]:
    return [
        Message("assistant" if number % 2 else "user", text) for number, text in enumerate(texts)
    ]


def parts_of(breakdown: Breakdown) -> list[int]:
    return [getattr(breakdown, field.name) for field in fields(breakdown)]


# --- estimated ------------------------------------------------------------------------------------


def test_every_part_of_a_request_is_counted_by_the_models_family() -> None:
    call = ToolCall("1", "read", '{"path": "a"}')
    messages = [
        Message("user", "q", exec=(ExecOutput("ls", 0, "a"),)),
        Message("assistant", "a", tool_calls=(call,)),
        Message("tool", "result", tool_call_id="1"),
    ]
    size = measure(Draft(FULL, messages, TOOLS), COUNTER)
    parts = size.breakdown
    assert parts.memory == tokens(FULL.background)
    assert parts.project == tokens(FULL.tree)
    assert parts.instructions == tokens(FULL.instructions)
    assert parts.summary == tokens(FULL.summary)
    assert parts.reasoning == 0
    assert parts.tools == sum(COUNTER.tool(TOOLS[0])) + TOOLS_HEADING > tokens("Read a file.")
    assert parts.messages == (
        OVERHEAD.user
        + tokens("[exec output]\n$ ls (exit 0)\na\n\nq")
        + OVERHEAD.assistant
        + tokens("a")
        + OVERHEAD.call
        + CALL_SLACK
        + tokens("read")
        + tokens(call.arguments)
        + OVERHEAD.tool
        + tokens("result")
    )
    whole = tokens(FULL.text()) + OVERHEAD.request + OVERHEAD.system
    assert size.total == whole + parts.messages + parts.tools
    assert size.basis == "estimated"
    assert size.margin == -(-size.total * p99_error("qwen") // 1) + 2 * SLACK
    assert size.new_since == 0


def test_reasoning_counts_where_it_is_sent_and_nowhere_else() -> None:
    reasoning = StoredReasoning("because " * 9, "anthropic", {"signature": "s"})
    draft = Draft(FULL, [Message("user", "q"), Message("assistant", "a", reasoning=reasoning)])
    cloud = Counter(Preset(name="cloud", provider="anthropic", model="claude"))
    assert measure(draft, cloud).breakdown.reasoning == count(reasoning.text, "claude")
    assert measure(draft, COUNTER).breakdown.reasoning == 0
    # Over chat completions it is sent where it came with parts to return.
    router = Preset(endpoint="https://openrouter.ai/api", model="qwen")
    parts: dict[str, list[object]] = {"reasoning_details": [{}]}
    for metadata in ({}, parts):
        own = replace(reasoning, provider="openrouter.ai", metadata=metadata)
        draft = Draft(FULL, [Message("user", "q"), Message("assistant", "a", reasoning=own)])
        assert bool(measure(draft, Counter(router)).breakdown.reasoning) is bool(metadata)


def test_what_norris_leaves_out_is_not_counted() -> None:
    size = measure(Draft(NORRIS.in_force(), ()), COUNTER)
    assert size == measure(Draft(Blocks(NORRIS.base, norris=NORRIS.norris), ()), COUNTER)
    assert size.breakdown.total == size.breakdown.system


def test_the_ratio_learned_for_a_model_corrects_the_estimate_and_all_its_parts() -> None:
    draft = Draft(FULL, talk("word " * 500, "word " * 500))
    plain, corrected = measure(draft, COUNTER), measure(draft, Counter(PRESET, ratio=1.5))
    assert corrected.total == round(1.5 * plain.total)
    # What was learned is surer than the family's error.
    assert 0 < corrected.margin <= 0.1 * corrected.total + 2 + 2 * SLACK
    lower = measure(draft, Counter(PRESET, ratio=0.8))
    # It never lowers what a request may come to: it may come of other texts.
    assert lower.total + lower.margin == plain.total + plain.margin
    for name, part in asdict(plain.breakdown).items():
        assert getattr(corrected.breakdown, name) == pytest.approx(1.5 * part, abs=4)


def test_a_folded_reply_is_counted_apart_from_one_with_calls() -> None:
    folded = Counter(replace(PRESET, use_tool_role=False))
    assert folded.form != COUNTER.form
    assert model_key(folded.preset) == model_key(PRESET)


@pytest.mark.parametrize(
    ("preset", "key"),
    [
        (PRESET, "http://127.0.0.1:8080/qwen2.5-coder-7b"),
        (Preset(endpoint="https://me:secret@example.com/v1?key=secret"), "https://example.com/v1/"),
        (
            Preset(name="c", provider="anthropic", model="claude-x"),
            "https://api.anthropic.com/claude-x",
        ),
        (Preset(name="broken", endpoint="http://[::1"), "broken/"),
    ],
)
def test_the_key_of_a_model_tells_no_secret(preset: Preset, key: str) -> None:
    assert model_key(preset) == key


# --- actual ---------------------------------------------------------------------------------------


def anchored(sent: int, output: int, covered: int, blocks: Blocks = FULL) -> MeasuredPrefix:
    return MeasuredPrefix(sent, output, covered, blocks)


def test_what_the_server_has_counted_is_not_counted_again() -> None:
    messages = talk("q1", "a1", "and a new question")
    size = measure(Draft(FULL, messages), Counter(PRESET, ratio=2), anchored(4321, 56, 2))
    new = tokens("and a new question") + OVERHEAD.user + OVERHEAD.assistant - 1
    assert size.new_since == new
    assert size.total == 4321 + 56 + new
    assert size.basis == "actual"
    # The question, and the head of the reply to it, each with a template that may say more.
    assert size.margin == Counter(PRESET, ratio=2).at_most(Tokens(0, new)) - new + 2 * SLACK


def test_right_after_a_call_the_total_is_what_the_server_said() -> None:
    messages = talk("q1", "a1")
    size = measure(Draft(FULL, messages), COUNTER, anchored(4321, 56, 2))
    assert (size.total, size.margin, size.new_since, size.basis) == (4377, SLACK, 0, "actual")


def test_a_block_that_changed_since_the_call_counts_as_what_it_changed_by() -> None:
    messages = talk("q1", "a1")
    anchor = anchored(4321, 56, 2)
    for blocks in (
        replace(FULL, background=FULL.background + "\n- (pref) more tea " * 30),
        replace(FULL, tree=""),
        replace(FULL, base="You are somebody else altogether."),
        NORRIS.in_force(),
    ):
        size = measure(Draft(blocks, messages), COUNTER, anchor)
        grown = tokens(blocks.text()) - tokens(FULL.text())
        assert size.total == 4377 + grown
        # What came and what went may both be wrong, though they may be of the same size.
        assert size.margin > abs(grown) * p99_error("qwen")
        assert size.basis == "actual"


def test_tools_that_changed_since_the_call_count_too() -> None:
    messages = talk("q1", "a1")
    anchor = anchored(4321, 56, 2)
    with_tools = measure(Draft(FULL, messages, TOOLS), COUNTER, anchor)
    assert with_tools.total == 4377 + sum(COUNTER.tool(TOOLS[0])) + TOOLS_HEADING
    without = measure(Draft(FULL, messages), COUNTER, replace(anchor, tools=TOOLS))
    assert without.total == 4377 - sum(COUNTER.tool(TOOLS[0])) - TOOLS_HEADING


def test_what_is_left_after_an_eviction_is_an_estimate_that_is_surer_than_a_new_one() -> None:
    messages = talk("word " * 100, "word " * 100, "q", "a", "new")
    anchor = anchored(900, 100, 4)
    gone = COUNTER.messages(messages[:2])
    left = anchor.without(2, gone)
    assert left is not None
    size = measure(Draft(FULL, messages[2:]), COUNTER, left)
    assert size.basis == "estimated"
    new = sum(COUNTER.messages(messages[4:])) + OVERHEAD.assistant - 1
    assert size.total == 1000 - sum(gone) + new
    assert size.margin >= p99_error("qwen") * sum(gone)
    assert anchor.without(5, gone) is None


@given(
    conversations(),
    st.sampled_from([FULL, NORRIS, Blocks(""), Blocks("", summary="x")]),
    st.booleans(),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 5000), st.integers(0, 500), st.integers(0, 20)),
    st.floats(0.5, 3),
)
def test_the_parts_add_up(
    conversation: Conversation,
    blocks: Blocks,
    fold: bool,
    small: bool,
    counted: tuple[int, int, int] | None,
    ratio: float,
) -> None:
    preset = replace(PRESET, use_tool_role=not fold, local_compress=small)
    sent = in_force(conversation.messages, blocks, preset, Context().compress)
    draft = Draft(blocks.in_force(), sent, TOOLS)
    anchor = None
    if counted is not None:
        covered = min(counted[2], len(sent))
        anchor = MeasuredPrefix(counted[0], counted[1], covered, FULL)
    size = measure(draft, Counter(preset, ratio=ratio), anchor)
    parts = parts_of(size.breakdown)
    assert all(isinstance(part, int) and part >= 0 for part in parts)
    assert sum(parts) == size.total == size.breakdown.total
    assert size.margin >= 0
    assert size.basis == ("estimated" if anchor is None else "actual")


def test_parts_that_were_counted_too_high_shrink_in_proportion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages = talk("q1", "a1")
    size = measure(Draft(FULL, messages), COUNTER, anchored(90, 10, 2))
    assert size.total == sum(parts_of(size.breakdown)) == 100
    assert size.breakdown.messages == 0
    whole = measure(Draft(FULL, messages), COUNTER).breakdown
    share = 100 / (whole.total - whole.messages)
    assert size.breakdown.project == pytest.approx(share * whole.project, abs=1)
    assert "too many" in caplog.text


# --- counted once ---------------------------------------------------------------------------------


@pytest.fixture(name="counted")
def fixture_counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are estimated from now on, with nothing known of any."""
    counted: list[str] = []

    def counting(text: str, family: str) -> int:
        counted.append(text)
        return count(text, family)

    monkeypatch.setattr(counter_module, "count", counting)
    COUNTS.clear()
    return counted


def test_a_text_is_counted_once(counted: list[str]) -> None:
    messages = talk("first", "then")
    first = measure(Draft(FULL, messages[:1]), COUNTER)
    assert len(counted) == len(set(counted))
    counted.clear()
    again = measure(Draft(FULL, messages), COUNTER)
    assert counted == ["then"]
    assert again.total == first.total + OVERHEAD.assistant + tokens("then")
    # Another tokenizer's number is never served.
    other = Counter(replace(PRESET, model="llama-3"))
    assert measure(Draft(FULL, messages), other).total == sum(
        draft_tokens(Draft(FULL, messages), other)
    )
    assert counted.count("then") == 2


class Silent:
    """A tokenizer that has not answered yet."""

    overhead = None

    def known(self, text: str) -> int | None:
        return None if text else 0

    async def fetch(self, texts: object) -> None: ...


def test_what_a_tokenizer_has_not_counted_is_estimated_once(counted: list[str]) -> None:
    waiting = Counter(PRESET, cast("EndpointTokenizer", Silent()))
    messages = talk("first", "then")
    size = waiting.messages(messages)
    assert size.estimated
    assert waiting.messages(messages) == size
    assert sorted(counted) == ["first", "then"]


class Exact:
    """A tokenizer that takes every letter of what it was asked for a token."""

    def __init__(self) -> None:
        self.overhead = None
        self.asked: set[str] = set()

    def known(self, text: str) -> int | None:
        return len(text) if text in self.asked or not text else None

    async def fetch(self, texts: object) -> None:
        assert isinstance(texts, list)
        self.asked.update(texts)


async def test_the_models_own_tokenizer_counts_what_it_was_asked_for() -> None:
    tokenizer = Exact()
    counter = Counter(PRESET, cast("EndpointTokenizer", tokenizer), ratio=2)
    messages = talk("one", "two")
    draft = Draft(Blocks("base"), messages)
    before = measure(draft, counter)
    assert before.margin > 0
    await counter.fetch([draft.blocks.text()], messages, ())
    texts = Tokens(len("base") + len("one") + len("two"), 0)
    assumed = Tokens(0, OVERHEAD.request + OVERHEAD.system + OVERHEAD.user + OVERHEAD.assistant)
    assert draft_tokens(draft, counter) == texts.plus(assumed)
    size = measure(draft, counter)
    assert size.total == 10 + 2 * assumed.estimated
    assert counter.text("") == NOTHING
    assert counter.name == "endpoint"
    assert COUNTER.name == "heuristic"
