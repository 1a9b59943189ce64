from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from histories import assert_acceptable, conversations
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.config.schema import Compress, Context, Preset
from aish_lsp.context import budget as budget_module
from aish_lsp.context import counter as counter_module
from aish_lsp.context.budget import (
    Budget,
    Limits,
    Prepared,
    limits,
    with_cut_attached,
    with_cut_output,
)
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.counter import Counter
from aish_lsp.context.measure import Draft, MeasuredPrefix, margin_of, measure
from aish_lsp.context.messages import Attached, ExecOutput, Message
from aish_lsp.context.prompt import (
    Blocks,
    as_sent,
    in_force,
    instructions_part,
    request_messages,
    tree_part,
)
from aish_lsp.context.tokens import count
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.models.request import RequestMessage, StoredReasoning, ToolCall

#: Extends the summary by messages that go: ``(summary, messages, max_chars)`` to the new summary.
Roll: TypeAlias = Callable[[str, Sequence[Message], int], Awaitable[str]]

PRESET = Preset(name="local", endpoint="http://127.0.0.1:8080")
CONTEXT = Context()
BASE = Blocks("You are aish.")
FULL = Blocks(
    "You are aish.",
    background="[background] (memory; manage with :memory)\n- (fact) " + "tea " * 100,
    tree=tree_part("src/\n" * 100),
    instructions=instructions_part("AGENTS.md", "Use tabs. " * 50),
    summary="[earlier conversation summary]\nWe greeted.",
)
NORRIS = replace(FULL, norris="[NORRIS MODE] goal")


def limit(tokens: int) -> Limits:
    """Return limits with a window so large that only the budget counts."""
    return Limits(window=10 * tokens + 1000, output_reserve=1000, budget=tokens)


def talk(exchanges: int, words: int = 20) -> Conversation:
    """Return a conversation of so many exchanges and a question."""
    conversation = Conversation()
    for number in range(exchanges):
        conversation.append_user(f"question {number} " + "word " * words)
        conversation.append_assistant(f"answer {number} " + "word " * words)
    conversation.append_user("and now?")
    return conversation


def draft_of(
    conversation: Conversation,
    blocks: Blocks = BASE,
    preset: Preset = PRESET,
    context: Context = CONTEXT,
) -> Draft:
    sent = in_force(conversation.messages, blocks, preset, context.compress)
    return Draft(blocks.in_force(), sent)


def size_of(
    conversation: Conversation,
    blocks: Blocks = BASE,
    preset: Preset = PRESET,
    context: Context = CONTEXT,
) -> int:
    return measure(draft_of(conversation, blocks, preset, context), Counter(preset)).total


def ready(
    conversation: Conversation,
    tokens: int | Limits,
    blocks: Blocks = BASE,
    context: Context = CONTEXT,
    preset: Preset = PRESET,
    roll: Roll | None = None,
) -> Prepared:
    limited = limit(tokens) if isinstance(tokens, int) else tokens
    budget = Budget(blocks, context, limited, Counter(preset))
    return asyncio.run(prepared_by(budget, conversation, roll))


async def prepared_by(budget: Budget, conversation: Conversation, roll: Roll | None) -> Prepared:
    plan = await budget.plan(conversation, summarize=roll is not None)
    if roll is not None and plan.summary_chars:
        summary = await roll(conversation.summary, plan.evicted, plan.summary_chars)
        plan = await budget.summarized(conversation.summary, plan, summary)
    budget.apply(conversation, plan)
    return plan


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "context", "told", "expected"),
    [
        (Preset(), Context(), None, Limits(4096, 1024, 3072)),
        (Preset(), Context(), 8192, Limits(8192, 1024, 7168)),
        (Preset(), Context(), 2048, Limits(2048, 1024, 1024)),
        (Preset(extra_body={"max_tokens": 96}), Context(), 2048, Limits(2048, 96, 1952)),
        (Preset(), Context(token_budget=500), 8192, Limits(8192, 1024, 500)),
        (Preset(token_budget=600), Context(token_budget=500), 8192, Limits(8192, 1024, 600)),
        (Preset(), Context(token_budget=10**6), 8192, Limits(8192, 1024, 7168)),
        (Preset(max_output_tokens=9000), Context(), 8192, Limits(8192, 9000, 1)),
    ],
)
def test_limits(preset: Preset, context: Context, told: int | None, expected: Limits) -> None:
    assert limits(preset, context, told) == expected


# --- eviction -------------------------------------------------------------------------------------


def test_what_fits_goes_as_it_is() -> None:
    conversation = talk(5)
    before = list(conversation.messages)
    size = size_of(conversation)
    prepared = ready(conversation, size)
    assert (prepared.evicted, prepared.cut) == ((), ())
    assert prepared.measure.total == size
    assert conversation.messages == before
    assert prepared.messages() == request_messages(BASE, before, PRESET, CONTEXT.compress)


def test_one_token_over_evicts_down_to_the_low_water_mark() -> None:
    conversation = talk(15)
    messages = list(conversation.messages)
    tokens = size_of(conversation) - 1
    prepared = ready(conversation, tokens)
    gone = len(prepared.evicted)
    assert gone > 0
    assert gone % 2 == 0
    assert list(prepared.evicted) == messages[:gone]
    assert conversation.messages == messages[gone:]
    assert prepared.measure.total <= CONTEXT.low_water * tokens
    # One exchange less would not have been enough.
    assert size_of(Conversation(messages[gone - 2 :])) > CONTEXT.low_water * tokens


@pytest.mark.parametrize("low_water", [0.0, 1.0])
def test_the_low_water_mark_may_be_anywhere(low_water: float) -> None:
    conversation = talk(10)
    tokens = size_of(conversation) - 1
    prepared = ready(conversation, tokens, context=Context(low_water=low_water))
    assert len(prepared.evicted) == (20 if low_water == 0 else 2)


def test_too_many_turns_are_evicted_though_they_fit() -> None:
    conversation = talk(20)
    assert len(conversation.messages) == 41
    prepared = ready(conversation, 10**6)
    # Down to the low water mark: not again at each of the next questions.
    assert len(prepared.evicted) == 12
    assert len(conversation.messages) == 29
    assert ready(talk(19), 10**6).evicted == ()


def test_too_many_turns_and_too_large_both_have_to_be_cured() -> None:
    conversation = talk(20)
    tokens = 2 * size_of(conversation)
    prepared = ready(conversation, tokens, context=Context(max_turns=7))
    assert len(conversation.messages) == 5
    assert len(prepared.evicted) == 36
    conversation = talk(20)
    tokens = size_of(conversation)
    ready(conversation, tokens, context=Context(low_water=0.5))
    assert size_of(conversation) <= tokens / 2


def test_the_current_exchange_stays_whole() -> None:
    conversation = talk(2)
    for _ in range(30):
        conversation.append_assistant("", tool_calls=[ToolCall("1", "read", "{}")])
        conversation.append_tool("1", "content")
    prepared = ready(conversation, 10**6)
    assert conversation.messages[0].content == "and now?"
    assert len(conversation.messages) == 61
    assert len(prepared.evicted) == 4


def test_calls_go_with_their_results() -> None:
    conversation = Conversation()
    for _ in range(3):
        conversation.append_user("q")
        conversation.append_assistant("", tool_calls=[ToolCall("1", "read", "{}" * 50)])
        conversation.append_tool("1", "content " * 50)
        conversation.append_assistant("a")
    conversation.append_user("q")
    prepared = ready(conversation, size_of(conversation) - 1)
    assert len(prepared.evicted) in {4, 8}
    assert_acceptable(prepared.messages(), tool_role=True)


def test_reasoning_counts_for_the_eviction_only_where_it_is_sent() -> None:
    def thoughtful() -> Conversation:
        conversation = Conversation()
        for number in range(4):
            conversation.append_user(f"q{number}")
            reasoning = StoredReasoning("hm " * 100, "anthropic", {"signature": "s"})
            conversation.append_assistant("a", reasoning=reasoning)
        conversation.append_user("q")
        return conversation

    cloud = Preset(name="cloud", provider="anthropic")
    tokens = size_of(thoughtful(), preset=cloud) - 1
    prepared = ready(thoughtful(), tokens, context=Context(low_water=0.6), preset=cloud)
    assert len(prepared.evicted) == 4
    assert ready(thoughtful(), tokens).evicted == ()


def test_a_compressed_request_evicts_by_what_it_sends() -> None:
    small = replace(PRESET, local_compress=True)
    conversation = talk(15)
    assert ready(conversation, size_of(conversation, preset=small), preset=small).evicted == ()
    assert len(conversation.messages) == 31
    prepared = ready(conversation, 10**6, preset=small, context=Context(max_turns=9))
    assert len(prepared.evicted) == 26
    assert len(conversation.messages) == 5


def test_ten_thousand_turns_are_evicted_in_one_linear_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = 0

    def counting(text: str, family: str) -> int:
        nonlocal counted
        counted += len(text)
        return count(text, family)

    monkeypatch.setattr(counter_module, "count", counting)
    characters = []
    for exchanges in (500, 5000):
        conversation = talk(exchanges)
        counted = 0
        begun = time.process_time()
        prepared = ready(conversation, 500)
        assert time.process_time() - begun < 20
        assert prepared.measure.total <= 500
        assert len(prepared.evicted) + len(conversation.messages) == 2 * exchanges + 1
        characters.append(counted)
    assert characters[1] < 11 * characters[0]


def test_eviction_of_many_turns_works_out_few_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    margins = 0

    def counting(*arguments: Any) -> int:
        nonlocal margins
        margins += 1
        return margin_of(*arguments)

    monkeypatch.setattr(budget_module, "margin_of", counting)
    conversation = talk(5000)
    assert ready(conversation, 100_000, context=Context(max_turns=10**9)).evicted
    assert len(conversation.messages) > 1000
    assert margins < 50


# --- what a server has counted --------------------------------------------------------------------


def counted(conversation: Conversation, actual: int, blocks: Blocks = BASE) -> Conversation:
    """Return ``conversation`` with a server's count of all of it but the question."""
    messages = len(conversation.messages) - 1
    form = Counter(PRESET).form
    conversation.anchors[form] = MeasuredPrefix(actual, 0, messages, blocks)
    return conversation


def test_a_count_of_the_server_evicts_though_the_estimate_would_fit() -> None:
    estimated = size_of(talk(10))
    conversation = counted(talk(10), 3 * estimated)
    prepared = ready(conversation, 2 * estimated)
    # Of the server's count, as far as is known: two thirds of it, down to low water.
    assert 3 * estimated - prepared.measure.total > estimated / 2
    assert prepared.measure.total <= CONTEXT.low_water * 2 * estimated
    assert prepared.measure.basis == "estimated"


def test_the_rest_of_a_count_is_gone_on_with_where_little_of_it_went() -> None:
    estimated = size_of(talk(10))
    conversation = counted(talk(10), 2 * estimated)
    gone = Counter(PRESET).messages(conversation.messages[:4])
    prepared = ready(conversation, 2 * estimated, context=Context(low_water=0.95))
    assert len(prepared.evicted) == 4
    assert prepared.measure.total == pytest.approx(2 * estimated - gone.estimated, abs=20)
    assert conversation.anchors[Counter(PRESET).form].evicted == gone


def test_a_count_of_the_server_spares_what_the_estimate_would_evict() -> None:
    estimated = size_of(talk(10))
    conversation = counted(talk(10), estimated // 2)
    prepared = ready(conversation, estimated * 3 // 4)
    assert prepared.evicted == ()
    assert prepared.measure.basis == "actual"


def test_another_models_count_says_nothing() -> None:
    estimated = size_of(talk(10))
    conversation = counted(talk(10), 10 * estimated)
    other = replace(PRESET, model="other")
    assert ready(conversation, 2 * estimated, preset=other).evicted == ()


def test_a_count_is_gone_with_the_reset_and_with_most_of_what_was_counted() -> None:
    conversation = counted(talk(3), 900)
    conversation.evict(2)
    assert conversation.anchors == {}
    conversation = counted(talk(3), 900)
    conversation.reset()
    assert conversation.anchors == {}
    conversation = counted(talk(3), 900)
    conversation.withdraw_user()
    assert len(conversation.anchors) == 1
    # A refused question was counted too, and is taken back.
    conversation.append_user("too long")
    conversation.anchors["refused"] = MeasuredPrefix(9000, 0, len(conversation.messages), BASE)
    conversation.withdraw_user()
    assert list(conversation.anchors) == [Counter(PRESET).form]
    conversation = counted(talk(10), 900)
    ready(conversation, 10**6, context=Context(max_turns=2))
    assert conversation.anchors == {}


# --- the window -----------------------------------------------------------------------------------


def test_an_estimate_leaves_room_for_its_own_error() -> None:
    conversation = talk(10)
    total = size_of(conversation)
    margin = measure(draft_of(conversation), Counter(PRESET)).margin
    assert margin > total / 2
    fits = Limits(window=total + margin, output_reserve=0, budget=total)
    assert ready(talk(10), fits).evicted == ()
    evicted = ready(talk(10), replace(fits, window=total + margin - 1))
    assert evicted.evicted
    assert evicted.measure.total + evicted.measure.margin <= fits.window


def test_the_error_of_an_estimate_that_hardly_fits_says_that_it_is_one() -> None:
    conversation = talk(0)
    limited = Limits(window=100, output_reserve=0, budget=90)
    conversation.messages[-1] = replace(conversation.messages[-1], content="word " * 60)
    assert size_of(conversation) <= 90
    with pytest.raises(OverBudget, match=r"estimate.*tokenize\.use_endpoint"):
        ready(conversation, limited)


def test_a_reply_that_may_be_as_long_as_the_window_is_named_as_the_cause() -> None:
    with pytest.raises(OverBudget, match=r"max_output_tokens \(4096\).*window \(4096\)"):
        ready(talk(0), Limits(window=4096, output_reserve=4096, budget=1))


# --- the summary ----------------------------------------------------------------------------------


class Summaries:
    """Answers with what it is given, and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, list[str], int]] = []

    async def roll(self, prior: str, evicted: Sequence[Message], max_chars: int) -> str:
        self.asked.append((prior, [message.content for message in evicted], max_chars))
        return self._answers.pop(0)


def test_what_is_evicted_goes_into_the_summary_in_one_call() -> None:
    summary = "They asked fifteen questions. " * 5
    summaries = Summaries(summary)
    conversation = talk(15)
    conversation.summary = "before"
    before = [message.content for message in conversation.messages]
    tokens = size_of(conversation) - 1
    prepared = ready(conversation, tokens, roll=summaries.roll)
    ((prior, evicted, max_chars),) = summaries.asked
    assert prior == "before"
    assert evicted == before[: len(prepared.evicted)]
    assert 80 <= max_chars <= CONTEXT.max_summary_chars
    assert conversation.summary == prepared.summary == summary
    assert f"[earlier conversation summary]\n{summary}" in prepared.messages()[0].content
    assert prepared.measure.total <= tokens
    assert prepared.measure.breakdown.summary > 0


def test_a_summary_may_be_short() -> None:
    conversation = talk(15)
    prepared = ready(conversation, size_of(conversation) - 1, roll=Summaries("Tea.").roll)
    assert conversation.summary == prepared.summary == "Tea."


def test_nothing_is_summarized_when_nothing_goes() -> None:
    summaries = Summaries()
    assert ready(talk(5), 10**6, roll=summaries.roll).summary is None
    assert summaries.asked == []


def test_a_summary_that_stays_as_it_was_leaves_the_request_as_it_was() -> None:
    summaries = Summaries("")
    conversation = talk(15)
    prepared = ready(conversation, size_of(conversation) - 1, roll=summaries.roll)
    assert prepared.evicted
    assert prepared.summary is None
    assert conversation.summary == ""


def test_a_summary_that_is_too_large_is_cut_until_it_fits() -> None:
    summaries = Summaries("\u4e00\u4e8c" * 1000)
    conversation = talk(15)
    tokens = size_of(conversation) - 1
    prepared = ready(conversation, tokens, roll=summaries.roll)
    assert prepared.measure.total <= tokens
    assert prepared.summary is not None
    assert 80 <= len(prepared.summary) < 2000


def test_nothing_is_lost_when_the_summary_is_interrupted() -> None:
    async def interrupted(*_args: object) -> str:
        raise asyncio.CancelledError

    conversation = talk(15)
    before = list(conversation.messages)
    with pytest.raises(asyncio.CancelledError):
        ready(conversation, size_of(conversation) - 1, roll=interrupted)
    assert conversation.messages == before
    assert conversation.summary == ""


def test_over_budget_is_said_before_anything_is_summarized() -> None:
    summaries = Summaries()
    conversation = talk(15)
    conversation.messages[-1] = replace(conversation.messages[-1], content="word " * 500)
    before = list(conversation.messages)
    with pytest.raises(OverBudget):
        ready(conversation, 300, roll=summaries.roll)
    assert conversation.messages == before


# --- last resorts ---------------------------------------------------------------------------------


def with_output(*, characters: int, blocks: Blocks = FULL) -> tuple[Conversation, int]:
    """Return a conversation whose question carries output, and the size of its request."""
    conversation = talk(2)
    conversation.withdraw_user()
    long = "".join(f"line {number}\n" for number in range(characters // 8))
    conversation.append_output(ExecOutput("make", 2, long))
    conversation.append_user("why?")
    return conversation, size_of(conversation, blocks)


def test_output_is_cut_to_its_head_and_tail_before_any_block() -> None:
    conversation, size = with_output(characters=8000)
    output = conversation.messages[-1].exec[0].output
    prepared = ready(conversation, size - 500, FULL)
    assert prepared.cut == ("command output",)
    assert len(prepared.evicted) == 4
    sent = prepared.messages()[-1].content
    assert sent.startswith(f"[exec output]\n$ make (exit 2)\n{output[:400]}")
    assert sent.endswith(f"{output[-400:].rstrip()}\n\nwhy?")
    assert "characters left out ...]\n" in sent
    assert prepared.measure.total >= 0.95 * (size - 500)
    assert prepared.messages()[0].content == FULL.text()
    assert conversation.messages[-1].exec[0].output == output


def test_tool_results_of_the_current_exchange_are_cut_too() -> None:
    conversation = talk(0)
    conversation.append_assistant("", tool_calls=[ToolCall("1", "read", "{}")])
    conversation.append_tool("1", "x" * 500 + "y" * 5000 + "z" * 500)
    whole = conversation.messages[-1].content
    prepared = ready(conversation, size_of(conversation) - 100)
    assert prepared.cut == ("command output",)
    sent = prepared.messages()[-1].content
    head, tail = sent.split("y\n[... ")[0], sent.partition("left out ...]\n")[2]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(sent) > 5000
    with pytest.raises(OverBudget) as refused:
        ready(conversation, 1)
    prepared = ready(conversation, refused.value.data["total"])
    assert prepared.messages()[-1].content == (
        f"{'x' * 400}\n[... 5,200 characters left out ...]\n{'z' * 400}"
    )


@given(
    st.lists(st.integers(0, 40_000), min_size=1, max_size=8),
    st.integers(2_000, 40_000),
    st.floats(0, 0.9),
)
@example([32_000] * 4, 31_700, 0.75)
@example([100, 60_000], 9_000, 0.75)
def test_results_are_cut_oldest_first_and_only_as_far_as_needed(
    sizes: list[int], budget: int, low_water: float
) -> None:
    conversation = talk(2)
    for number, size in enumerate(sizes):
        call = ToolCall(f"c{number}", "read_file", "{}")
        conversation.append_assistant("", tool_calls=[call])
        # Words, since a run of one letter costs next to nothing.
        conversation.append_tool(call.id, ("word " * (size // 5 + 1))[:size])
    results = [message.content for message in conversation.messages if message.role == "tool"]
    prepared = ready(conversation, budget, context=Context(low_water=low_water))
    if not prepared.cut:
        return
    sent = [message.content for message in prepared.messages() if message.role == "tool"]
    # Whole rounds are left out from the oldest on.
    results = results[len(results) - len(sent) :]
    cut = [kept != whole for kept, whole in zip(sent, results, strict=True)]
    shortest = [len(kept) <= 900 for kept in sent]
    first_whole = cut.index(False) if False in cut else len(cut)
    for at, is_cut in enumerate(cut):
        if is_cut:
            # All that are older give what they can; a short one has nothing to give.
            assert all(shortest[:at])
        elif at >= first_whole:
            assert not any(cut[later] for later in range(at, len(cut)) if not shortest[at])
    if cut[-1]:
        assert len(sent) == 1
    assert prepared.measure.total <= budget
    if any(cut):
        assert prepared.measure.total >= 0.9 * budget


def test_then_project_goes_and_then_background() -> None:
    conversation, _ = with_output(characters=3000)
    messages = list(conversation.messages)
    with pytest.raises(OverBudget) as refused:
        ready(conversation, 1, FULL)
    least = refused.value.data["total"]
    cut = {
        ready(Conversation(list(messages)), tokens, FULL).cut
        for tokens in range(least, size_of(conversation, FULL), 50)
    }
    assert cut == {
        (),
        ("command output",),
        ("command output", "[project]"),
        ("command output", "[project]", "[background]"),
    }
    prepared = ready(Conversation(list(messages)), least, FULL)
    assert prepared.messages()[0].content == f"{FULL.base}\n\n{FULL.summary}"
    with pytest.raises(OverBudget):
        ready(Conversation(list(messages)), least - 1, FULL)


def test_what_the_question_is_about_is_cut_last() -> None:
    long = "".join(f"line {number}\n" for number in range(500))
    conversation = Conversation()
    conversation.append_user("why?", [Attached("file", "a.txt", long)])
    least = replace(FULL, tree="", instructions="", background="")
    prepared = ready(conversation, size_of(conversation, least) - 1, FULL)
    assert prepared.cut == ("[project]", "[background]", "what the question is about")
    sent = prepared.messages()[-1].content
    assert sent.startswith(f"[file] a.txt\n```\n{long[:400]}")
    assert sent.endswith(f"{long[-400:]}```\n\nwhy?")
    assert conversation.messages[-1].attached[0].text == long


def test_only_what_was_really_cut_is_named() -> None:
    conversation = Conversation()
    conversation.append_user("why?")
    size = size_of(conversation, FULL)
    assert ready(conversation, size - 1, FULL).cut == ("[project]",)
    bare = replace(FULL, tree="", instructions="")
    assert ready(conversation, size_of(conversation, bare) - 1, bare).cut == ("[background]",)


def test_a_plan_of_a_long_conversation_renders_no_message_until_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[object] = []

    def render(*given: object) -> tuple[RequestMessage, ...]:
        rendered.append(given)
        return as_sent(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("aish_lsp.context.budget.as_sent", render)
    conversation = Conversation()
    for number in range(20):
        conversation.append_user(f"question {number}")
        conversation.append_assistant("answer " * 20)
    conversation.append_user("and now?")
    prepared = ready(conversation, size_of(conversation) // 2)
    assert prepared.evicted
    assert rendered == []
    assert prepared.messages()[-1].content == "and now?"
    assert len(rendered) == 1


@given(st.text(st.sampled_from("a \n"), max_size=2000) | st.integers(0, 5000).map("x".__mul__))
@example("x" * 840)
@example("x" * 841)
def test_cutting_never_makes_an_output_longer(text: str) -> None:
    conversation = Conversation()
    conversation.append_output(ExecOutput("ls", 0, text))
    message = conversation.append_user("why?")
    try:
        sent = ready(conversation, max(1, size_of(conversation) - 1)).messages()[-1].content
    except OverBudget:
        assert len(text) <= 900
    else:
        assert len(sent) < len(f"[exec output]\n$ ls (exit 0)\n{text}\n\nwhy?")
    assert conversation.messages == [message]


# --- over budget ----------------------------------------------------------------------------------


def test_over_budget_names_the_blocks_and_loses_nothing() -> None:
    conversation = talk(3)
    conversation.withdraw_user()
    conversation.append_output(ExecOutput("make", 2, "x " * 2000))
    conversation.append_user("word " * 500)
    before = list(conversation.messages)
    with pytest.raises(OverBudget) as refused:
        ready(conversation, 300, FULL)
    assert conversation.messages == before
    error = refused.value
    parts = error.data["breakdown"]
    assert set(parts) == {"system", "summary", "messages"}
    assert sum(parts.values()) == error.data["total"] > error.data["tokenBudget"] == 300
    for name, tokens in parts.items():
        assert f"{name} {tokens}" in error.message
    assert "300" in error.message
    conversation.withdraw_user()
    assert conversation.pending == list(before[-1].exec)


def test_after_over_budget_a_shorter_question_works() -> None:
    conversation = talk(3)
    conversation.withdraw_user()
    conversation.append_user("word " * 500)
    with pytest.raises(OverBudget):
        ready(conversation, 200)
    conversation.withdraw_user()
    conversation.append_user("short?")
    prepared = ready(conversation, 200)
    assert prepared.messages()[-1] == RequestMessage("user", "short?")
    assert len(prepared.messages()) > 2


@given(
    conversations(),
    st.integers(1, 3000),
    st.sampled_from([BASE, FULL, NORRIS]),
    st.booleans(),
    st.booleans(),
    st.builds(
        Context,
        max_turns=st.integers(1, 12),
        low_water=st.floats(0, 1),
        compress=st.builds(
            Compress, keep_turns=st.integers(1, 5), max_turn_chars=st.integers(1, 900)
        ),
    ),
)
def test_what_is_prepared_is_never_over_the_budget(
    conversation: Conversation,
    tokens: int,
    blocks: Blocks,
    fold: bool,
    small: bool,
    context: Context,
) -> None:
    preset = replace(PRESET, use_tool_role=not fold, local_compress=small)
    before, pending = list(conversation.messages), list(conversation.pending)
    exchanges = list(conversation.exchanges())
    whole = size_of(conversation, blocks, preset, context)
    try:
        prepared = ready(conversation, tokens, blocks, context, preset)
    except OverBudget:
        assert conversation.messages == before
    else:
        assert prepared.measure.total <= tokens
        kept = prepared.messages()[0].content
        assert prepared.measure.total >= count(kept)
        assert_acceptable(prepared.messages(), tool_role=not fold)
        assert [*prepared.evicted, *conversation.messages] == before
        assert len(prepared.evicted) in {0, *(start for start, _ in exchanges)}
        assert conversation.messages[-1] is before[-1]
        if len(before) <= context.max_turns and whole <= tokens:
            assert (prepared.evicted, prepared.cut) == ((), ())
        if prepared.cut:
            assert len(list(conversation.exchanges())) == 1
        if len(list(conversation.exchanges())) > 1:
            assert len(conversation.messages) <= context.max_turns
    assert conversation.pending == pending


def test_a_message_with_nothing_to_cut_keeps_its_counted_size() -> None:
    short = ExecOutput("ls", 0, "src")
    message = Message("user", "why?", exec=(short,), attached=(Attached("file", "a", "b", ""),))
    assert with_cut_output(message) is message
    assert with_cut_attached(message) is message
    long = replace(message, exec=(short, replace(short, output="x" * 5000)))
    assert with_cut_output(long).exec[0] == short
    assert len(with_cut_output(long).exec[1].output) < 1000
