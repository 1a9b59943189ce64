"""A real llama.cpp whose window is smaller than was configured, or behind which another starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_server
import pytest
from client import RpcError
from context_parts import (
    Json,
    asked,
    assert_alternating,
    configure,
    learned,
    notices,
    run,
    shown,
    story,
    summaries_asked,
)
from conversing import ask, forward_to
from llama_server import LlamaServer

pytestmark = [pytest.mark.llama, pytest.mark.asyncio(loop_scope="module")]

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

#: Tokens, which are bytes to the tiny model: a third of it is the system prompt.
WINDOW = 3072

GRAMMAR = llama_server.says("All is well.")


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    reason = llama_server.missing_part()
    if reason is not None:
        pytest.skip(reason)
    with LlamaServer(grammar=GRAMMAR, context=WINDOW) as server:
        yield server


@pytest.fixture
def real(served: Any, llama: LlamaServer) -> Any:
    """The process, whose model server is llama.cpp behind one that keeps each request."""
    served.script = forward_to(llama.port)
    return served


def configured(served: Any, *, context: Json | None = None, **model: Any) -> str:
    """Have a model with a window of which llama.cpp has an eighth."""
    own = {"endpoint": served.model.url, "context_window": 8 * WINDOW, "timeout": 30.0}
    tables = {} if context is None else {"context": context}
    return configure(served.place, own | model, **tables)


@pytest.mark.parametrize("summarize", [False, True], ids=["evicting", "summarizing"])
async def test_a_window_smaller_than_configured(real: Any, summarize: bool) -> None:
    client, place = real.client, real.place
    name = configured(real, context={"summarize": summarize})
    refused, evicted = [], 0
    for number in range(7):
        if number == 2:
            await run(client)
        before = len(asked(real.model))
        result = await ask(client, story(number, 700), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        again = any("sent again with less" in told for told in notices(client, f"t{number}"))
        assert len(asked(real.model)) - before == 1 + again
        evicted += result["evictedTurns"]
        report = await shown(client)
        assert report["lastCall"]["input"] < WINDOW
        if again:
            refused.append(number)
            assert result["evictedTurns"] > 0
            assert report["contextWindow"] == WINDOW
            result = await ask(client, "And now?", f"next {number}")
            assert (result["error"], notices(client, f"next {number}")) == (None, [])
    assert refused
    for messages in asked(real.model):
        assert_alternating(messages)
    gone = [one for one in place.records() if one.get("event") == "evicted"]
    assert evicted <= sum(one["to"] - one["from"] + 1 for one in gone)
    assert 0.5 <= await learned(place, name) <= 3
    if summarize:
        assert summaries_asked(real.model)
        assert "All is well." in asked(real.model)[-1][0]["content"].rpartition("summary]\n")[2]


async def test_too_long_with_nothing_to_evict(real: Any) -> None:
    client = real.client
    configured(real)
    await run(client)
    with pytest.raises(RpcError, match="exceeds the available context size") as caught:
        await ask(client, story(1, 5000), "t")
    assert caught.value.data["kind"] == "backendRejected"
    assert len(asked(real.model)) == 1
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"]) == ("All is well.", None)
    report = await shown(client)
    assert (report["basis"], report["contextWindow"]) == ("actual", WINDOW)
    assert abs(report["total"] - report["lastCall"]["input"] - result["usage"]["outputTokens"]) < 9
    # Now that the window is known, what is far larger is not even sent.
    with pytest.raises(RpcError) as caught:
        await ask(client, story(1, 20_000), "t")
    assert caught.value.data["kind"] == "overBudget"
    assert len(asked(real.model)) == 2


async def test_the_window_that_is_discovered_is_never_crossed(real: Any) -> None:
    client = real.client
    tokenize = {"use_endpoint": True, "timeout_ms": 5000}
    own = {"endpoint": real.model.url, "context_window": None, "timeout": 30.0}
    configure(real.place, own, tokenize=tokenize)
    for number in range(7):
        result = await ask(client, story(number, 700), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        assert not any("asked again" in told for told in notices(client, f"t{number}"))
        accuracy = (await shown(client))["accuracy"]
        assert abs(accuracy["errorTokens"]) <= max(8, accuracy["actual"] // 100)
        assert accuracy["actual"] <= WINDOW - 256
    assert len(asked(real.model)) == 7
    assert (await shown(client))["tokenizer"] == "endpoint"


@pytest.mark.shared
async def test_it_starts_anew_with_another_tokenizer(real: Any) -> None:
    client, model = real.client, SHARED / "models" / "tiny-llama-spm.gguf"
    if not model.exists():
        pytest.skip(f"no {model}")
    tokenize = {"use_endpoint": True, "timeout_ms": 5000}
    own = {"endpoint": real.model.url, "context_window": None, "timeout": 30.0}
    configure(real.place, own, tokenize=tokenize)
    for number in range(3):
        await ask(client, story(number, 300), f"t{number}")
    bytes_before = (await shown(client))["lastCall"]["input"]
    with LlamaServer(model=model, grammar=GRAMMAR, context=WINDOW) as other:
        real.script = forward_to(other.port)
        for number in range(3, 6):
            result = await ask(client, story(number, 300), f"t{number}")
            assert (result["text"], result["error"]) == ("All is well.", None)
        report = await shown(client)
    assert report["lastCall"]["input"] < bytes_before
    assert report["basis"] == "actual"
    assert abs(report["accuracy"]["errorPercent"]) < 10
