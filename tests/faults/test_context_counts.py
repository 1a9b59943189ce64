"""A provider's count of whole requests that is right, late, wrong or never comes.

The server speaks Anthropic's Messages. It counts a quarter of the bytes, which no family's estimate
knows.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import pytest_asyncio
from context_parts import Json, configure, notices, shown, story
from conversing import ask
from fault_server import Peer, Request, Script

from aish_lsp.models.tokenizer import FIRST_PAUSE

pytestmark = pytest.mark.asyncio(loop_scope="module")

WINDOW = 8192


def texts(body: Json) -> list[str]:
    """Return the texts of a request."""
    found = []
    for content in (body.get("system", ""), *(one["content"] for one in body["messages"])):
        found += [content] if isinstance(content, str) else [part["text"] for part in content]
    return found


def weight(request: Request) -> int:
    """Return the tokens that the server finds in a request."""
    return sum(len(text.encode()) // 4 + 5 for text in texts(request.json))


async def counts(request: Request, peer: Peer) -> None:
    await peer.reply({"input_tokens": weight(request)})


def messages(count: Script = counts) -> Script:
    """Answer questions well, and those for tokens by ``count``."""

    async def script(request: Request, peer: Peer) -> None:
        if request.path.endswith("/count_tokens"):
            await count(request, peer)
            return
        usage = {"input_tokens": weight(request), "output_tokens": 1}
        await peer.head()
        events: list[Json] = [
            {"type": "message_start", "message": {"usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "All is well."},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
        ]
        for event in events:
            await peer.event(event)
        await peer.chunk(b"")

    return script


def configured(served: Any, timeout: float = 10.0, models: int = 1, **model: Any) -> str:
    tokenize = {"use_endpoint": True, "timeout_ms": int(1000 * timeout)}
    preset = {"provider": "anthropic", "endpoint": served.model.url, **model}
    # A loopback server might have a tokenizer, and is asked for it: that this one has none is told.
    return configure(served.place, *({**preset} for _ in range(models)), tokenize=tokenize)


def following(name: str) -> str:
    """Return the name of the model that was configured behind another one."""
    return f"model{int(name.removeprefix('model')) + 1}"


def counted(served: Any) -> list[Request]:
    """Return the requests whose tokens were asked for."""
    return [one for one in served.model.requests if one.path.endswith("/count_tokens")]


def answered(served: Any) -> list[Request]:
    """Return the questions that were sent."""
    return [one for one in served.model.requests if one.path.endswith("/messages")]


def with_no_tokenizer(script: Script) -> Script:
    async def all_of_it(request: Request, peer: Peer) -> None:
        if request.path.endswith("/tokenize"):
            await peer.reply({"error": {"message": "no"}}, "404 Not Found")
        else:
            await script(request, peer)

    return all_of_it


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def _has_asked(process: Any) -> None:
    """See that what the first request of a process loads is not taken for the server's time."""
    configured(process)
    process.script = with_no_tokenizer(messages())
    await ask(process.client, "Hello?", "first")


async def test_the_first_request_is_counted_and_no_other(served: Any) -> None:
    client = served.client
    configured(served)
    served.script = with_no_tokenizer(messages())
    for number in range(3):
        result = await ask(client, story(number), f"t{number}")
        assert result["error"] is None
        report = await shown(client)
        assert (report["tokenizer"], report["basis"]) == ("heuristic", "actual")
    assert len(counted(served)) == 1
    [start] = [event for event in client.progress["t0"] if event["kind"] == "start"]
    assert start["contextTokens"] == weight(answered(served)[0])
    # What came since is estimated, but what came before is not.
    assert abs(report["accuracy"]["errorPercent"]) < 15
    await client.command_result("aish.context.reset")
    await ask(client, story(5), "again")
    assert len(counted(served)) == 2
    assert (await shown(client))["accuracy"]["errorTokens"] == 0


async def test_nothing_is_evicted_for_a_margin_that_a_count_makes_needless(served: Any) -> None:
    client = served.client
    other = following(configured(served, models=2))
    served.script = with_no_tokenizer(messages())
    for number in range(4):
        await ask(client, story(number, 5200), f"t{number}")
    before = len(counted(served))
    result = await ask(client, story(9, 2000), "other", model=other)
    assert result["error"] is None
    assert len(counted(served)) == before + 1
    # By the estimate of a model that nobody knows it might be half as much again.
    assert weight(answered(served)[-1]) * 1.4 > WINDOW - 256
    assert notices(client, "other") == []
    assert len(answered(served)[-1].json["messages"]) == 9


async def test_what_an_eviction_leaves_is_counted_once_more(served: Any) -> None:
    client = served.client
    other = following(configured(served, models=2))
    served.script = with_no_tokenizer(messages())
    for number in range(6):
        await ask(client, story(number, 4800), f"t{number}")
    before = len(counted(served))
    result = await ask(client, story(9, 6000), "other", model=other)
    assert result["error"] is None
    assert len(counted(served)) == before + 2
    assert "left out" in " ".join(notices(client, "other"))
    sent = weight(answered(served)[-1])
    assert sent <= WINDOW - 256
    [start] = [event for event in client.progress["other"] if event["kind"] == "start"]
    assert start["contextTokens"] == sent


async def hangs(_: Request, peer: Peer) -> None:
    await peer.wait_closed()


async def dribbles(_: Request, peer: Peer) -> None:
    await peer.head("200 OK", "application/json")
    while True:
        await peer.chunk(b" ")
        await asyncio.sleep(0.05)


async def hangs_up(_: Request, peer: Peer) -> None:
    peer.reset()


def replies(body: Any, status: str = "200 OK", kind: str = "application/json") -> Script:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply(body, status, kind)

    return script


FAULTS: dict[str, Script] = {
    "it hangs": hangs,
    "it dribbles": dribbles,
    "it hangs up": hangs_up,
    "404": replies({"error": {"message": "no"}}, "404 Not Found"),
    "400": replies({"error": {"message": "no"}}, "400 Bad Request"),
    "429": replies({"error": {"message": "slower"}}, "429 Too Many Requests"),
    "529": replies({"error": {"message": "overloaded"}}, "529 Overloaded"),
    "a page": replies(b"<html>Welcome</html>", kind="text/html"),
    "no count": replies({"input_tokens": "seven"}),
    "far too many": replies({"input_tokens": 10**9}),
    "far too few": replies({"input_tokens": 1}),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_a_count_it_is_estimated_and_nobody_is_told(served: Any, fault: str) -> None:
    client = served.client
    configured(served, 0.4)
    served.script = with_no_tokenizer(messages(FAULTS[fault]))
    begun = time.monotonic()
    for number in range(2):
        result = await ask(client, story(number), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        assert notices(client, f"t{number}") == []
        await client.command_result("aish.context.reset")
    # It is let alone for a while, or for good; what hangs up may have been an idle connection.
    is_asked_again = fault == "it hangs up" or time.monotonic() - begun > FIRST_PAUSE
    assert 1 <= len(counted(served)) <= (2 if is_asked_again else 1)
    assert abs((await shown(client))["accuracy"]["errorPercent"]) < 40


async def test_a_count_that_the_reply_belies_is_not_asked_for_again(served: Any) -> None:
    async def twice(request: Request, peer: Peer) -> None:
        await peer.reply({"input_tokens": 3 * weight(request)})

    client = served.client
    configured(served)
    served.script = with_no_tokenizer(messages(twice))
    for number in range(2):
        result = await ask(client, story(number, 4000), f"t{number}")
        assert result["error"] is None
        # The reply is measured by its own count.
        assert notices(client, f"t{number}") == []
        await client.command_result("aish.context.reset")
    assert len(counted(served)) == 1


async def test_where_it_is_switched_off_nothing_is_counted(served: Any) -> None:
    model = {"provider": "anthropic", "endpoint": served.model.url}
    configure(served.place, model)
    served.script = messages()
    await ask(served.client, story(1), "t")
    assert [one.path for one in served.model.requests] == ["/v1/messages"]
