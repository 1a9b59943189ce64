"""A server's tokenizer that hangs, lies, refuses or comes back: no question waits for it long."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from context_parts import (
    Json,
    asked,
    assert_alternating,
    chats,
    configure,
    counted,
    notices,
    says,
    shown,
    story,
    tell,
)
from conversing import ask
from fault_server import Peer, Request, Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Seconds that one round of counting may take, where that shows.
TIMEOUT = 0.4

#: Seconds after which a server that was busy is asked again (context.md).
PAUSE = 5.0


def tokenized_by(script: Script, chat: Script | None = None) -> Script:
    """Answer questions well, and those for tokens by ``script``."""

    async def all_of_it(request: Request, peer: Peer) -> None:
        is_chat = request.path.endswith("/chat/completions")
        await ((chat or says()) if is_chat else script)(request, peer)

    return all_of_it


def configured(served: Any, timeout: float = 10.0, **model: Any) -> str:
    tokenize = {"use_endpoint": True, "timeout_ms": int(1000 * timeout)}
    return configure(served.place, {"endpoint": served.model.url, **model}, tokenize=tokenize)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def _has_asked(process: Any) -> None:
    """See that what the first request of a process loads is not taken for the tokenizer's time."""
    configure(process.place, {"endpoint": process.model.url})
    await ask(process.client, "Hello?", "first")


def questions(served: Any) -> list[Request]:
    """Return what was asked for tokens."""
    return [one for one in served.model.requests if not one.path.endswith("/chat/completions")]


def quarter(text: str) -> int:
    return len(text.encode()) // 4


def llama_cpp(count: Callable[[str], int] = quarter) -> Script:
    """Count as llama.cpp does, with a template that adds five tokens to a message."""

    async def script(request: Request, peer: Peer) -> None:
        body = request.json
        if request.path == "/apply-template":
            # 20 bytes, which are 5 tokens, beside each message.
            parts = [f"<|{one['role']:>9}|>{one['content']}<|end|>\n" for one in body["messages"]]
            await peer.reply({"prompt": "".join(parts)})
        else:
            await peer.reply({"tokens": [7] * count(body["content"])})

    return script


async def hangs(_: Request, peer: Peer) -> None:
    await peer.wait_closed()


async def dribbles(_: Request, peer: Peer) -> None:
    await peer.head("200 OK", "application/json")
    while True:
        await peer.chunk(b" ")
        await asyncio.sleep(0.05)


def refuses(status: str, body: Any = None) -> Script:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply(body or {"error": {"message": "not here"}}, status)

    return script


def replies(body: Any, kind: str = "application/json") -> Script:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply(body, "200 OK", kind)

    return script


async def hangs_up(_: Request, peer: Peer) -> None:
    peer.reset()


async def within(seconds: float, awaitable: Awaitable[Any]) -> Any:
    """Await; it must not take longer."""
    began = time.monotonic()
    result = await awaitable
    assert time.monotonic() - began < seconds
    return result


BUSY: dict[str, Script] = {
    "it hangs": hangs,
    "it dribbles": dribbles,
    "it hangs up": hangs_up,
    "it is overloaded": refuses("503 Service Unavailable"),
    "it is asked too often": refuses("429 Too Many Requests"),
    "it fails": refuses("500 Internal Server Error"),
}


@pytest.mark.parametrize("fault", BUSY)
async def test_a_busy_tokenizer_holds_nothing_up_and_is_let_alone(served: Any, fault: str) -> None:
    client = served.client
    configured(served, TIMEOUT)
    served.script = tokenized_by(BUSY[fault])
    since = time.monotonic()
    result = await within(TIMEOUT + 10, ask(client, story(1), "t"))
    assert (result["text"], result["error"]) == ("All is well.", None)
    assert notices(client, "t") == []
    first = len(questions(served))
    assert 1 <= first <= 16
    for number in range(2, 4):
        result = await within(10, ask(client, story(number), f"t{number}"))
        assert result["error"] is None
    await within(10, shown(client))
    # On a busy machine all this may take longer than the pause, after which it may be asked again.
    assert len(questions(served)) <= first + 16 * ((time.monotonic() - since) // PAUSE)
    report = await shown(client)
    assert report["basis"] == "actual"
    assert report["accuracy"]["actual"] == counted(chats(served.model)[-1])
    assert abs(report["accuracy"]["errorPercent"]) < 15


NO_TOKENIZER: dict[str, Script] = {
    "404": refuses("404 Not Found"),
    "405": refuses("405 Method Not Allowed"),
    "501": refuses("501 Not Implemented"),
    "400": refuses("400 Bad Request"),
    "a page": replies(b"<html>Welcome</html>", "text/html"),
    "no count": replies({"tokens": "seven"}),
    "a negative count": replies({"count": -7, "tokens": -7}),
    "true": replies({"tokens": [True, True]}),
    "texts": replies({"tokens": ["one", "two"]}),
    "nothing at all": replies({"tokens": []}),
    "far too many": replies({"tokens": [1] * 100_000}),
    "a list": replies([1, 2, 3]),
}


@pytest.mark.parametrize("fault", NO_TOKENIZER)
async def test_where_there_is_no_tokenizer_it_is_not_asked_again(served: Any, fault: str) -> None:
    client = served.client
    configured(served)
    served.script = tokenized_by(NO_TOKENIZER[fault])
    for number in range(2):
        result = await ask(client, story(number), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        assert notices(client, f"t{number}") == []
    report = await shown(client)
    assert (report["tokenizer"], report["basis"]) == ("heuristic", "actual")
    assert abs(report["accuracy"]["errorPercent"]) < 15
    # A body that is not understood is tried in the other way; a few go side by side.
    assert 1 <= len(questions(served)) <= 2 + 8


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_tokenizer_that_wants_a_key_is_told_of_once(served: Any, status: str) -> None:
    client = served.client
    name = configured(served)
    served.script = tokenized_by(refuses(status))
    for number in range(3):
        result = await ask(client, story(number), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
    [told] = (message for number in range(3) for message in notices(client, f"t{number}"))
    assert re.search(rf"only estimated for model '{name}'.*refuses to count", told)
    assert len(questions(served)) == 1
    assert (await shown(client))["tokenizer"] == "heuristic"


async def test_one_that_counts_is_asked_for_each_text_once(served: Any) -> None:
    client = served.client
    configured(served)
    served.script = tokenized_by(llama_cpp())
    await tell(client, 3)
    report = await shown(client)
    assert (report["tokenizer"], report["basis"]) == ("endpoint", "actual")
    assert report["accuracy"]["errorTokens"] == pytest.approx(0, abs=8)
    texts = [one.json["content"] for one in questions(served) if one.path == "/tokenize"]
    assert len(set(texts)) == len(texts)
    for number in range(3):
        assert story(number) in texts


LIES: dict[str, Callable[[str], int]] = {
    "one for each text": lambda _: 1,
    "a tenth": lambda text: max(1, quarter(text) // 10),
    "four times": lambda text: max(1, 4 * quarter(text)),
    "one in ten a hundred times": lambda text: (
        quarter(text) * (100 if len(text) % 10 == 0 else 1) or 1
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_tokenizer_that_lies_is_put_right_by_what_is_reported(
    served: Any, lie: str
) -> None:
    """Of counts that could be true nobody knows better; what the server reports decides."""
    client, window = served.client, 4096
    configured(served, context_window=window)

    async def chat(request: Request, peer: Peer) -> None:
        tokens = counted(request)
        if tokens <= window:
            await says()(request, peer)
            return
        error = {"type": "exceed_context_size_error", "n_prompt_tokens": tokens, "n_ctx": window,
                 "message": f"request ({tokens} tokens) exceeds the available context size "
                            f"({window} tokens)"}  # fmt: skip
        await peer.reply({"error": error}, "400 Bad Request")

    served.script = tokenized_by(llama_cpp(LIES[lie]), chat)
    told: list[str] = []
    for number in range(16):
        result = await ask(client, story(number), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        told += [one for one in notices(client, f"t{number}") if "only estimated" in one]
        report = await shown(client)
        assert report["lastCall"]["input"] == counted(chats(served.model)[-1])
        assert report["total"] < 2 * window
    assert len(told) <= 1
    if lie == "four times":
        # So far from what is reported that it is not asked any more.
        assert "its server's tokenizer counted" in told[0]
        assert report["tokenizer"] == "heuristic"
    for messages in asked(served.model):
        assert_alternating(messages)


async def test_one_that_comes_back_is_asked_again_after_the_pause(served: Any) -> None:
    client = served.client
    configured(served)
    served.script = tokenized_by(refuses("503 Service Unavailable"))
    await ask(client, story(1), "t")
    served.script = tokenized_by(llama_cpp())
    before = len(questions(served))
    await ask(client, story(2), "u")
    assert len(questions(served)) == before
    await asyncio.sleep(PAUSE + 0.3)
    await ask(client, story(3), "v")
    assert len(questions(served)) > before
    await ask(client, story(4), "w")
    report = await shown(client)
    assert (report["tokenizer"], report["basis"]) == ("endpoint", "actual")
    assert report["accuracy"]["errorTokens"] == pytest.approx(0, abs=8)


async def test_another_model_behind_the_same_address(served: Any) -> None:
    """Started anew with another tokenizer, it is followed by what it reports."""
    client = served.client
    configured(served)
    served.script = tokenized_by(llama_cpp())
    await tell(client, 2)

    def twice(request: Request, text: str) -> Json:
        return {"prompt_tokens": 2 * counted(request), "completion_tokens": len(text) // 2}

    served.script = tokenized_by(llama_cpp(lambda text: 2 * quarter(text)), says(usage=twice))
    for number in range(2, 6):
        result = await ask(client, story(number), f"t{number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
    report = await shown(client)
    last: Json = report["lastCall"]
    assert last["input"] == 2 * counted(chats(served.model)[-1])
    assert abs(report["total"] - last["input"] - last["output"]) < 20
    assert report["accuracy"]["errorTokens"] == pytest.approx(0, abs=20)
