"""A model server that fails in each way, and llama.cpp, which steps in."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import llama_server
import pytest
import pytest_asyncio
from client import RpcError
from context_parts import Json, configure, notices, used
from conversing import Place, ask, begin, chat_until, events, fine, forward_to, streamed
from fault_server import FaultServer, Peer, Request, Script, chunk_of, unused_port
from llama_server import LlamaServer

pytestmark = [pytest.mark.llama, pytest.mark.asyncio(loop_scope="module")]

GRAMMAR = llama_server.says("All is well.")
PART = "Grüße, so far.\nCMD: ls\n"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    reason = llama_server.missing_part()
    if reason is not None:
        pytest.skip(reason)
    with LlamaServer(grammar=GRAMMAR, context=8192) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(llama: LlamaServer) -> AsyncIterator[FaultServer]:
    """Llama.cpp, behind a server that keeps each request."""
    async with FaultServer(forward_to(llama.port)) as server:
        yield server


@dataclass
class Pair:
    """A model that fails as a test wants, and the one that steps in; their names are new."""

    served: Any
    front: FaultServer
    first: str
    second: str

    def configure(self, *, fallback: list[str] | None = None, **first: Any) -> None:
        own = {"name": self.first, "endpoint": self.served.model.url, "timeout": 1.0}
        other: Json = {"name": self.second, "endpoint": self.front.url, "timeout": 30.0}
        names = [self.second] if fallback is None else fallback
        configure(self.served.place, own | first, other, routing={"fallback": names})

    def replies(self) -> list[Any]:
        return [line for line in self.served.place.records() if line.get("role") == "assistant"]


@pytest.fixture
def pair(served: Any, front: FaultServer) -> Pair:
    number = next(_numbers)
    front.requests.clear()
    made = Pair(served, front, f"cloud{number}", f"llama{number}")
    made.configure()
    return made


def refuses(status: str, *headers: str, **error: Any) -> Script:
    async def script(_: Request, peer: Peer) -> None:
        body = {"error": {"message": "slow down", **error}}
        await peer.reply(body, status, "application/json", *headers)

    return script


async def silent(_: Request, peer: Peer) -> None:
    await peer.wait_closed()


async def kept_alive(_: Request, peer: Peer) -> None:
    await peer.head()
    while True:
        await peer.chunk(b": OPENROUTER PROCESSING\n\n")
        await asyncio.sleep(0.1)


async def overloaded(_: Request, peer: Peer) -> None:
    await peer.head()
    await peer.event({"error": {"type": "overloaded_error", "message": "Overloaded"}})


async def hangs_up(_: Request, peer: Peer) -> None:
    peer.reset()


async def empty(_: Request, peer: Peer) -> None:
    await peer.head()
    await peer.chunk(b"")


async def page(_: Request, peer: Peer) -> None:
    await peer.reply(b"<html><title>Sign in</title></html>", "200 OK", "text/html")


TOO_MANY = "429 Too Many Requests"

#: What the first model does; how often it is asked; what the user reads of it.
FAULTS: dict[str, tuple[Script, int, str]] = {
    "429": (refuses(TOO_MANY), 3, r"\(429\): slow down"),
    "429, wait 0": (refuses(TOO_MANY, "Retry-After: 0"), 3, "Try again in 0 s"),
    "429, wait 1": (refuses(TOO_MANY, "Retry-After: 1"), 3, "Try again in 1 s"),
    "429, wait 100": (refuses(TOO_MANY, "Retry-After: 100"), 1, "Try again in 100 s"),
    "429, no money": (refuses(TOO_MANY, code="insufficient_quota"), 1, r"\(429\)"),
    "408": (refuses("408 Request Timeout"), 3, r"\(408\)"),
    "500": (refuses("500 Internal Server Error"), 3, r"\(500\)"),
    "503": (refuses("503 Service Unavailable"), 3, r"\(503\)"),
    "529": (refuses("529 Overloaded", type="overloaded_error"), 3, r"\(529\)"),
    "overloaded, after 200": (overloaded, 3, "Overloaded"),
    "a reset": (hangs_up, 3, "broke off"),
    "an empty reply": (empty, 1, "ended before"),
    "a page": (page, 1, "Sign in"),
    "silence": (silent, 1, "sent nothing for 1 s"),
    "kept alive": (kept_alive, 1, "did not begin to reply within 3 s"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_next_one_answers_and_the_user_is_told(pair: Pair, fault: str) -> None:
    served = pair.served
    served.script, tries, reason = FAULTS[fault]
    result = await ask(served.client, "Are you there?", "t")
    assert (result["text"], result["model"]) == ("All is well.", pair.second)
    assert (result["error"], result["finishReason"]) == (None, "stop")
    # A request whose connection was kept from a test before, and breaks, is sent again at once.
    assert len(served.model.requests) - tries in ((0, 1) if fault == "a reset" else (0,))
    assert len(pair.front.requests) == 1
    *pauses, told = events(served.client, "t", "notice")
    assert told["level"] == "warning"
    assert told["message"].startswith(
        f"{pair.first} does not answer; {pair.second} answers instead. "
    )
    assert_says(told["message"], reason)
    assert len(pauses) == tries - 1
    for pause in pauses:
        assert pause["level"] == "info"
        assert_says(pause["message"], reason)
        assert pause["message"].endswith(f"Trying {pair.first} again.")
    [start] = events(served.client, "t", "start")
    assert start["model"] == pair.first
    # What is kept names who answered, and nobody else.
    assert pair.replies()[-1]["model"] == pair.second
    assert used(served.place, pair.first) == []
    assert len(used(served.place, pair.second)) == 1


def assert_says(message: str, reason: str) -> None:
    assert re.search(reason, message), message


async def test_a_refused_connection(pair: Pair) -> None:
    port = unused_port()
    pair.configure(endpoint=f"http://127.0.0.1:{port}")
    result = await ask(pair.served.client, "Are you there?", "t")
    assert (result["text"], result["model"]) == ("All is well.", pair.second)
    again, instead = notices(pair.served.client, "t")
    assert "again" in again
    assert f"Nothing answers at http://127.0.0.1:{port}" in instead


async def test_the_chat_document_tells_it_and_holds_one_reply(pair: Pair) -> None:
    served = pair.served
    place = served.place
    before = place.chat.read_text() if place.chat.exists() else ""
    served.script = FAULTS["500"][0]
    await served.client.command_result("aish.ask", {"prompt": "Are you there?"})
    text = await chat_until(
        served.client,
        place,
        lambda text: text[len(before) :].endswith("All is well.\n\n## You\n\n"),
        "the reply",
    )
    new = text[len(before) :]
    assert new.count(f"{pair.first} does not answer; {pair.second} answers instead.") == 1
    assert new.count("## aish") == new.count("All is well.") == 1


@pytest.mark.parametrize("how", ["reset", "silence"])
async def test_never_after_the_first_token(pair: Pair, how: str) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of(PART))
        await asyncio.sleep(0.1)
        peer.reset() if how == "reset" else await peer.wait_closed()

    served = pair.served
    served.script = script
    result = await ask(served.client, "Are you there?", "t")
    assert (result["text"], result["model"]) == (PART, pair.first)
    assert result["finishReason"] == "error"
    assert result["error"]["kind"] == "backendUnavailable"
    end = " What arrived is kept: ask the model to continue."
    assert result["error"]["message"].endswith(end)
    assert (len(served.model.requests), pair.front.requests) == (1, [])
    assert pair.replies()[-1]["content"] == PART

    served.script = fine
    await ask(served.client, "continue", "u")
    *_, kept, question = served.model.requests[-1].json["messages"]
    assert (kept["content"], question["content"]) == (PART, "continue")


async def test_reasoning_is_a_beginning_too(pair: Pair) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event({"choices": [{"index": 0, "delta": {"reasoning_content": "Let me see"}}]})
        await asyncio.sleep(0.1)
        peer.reset()

    pair.served.script = script
    with pytest.raises(RpcError, match="broke off"):
        await ask(pair.served.client, "Are you there?", "t")
    assert streamed(pair.served.client, "t", "reasoning") == "Let me see"
    assert (len(pair.served.model.requests), pair.front.requests) == (1, [])


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        ("400 Bad Request", "slow down"),
        ("401 Unauthorized", "Check the key"),
        ("403 Forbidden", "Check the key"),
        ("404 Not Found", "Check the model's `endpoint`"),
        ("422 Unprocessable Content", "slow down"),
    ],
)
async def test_a_refusal_is_for_the_user(pair: Pair, status: str, hint: str) -> None:
    pair.served.script = refuses(status)
    with pytest.raises(RpcError, match=hint) as caught:
        await ask(pair.served.client, "Are you there?", "t")
    assert caught.value.code == 1002
    assert (len(pair.served.model.requests), pair.front.requests) == (1, [])
    assert notices(pair.served.client, "t") == []


async def test_a_missing_key_is_for_the_user(pair: Pair) -> None:
    pair.configure(api_key_env="NOBODY_HAS_THIS_KEY")
    with pytest.raises(RpcError, match="NOBODY_HAS_THIS_KEY"):
        await ask(pair.served.client, "Are you there?", "t")
    assert (pair.served.model.requests, pair.front.requests) == ([], [])


@pytest.mark.parametrize("how", ["$/cancelRequest", "aish.cancel"])
async def test_a_cancel_during_the_wait_works_at_once(pair: Pair, how: str) -> None:
    client = pair.served.client
    pair.served.script = refuses(TOO_MANY, "Retry-After: 15")
    request_id, answer = await begin(
        client, "aish.ask", {"prompt": "Are you there?", "partialResultToken": "t"}
    )
    [waiting] = await client.wait_for(lambda: notices(client, "t"), "the notice")
    assert "Try again in 15 s. Trying" in waiting
    begun = time.perf_counter()
    if how == "aish.cancel":
        await client.command_result("aish.cancel", {})
    else:
        await client.notify(how, {"id": request_id})
    result = await client.within(answer, "the answer")
    assert time.perf_counter() - begun < 2
    assert (result["finishReason"], result["text"]) == ("cancelled", "")
    assert (len(pair.served.model.requests), pair.front.requests) == (1, [])
    assert pair.served.place.records()[-1]["meta"] == "unanswered"


async def test_a_chain_of_three_and_the_offline_model_at_last(pair: Pair) -> None:
    client = pair.served.client
    dead = f"http://127.0.0.1:{unused_port()}"
    pair.served.script = refuses("503 Service Unavailable")
    models = [
        {"name": pair.first, "endpoint": pair.served.model.url},
        {"name": f"{pair.first}b", "endpoint": dead},
        {"name": f"{pair.first}c", "endpoint": pair.served.model.url, "api_key_env": "NO_SUCH"},
        {"name": pair.second, "endpoint": pair.front.url, "timeout": 30.0},
    ]
    names: list[str] = [model["name"] for model in models]
    configure(pair.served.place, *models, routing={"fallback": names[1:]})
    result = await ask(client, "Are you there?", "t")
    assert (result["text"], result["model"]) == ("All is well.", pair.second)
    told = [told for told in notices(client, "t") if not told.endswith("again.")]
    for (failed, instead), message in zip(itertools.pairwise(names), told, strict=True):
        assert message.startswith(f"{failed} does not answer; {instead} answers instead. ")
    assert "NO_SUCH" in told[2]

    configure(pair.served.place, *models, routing={"fallback": names[1:3]})
    result = await ask(client, "How do I list files?", "u")
    assert result["model"] == "offline"
    assert "CMD: ls" in result["text"]
    *_, last = notices(client, "u")
    assert last.startswith(f"{names[2]} does not answer; the offline model answers instead. ")


async def test_a_model_without_a_successor_is_told_to_be_down(pair: Pair) -> None:
    pair.configure(fallback=[], endpoint=f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(RpcError, match=r"Nothing answers at .* Start the model server"):
        await ask(pair.served.client, "Are you there?", "t")
    assert pair.front.requests == []


async def test_whoever_steps_in_may_be_too_dear(pair: Pair) -> None:
    client = pair.served.client
    pair.served.script = refuses("500 Internal Server Error")
    dear = {"name": f"{pair.first}dear", "endpoint": pair.served.model.url}
    configure(
        pair.served.place,
        {"name": pair.first, "endpoint": pair.served.model.url},
        dear | {"price": {"input": 1e6, "output": 1e6}},
        {"name": pair.second, "endpoint": pair.front.url, "timeout": 30.0},
        routing={"fallback": [dear["name"], pair.second]},
        cost={"cap_at_dollars": 0.01},
    )
    result = await ask(client, "Are you there?", "t")
    assert (result["text"], result["model"]) == ("All is well.", pair.second)
    assert len(pair.served.model.requests) == 3
    assert "cap" in notices(client, "t")[-1]


async def test_the_offline_model_costs_no_turn_of_the_conversation(pair: Pair) -> None:
    client = pair.served.client
    pair.configure(fallback=["offline"], context_window=100_000, token_budget=90_000)
    for number in range(6):
        await ask(client, f"{number}: " + "a word or two and " * 250, f"told {number}")
    pair.served.script = refuses("500 Internal Server Error")
    result = await ask(client, "Are you there?", "t")
    assert (result["model"], result["evictedTurns"]) == ("offline", 0)
    pair.served.script = fine
    await ask(client, "And now?", "u")
    assert len(pair.served.model.requests[-1].json["messages"]) == 1 + 2 * 7 + 1


async def test_a_smaller_model_is_sent_what_fits_it(pair: Pair) -> None:
    client = pair.served.client
    configure(
        pair.served.place,
        {"name": pair.first, "endpoint": pair.served.model.url, "context_window": 100_000},
        {
            "name": pair.second,
            "endpoint": pair.front.url,
            "timeout": 30.0,
            "local_compress": True,
            "token_budget": 3000,
        },
        routing={"fallback": [pair.second]},
    )
    for number in range(4):
        await ask(client, f"{number}: " + "a word or two and " * 200, f"told {number}")
    pair.served.script = refuses("500 Internal Server Error")
    result = await ask(client, "Are you there?", "t")
    assert (result["model"], result["evictedTurns"]) == (pair.second, 0)
    [request] = pair.front.requests
    assert len(request.json["messages"]) == 4
    assert all(len(one["content"]) <= 800 for one in request.json["messages"][1:])


async def test_two_workspaces_at_once(pair: Pair, tmp_path: Any) -> None:
    """One waits for its busy server; the other is answered meanwhile, by who is asked there."""
    waiting: list[str] = []

    async def script(request: Request, peer: Peer) -> None:
        question = request.json["messages"][-1]["content"]
        if question == "Slow?" and not waiting:
            waiting.append(question)
            await refuses(TOO_MANY, "Retry-After: 3")(request, peer)
        elif question == "Broken?":
            await refuses("500 Internal Server Error")(request, peer)
        else:
            await fine(request, peer)

    place = Place.make(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    pair.served.script = script
    config = pair.served.place.config
    async with place.client(AISH_CONFIG=str(config)) as client:
        await client.initialize(place.folder, other)
        _, slow = await begin(
            client,
            "aish.ask",
            {"prompt": "Slow?", "partialResultToken": "s", "workspace": place.folder.as_uri()},
        )
        await client.wait_for(lambda: notices(client, "s"), "the notice")
        result = await ask(client, "Broken?", "b", workspace=other.as_uri())
        assert (result["text"], result["model"]) == ("All is well.", pair.second)
        result = await client.within(slow, "the slow answer")
        assert (result["text"], result["model"]) == ("All is well.", pair.first)


async def test_a_reply_that_takes_too_long_is_cut_and_kept(pair: Pair) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        while True:
            await peer.event(chunk_of("word "))
            await asyncio.sleep(0.1)

    pair.configure(total_timeout=1.0)
    pair.served.script = script
    result = await ask(pair.served.client, "Go on.", "t")
    assert (result["finishReason"], result["error"]) == ("timeout", None)
    assert result["text"].startswith("word word")
    assert "`total_timeout`" in notices(pair.served.client, "t")[0]
    assert pair.replies()[-1]["finish"] == "timeout"
    assert pair.replies()[-1]["content"] == result["text"]


async def test_the_class_of_a_question_chooses_who_is_asked_first(pair: Pair) -> None:
    client = pair.served.client
    configure(
        pair.served.place,
        {"name": pair.first, "endpoint": pair.served.model.url},
        {"name": pair.second, "endpoint": pair.front.url, "timeout": 30.0},
        routing={
            "classes": {"shell": pair.second},
            "system_prompts": {"shell": "You know shells."},
            "fallback": [pair.first],
        },
    )
    shell, other = "How do I run the tests?", "Are you there?"
    for question, model in [(shell, pair.second), (other, pair.first)]:
        result = await ask(client, question, question)
        assert (result["text"], result["model"]) == ("All is well.", model)
        [start] = events(client, question, "start")
        assert start["model"] == model
        assert start["route"]["class"] == ("shell" if question == shell else "chat")
    system = pair.front.requests[-1].json["messages"][0]["content"]
    assert system.startswith("You know shells.")
    assert "CMD: " in system

    await ask(client, f"@{pair.second} {other}", "named")
    [start] = events(client, "named", "start")
    assert start["route"] == {"class": "chat", "why": "named by you"}
    assert pair.front.requests[-1].json["messages"][-1]["content"] == other
