"""What it takes to measure a conversation and to make it fit, against a plain sum of its messages.

    python tests/bench/bench_context.py [ROUNDS]

Prints the least milliseconds of each, since machines are noisy, at 1,000, 10,000 and 100,000
messages, and how many times the plain sum that is: *cold* counts each message for the first time,
*warm* has counted all of them before. Ends with 1 where that grows with the messages, as what is
not linear does.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

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
        "sum of len(turn.content)": (characters, again),
        "sum of known sizes": (known, again),
        "measure, warm, estimated": (estimated, again),
        "measure, warm, after a call": (actual, again),
        "prepare, warm, fits": (prepare(2 * total), again),
        "prepare, warm, evicts a fourth": (prepare(total - 1), again),
        "prepare, warm, evicts nearly all": (prepare(1000), again),
        "prepare, warm, refused": (refused, again),
        "measure, cold": (estimated, fresh),
    }


async def least(case: Case, rounds: int) -> float:
    """Return the least milliseconds that a case took in some rounds."""
    timed, make_ready = case
    taken = []
    for _ in range(rounds):
        make_ready()
        gc.collect()
        # As timeit does it: when it comes is not the code's affair.
        gc.disable()
        begun = time.perf_counter()
        await timed()
        taken.append(time.perf_counter() - begun)
        gc.enable()
    return 1000 * min(taken)


async def main(rounds: int) -> int:
    """Print the table; return 1 where something is not linear."""
    # One loop for all: to start one takes longer than most of what is timed.
    table: dict[str, list[float]] = {}
    for messages in SIZES:
        for name, case in cases(messages).items():
            table.setdefault(name, []).append(await least(case, rounds))
    plain = next(iter(table.values()))
    heads = "".join(f"{f'{messages:,} turns':>24}" for messages in SIZES)
    sys.stdout.write(f"{'':<34}{heads}\n")
    steep = []
    for name, row in table.items():
        shares = [taken / of for taken, of in zip(row, plain, strict=True)]
        cells = (
            f"{taken:11.2f} ms {share:7.1f} x" for taken, share in zip(row, shares, strict=True)
        )
        sys.stdout.write(f"{name:<34}{''.join(cells)}\n")
        if shares[-1] > STEEPEST * shares[0]:
            steep.append(name)
    verdict = f"NOT linear: {', '.join(steep)}" if steep else "All of it is linear in the turns."
    sys.stdout.write(f"{verdict}\n")
    return bool(steep)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))
