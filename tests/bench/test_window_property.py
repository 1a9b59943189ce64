"""No request over the window: conversations made by chance, each request counted by llama.cpp.

The short form runs with all tests; ``AISH_FULL=1`` holds thousands of conversations, in larger
windows. ``-rP`` shows the numbers of tests that passed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from driven_talks import Served, Talk, Tally
from llama_server import LlamaServer, missing_part
from natural_texts import NATURAL, UNNATURAL
from real_counts import RealCounts

from aish_lsp.agent.services import Services
from aish_lsp.config.schema import Preset

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")
FULL = os.environ.get("TESTS_FULL") == "1"

#: Questions of a talk.
EXCHANGES = 12 if FULL else 8

#: How many times as large as the smallest the largest window is.
SPREAD = 12 if FULL else 4

#: Talks that share what is learned of the models, as one session does after another.
SHARING = 3

#: The vocabularies of real models, by the name that tells their family.
VOCABULARIES = {"qwen3": "tiny-qwen3think.gguf", "llama-2": "tiny-llama-spm.gguf"}

#: What has to happen in some talk, for the others to say anything.
ALL_THAT_HAPPENS = {
    "actual", "estimated", "switch", "output", "memory", "tree", "instructions", "base", "norris",
    "tools", "calls", "results", "reasoning", "no usage", "evicted", "summarized", "refused",
    "cut command output", "cut [project]", "cut [background]",
}  # fmt: skip

pytestmark = [
    pytest.mark.llama,
    pytest.mark.timeout(7200 if FULL else 300),
    pytest.mark.skipif(missing_part() is not None, reason=str(missing_part())),
]


@dataclass(frozen=True)
class Tokens:
    """Models, and the smallest window in which they can be asked anything."""

    models: Sequence[Served]
    window: int
    loose: bool = False


def served(stack: ExitStack, name: str, file: Path | None = None) -> Served:
    server = stack.enter_context(LlamaServer(model=file, context=512))
    counts = stack.enter_context(RealCounts(server.url))
    return Served(Preset(name=name, endpoint=server.url, model=name, max_output_tokens=150), counts)


def vocabulary(name: str) -> Path:
    file = SHARED / "models" / VOCABULARIES[name]
    if not file.exists():
        pytest.skip(f"needs {file.name} in {SHARED.name}/models")
    return file


@pytest.fixture(scope="module")
def words() -> Iterator[Tokens]:
    """Two real vocabularies; a talk goes from one to the other."""
    files = {name: vocabulary(name) for name in VOCABULARIES}
    with ExitStack() as stack:
        yield Tokens([served(stack, name, file) for name, file in files.items()], window=700)


@pytest.fixture(scope="module", params=["bytes", *VOCABULARIES])
def tokenizer(request: pytest.FixtureRequest) -> Iterator[Tokens]:
    """One vocabulary whose own server counts. The tiny model's tokens are bytes."""
    with ExitStack() as stack:
        if request.param == "bytes":
            yield Tokens([served(stack, "bytes")], window=2000, loose=True)
        else:
            model = served(stack, request.param, vocabulary(request.param))
            yield Tokens([model], window=700)


async def held(talks: int, tokens: Tokens, kinds: str, *, exact: bool) -> Tally:
    """Hold so many talks and return what happened."""
    texts = {"natural": NATURAL, "unnatural": UNNATURAL, "any": NATURAL | UNNATURAL}[kinds]
    tally = Tally()
    for first in range(0, talks, SHARING):
        services = Services(environ={})
        for number in range(first, min(first + SHARING, talks)):
            talk = Talk(
                number, tokens.models, texts, tally,
                exact=exact, services=services,
                window=tokens.window, spread=SPREAD, loose=tokens.loose,
            )  # fmt: skip
            await talk.take(EXCHANGES)
        await services.aclose()
    counted = "the server's tokenizer" if exact else "the estimate"
    sys.stdout.write(f"{kinds} text by {counted}: {tally.summary()}\n")
    return tally


async def test_natural_text_never_goes_over_by_the_estimate_alone(words: Tokens) -> None:
    tally = await held(2500 if FULL else 150, words, "natural", exact=False)
    assert not tally.over
    # What a measure says of itself: no more than one in a hundred is beyond its margin.
    assert len(tally.beyond) <= len(tally.sent) / 100
    assert set(tally.happened) >= ALL_THAT_HAPPENS


async def test_text_that_no_estimate_can_know_is_hardly_ever_refused_twice(words: Tokens) -> None:
    tally = await held(1000 if FULL else 60, words, "unnatural", exact=False)
    # Base64 takes twice what is estimated. The server's refusal is the net: seldom, and once.
    assert len(tally.over) <= len(tally.sent) / 20
    assert tally.happened["refused twice"] <= len(tally.sent) / 200


async def test_no_text_goes_over_where_the_server_counts(tokenizer: Tokens) -> None:
    few = 1000 if tokenizer.loose else 500
    tally = await held(few if FULL else few // 80, tokenizer, "any", exact=True)
    assert not tally.over
