"""What model servers do wrong: one clear error each, what arrived is kept, the next one works."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from client import RpcError
from conversing import ask, chat_holds, events, streamed
from fault_server import FaultServer, Peer, Request, Script, chunk_of, unused_port

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Characters of one to four bytes, and a command: what a reply holds when it breaks off.
PART = "Grüße 👩‍💻, so far.\nCMD: ls\n"


def refuses(status: str, body: Any, kind: str = "application/json") -> Script:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply(body, status, kind)

    return script


def breaks_off(how: str) -> Script:
    """Send PART, and then anything but the rest."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of(PART))
        match how:
            case "reset":
                await asyncio.sleep(0.1)
                peer.reset()
            case "silence":
                await peer.wait_closed()
            case "end":
                await peer.chunk(b"")
            case "error":
                await peer.event({"error": {"message": "out of memory", "code": 500}})
            case "garbage":
                await peer.event("{not JSON")
            case "no chunk":
                await peer.event([1, 2])
            case "half a character":
                await peer.chunk(b'data: {"choices": [{"delta": {"content": "\xf0\x9f')
                peer.reset()
            case "no HTTP":
                await peer.send(b"\0\xff\xfe nonsense\r\n")

    return script


def raw(data: bytes) -> Script:
    async def script(_: Request, peer: Peer) -> None:
        await peer.send(data)
        peer.reset() if not data else peer.half_close()

    return script


async def silent(_: Request, peer: Peer) -> None:
    await peer.wait_closed()


PAGE = b"<!doctype html><html><head><title>502 Bad Gateway</title></head></html>"

NO_REPLY = {
    "the key is wrong": (refuses("401 Unauthorized", {"error": {"message": "no such key"}}),
                         1002, r"refused the request \(401\): no such key\. Check the key"),
    "the request is wrong": (refuses("400 Bad Request", {"error": "no such field"}),
                             1002, r"refused the request \(400\): no such field"),
    "the model is not there": (refuses("404 Not Found", {"detail": "no model of that name"}),
                               1002, r"\(404\): no model of that name\. Check the model's"),
    "too many requests": (refuses("429 Too Many Requests", {"error": {"message": "slow down"}}),
                          1001, r"cannot answer now \(429\): slow down"),
    "it fails": (refuses("500 Internal Server Error", b"oops", "text/plain"), 1001, "oops"),
    "a gateway's page": (refuses("502 Bad Gateway", PAGE, "text/html"), 1001, "502 Bad Gateway"),
    "a page with 200": (refuses("200 OK", PAGE, "text/html"), 1001, "Is `endpoint` a model server"),
    "JSON of another kind": (refuses("200 OK", ["x"]), 1001, "not part of a reply"),
    "an error with 200": (refuses("200 OK", {"error": {"message": "overloaded", "code": 503}}),
                          1001, "overloaded"),
    "no events": (refuses("200 OK", b"", "text/event-stream"), 1001, "ended before"),
    "binary events": (refuses("200 OK", b"data: \xff\xfe\0\n\n", "text/event-stream"),
                      1001, "not part of a reply"),
    "no HTTP": (raw(b"\x16\x03\x01 hello"), 1001, "broke off"),
    "it hangs up": (raw(b""), 1001, "broke off"),
    "it says nothing": (silent, 1001, "sent nothing for 5 s"),
}  # fmt: skip

BROKEN = {
    "reset": "broke off",
    "silence": "sent nothing for 5 s",
    "end": "ended before the reply did",
    "error": "out of memory",
    "garbage": "not part of a reply",
    "no chunk": "not part of a reply",
    "half a character": "broke off",
    "no HTTP": "broke off",
}


@pytest.mark.parametrize("fault", NO_REPLY)
async def test_no_reply_is_one_error(served: Any, fault: str) -> None:
    served.script, code, message = NO_REPLY[fault]
    client = served.client
    with pytest.raises(RpcError, match=message) as caught:
        await ask(client, "Are you there?", "t")
    kind = {1001: "backendUnavailable", 1002: "backendRejected"}[code]
    assert (caught.value.code, caught.value.data["kind"]) == (code, kind)
    end = {"kind": kind, "message": caught.value.message}
    assert events(client, "t", "end") == [{"kind": "end", "finishReason": "error", "error": end}]
    assert events(client, "t", "text") == []
    assert client.notified("window/showMessage") == []
    *_, question = served.place.records()
    assert (question["role"], question["content"]) == ("user", "Are you there?")
    assert question["meta"] == "unanswered"
    await next_question_works(served, before=[])


@pytest.mark.parametrize("fault", BROKEN)
async def test_what_arrived_before_the_break_is_kept(served: Any, fault: str) -> None:
    served.script = breaks_off(fault)
    client = served.client
    result = await ask(client, "Are you there?", "t")
    assert result["text"] == streamed(client, "t") == PART
    assert [command["text"] for command in result["commands"]] == ["ls"]
    assert result["finishReason"] == "error"
    assert result["error"]["kind"] == "backendUnavailable"
    assert BROKEN[fault] in result["error"]["message"]
    [end] = events(client, "t", "end")
    assert end["error"] == result["error"]
    reply = served.place.records()[-1]
    assert (reply["content"], reply["finish"]) == (PART, "error")
    before = [
        {"role": "user", "content": "Are you there?"},
        {"role": "assistant", "content": PART},
    ]
    await next_question_works(served, before)


async def next_question_works(served: Any, before: list[Any]) -> None:
    """Ask again: the model is told of ``before`` and of nothing else."""
    served.script = type(served).script
    result = await ask(served.client, "And now?", "next")
    assert (result["text"], result["error"]) == ("All is well.", None)
    _, *turns = served.model.requests[-1].json["messages"]
    assert turns == [*before, {"role": "user", "content": "And now?"}]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (NO_REPLY["the key is wrong"][0], "> {url}/v1/chat/completions refused the request (401)"),
        (breaks_off("error"), "CMD: ls\n\n> The reply broke off: {url} broke off the reply"),
    ],
)
async def test_the_chat_document_tells_it_in_a_quote(
    served: Any, script: Script, told: str
) -> None:
    served.script = script
    before = served.place.chat.read_text() if served.place.chat.exists() else ""
    await served.client.command_result("aish.ask", {"prompt": "Are you there?"})
    headings = max(before.count("## You\n"), 1)
    text = await chat_holds(served.client, served.place, "## You\n", times=headings + 1)
    new = text[len(before) :]
    assert told.format(url=served.model.url) in new
    assert new.count("\n> ") == 1
    served.script = type(served).script
    await served.client.command_result("aish.ask", {"prompt": "And now?"})
    await chat_holds(served.client, served.place, "## You\n", times=headings + 2)
    assert served.place.chat.read_text().endswith("## aish\n\nAll is well.\n\n## You\n\n")


async def test_characters_that_are_split_anywhere_arrive_whole(served: Any) -> None:
    text = "ü你👩‍💻\u2028é"

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        # The characters as they are, and not as JSON's escapes.
        event = json.dumps(chunk_of(text), ensure_ascii=False)
        for byte in f"data: {event}\r\n\r\n".encode():
            await peer.chunk(bytes([byte]))
            await asyncio.sleep(0)
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.chunk(b"")

    served.script = script
    assert (await ask(served.client, "Well?", "t"))["text"] == text == streamed(served.client, "t")


async def test_an_empty_reply_is_told_and_is_no_turn(served: Any) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.chunk(b"")

    served.script = script
    result = await ask(served.client, "Well?", "t")
    assert (result["text"], result["finishReason"]) == ("", "stop")
    again, notice = events(served.client, "t", "notice")
    assert "Trying again" in again["message"]
    assert "empty" in notice["message"]
    await next_question_works(served, before=[])


async def test_an_absent_server_is_told_and_a_new_address_counts_at_once(served: Any) -> None:
    place, client = served.place, served.client
    try:
        port = unused_port()
        place.configure(f"http://127.0.0.1:{port}")
        with pytest.raises(RpcError, match=f"Nothing answers at http://127.0.0.1:{port}") as caught:
            await ask(client, "Are you there?", "t")
        assert caught.value.code == 1001
        assert client.progress["t"][-1]["error"]["kind"] == "backendUnavailable"
        async with FaultServer(type(served).script) as other:
            place.configure(other.url, context_window=8192)
            assert (await ask(client, "And now?", "u"))["text"] == "All is well."
            assert other.connections == 1
    finally:
        place.configure(served.model.url, context_window=8192, timeout=5.0)
    await next_question_works(
        served,
        before=[
            {"role": "user", "content": "And now?"},
            {"role": "assistant", "content": "All is well."},
        ],
    )
