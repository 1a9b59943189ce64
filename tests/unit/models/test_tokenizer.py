"""An endpoint's tokenizer against servers that have one, have none, lie, hang, die and come back.

These servers count bytes, so that every number can be told beforehand.
"""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterable
from typing import Any, TypeAlias

import pytest
from clock import Clock
from fault_server import FaultServer, Peer, Request, Script, unused_port

from aish_lsp.config.schema import Preset
from aish_lsp.models.http import HttpClient
from aish_lsp.models.request import TokenCounts
from aish_lsp.models.tokenizer import AT_ONCE, EndpointTokenizer

KEY = "sk-very-secret-key"

#: Long enough for any machine; what must be waited out has a time-out of its own.
PATIENT = 20.0

Messages: TypeAlias = list[dict[str, Any]]


def chatml(messages: Messages) -> str:
    body = "".join(f"<|{m['role']}|>{m['content']}<|end|>\n" for m in messages)
    return f"{body}<|assistant|>"


#: What that adds beside the messages, with the first token of all: the head of the reply, and by
#: how much "system", which no message goes without, is longer than "user".
REQUEST = 1 + len("<|assistant|>") + 2


def tokens_of(text: str) -> list[int]:
    return list(text.encode("utf-8", "replace"))


def llama_reply(request: Request) -> Any:
    """Return what llama.cpp would answer, its tokens being bytes."""
    body = request.json
    if request.path.endswith("/apply-template"):
        return {"prompt": chatml(body["messages"])}
    first = [1] if body.get("add_special") else []
    return {"tokens": first + tokens_of(body["content"])}


async def llama(request: Request, peer: Peer) -> None:
    await peer.reply(llama_reply(request))


async def vllm(request: Request, peer: Peer) -> None:
    body = request.json
    if request.path != "/tokenize":
        await peer.reply({"detail": "Not Found"}, "404 Not Found")
    elif "messages" in body:
        assert body["add_generation_prompt"] is True
        await peer.reply({"count": len(tokens_of(chatml(body["messages"]))) + 1, "tokens": []})
    elif "prompt" in body:
        special = body.get("add_special_tokens", True)
        await peer.reply({"count": len(tokens_of(body["prompt"])) + special, "tokens": []})
    else:
        await peer.reply({"error": {"message": "Field required", "code": 400}}, "400 Bad Request")


def answering(body: Any, status: str = "200 OK", kind: str = "application/json") -> Script:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(body, status, kind)

    return script


def tokenizer(
    http: HttpClient, endpoint: str, *, timeout_s: float = PATIENT, **more: Any
) -> EndpointTokenizer:
    preset = Preset(name="mine", endpoint=endpoint, **more.pop("preset", {}))
    return EndpointTokenizer(http, preset, more.pop("environ", {}), timeout_s=timeout_s, **more)


def texts_asked(server: FaultServer) -> list[str]:
    """Return the texts that were asked for, without those of the template's conversations."""
    bodies = [request.json for request in server.requests if request.path.endswith("/tokenize")]
    own = [body for body in bodies if "messages" not in body and "add_special" not in body]
    texts = [body.get("content", body.get("prompt")) for body in own]
    return [text for text in texts if text.startswith("text")]


def texts(number: int) -> list[str]:
    return [f"text {index}" for index in range(number)]


def lengths(number: int) -> list[int]:
    return [len(text) for text in texts(number)]


# What is counted


async def test_counts_and_what_the_template_adds(http: HttpClient) -> None:
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url, preset={"model": "tiny"})
        assert mine.known("text") is None
        assert mine.overhead is None
        await mine.fetch(["text", "text ä😀", "text\ud800", "", "text"])
        assert [mine.known(text) for text in ("text", "text ä😀", "text\ud800")] == [4, 11, 5]
        assert sorted(texts_asked(server)) == ["text", "text ä😀", "text?"]
    assert mine.overhead is not None
    assert mine.capable
    assert all(request.json["model"] == "tiny" for request in server.requests)
    assert mine.take_notices() == []


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/tokenize"),
        ("/", "/tokenize"),
        ("/v1", "/tokenize"),
        ("/v1/chat/completions", "/tokenize"),
        ("/llama/v1/", "/llama/tokenize"),
    ],
)
async def test_no_version_stands_before_the_path(http: HttpClient, suffix: str, path: str) -> None:
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url + suffix)
        await mine.fetch(["text"])
    assert mine.known("text") == 4
    assert server.requests[0].path == path
    assert "model" not in server.requests[0].json


async def test_the_key_and_the_headers_go_along(http: HttpClient) -> None:
    async with FaultServer(llama) as server:
        settings = {"api_key_env": "MY_KEY", "extra_headers": {"X-Team": "blue"}}
        mine = tokenizer(http, server.url, preset=settings, environ={"MY_KEY": KEY})
        await mine.fetch(["text"])
    assert mine.known("text") == 4
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["x-team"] == "blue"


async def test_without_its_key_nothing_is_asked(http: HttpClient) -> None:
    environ: dict[str, str] = {}
    clock = Clock()
    async with FaultServer(llama) as server:
        settings = {"api_key_env": "MY_KEY"}
        mine = tokenizer(http, server.url, preset=settings, environ=environ, clock=clock)
        await mine.fetch(["text"])
        assert server.requests == []
        assert mine.take_notices() == []
        environ["MY_KEY"] = KEY
        clock.now += 6
        await mine.fetch(["text"])
    assert mine.known("text") == 4


async def test_an_empty_text_is_never_asked_for(http: HttpClient) -> None:
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url)
        assert mine.known("") == 0
        await mine.fetch(["", ""])
        await mine.fetch([])
    assert server.requests == []


async def test_a_text_is_asked_for_once(http: HttpClient) -> None:
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url)
        await asyncio.gather(*(mine.fetch(texts(20)) for _ in range(5)))
        await mine.fetch(texts(20))
        assert sorted(texts_asked(server)) == sorted(texts(20))
        asked = len(server.requests)
        await mine.fetch(texts(20))
        assert len(server.requests) == asked


def test_no_more_counts_are_kept_than_there_is_room_for() -> None:
    counts = TokenCounts(most=3)
    for number in range(7):
        counts.keep("who", number, 2 * number)
        assert counts.by("who")[number] == 2 * number
        assert len(counts.by("who")) <= 3
    assert counts.by("another") == {}


def test_of_too_many_counts_the_newest_are_kept() -> None:
    counts = TokenCounts(most=8)
    counts.keep("once", "text", 1)
    for number in range(8):
        counts.keep("who", number, 2 * number)
    assert dict(counts.by("who")) == {number: 2 * number for number in (4, 5, 6, 7)}
    assert counts.by("once") == {}


async def test_a_tokenizer_that_is_replaced_is_not_kept_alive(http: HttpClient) -> None:
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(texts(3))
        assert mine.known(texts(3)[0]) is not None
        gone = weakref.ref(mine)
        del mine
        gc.collect()
        assert gone() is None


# vLLM


async def test_vllm_is_asked_in_its_own_way(http: HttpClient) -> None:
    async with FaultServer(vllm) as server:
        mine = tokenizer(http, server.url + "/v1", preset={"model": "m"})
        await mine.fetch(texts(3))
        # No token for the prompt's begin in a text, but one in a request.
        assert [mine.known(text) for text in texts(3)] == lengths(3)
        assert mine.overhead is not None
        assert mine.overhead.request == REQUEST
        assert sum("content" in request.json for request in server.requests) == 1
        assert all(request.json["model"] == "m" for request in server.requests)


async def test_the_server_may_be_replaced_by_one_of_the_other_kind(http: HttpClient) -> None:
    kind = llama

    async def script(request: Request, peer: Peer) -> None:
        await kind(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(["text"])
        kind = vllm
        await mine.fetch(texts(3))
    assert [mine.known(text) for text in texts(3)] == lengths(3)


async def test_what_understands_neither_way_is_asked_in_each_once(http: HttpClient) -> None:
    async with FaultServer(answering({"error": "no"}, "400 Bad Request")) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(texts(40))
        await mine.fetch(texts(50))
    assert not mine.capable
    assert [sorted(request.json) for request in server.requests] == [
        ["content"],
        ["add_special_tokens", "prompt"],
    ]


# No


@pytest.mark.parametrize(
    "status",
    ["301 Moved", "404 Not Found", "405 Method Not Allowed", "410 Gone", "501 Not Implemented"],
)
async def test_a_no_is_for_good(http: HttpClient, status: str) -> None:
    clock = Clock()
    async with FaultServer(answering({"error": "no"}, status)) as server:
        mine = tokenizer(http, server.url, clock=clock)
        await mine.fetch(texts(40))
        clock.now += 1e6
        await mine.fetch(texts(50))
    assert not mine.capable
    assert mine.overhead is None
    assert mine.known("text 1") is None
    assert mine.known("") == 0
    assert len(server.requests) == 1
    assert mine.take_notices() == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        7,
        "tokens",
        {"error": "Unexpected endpoint or method."},
        {"count": 4},
        {"tokens": None},
        {"tokens": 4},
        {"tokens": {"a": 1}},
        {"tokens": []},
        {"tokens": [True, True]},
        {"tokens": [1.5]},
        {"tokens": ["te", "xt"]},
        {"tokens": list(range(1000))},
        b"<!doctype html><html><title>Welcome</title></html>",
        b"{",
        b"",
        b"[" * 100_000,
    ],
    ids=lambda body: str(body)[:24],
)
async def test_a_body_of_another_shape_is_a_no(http: HttpClient, body: Any) -> None:
    async with FaultServer(answering(body)) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(texts(40))
        await mine.fetch(texts(50))
    assert not mine.capable
    assert mine.known("text 1") is None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "count",
    ["-1", "0", "true", "null", "NaN", "Infinity", "4.0", '"4"', "1000", "9" * 40, "9" * 5000],
    ids=lambda count: count[:12],
)
async def test_a_count_that_cannot_be_is_a_no(http: HttpClient, count: str) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if "content" in request.json:
            await peer.reply({"error": "no"}, "400 Bad Request")
        else:
            await peer.reply(b'{"count": %s}' % count.encode())

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(texts(40))
    assert not mine.capable
    assert mine.known("text 1") is None
    assert len(server.requests) == 2


async def test_white_space_may_be_nothing_to_a_tokenizer(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        blank = not request.json.get("content", "x").strip()
        await peer.reply({"tokens": []} if blank else llama_reply(request))

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch([" \n", "text"])
    assert (mine.known(" \n"), mine.known("text")) == (0, 4)


async def test_who_lies_later_is_believed_no_more(http: HttpClient) -> None:
    honest = True

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(llama_reply(request) if honest else {"tokens": []})

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch(["text"])
        assert mine.overhead is not None
        honest = False
        await mine.fetch(["text 1"])
    assert not mine.capable
    assert mine.overhead is None


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_who_may_not_ask_is_told_so_once(http: HttpClient, status: str) -> None:
    body = {"error": {"message": f"Invalid API Key {KEY}", "type": "authentication_error"}}
    async with FaultServer(answering(body, status)) as server:
        settings = {"api_key_env": "MY_KEY"}
        mine = tokenizer(http, server.url, preset=settings, environ={"MY_KEY": KEY})
        await mine.fetch(texts(40))
        [notice] = mine.take_notices()
        await mine.fetch(texts(50))
        assert mine.take_notices() == []
    assert not mine.capable
    assert len(server.requests) == 1
    assert "only estimated for model 'mine'" in notice
    assert f"refuses to count them (HTTP {status[:3]})" in notice
    assert KEY not in notice


async def test_an_endpoint_that_is_no_address(http: HttpClient) -> None:
    mine = tokenizer(http, "nowhere")
    await mine.fetch(["text"])
    assert not mine.capable


# Busy


@pytest.mark.parametrize(
    "status", ["429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable"]
)
@pytest.mark.slow
async def test_the_pauses_double_until_something_is_answered(http: HttpClient, status: str) -> None:
    clock = Clock()
    busy = True

    async def script(request: Request, peer: Peer) -> None:
        if busy:
            await peer.reply({"error": "busy"}, status)
        else:
            await llama(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=clock)
        for pause in (5, 10, 20, 40, 80, 160, 300, 300):
            before = len(server.requests)
            await mine.fetch(texts(40))
            assert len(server.requests) == before + 1
            clock.now += pause - 0.1
            await mine.fetch(texts(40))
            assert len(server.requests) == before + 1
            clock.now += 0.2
        assert mine.capable
        assert mine.known("text 1") is None
        busy = False
        await mine.fetch(texts(40))
        assert mine.known("text 1") == 6
        busy = True
        await mine.fetch(["text new"])
        busy = False
        clock.now += 5.1
        await mine.fetch(["text new"])
        assert mine.known("text new") == 8


async def test_all_stop_when_the_server_fails_one(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if len(texts_asked(server)) > 20:
            await peer.reply({"error": "busy"}, "500 Internal Server Error")
        else:
            await llama(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=Clock())
        await mine.fetch(texts(200))
        assert sum(mine.known(text) is not None for text in texts(200)) == 20
        assert len(texts_asked(server)) <= 20 + AT_ONCE
    assert mine.capable


async def hang(request: Request, peer: Peer) -> None:
    await asyncio.sleep(60)


@pytest.mark.slow
async def test_a_server_that_hangs_is_waited_for_no_longer_than_the_timeout(
    http: HttpClient,
) -> None:
    clock = Clock()
    script: Script = hang

    async def changing(request: Request, peer: Peer) -> None:
        await script(request, peer)

    async with FaultServer(changing) as server:
        mine = tokenizer(http, server.url, clock=clock, timeout_s=0.3)
        begin = time.monotonic()
        await mine.fetch(texts(100))
        assert time.monotonic() - begin < 10
        # On a machine that is busy, not even the first one may get there.
        assert len(server.requests) <= 1
        for pause in (5, 10):
            clock.now += pause - 0.1
            before = len(server.requests)
            await mine.fetch(texts(100))
            assert len(server.requests) == before
            clock.now += 0.2
            await mine.fetch(texts(100))
            assert len(server.requests) <= before + 1
        assert mine.capable
        script = llama
        clock.now += 20.1
        for _ in range(20):
            # A machine may be too busy for all of them in one go.
            await mine.fetch(texts(10))
            clock.now += 1000
        assert [mine.known(text) for text in texts(10)] == lengths(10)


@pytest.mark.slow
async def test_what_came_in_time_is_kept_and_the_rest_asked_for_anew(http: HttpClient) -> None:
    slow = True

    async def script(request: Request, peer: Peer) -> None:
        if slow and len(request.body) > 500:
            await hang(request, peer)
        await llama(request, peer)

    long = "text " * 1000
    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, timeout_s=2)
        await mine.fetch([long, "text 1", "text 2"])
        assert (mine.known("text 1"), mine.known("text 2")) == (6, 6)
        assert mine.known(long) is None
        slow = False
        await mine.fetch([long])
        assert mine.known(long) == 5000


@pytest.mark.slow
async def test_a_server_that_dies_and_comes_back(http: HttpClient) -> None:
    clock = Clock()
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url, clock=clock)
        await mine.fetch(["text 1"])
        port = server.port
    await mine.fetch(texts(40))
    assert mine.capable
    assert mine.known("text 1") == 6
    assert mine.known("text 2") is None
    back = FaultServer(llama)
    listening = await asyncio.start_server(back._accept, "127.0.0.1", port)
    async with listening:
        await mine.fetch(texts(40))
        assert back.requests == []
        clock.now += 5.1
        await mine.fetch(texts(40))
        assert [mine.known(text) for text in texts(10)] == lengths(10)
        for task in list(back._tasks):
            task.cancel()


async def test_nobody_there(http: HttpClient) -> None:
    clock = Clock()
    mine = tokenizer(http, f"http://127.0.0.1:{unused_port()}", clock=clock)
    await mine.fetch(texts(40))
    assert mine.capable
    assert mine.known("text 1") is None
    assert mine.take_notices() == []


async def test_a_connection_that_is_cut(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        peer.reset()

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=Clock())
        await mine.fetch(texts(40))
    assert mine.capable
    assert len(server.requests) == 1  # The connection was new: it was no idle one's end.


# Side by side


@pytest.mark.slow
async def test_texts_are_asked_for_side_by_side_but_the_first(http: HttpClient) -> None:
    now = most = 0
    alone = False

    async def script(request: Request, peer: Peer) -> None:
        nonlocal now, most, alone
        now += 1
        most = max(most, now)
        if len(server.requests) == 2:
            alone = now == 1
        await asyncio.sleep(0.2)
        now -= 1
        await llama(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url)
        begin = time.monotonic()
        await mine.fetch(texts(30))
        assert time.monotonic() - begin < 5
    assert [mine.known(text) for text in texts(30)] == lengths(30)
    assert mine.overhead is not None
    assert alone
    assert 2 <= most <= AT_ONCE


def own_tasks() -> list[asyncio.Task[Any]]:
    """Return the running tasks of the tokenizer's own."""
    tasks = [(task, task.get_coro()) for task in asyncio.all_tasks()]
    return [task for task, coro in tasks if "aish_lsp" in str(getattr(coro, "cr_code", ""))]


@pytest.mark.parametrize("hanging", ["first", "all"])
async def test_a_cancel_passes_and_leaves_nothing_behind(http: HttpClient, hanging: str) -> None:
    reached = asyncio.Event()
    patient = True

    async def script(request: Request, peer: Peer) -> None:
        if patient and (hanging == "first" or len(server.requests) > 4):
            reached.set()
            await hang(request, peer)
        await llama(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=Clock())
        task = asyncio.create_task(mine.fetch(texts(30)))
        await asyncio.wait_for(reached.wait(), 10)
        assert own_tasks()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert own_tasks() == []
        patient = False
        await mine.fetch(texts(30))
    assert [mine.known(text) for text in texts(30)] == lengths(30)
    assert mine.overhead is not None


# The template


@pytest.mark.parametrize(
    "reply",
    [
        answering({"error": "none"}, "404 Not Found"),
        answering({"error": "roles must alternate"}, "500 Internal Server Error"),
        answering({"prompt": None}),
        answering({"prompt": ["text"]}),
        answering([]),
        answering(b"<html></html>"),
        answering({"prompt": "x" * 100_000}),
        answering({"error": "key"}, "401 Unauthorized"),
    ],
)
async def test_a_template_that_cannot_be_learned_is_asked_once(
    http: HttpClient, reply: Script
) -> None:
    clock = Clock()

    async def script(request: Request, peer: Peer) -> None:
        await (reply if request.path == "/apply-template" else llama)(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=clock)
        await mine.fetch(["text 1"])
        asked = sum(request.path == "/apply-template" for request in server.requests)
        clock.now += 1e6
        await mine.fetch(["text 2"])
        assert sum(request.path == "/apply-template" for request in server.requests) == asked
    assert (mine.known("text 1"), mine.known("text 2")) == (6, 6)
    assert mine.capable
    assert mine.overhead is None
    assert mine.take_notices() == []


@pytest.mark.parametrize("trouble", ["503", "hang"])
@pytest.mark.slow
async def test_a_template_is_learned_later_where_the_server_is_busy(
    http: HttpClient, trouble: str
) -> None:
    clock = Clock()
    busy = True

    async def script(request: Request, peer: Peer) -> None:
        if busy and request.path == "/apply-template":
            if trouble == "hang":
                await hang(request, peer)
            await peer.reply({"error": "busy"}, "503 Service Unavailable")
        else:
            await llama(request, peer)

    async with FaultServer(script) as server:
        mine = tokenizer(http, server.url, clock=clock, timeout_s=2)
        await mine.fetch(texts(3))
        assert [mine.known(text) for text in texts(3)] == lengths(3)
        assert mine.overhead is None
        busy = False
        asked = len(server.requests)
        await mine.fetch([])
        assert len(server.requests) == asked
        clock.now += 5.1
        await mine.fetch([])
        assert mine.overhead is not None


async def test_the_template_is_told_what_a_request_tells_it(http: HttpClient) -> None:
    options = {"chat_template_kwargs": {"enable_thinking": False}}
    async with FaultServer(llama) as server:
        settings = {"extra_body": {**options, "grammar": "root ::= [a-z]"}}
        mine = tokenizer(http, server.url, preset=settings)
        await mine.fetch(["text"])
    asked = [request.json for request in server.requests if request.path == "/apply-template"]
    assert asked
    for body in asked:
        assert sorted(body) == ["chat_template_kwargs", "messages"]


def lookups_per_second(mine: EndpointTokenizer, texts: Iterable[str]) -> float:
    begin = time.perf_counter()
    number = 0
    for text in texts:
        mine.known(text)
        number += 1
    return number / (time.perf_counter() - begin)


@pytest.mark.slow
async def test_a_look_at_what_is_known_does_not_read_the_text(http: HttpClient) -> None:
    long = "text " * 200_000
    async with FaultServer(llama) as server:
        mine = tokenizer(http, server.url)
        await mine.fetch([long])
    assert mine.known(long) == len(long)
    # To read a megabyte takes a hundred microseconds at least.
    assert lookups_per_second(mine, [long] * 10_000) > 50_000
