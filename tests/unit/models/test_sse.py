"""The decoder of server-sent events, on bytes cut anywhere."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.models import http
from aish_lsp.models.http import HttpClient


def decode(*pieces: bytes) -> list[str]:
    async def arrive() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def collect() -> list[str]:
        return [data async for data in events_in(arrive())]

    return asyncio.run(collect())


def events_in(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yield what the client makes of a body that arrives in these pieces."""

    class Client(HttpClient):
        @asynccontextmanager
        async def _respond(self, *_: object) -> AsyncIterator[httpx.Response]:
            kind = {"content-type": "text/event-stream"}
            yield httpx.Response(200, headers=kind, content=pieces)

    return Client().stream("http://127.0.0.1:9", {}, headers={}, timeout_s=9)


def cut(raw: bytes, size: int) -> list[bytes]:
    return [raw[start : start + size] for start in range(0, len(raw), size)]


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\ndata:  b\n\n", ["a", " b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\ndata:\n\n", ["a\n"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b": OPENROUTER PROCESSING\n\n:\n\ndata: a\n\n", ["a"]),
        (b"event: error\nid: 7\nretry: 10\ndata: a\n\n", ["a"]),
        (b"data: a\n\ndata: no blank line", ["a", "no blank line"]),
        (b"data: a\n", ["a"]),
        (b"\n\n\n", []),
        (b"", []),
        (b"garbage without a colon\n\ndata: a\n\n", ["a"]),
        (b"database: a\n\n", []),
    ],
)
def test_decodes_whatever_the_cuts(raw: bytes, events: list[str]) -> None:
    for size in (1, 2, 3, 1000):
        assert decode(*cut(raw, size)) == events, size


async def test_an_event_is_handed_on_when_its_blank_line_is_there() -> None:
    arriving: asyncio.Queue[bytes] = asyncio.Queue()

    async def arrive() -> AsyncIterator[bytes]:
        while True:
            yield await arriving.get()

    async with aclosing(events_in(arrive())) as events:
        arriving.put_nowait(b"data: a\r\n\r\ndata: b")
        assert await asyncio.wait_for(anext(events), 5) == "a"
        arriving.put_nowait(b"\n\n")
        assert await asyncio.wait_for(anext(events), 5) == "b"


def test_never_splits_on_the_separators_that_json_may_hold() -> None:
    payload = json.dumps({"text": "a\u2028b\u2029c\x85d\x1ce\x0bf"}, ensure_ascii=False)
    assert decode(*cut(f"data: {payload}\n\n".encode(), 1)) == [payload]


def test_a_character_that_is_no_utf8_does_not_stop_the_stream() -> None:
    assert decode(b"data: a\xffb\n\ndata: c\n\n") == ["a\ufffdb", "c"]


def test_a_giant_line_costs_linear_time() -> None:
    raw = b"data: " + b"x" * (8 << 20) + b"\n\n"
    begin = time.process_time()
    [event] = decode(*cut(raw, 1 << 10))
    assert len(event) == 8 << 20
    assert time.process_time() - begin < 10


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "EVENT_LIMIT", 100)
    small = b"data: " + b"x" * 80 + b"\n\n"
    assert len(decode(*[small] * 9)) == 9
    for piece in (b"y", b"data: y\n", b"event: y\n", b": y\n", b"\n"):
        with pytest.raises(BackendUnavailable, match="never ends"):
            decode(small, *[piece] * 200)


@given(
    payloads=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    noise=st.sampled_from(["", ": ping", ":", "event: message", "id: 1"]),
    data=st.data(),
)
def test_any_stream_cut_anywhere(
    payloads: list[str], end: str, noise: str, data: st.DataObject
) -> None:
    raw = "".join(f"{noise}{end}data: {payload}{end}{end}" for payload in payloads).encode()
    places = data.draw(st.lists(st.integers(0, len(raw)), max_size=20).map(sorted))
    pieces = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert decode(*pieces) == payloads
