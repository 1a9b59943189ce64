"""The HTTP client against a server that shows every fault."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import subprocess
import sys
import time
from contextlib import aclosing

import pytest
from fault_server import FaultServer, Peer, Request, unused_port

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.http import HttpClient

KEY = "sk-very-secret-key"
HEADERS = {"Authorization": f"Bearer {KEY}"}


async def events(http: HttpClient, url: str, *, timeout_s: float = 5.0) -> list[str]:
    """Return all events; an error gets those that came before it under ``data["came"]``."""
    came: list[str] = []
    stream = http.stream(f"{url}/v1", {}, headers=HEADERS, timeout_s=timeout_s)
    try:
        async for data in stream:
            came.append(data)  # noqa: PERF401 - what came before an error counts
    except (BackendRejected, BackendUnavailable) as error:
        error.data["came"] = came
        raise
    return came


async def test_a_stream_arrives_event_by_event(http: HttpClient) -> None:
    release = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event("one")
        await release.wait()
        await peer.event("two")
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        stream = http.stream(server.url, {"a": "ä\ud800"}, headers=HEADERS, timeout_s=5)
        assert await anext(stream) == "one"
        release.set()
        assert [data async for data in stream] == ["two"]
    [request] = server.requests
    assert request.json == {"a": "ä?"}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("aish-lsp/")


def test_a_request_loads_all_that_it_needs_before_its_time_begins_and_no_more() -> None:
    program = """
import asyncio, sys
from fault_server import FaultServer
from aish_lsp.models.http import HttpClient

async def script(request, peer):
    await peer.reply({})

async def main():
    http = HttpClient()
    async with FaultServer(script) as server:
        # What a request does before its time begins.
        await http._client(server.url)
        before = set(sys.modules)
        await http.fetch_json(server.url, timeout_s=60)
        print(sorted(set(sys.modules) - before))
        # What httpx' own command line would bring.
        print(sorted({"httpx", "click", "rich"} & before))
        await http.aclose()

asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["[]", "['httpx']"]


async def test_one_byte_at_a_time(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for byte in "data: grüße 😀\r\n\r\n".encode():
            await peer.chunk(bytes([byte]))
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        assert await events(http, server.url) == ["grüße 😀"]


async def test_refused(http: HttpClient) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(BackendUnavailable, match=f"Nothing answers at {url}. Start") as caught:
        await events(http, url)
    assert caught.value.data == {"came": [], "reason": "refused"}


@pytest.mark.slow
async def test_slow_headers(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await asyncio.sleep(30)

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match=r"sent nothing for 1 s.*raise `timeout`"):
            await events(http, server.url, timeout_s=1)


@pytest.mark.slow
async def test_a_stall_between_events_is_bounded_and_activity_is_not(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for _ in range(12):
            await peer.event("tick")
            await asyncio.sleep(0.2)
        await asyncio.sleep(30)

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match=r"sent nothing for 2 s") as caught:
            await events(http, server.url, timeout_s=2)
    assert caught.value.data["came"] == ["tick"] * 12


async def test_reset_in_mid_stream(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event("one")
        await asyncio.sleep(0.05)
        peer.reset()

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match=f"{server.url} broke off") as caught:
            await events(http, server.url)
    assert caught.value.data["came"] == ["one"]


async def test_half_closed_in_mid_stream(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event("one")
        peer.half_close()
        await peer.wait_closed()

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="broke off") as caught:
            await events(http, server.url)
    assert caught.value.data["came"] == ["one"]


async def test_closed_without_an_answer(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        peer.half_close()

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="broke off"):
            await events(http, server.url)


async def test_garbage_instead_of_http(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.send(b"\x00\x01garbage\r\n\r\n")

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="broke off"):
            await events(http, server.url)


async def test_garbage_within_the_stream_is_skipped_as_the_protocol_says(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.chunk(b"\xff\xfe\x00garbage\n\n")
        await peer.event("one")
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        assert await events(http, server.url) == ["one"]


async def test_an_html_page_with_200(http: HttpClient) -> None:
    page = b"<!DOCTYPE html><html><head><title>My &amp; router</title></head>...</html>"

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(page, kind="text/html; charset=utf-8")

    async with FaultServer(script) as server:
        expected = r"answered with an HTML page \(My & router\) and not with a stream of events"
        with pytest.raises(BackendUnavailable, match=expected):
            await events(http, server.url)


async def test_a_redirect_is_not_followed_and_no_key_goes_there(http: HttpClient) -> None:
    async def elsewhere(request: Request, peer: Peer) -> None:
        await peer.reply({})

    async with FaultServer(elsewhere) as other:

        async def script(request: Request, peer: Peer) -> None:
            location = f"Location: {other.url}/v1?token=abc"
            await peer.reply(b"", "307 Temporary Redirect", "text/plain", location)

        async with FaultServer(script) as server:
            expected = f"redirects to {other.url} \\(307\\).*`endpoint`"
            with pytest.raises(BackendRejected, match=expected) as caught:
                await events(http, server.url)
    assert other.requests == []
    assert caught.value.data["status"] == 307
    assert "abc" not in str(caught.value)


async def test_truncated_gzip(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head("200 OK", "text/event-stream", "Content-Encoding: gzip")
        packed = gzip.compress(b"data: one\n\n" + b"data: two\n\n" * 50)
        await peer.chunk(packed[: len(packed) // 2])
        peer.half_close()

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="broke off"):
            await events(http, server.url)


async def test_what_is_no_gzip_after_all(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head("200 OK", "text/event-stream", "Content-Encoding: gzip")
        await peer.event("one")

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="is damaged"):
            await events(http, server.url)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_refusals_carry_the_providers_words(http: HttpClient, status: int) -> None:
    body = {"error": {"message": f"no: {KEY} is wrong", "type": "auth", "code": "bad_key"}}

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(body, f"{status} No")

    async with FaultServer(script) as server:
        with pytest.raises(BackendRejected, match=r"no: \*\*\* is wrong") as caught:
            await events(http, server.url)
    assert caught.value.data["status"] == status
    assert caught.value.data["provider_message"] == "no: *** is wrong"
    assert caught.value.data["type"] == "auth"
    assert caught.value.data["code"] == "bad_key"
    assert KEY not in repr(caught.value.__dict__)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_overload_is_no_refusal(http: HttpClient, status: int) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"error": "busy"}, f"{status} Busy", "text/plain", "Retry-After: 7")

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match=r"busy\. Try again in 7 s") as caught:
            await events(http, server.url)
    assert caught.value.data["status"] == status
    assert caught.value.data["retry_after"] == 7


async def test_a_refusal_that_breaks_off_is_a_refusal_still(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head("401 Unauthorized", "application/json")
        peer.half_close()

    async with FaultServer(script) as server:
        with pytest.raises(BackendRejected, match=r"\(401\): no reason given"):
            await events(http, server.url)


async def test_a_json_reply_is_one_event(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"choices": []})

    async with FaultServer(script) as server:
        assert await events(http, server.url) == ['{"choices": []}']


async def test_a_header_that_cannot_be_sent_does_not_show_the_key(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({})

    async with FaultServer(script) as server:
        for bad in ("sk-secret\r\nX: y", "sk-ключ"):
            stream = http.stream(server.url, {}, headers={"X-Key": bad}, timeout_s=5)
            with pytest.raises(BackendRejected, match="header") as caught:
                await anext(stream)
            assert bad not in repr(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__
    assert server.requests == []


async def test_keys_are_not_logged(http: HttpClient, caplog: pytest.LogCaptureFixture) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"ok": True})

    with caplog.at_level(logging.DEBUG):
        async with FaultServer(script) as server:
            url = f"{server.url}/v1/models?key={KEY}"
            await http.fetch_json(url, headers=HEADERS, timeout_s=5)
    assert caplog.records
    assert KEY not in str([record.getMessage() for record in caplog.records])


@pytest.mark.parametrize("how", ["aclose", "cancel"])
async def test_leaving_closes_the_connection_at_once(http: HttpClient, how: str) -> None:
    closed = asyncio.Event()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event("one")
        await peer.wait_closed()
        closed.set()

    async with FaultServer(script) as server:
        stream = http.stream(server.url, {}, headers={}, timeout_s=60)
        assert await anext(stream) == "one"
        begin = time.perf_counter()
        if how == "aclose":
            await stream.aclose()
        else:
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.05)
            begin = time.perf_counter()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.wait_for(closed.wait(), 20)
        assert time.perf_counter() - begin < 20


async def test_a_stream_read_to_its_end_leaves_its_connection_for_the_next(
    http: HttpClient,
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event("one")
        await peer.chunk(b"")

    async with FaultServer(script) as server:
        for _ in range(3):
            assert await events(http, server.url) == ["one"]
        assert server.connections == 1


async def test_this_machine_is_never_asked_through_a_proxy(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")

    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"ok": True})

    async with FaultServer(script) as server:
        for name in ("127.0.0.1", "localhost"):
            url = f"http://{name}:{server.port}"
            assert await http.fetch_json(url, timeout_s=5) == {"ok": True}


async def test_others_are_asked_through_the_proxy(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"path": request.path})

    async with FaultServer(script) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        reply = await http.fetch_json("http://models.example/v1", timeout_s=5)
    assert reply == {"path": "http://models.example/v1"}


async def test_a_proxy_that_cannot_be_used(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "nonsense://proxy")
    with pytest.raises(BackendUnavailable, match="HTTPS_PROXY"):
        await http.fetch_json("https://models.example", timeout_s=5)


@pytest.mark.slow
async def test_fetch_json_is_bounded_as_a_whole(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head(kind="application/json")
        while True:
            await peer.chunk(b" ")
            await asyncio.sleep(0.05)

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match=r"did not answer within 2 s"):
            await http.fetch_json(server.url, timeout_s=2)


async def test_fetch_json_wants_json(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply(b"It works!", kind="text/plain")

    async with FaultServer(script) as server:
        with pytest.raises(BackendUnavailable, match="answered with It works! and not with JSON"):
            await http.fetch_json(server.url, timeout_s=5)


async def test_a_body_is_posted(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"got": request.json})

    async with FaultServer(script) as server:
        reply = await http.fetch_json(server.url, {"a": 1}, timeout_s=5)
    assert reply == {"got": {"a": 1}}


async def test_json_is_asked_for_again_where_the_connection_was_closed(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.path == "/always" or len(server.requests) == 2:
            peer.reset()
        else:
            await peer.reply({"asked": request.json})

    async with FaultServer(script) as server:
        for number in (1, 2):
            reply = await http.fetch_json(server.url, {"n": number}, timeout_s=5)
            assert reply == {"asked": {"n": number}}
        assert [request.json["n"] for request in server.requests] == [1, 2, 2]
        with pytest.raises(BackendUnavailable, match="broke off"):
            await http.fetch_json(f"{server.url}/always", {}, timeout_s=5)
        assert len(server.requests) == 5


async def test_a_stream_is_asked_for_again_where_a_kept_connection_was_closed(
    http: HttpClient,
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if len(server.requests) == 4:
            peer.reset()
            return
        if len(server.requests) < 4:  # All three at once, so that each has its connection.
            await three.wait()
        await peer.head()
        await peer.event(f"reply {len(server.requests)}")
        await peer.chunk(b"")

    three = asyncio.Barrier(3)
    async with FaultServer(script) as server:
        await asyncio.gather(*(events(http, server.url) for _ in range(3)))
        assert await events(http, server.url) == ["reply 5"]
        assert len(server.requests) == 5


async def test_no_kept_connection_is_alive(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if len(server.requests) <= 3:
            await three.wait()
        elif server.connections == 3:
            peer.reset()
            return
        await peer.reply({"connections": server.connections})

    three = asyncio.Barrier(3)
    async with FaultServer(script) as server:
        asked = [http.fetch_json(server.url, timeout_s=5) for _ in range(3)]
        await asyncio.gather(*asked)
        assert await http.fetch_json(server.url, timeout_s=5) == {"connections": 4}
        assert len(server.requests) == 7


async def test_the_client_can_be_used_after_it_was_closed(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.reply({"ok": True})

    async with FaultServer(script) as server:
        await http.fetch_json(server.url, timeout_s=5)
        await http.aclose()
        assert await http.fetch_json(server.url, timeout_s=5) == {"ok": True}


async def test_many_streams_at_once(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(request.path)
        await peer.chunk(b"")

    async def one(url: str) -> list[str]:
        async with aclosing(http.stream(url, {}, headers={}, timeout_s=10)) as stream:
            return [data async for data in stream]

    async with FaultServer(script) as server:
        urls = [f"{server.url}/{number}" for number in range(30)]
        assert await asyncio.gather(*map(one, urls)) == [[f"/{number}"] for number in range(30)]
