from __future__ import annotations

import os
import socket
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.lsp.stream import (
    LARGEST_MESSAGE,
    LARGEST_SKIPPED,
    LONGEST_LINE,
    BadFrame,
    FrameReader,
    frame,
    ready_writer,
)


def read(*pieces: bytes) -> list[bytes | BadFrame]:
    reader = FrameReader()
    return [found for piece in pieces for found in reader.feed(piece)]


def bodies(*pieces: bytes) -> list[bytes]:
    return [found for found in read(*pieces) if isinstance(found, bytes)]


@given(st.lists(st.binary(max_size=200), max_size=8), st.data())
def test_messages_survive_any_cut(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(body) for body in messages)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    ends = [0, *cuts, len(stream)]
    assert read(*(stream[a:b] for a, b in pairwise(ends))) == messages


@given(st.binary(max_size=2_000))
def test_garbage_neither_raises_nor_makes_messages_up(garbage: bytes) -> None:
    for found in read(garbage):
        assert isinstance(found, BadFrame) or found in garbage


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\n\r\n",
        b"content-length:2\r\n\r\n",
        b"CONTENT-LENGTH :  2 \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"\r\n\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 0002\r\n\r\n",
    ],
)
def test_headers_are_read_tolerantly(header: bytes) -> None:
    assert read(header + b"{}" + frame(b"[]")) == [b"{}", b"[]"]


def test_the_length_counts_bytes() -> None:
    body = '"é\u2028𝄞"'.encode()
    assert frame(body).startswith(b"Content-Length: %d\r\n" % len(body))
    assert read(frame(body) * 2) == [body, body]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: five\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"Content-Length: +2\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (LARGEST_SKIPPED + 1),
        b"Content-Type: text/plain\r\n\r\n",
        b"nonsense\r\n\r\n",
        "Content-Length: \u0665\r\n\r\n".encode(),
    ],
)
def test_a_bad_header_is_told_and_the_next_message_is_read(header: bytes) -> None:
    first, *rest = read(header + frame(b"[1]"))
    assert isinstance(first, BadFrame)
    assert rest == [b"[1]"]


def test_a_message_behind_the_body_of_a_bad_one_is_read() -> None:
    assert bodies(b'Content-Type: x\r\n\r\n{"a": 1}' + frame(b"[1]") + frame(b"[2]")) == [
        b"[1]",
        b"[2]",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"Referer: http://evil.example/content-length:3",
        b"X-Content-Length: 3",
        b"{} content-length: 3",
        b"Content-Length-Not: 3",
        b"Content-Type: content-length:3",
    ],
)
def test_only_a_header_of_that_name_declares_a_length(line: bytes) -> None:
    assert read(b"Content-Length: 2\r\n" + line + b"\r\n\r\n{}") == [b"{}"]
    assert bodies(line + b"\r\n\r\n[1]") == []


def test_a_content_type_and_any_case_are_read() -> None:
    typed = b"Content-Type: application/vscode-jsonrpc\r\nCONTENT-length : 2\r\n\r\n{}"
    assert read(frame(b"[1]") + typed + frame(b"[2]")) == [b"[1]", b"{}", b"[2]"]


def test_a_message_that_is_too_large_is_skipped_without_being_kept() -> None:
    reader = FrameReader()
    size = LARGEST_MESSAGE + 10
    (bad,) = reader.feed(b"Content-Length: %d\r\n\r\n" % size)
    assert isinstance(bad, BadFrame)
    assert str(size) in bad.message
    chunk = bytes(1 << 20)
    for _ in range(size // len(chunk)):
        assert reader.feed(chunk) == []
        assert len(reader._buffer) == 0
    assert reader.feed(bytes(size % len(chunk)) + frame(b"[1]")) == [b"[1]"]


def test_a_long_header_line_takes_no_longer_than_it_is() -> None:
    blanks = b" " * (LONGEST_LINE - 100)
    start = time.process_time()
    [bad, body] = read(b"Content-Length: 1" + blanks + b"x\r\n\r\n" + frame(b"[1]"))
    assert isinstance(bad, BadFrame)
    assert body == b"[1]"
    assert time.process_time() - start < 5


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    reader = FrameReader()
    found = [one for _ in range(10) for one in reader.feed(b"x" * LONGEST_LINE)]
    assert found
    assert all(isinstance(one, BadFrame) for one in found)
    assert len(reader._buffer) <= LONGEST_LINE
    assert reader.feed(b"\r\n\r\n" + frame(b"[1]"))[-1] == b"[1]"


def test_an_end_in_the_middle_makes_no_message() -> None:
    assert read(frame(b'{"a": 1}')[:-1]) == []
    assert read(b"Content-Len") == []


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_full_sink_takes_no_part_of_a_message(kind: str) -> None:
    if kind == "pipe":
        source, sink = os.pipe()
    else:
        source, sink = (end.detach() for end in socket.socketpair())
    body = b"x" * 400
    write = ready_writer(sink)
    sizes = [len(frame(body)) for _ in iter(lambda: write(body), False)]
    assert sizes
    os.close(sink)
    with os.fdopen(source, "rb") as reader:
        assert reader.read() == frame(body) * len(sizes)


def test_a_message_that_may_block_is_not_written_at_once() -> None:
    source, sink = os.pipe()
    write = ready_writer(sink)
    assert not write(b"x" * (64 << 10))
    os.close(source)
    assert not write(b"{}")
    os.close(sink)
