"""What it takes to measure a conversation and to make it fit, against a plain sum of its messages.

    python tests/bench/bench_context.py [ROUNDS]

*Cold* counts each message for the first time, *warm* has counted all of them before. The last row
is what grows the most with the turns, compared with the plain sum.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from measuring import Row, main

from aish_lsp.config.schema import Context, Preset
from aish_lsp.context.budget import Budget, Limits
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.counter import Counter
from aish_lsp.context.measure import Draft, MeasuredPrefix, measure
from aish_lsp.context.prompt import Blocks
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.models.request import COUNTS

SIZES = (1_000, 10_000, 100_000)
PRESET = Preset(endpoint="http://127.0.0.1:8080", model="qwen2.5-coder:7b")
BLOCKS = Blocks("You are aish.")
ANY_NUMBER = Context(max_turns=10**9)

#: How many times as many plain sums a hundred times the messages may take: noise and caches are no
#: second power, which is a hundred.
STEEPEST = 10

PLAIN: Final = "sum of len(turn.content)"
TARGETS: Final = {
    "prepare, warm, fits": 3.0,
    "prepare, warm, evicts a fourth": 3.0,
    "measure, warm, estimated": 3.0,
}

#: What is timed, and what makes it ready, untimed, before each round.
Case = tuple[Callable[[], Awaitable[object]], Callable[[], object]]


def talk(messages: int) -> Conversation:
    """Return a conversation of so many messages, the last one a question."""
    conversation = Conversation()
    for number in range((messages - 1) // 2):
        conversation.append_user(f"question {number} " + "word " * 20)
        conversation.append_assistant(f"answer {number} " + "word " * 20)
    conversation.append_user("and now?")
    return conversation


async def prepared(budget: Budget, conversation: Conversation) -> None:
    """Make the next request fit, and let go what has to go."""
    budget.apply(conversation, await budget.plan(conversation))


def cases(messages: int) -> dict[str, Case]:
    """Return what is timed at so many messages; the first is what the others are held against."""
    conversation = talk(messages)
    counter = Counter(PRESET)
    sizes = {id(message): len(message.content) for message in conversation.messages}
    draft = Draft(BLOCKS, conversation.messages)
    total = measure(draft, counter).total
    anchor = MeasuredPrefix(total, 0, len(conversation.messages) - 1, BLOCKS)
    copy = Conversation()

    def fresh() -> None:
        """Take the messages anew, as nobody has counted them."""
        COUNTS.clear()

    def again() -> None:
        copy.messages[:] = conversation.messages
        copy.anchors.clear()

    async def characters() -> int:
        return sum(len(message.content) for message in conversation.messages)

    async def known() -> int:
        return sum(sizes[id(message)] for message in conversation.messages)

    async def estimated() -> object:
        return measure(draft, counter)

    async def actual() -> object:
        return measure(draft, counter, anchor)

    def prepare(tokens: int) -> Callable[[], Awaitable[object]]:
        limits = Limits(4 * tokens, 0, tokens)
        budget = Budget(BLOCKS, ANY_NUMBER, limits, counter)
        return lambda: prepared(budget, copy)

    async def refused() -> None:
        with suppress(OverBudget):
            await prepare(1)()

    return {
        PLAIN: (characters, again),
        "sum of known sizes": (known, again),
        "measure, warm, estimated": (estimated, again),
        "measure, warm, after a call": (actual, again),
        "prepare, warm, fits": (prepare(2 * total), again),
        "prepare, warm, evicts a fourth": (prepare(total - 1), again),
        "prepare, warm, evicts nearly all": (prepare(1000), again),
        "prepare, warm, refused": (refused, again),
        "measure, cold": (estimated, fresh),
    }


async def taken(case: Case) -> float:
    """Return the milliseconds that a case takes."""
    timed, make_ready = case
    make_ready()
    gc.collect()
    # As timeit does it: when it comes is not the code's affair.
    gc.disable()
    begun = time.perf_counter()
    await timed()
    milliseconds = 1000 * (time.perf_counter() - begun)
    gc.enable()
    return milliseconds


async def measured(messages: int, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each case, which take turns."""
    all_cases = cases(messages)
    figures: dict[str, list[float]] = {name: [] for name in all_cases}
    for _ in range(rounds):
        for name, case in all_cases.items():
            figures[name].append(await taken(case))
    return figures


async def rows(rounds: int) -> list[Row]:
    """Measure at 10,000 messages, and how it grows."""
    few, some, many = [await measured(messages, rounds) for messages in SIZES]

    def share(figures: dict[str, list[float]], name: str) -> float:
        return min(figures[name]) / min(figures[PLAIN])

    growth = {name: share(many, name) / share(few, name) for name in many}
    steepest = max(growth, key=lambda name: growth[name])
    return [
        *(
            Row(f"{name}, {SIZES[1]:,} turns", PLAIN, some[name], some[PLAIN], target)
            for name, target in TARGETS.items()
        ),
        Row(f"{SIZES[-1] // SIZES[0]} times the turns: {steepest}", PLAIN,
            [growth[steepest]], [1.0], STEEPEST, unit="times"),
    ]  # fmt: skip


if __name__ == "__main__":
    main(rows, 7)
